"""The front door: what it refuses, with designs as they are made and releases as they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collections_drawn as drawn
import taskveil as tv
from taskveil.client.wire import Received
from taskveil.errors import DataError
from taskveil.estimates import FEWEST, tally

EVERYBODY = drawn.records(50_000, np.random.default_rng(5))
VEIL = drawn.with_volunteers(drawn.codebook_veil(4.0), EVERYBODY[:1000])
PEOPLE = drawn.People.of(VEIL, EVERYBODY)
MOVED = drawn.People.of(VEIL, EVERYBODY + np.array([0.6, 0.0]))


def entries(estimate: tv.Estimate) -> list[tv.Interval]:
    return [row.interval for rows in estimate.groups.values() for row in rows]


def made(veil: tv.Veil, count: int) -> np.ndarray:
    return veil.privatize(drawn.records(count, np.random.default_rng(1)))


@pytest.mark.parametrize("method", ["codebook", "task_aware"])
def test_a_release_read_again_gives_the_same_numbers(
    volunteers: np.ndarray, task: tv.LinearTask, method: str, tmp_path: Path
) -> None:
    veil = tv.design(volunteers, task, epsilon=3.0, method=method, on_device=tv.OnDevice(latent_dim=2))
    reports = veil.privatize(np.repeat(volunteers, 10, axis=0))
    veil.save(tmp_path / "release")
    again = tv.Veil.load(tmp_path / "release")
    first, second = tv.estimate(veil, reports), tv.estimate(again, reports)
    assert entries(first) == entries(second)
    assert (first.drift, first.notes) == (second.drift, second.notes)
    assert entries(first)
    first.to_json(tmp_path / "estimate.json")


def test_awkward_volunteers_do_no_harm() -> None:
    """Columns that never vary, that say the same twice, and volunteers who came several times."""
    rng = np.random.default_rng(0)
    X = drawn.records(60, rng)
    X = np.repeat(np.column_stack([X, X @ [1.0, -1.0], np.full(60, 3.0)]), 3, axis=0)
    people = np.repeat(X, 10, axis=0)
    for task, method in ((tv.LinearTask(np.eye(4)), "codebook"), (tv.MeanTask(np.eye(4)), "auto")):
        veil = tv.design(X, task, epsilon=2.0, method=method)
        estimate = tv.estimate(veil, veil.privatize(people))
        assert all(np.isfinite(entry[1:4]).all() for entry in entries(estimate))
        assert np.isfinite(estimate.drift.p_value)


def test_too_few_reports_are_refused() -> None:
    for count in (0, 1, FEWEST - 1):
        with pytest.raises(DataError, match=rf"^{count} reports are too few .* at least 10 are needed"):
            tv.estimate(VEIL, made(VEIL, count))


def test_reports_of_another_release_are_refused() -> None:
    others = Received(release=b"\1" * 32, reports=made(VEIL, 200), ids=(), refused=())
    with pytest.raises(DataError, match="reports of release 0101"):
        tv.estimate(VEIL, others)
    with pytest.raises(DataError, match="no device makes"):
        tv.estimate(VEIL, np.full((200, 1), 5))


def test_every_set_of_reports_needs_its_release() -> None:
    with pytest.raises(DataError, match=r"1 sets of reports for 2 releases"):
        tv.estimate([VEIL, VEIL], [made(VEIL, 200)])


@pytest.mark.parametrize("confidence", [0.0, 0.49, 1.0, float("nan")])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(DataError, match="confidence"):
        tv.estimate(VEIL, made(VEIL, 20), confidence=confidence)


def test_more_confidence_is_wider() -> None:
    reports = PEOPLE.reports(1000, np.random.default_rng(0))
    widths = [[row.high - row.low for row in tv.estimate(VEIL, reports, confidence=c).frequencies] for c in (0.8, 0.99)]
    assert (np.array(widths[0]) < np.array(widths[1])).all()


@pytest.fixture(scope="module")
def several() -> list[tv.Veil]:
    """Of every kind of tally, and two of the same shape."""
    X = drawn.records(200, np.random.default_rng(2))
    n, box = X.shape[1], tv.Box(X.min(axis=0), X.max(axis=0))
    means = [tv.design(X, tv.MeanTask(np.eye(n)), epsilon=epsilon, domain=box) for epsilon in (1.0, 2.0)]
    return [VEIL, tv.design(X, tv.LinearTask(np.eye(n)), epsilon=2.0, method="task_aware"), *means]


def test_a_tally_is_of_one_release(several: list[tv.Veil]) -> None:
    counted = [tally(veil, made(veil, 3000)) for veil in several]
    for veil, own in zip(several, counted, strict=True):
        assert tv.estimate(veil, own + own).reports == 6000
        for other in (other for other in counted if other is not own):
            with pytest.raises(DataError, match=f"release {other.release[:12]}…, not of {veil.release_id[:12]}…"):
                tv.estimate(veil, other)
            with pytest.raises(DataError, match="tallies of different releases"):
                own + other


def test_reports_that_are_all_the_same_have_intervals(several: list[tv.Veil]) -> None:
    """They may be forged. This is not refused: `forged` says what forged reports can do."""
    for veil in several:
        found = tv.estimate(veil, np.repeat(made(veil, 1), 300, axis=0))
        assert all(entry.low <= entry.high for entry in entries(found))


def test_differences_between_rounds_have_limits() -> None:
    earlier, later = (tv.estimate(VEIL, who.reports(10**5, np.random.default_rng(7))) for who in (PEOPLE, MOVED))
    change = later.minus(earlier)
    assert set(change) == {"frequencies"}
    for row, now, before in zip(change["frequencies"], MOVED.favour, PEOPLE.favour, strict=True):
        assert row.mean == pytest.approx(now - before, abs=3 * (row.high - row.low) / 2)
    assert any(row.low > 0 or row.high < 0 for row in change["frequencies"])
    same = tv.estimate(VEIL, PEOPLE.reports(10**5, np.random.default_rng(8))).minus(earlier)["frequencies"]
    assert all(abs(row.mean) < (row.high - row.low) for row in same)


def test_one_percent_of_forged_reports_moves_no_row_farther_than_is_said(several: list[tv.Veil]) -> None:
    rng = np.random.default_rng(0)
    for veil in several:
        honest = made(veil, 5000)
        layout = veil.mechanism.layout
        before = tv.estimate(veil, honest)
        for _ in range(5):
            forged = honest.copy()
            forged[:50] = rng.integers(np.array(layout.low), np.array(layout.high) + 1)
            after = entries(tv.estimate(veil, forged))
            for row, was, limit in zip(after, entries(before), before.forged(0.01), strict=True):
                assert row.name == was.name == limit.name
                assert abs(row.mean - was.mean) <= limit.change * (1 + 1e-9)
    with pytest.raises(DataError, match="share of all reports"):
        before.forged(1.5)


@pytest.mark.parametrize("options", [{"assume": "cells", "anytime": True}, {"assume": "covariates"}])
def test_assumptions_that_there_are_not(options: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="assume"):
        tv.estimate(VEIL, made(VEIL, 200), **options)


def test_assumptions_work_for_one_release_with_a_list_of_codes(several: list[tv.Veil]) -> None:
    for veil in several[1:]:
        with pytest.raises(DataError, match="works for releases with a list of codes"):
            tv.estimate(veil, made(veil, 200), assume="cells")
    with pytest.raises(DataError, match="one release"):
        tv.estimate([VEIL, VEIL], [made(VEIL, 200)] * 2, assume="cells")
    with pytest.raises(DataError, match="classes of one label"):
        tv.estimate(VEIL, made(VEIL, 200), assume="labels")


def test_only_an_estimate_by_cells_weighs_volunteers() -> None:
    with pytest.raises(DataError, match='assume="cells"'):
        tv.estimate(VEIL, made(VEIL, 200)).weights(EVERYBODY[:5])
