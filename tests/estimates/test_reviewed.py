"""What reviewers found in estimates, as tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import collections_drawn as drawn
import taskveil as tv
from taskveil.errors import DataError, ReleaseError, TooFewReportsError
from taskveil.estimates import tally

RNG = np.random.default_rng(3)
X = RNG.normal(size=(400, 3)).clip(-4, 4)
BOX = tv.Box([-4.0] * 3, [4.0] * 3)


def means(weight: float = 1.0, epsilon: float = 4.0) -> tv.Veil:
    return tv.design(X, tv.MeanTask(np.diag([weight, 1.0, 1.0])), epsilon=epsilon, domain=BOX)


def test_rows_that_mean_different_things_are_not_subtracted() -> None:
    one, other = means(), means(3.0)
    first, second = (tv.estimate(veil, veil.privatize(X)) for veil in (one, other))
    assert set(second.minus(first)) == {"attributes"}  # answers of other weights are other answers
    with pytest.raises(DataError, match="same confidence"):
        second.minus(tv.estimate(one, one.privatize(X), confidence=0.5))
    codes = tv.design(X, tv.LinearTask(np.eye(3)), epsilon=2.0, domain=BOX, method="codebook")
    with pytest.raises(DataError, match="no row in common"):
        tv.estimate(codes, codes.privatize(X)).minus(first)


def test_a_pooled_estimate_says_which_budgets_it_is_from() -> None:
    veils = [means(epsilon=epsilon) for epsilon in (2.0, 3.0)]
    both = tv.estimate(veils, [veil.privatize(X) for veil in veils])
    assert [reports for reports, _ in both.budgets] == [400, 400]
    assert both.source == "400 reports of ε = 2 and 400 reports of ε = 3; a person who sent one of each has spent ε = 5"


@pytest.mark.parametrize(
    "change",
    [
        {"count": 10**6},
        {"count": "400"},
        {"codes": None},
        {"codes": [1, 2]},
        {"codes": np.array([400])},
        {"total": np.zeros(2)},
        {"square": np.zeros((1, 1))},
    ],
)
def test_a_tally_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    veil = means()
    counted = tally(veil, veil.privatize(X))
    with pytest.raises(DataError):
        tv.estimate(veil, replace(counted, **change))


def test_a_latent_that_is_the_same_for_everybody_has_limits_at_all_times() -> None:
    veil = tv.design(X, tv.LinearTask(np.diag([1.0, 1.0, 0.0])), epsilon=30.0, domain=BOX, method="codebook")
    for anytime in (False, True):
        found = tv.estimate(veil, veil.privatize(X), anytime=anytime)
        assert all(row.low <= row.mean <= row.high for row in found.reported)
    with pytest.raises(TooFewReportsError):
        tv.estimate(veil, veil.privatize(X[:50]))


def few_records(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """People with one of 64 records, and their labels."""
    people, weights = rng.integers(0, 2, size=(count, 6)).astype(float), rng.normal(size=6)
    return people, ((people - people.mean(axis=0)) @ weights + rng.logistic(size=count) > 0).astype(int)


def rounded_records(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """People with three rounded numbers each, and their labels."""
    people = np.round(rng.normal(size=(count, 3)) * 2) / 2
    return people, (people @ [1.0, -0.8, 0.6] + rng.logistic(size=count) > 0).astype(int)


@pytest.mark.parametrize(
    ("records", "encoder", "epsilon"), [(few_records, "linear", 8.0), (rounded_records, "trees", 4.0)]
)
def test_equal_records_raise_no_false_alarm(records: Any, encoder: str, epsilon: float) -> None:
    """A small change of an encoder moves all people with equal records to another code. With the codes of five folds
    the drift test raised in 59% and 34% of collections."""
    raised = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        people, label = records(rng, 22_000)
        task = tv.ModelTask(LogisticRegression().fit(people[:2000], label[:2000]), loss="cross_entropy")
        veil = tv.design(
            people[:2000],
            task,
            y=label[:2000],
            epsilon=epsilon,
            on_device=tv.OnDevice(encoder=encoder),
            method="codebook",
        )
        sending = drawn.People.of(veil, people[2000:])
        raised += [tv.estimate(veil, sending.reports(20_000, rng)).drift.raised for _ in range(4)]
        few = drawn.People.of(veil, people[2000:][label[2000:] == 1])
        assert tv.estimate(veil, few.reports(20_000, rng)).drift.raised  # it still sees that one class is missing
    assert np.mean(raised) <= 0.15


def test_forged_sums_and_answers_are_refused_when_they_are_read(tmp_path: Any) -> None:
    y = (X[:, 0] + RNG.normal(size=400) > 0).astype(int)
    task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
    veil = tv.design(X, task, y=y, epsilon=2.0, on_device=tv.OnDevice(encoder="linear"), method="codebook", domain=BOX)
    known = veil.volunteers
    assert known is not None
    for name, cells in (
        ("m", replace(known.cells, measured=known.cells.measured / 2)),
        ("inside", replace(known.cells, means=known.cells.means + 9.0)),
    ):
        replace(veil, volunteers=replace(known, cells=cells)).save(tmp_path / name)
        with pytest.raises(ReleaseError):
            tv.Veil.load(tmp_path / name)
