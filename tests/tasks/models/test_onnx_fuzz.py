"""Random graphs are answered as onnxruntime answers them, or refused; `tests/onnx_fuzz.py` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from onnx_fuzz import Verdict, judge
from taskveil.tasks.models.onnx_operators import OPERATORS, each
from taskveil.tasks.models.onnx_shapes import Operator

GRAPHS = 300


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    folder = tmp_path_factory.mktemp("graphs")
    return [judge(seed, folder) for seed in range(GRAPHS)]


def test_no_random_graph_is_answered_wrongly(verdicts: list[Verdict]) -> None:
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    assert not [verdict.reason for verdict in verdicts if verdict.outcome == "wrong"]
    assert not [verdict.reason for verdict in verdicts if "which it does not" in verdict.reason]
    # Refused are graphs that mix records or leave their padding unclear.
    assert outcomes["answered"] > 0.75 * GRAPHS
    assert outcomes["refused"] < 0.1 * GRAPHS


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("Relu", each(torch.abs)),
        ("Reshape", Operator(lambda call: call.first.flip(-1).reshape([int(n) for n in call.inputs[1]]))),
        ("ReduceMean", OPERATORS["ReduceSum"]),
        ("Sigmoid", each(lambda a: torch.sigmoid(1.001 * a))),
    ],
)
def test_the_fuzzer_notices_a_wrong_operator(
    name: str, mutant: Operator, verdicts: list[Verdict], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seeds = [seed for seed, verdict in enumerate(verdicts) if name in verdict.kinds][:4]
    monkeypatch.setitem(OPERATORS, name, mutant)
    assert "wrong" in [judge(seed, tmp_path).outcome for seed in seeds]
