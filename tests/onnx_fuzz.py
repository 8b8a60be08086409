"""Random ONNX graphs, read by taskveil and judged by onnxruntime. `make test` runs a few hundred; more with

    python tests/onnx_fuzz.py --graphs 100000

which prints how many were answered, refused for which reason, and answered wrongly, and fails if one was.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import math
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

import taskveil as tv
from onnx_graphs import KINDS, RECORDS, Graph, Unavailable
from onnx_layers import LAYERS
from onnx_moves import MOVES
from taskveil.errors import TaskError

TRIES = 3  # rounding at the edge of a jump is forgiven; answers that are wrong for three tables of records are wrong


@dataclass(frozen=True)
class Verdict:
    """What came of a graph: "answered", "refused", "wrong", or "unjudged" where the referee gives no finite answer."""

    outcome: str
    reason: str = ""
    kinds: frozenset[str] = frozenset()


class Referee:
    """onnxruntime's answers (N, m) to records (N, n), batch by batch where the file states how many it takes."""

    def __init__(self, model: onnx.ModelProto, graph: Graph) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        self.graph = graph

    def __call__(self, records: np.ndarray) -> np.ndarray | None:
        """None where an answer is not one row per record."""
        batch, shape, kind = self.graph.batch, self.graph.shape, KINDS[self.graph.kind]
        given = records.astype(kind).reshape(-1, *shape)
        if batch == 0:
            return self._rows(given, len(records))
        missing = -len(records) % batch
        given = np.concatenate([given, given[len(given) - 1 :].repeat(missing, axis=0)])
        parts = [self._rows(given[i : i + batch], batch) for i in range(0, len(given), batch)]
        return None if any(part is None for part in parts) else np.concatenate(parts)[: len(records)]

    def _rows(self, given: np.ndarray, count: int) -> np.ndarray | None:
        (answer,) = self.session.run(None, {"x": given})
        if count > 1 and (answer.ndim == 0 or len(answer) != count):
            return None
        return np.asarray(answer, dtype=np.float64).reshape(count, -1)


