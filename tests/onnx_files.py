"""Small ONNX files for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def onnx_file(
    path: Path,
    nodes: list,
    weights: dict[str, np.ndarray],
    shape: list,
    outputs: int | str = "m",
    *,
    opset: int = 17,
    batch: int | str = "N",
    kind: int = TensorProto.FLOAT,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, [batch, *shape])],
        [helper.make_tensor_value_info("y", kind, ["rows", outputs])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def answers_of_the_runtime(path: Path, given: np.ndarray) -> np.ndarray:
    """What onnxruntime, the referee, answers to one batch in the shape and type of the file's input."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (answer,) = session.run(None, {session.get_inputs()[0].name: given})
    return np.asarray(answer)


def flat(name: str) -> list:
    """Whatever shape: one row per record, so that an output of any rank can be compared."""
    return [helper.make_node("Flatten", [name], ["y"])]


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)
