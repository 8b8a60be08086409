"""Reports that make no estimate are refused, with what to do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import collections_drawn as drawn
import taskveil as tv
from taskveil.errors import DataError
from taskveil.server.estimates import tally
from taskveil.wire import Received


@pytest.fixture(scope="module")
def veil() -> tv.Veil:
    return drawn.with_volunteers(drawn.codebook_veil(2.0), drawn.records(300, np.random.default_rng(0)))


def reports(veil: tv.Veil, count: int) -> np.ndarray:
    return veil.privatize(drawn.records(count, np.random.default_rng(1)))


def test_too_few_reports_are_refused_with_how_many_are_needed(veil: tv.Veil) -> None:
    with pytest.raises(DataError, match=r"99 reports .* too few .* at least 100 are needed"):
        tv.estimate(veil, reports(veil, 99))
    with pytest.raises(DataError, match=r"^1 reports"):  # about one person nothing is said
        tv.estimate(veil, reports(veil, 1))
    tv.estimate(veil, reports(veil, 100))


def test_what_is_needed_grows_as_the_budget_falls_and_is_enough() -> None:
    veil = drawn.with_volunteers(drawn.codebook_veil(0.05), drawn.records(300, np.random.default_rng(0)))
    with pytest.raises(DataError, match="are needed") as refused:
        tv.estimate(veil, reports(veil, 2000))
    needed = int(str(refused.value).split(": ")[1].split(" are")[0].replace(",", ""))
    assert 5000 < needed < 500_000
    tv.estimate(veil, reports(veil, 2 * needed))


def test_reports_of_another_release_are_refused(veil: tv.Veil) -> None:
    others = Received(release=b"\1" * 32, reports=reports(veil, 200), ids=(), refused=())
    with pytest.raises(DataError, match="reports of release 0101"):
        tv.estimate(veil, others)
    with pytest.raises(DataError, match="no device makes"):
        tv.estimate(veil, np.full((200, 1), 5))


def test_without_volunteers_there_is_nothing_to_compare_with(veil: tv.Veil) -> None:
    with pytest.raises(DataError, match="volunteers=True"):
        tv.estimate(replace(veil, reference=None), reports(veil, 200))


def test_a_design_that_tells_nothing_estimates_nothing(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    silent = tv.design(volunteers, task, epsilon=1.0, method="nothing")
    with pytest.raises(DataError, match="say nothing about anybody"):
        tv.estimate(silent, silent.privatize(np.repeat(volunteers, 10, axis=0)))


def test_every_set_of_reports_needs_its_release(veil: tv.Veil) -> None:
    with pytest.raises(DataError, match=r"1 sets of reports for 2 releases"):
        tv.estimate([veil, veil], [reports(veil, 200)])


@pytest.fixture(scope="module")
def several(veil: tv.Veil) -> list[tv.Veil]:
    """Of every kind of tally, and two of the same shape."""
    X = drawn.records(200, np.random.default_rng(2))
    n, box = X.shape[1], tv.Box(X.min(axis=0), X.max(axis=0))
    means = [tv.design(X, tv.MeanTask(np.eye(n)), epsilon=epsilon, domain=box) for epsilon in (1.0, 2.0)]
    return [veil, tv.design(X, tv.LinearTask(np.eye(n)), epsilon=2.0, method="task_aware"), *means]


def test_a_tally_is_of_one_release(several: list[tv.Veil]) -> None:
    counted = [tally(veil, reports(veil, 3000)) for veil in several]
    for veil, own in zip(several, counted, strict=True):
        assert tv.estimate(veil, own + own).reports == 6000
        for other in (other for other in counted if other is not own):
            with pytest.raises(DataError, match=f"release {other.release[:12]}…, not of {veil.release_id[:12]}…"):
                tv.estimate(veil, other)
            with pytest.raises(DataError, match="tallies of different releases"):
                own + other


def test_reports_that_are_all_the_same_are_no_collection(several: list[tv.Veil]) -> None:
    for veil in several:
        counted = tally(veil, reports(veil, 1)).codes is not None
        with pytest.raises(DataError, match="counted many times" if counted else "say nothing about anybody"):
            tv.estimate(veil, np.repeat(reports(veil, 1), 3000, axis=0))
