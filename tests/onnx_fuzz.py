"""Random ONNX graphs, read by taskveil and judged by onnxruntime. `make test` runs a few hundred; more with

    python tests/onnx_fuzz.py --graphs 100000

which prints how many were answered, refused for which reason, and answered wrongly, and fails if one was.
"""

from __future__ import annotations

import argparse
import copy
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

import taskveil as tv
from onnx_graphs import KINDS, RECORDS, Graph, random_model
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
        return Verdict("refused", _reason(str(error), referee, tables[0]), kinds)
    unit = float(np.finfo(graph.coarsest).eps)
    for answer, truth, records in zip(answers, expected, tables, strict=True):
        if truth is not None and answer.shape == truth.shape:
            allowed = 500 * unit * max(1.0, float(np.abs(truth).max()))
            if (np.abs(answer - truth) <= allowed + 50 * unit * _rounding(task, records)).all():
                return Verdict("answered", kinds=kinds)
    return Verdict("wrong", f"seed {seed}", kinds)


def _rounding(task: tv.ModelTask, records: np.ndarray) -> np.ndarray:
    """What rounding does to the answers to each record (N, 1): how far those in single precision lie from those in
    double, in units of single precision. An operator that is wrong is so in both."""

    def asked(kind: torch.dtype) -> np.ndarray:
        module = copy.deepcopy(task.torch_module).to(kind)
        with torch.no_grad():
            return np.asarray(module(torch.tensor(records, dtype=kind)).double())

    apart = np.abs(asked(torch.float32) - asked(torch.float64)).max(axis=1, keepdims=True)
    return np.nan_to_num(apart / np.finfo(np.float32).eps, nan=np.inf)


def _reason(message: str, referee: Referee, records: np.ndarray) -> str:
    """Why a graph was refused, without its numbers; the referee says whether it truly mixes records."""
    if "differently alone and among others" in message:
        return "mixes records" if _mixes(referee, records) else "mixes records, which it does not"
    message = re.sub(r".*?m\.onnx (holds|uses|must)", r"\1", message)
    message = re.sub(r"the model cannot take records with \d+ attributes: ", "cannot run: ", message)
    return re.sub(r"-?\d+", "#", message.splitlines()[0])[:100]


def _mixes(referee: Referee, records: np.ndarray) -> bool:
    """Whether the referee itself answers the first record differently among others, or at another place."""
    try:
        among, others, fewer = (
            referee(records),
            referee(np.concatenate([records[:1], records[:0:-1]])),
            referee(records[:3]),
        )
        elsewhere = referee(np.roll(records, 1, axis=0))[1:]
    except Exception:  # it cannot even run
        return True
    answers = [answer[0] for answer in (among, others, fewer, elsewhere)]
    return not all(np.allclose(answer, answers[0], rtol=1e-3, atol=1e-6) for answer in answers)


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
                wrong.append(seed)
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
