"""Random graphs are answered as onnxruntime answers them, or refused; `tests/onnx_fuzz.py` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from onnx_fuzz import Verdict, judge
from taskveil.tasks.models.onnx_reader import OPERATORS

GRAPHS = 300
OPERATORS_READ = dict(OPERATORS)  # as they are, whatever a test replaces


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    folder = tmp_path_factory.mktemp("graphs")
    return [judge(seed, folder) for seed in range(GRAPHS)]


def test_no_random_graph_is_answered_wrongly(verdicts: list[Verdict]) -> None:
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    assert not [verdict.reason for verdict in verdicts if verdict.outcome == "wrong"]
    assert not [verdict.reason for verdict in verdicts if "which it does not" in verdict.reason]
    # Refused are graphs that mix records.
    assert outcomes["answered"] > 0.75 * GRAPHS
    assert outcomes["refused"] < 0.1 * GRAPHS


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("Relu", lambda node, a: a.abs()),
        ("Reshape", lambda node, a, shape: a.flip(-1).reshape([int(n) for n in shape])),
        ("ReduceMean", lambda node, a, *axes: 2 * OPERATORS_READ["ReduceMean"](node, a, *axes)),
        ("Sigmoid", lambda node, a: torch.sigmoid(1.001 * a)),
    ],
)
def test_the_fuzzer_notices_a_wrong_operator(
    name: str, mutant: Callable[..., Tensor], verdicts: list[Verdict], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seeds = [seed for seed, verdict in enumerate(verdicts) if name in verdict.kinds][:4]
    monkeypatch.setitem(OPERATORS, name, mutant)
    assert "wrong" in [judge(seed, tmp_path).outcome for seed in seeds]