def random_model(seed: int) -> tuple[ModelProto, Graph]:
    """A valid model of a few nodes, the same for the same seed."""
    rng = np.random.default_rng(seed)
    families = [*LAYERS, *MOVES]
    batch = int(rng.choice([0, 1, 3], p=[0.45, 0.45, 0.1]))
    rank = int(rng.choice([1, 2, 3, 4], p=[0.4, 0.2, 0.35, 0.05]))
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 6], size=rank, p=[0.15, 0.2, 0.2, 0.2, 0.15, 0.1]))
    kind = int(rng.choice([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16], p=[0.65, 0.3, 0.05]))
    g = Graph(rng, int(rng.choice([9, 11, 13, 17, 18, 20, 22])), batch, shape, kind)
    g.keep("x", (batch or RECORDS, *shape))
    for _ in range(int(rng.integers(1, 8))):
        before = len(g.nodes), dict(g.weights), list(g.tensors)
        with contextlib.suppress(Unavailable):
            families[int(rng.integers(len(families)))](g)
        if len(g.tensors) == len(before[2]) or math.prod(g.tensors[-1][1]) > 4000:
            del g.nodes[before[0] :]
            g.weights, g.tensors = before[1], before[2]
    result, last = g.tensors[-1]
    if last and (batch != 1 or g.chance(0.5)):
        result, last = g.add("Flatten", result, axis=1), (1, 1)
    elif result == "x":
        result = g.add("Identity", result)
    graph = helper.make_graph(
        g.nodes, "g",
        [helper.make_tensor_value_info("x", kind, [batch or "N", *shape])],
        [helper.make_tensor_value_info(result, kind, [f"d{i}" for i in range(len(last))])],
        [numpy_helper.from_array(value, name) for name, value in g.weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=8), g


def judge(seed: int, folder: Path) -> Verdict:
    """One graph, read and compared."""
    model, graph = random_model(seed)
    path = folder / "m.onnx"
    onnx.save(model, path)
    tables = [np.random.default_rng((seed, i)).uniform(-1, 2, (RECORDS, graph.width)) for i in range(TRIES)]
    try:
        referee = Referee(model, graph)
        expected = [referee(records) for records in tables]
    except Exception as error:  # whatever the referee cannot load or run
        return Verdict("unjudged", f"onnxruntime: {type(error).__name__}")
    if not all(answer is None or np.isfinite(answer).all() for answer in expected):
        return Verdict("unjudged", "not finite")
    kinds = frozenset(node.op_type for node in model.graph.node)
    try:
        task = tv.ModelTask(path)
        answers = [task.predict(records) for records in tables]
    except TaskError as error:
        return Verdict("refused", _reason(str(error), referee, tables), kinds)
    unit = float(np.finfo(graph.coarsest).eps)
    for answer, truth, records in zip(answers, expected, tables, strict=True):
        if truth is not None and answer.shape == truth.shape:
            allowed = 500 * unit * max(1.0, float(np.abs(truth).max()))
            if (np.abs(answer - truth) <= allowed + 50 * unit * _rounding(task, records)).all():
                break
    else:
        return Verdict("wrong", f"another answer than onnxruntime's (seed {seed})", kinds)
    if all(_mixes(referee, records) for records in tables):
        return Verdict("wrong", f"taken, although it mixes records (seed {seed})", kinds)
    return Verdict("answered", kinds=kinds)


def _rounding(task: tv.ModelTask, records: np.ndarray) -> np.ndarray:
    """What rounding does to the answers to each record (N, 1): how far those in single precision lie from those in
    double, in units of single precision. An operator that is wrong is so in both."""

    if task.torch_module is None:
        return np.zeros((len(records), 1))

    def asked(kind: torch.dtype) -> np.ndarray:
        module = copy.deepcopy(task.torch_module).to(kind)
        with torch.no_grad():
            return np.asarray(module(torch.tensor(records, dtype=kind)).double())

    apart = np.abs(asked(torch.float32) - asked(torch.float64)).max(axis=1, keepdims=True)
    return np.nan_to_num(apart / np.finfo(np.float32).eps, nan=np.inf)


def _reason(message: str, referee: Referee, tables: list[np.ndarray]) -> str:
    """Why a graph was refused, without its numbers; the referee says whether it truly mixes records."""
    if "differently alone and among others" in message:
        mixes = any(_mixes(referee, records) for records in [*tables, np.abs(tables[0]) / 2])  # there the reader looks
        return "mixes records" if mixes else "mixes records, which it does not"
    message = re.sub(r".*?m\.onnx (holds|uses|must)", r"\1", message)
    message = re.sub(r"the model cannot take records with \d+ attributes: ", "cannot run: ", message)
    return re.sub(r"-?\d+", "#", message.splitlines()[0])[:100]


def _mixes(referee: Referee, records: np.ndarray) -> bool:
    """Whether the referee itself answers records differently among others, or at another place."""
    try:
        among, fewer = referee(records), referee(records[:3])
        turned, rolled = referee(records[::-1])[::-1], np.roll(referee(np.roll(records, 1, axis=0)), -1, axis=0)
        close = [np.allclose(a, among[: len(a)], rtol=1e-3, atol=1e-3) for a in (fewer, turned, rolled)]
    except Exception:  # it cannot even run, gives no row per record, or rows of another length
        return True
    return not all(close)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    torch.set_num_threads(1)
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    examples: dict[str, int] = {}
    wrong, began = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.start, given.start + given.graphs):
            verdict = judge(seed, Path(folder))
            outcomes[verdict.outcome] += 1
            if verdict.outcome == "answered":
                seen.update(verdict.kinds)
            elif verdict.outcome == "wrong":
                wrong.append(verdict.reason)
            else:
                reasons[f"{verdict.outcome}: {verdict.reason}"] += 1
                examples.setdefault(f"{verdict.outcome}: {verdict.reason}", seed)
    print(f"{given.graphs} graphs in {time.perf_counter() - began:.0f} s: {dict(outcomes)}")
    for reason, count in reasons.most_common():
        print(f"{count:8d}  {reason} (seed {examples[reason]})")
    print(f"operators in answered graphs: {len(seen)}, the rarest {seen.most_common()[-5:]}")
    print(f"wrong: {len(wrong)} {wrong[:50]}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
