"""Every family learns from the rows that it is given, and from no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from torch import nn

import taskveil as tv
from fits import CLASSES, VALUES, assert_blind, evidence_of
from taskveil.arrays import Floats, Integers
from taskveil.designs.crossfit import Evidence, Fit, PredictorFamily
from taskveil.designs.predictors import light, networks
from taskveil.designs.predictors.light import Light, Linear
from taskveil.designs.predictors.networks import Architecture
from taskveil.designs.predictors.own import own_model
from taskveil.designs.predictors.trees import BoostedTrees

RNG = np.random.default_rng(7)
X = RNG.normal(size=(200, 4))
SCORE = X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * RNG.normal(size=200)
EVIDENCE = {
    "values": evidence_of(X, np.column_stack([300 + 20 * SCORE, X[:, 3] ** 2]), VALUES),
    "classes": evidence_of(X, np.eye(3)[np.digitize(SCORE, [-0.5, 0.8])], CLASSES),
}


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "LOOKS", (5, 20))
    monkeypatch.setattr(networks, "LOOKS", (5, 20))


def labels(truth: Floats) -> np.ndarray:
    """As they were given; of what is no number, the first class."""
    return np.array(["a", "b", "c"])[truth.argmax(axis=1)] if truth.shape[1] == 3 else truth


def own(evidence: Evidence) -> PredictorFamily:
    kind = "classes" if evidence.cost.logits else "values"
    forest = (RandomForestClassifier if kind == "classes" else RandomForestRegressor)(8, random_state=0)
    task = tv.ModelTask(forest.fit(X, labels(EVIDENCE[kind].truth)), "cross_entropy" if kind == "classes" else "mse")
    task.check_width(4)
    return own_model(task, labels(evidence.truth), evidence, unseen=False)


def network(evidence: Evidence) -> PredictorFamily:
    outputs = evidence.truth.shape[1]
    return Architecture.of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs)), evidence)


FAMILIES: dict[str, Callable[[Evidence], PredictorFamily]] = {
    "linear": lambda _: Linear(),
    "light": lambda _: Light(),
    "trees": lambda _: BoostedTrees(),
    "own": own,
    "network": network,
}


@pytest.mark.parametrize("kind", EVIDENCE)
@pytest.mark.parametrize("name", FAMILIES)
def test_labels_of_other_rows_change_nothing(name: str, kind: str) -> None:
    assert_blind(FAMILIES[name], EVIDENCE[kind])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", EVIDENCE)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_that_peeks_is_caught(name: str, kind: str) -> None:
    class Peeking:
        """One row of the fold that no fit may see is always among the rows."""

        def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
            stolen = np.flatnonzero(evidence.fold == 0)[:1]
            evidence = replace(evidence, truth=np.nan_to_num(evidence.truth))
            return FAMILIES[name](evidence).fit(evidence, [np.append(own, stolen) for own in rows])

    with pytest.raises(AssertionError, match="not equal"):
        assert_blind(lambda _: Peeking(), EVIDENCE[kind])  # type: ignore[return-value]


def test_a_unit_that_everybody_shares_is_caught() -> None:
    class Shared(Linear):
        """The truth is centred with everybody's mean: a peek that no row shows."""

        def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
            centred = evidence.truth - np.nan_to_num(evidence.truth).mean(axis=0)
            return super().fit(replace(evidence, truth=centred), rows)

    with pytest.raises(AssertionError, match="not equal"):
        assert_blind(lambda _: Shared(), EVIDENCE["values"])
