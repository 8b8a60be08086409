"""Small ONNX files for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
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
        [helper.make_tensor_value_info("y", kind, [batch, outputs])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def flat(name: str) -> list:
    """Whatever shape: one row per record, so that an output of any rank can be compared."""
    return [helper.make_node("Flatten", [name], ["y"])]


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)
