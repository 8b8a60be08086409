"""The front door, with designs as they are made and releases as they are stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import collections_drawn as drawn
import taskveil as tv
from taskveil.errors import DataError

RNG = np.random.default_rng(5)
EVERYBODY = drawn.records(50_000, RNG)
VEIL = drawn.with_volunteers(drawn.codebook_veil(4.0), EVERYBODY[:1000])
PEOPLE = drawn.People.of(VEIL, EVERYBODY)
MOVED = drawn.People.of(VEIL, EVERYBODY + np.array([0.3, 0.0]))


@pytest.fixture(scope="module")
def estimate() -> tv.Estimate:
    return tv.estimate(VEIL, PEOPLE.reports(20_000, np.random.default_rng(6)))


def entries(estimate: tv.Estimate) -> list[tuple[str, float, float, float]]:
    return [*estimate.attributes, *estimate.answers, *estimate.shares, *estimate.frequencies]


@pytest.mark.parametrize("method", ["codebook", "task_aware"])
def test_a_release_read_again_gives_the_same_numbers(
    volunteers: np.ndarray, task: tv.LinearTask, method: str, tmp_path: Path
) -> None:
    veil = tv.design(volunteers, task, epsilon=3.0, method=method, latent_dim=2)
    reports = veil.privatize(np.repeat(volunteers, 10, axis=0))
    veil.save(tmp_path / "release")
    again = tv.Veil.load(tmp_path / "release")
    first, second = tv.estimate(veil, reports), tv.estimate(again, reports)
    assert entries(first) == entries(second)
    assert (first.drift, first.assumes) == (second.drift, second.assumes)
    assert first.answers[5] == ("y5", 0.0, 0.0, 0.0)  # the task gives it no weight: it is 0 for everybody
    first.to_json(tmp_path / "estimate.json")


def test_laplace_reports_say_how_much_bounding_matters(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    veil = tv.design(volunteers, task, epsilon=3.0, method="task_aware")
    estimate = tv.estimate(veil, veil.privatize(np.repeat(volunteers, 10, axis=0)))
    assert "Bounding before the noise concerns" in estimate.assumes
    assert estimate.frequencies == ()


def test_means_of_any_population_assume_nothing(volunteers: np.ndarray) -> None:
    """People far from the volunteers, inside the domain: no tilt of the volunteers is asked for."""
    veil = tv.design(volunteers, tv.MeanTask(np.eye(6) / volunteers.std(axis=0)), epsilon=8.0)
    people = np.repeat(volunteers[volunteers[:, 0] > np.median(volunteers[:, 0])], 60, axis=0)
    estimate = tv.estimate(veil, veil.privatize(people))
    assert estimate.assumes.startswith("Nothing is assumed about the people")
    truth = np.clip(people, veil.encoder.low, veil.encoder.high).mean(axis=0)
    for entry, mean in zip(estimate.attributes, truth, strict=True):
        assert abs(entry.mean - mean) < 3 * (entry.high - entry.low) / 2
    assert estimate.drift.raised


def test_shares_of_classes_follow_the_people(volunteers: np.ndarray) -> None:
    """People with other class shares than the volunteers; devices compute what the model says."""
    score = volunteers[:, 0] + 0.3 * volunteers[:, 1]
    labels = (score > np.median(score)).astype(int)
    task = tv.ModelTask(LogisticRegression(max_iter=1000).fit(volunteers, labels), loss="cross_entropy")
    honest = {"share_model": True, "volunteers_unseen": True}
    veil = tv.design(volunteers, task, y=labels, epsilon=4.0, method="codebook", encoder="own", **honest)
    mine = np.concatenate([np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)[:40]])
    people = np.tile(mine, 20)
    estimate = tv.estimate(veil, veil.privatize(volunteers[people]))
    assert [entry.name for entry in estimate.shares] == ["0", "1"]
    assert estimate.answers == ()
    assert sum(entry.mean for entry in estimate.shares) == pytest.approx(1.0)
    assert estimate.drift.raised
    truth, own = labels[people].mean(), labels.mean()
    share = estimate.shares[1]
    assert abs(share.mean - truth) < 0.35 * abs(own - truth)
    assert 0 <= share.low <= truth <= share.high <= 1


def test_awkward_volunteers_do_no_harm() -> None:
    """Columns that never vary, that say the same twice, and volunteers who came several times."""
    rng = np.random.default_rng(0)
    X = drawn.records(60, rng)
    X = np.repeat(np.column_stack([X, X @ [1.0, -1.0], np.full(60, 3.0)]), 3, axis=0)
    veil = tv.design(X, tv.LinearTask(np.eye(4)), epsilon=2.0, method="codebook")
    estimate = tv.estimate(veil, veil.privatize(np.repeat(X, 10, axis=0)))
    assert all(np.isfinite(entry[1:]).all() for entry in entries(estimate))
    assert estimate.attributes[3].mean == pytest.approx(3.0)
    assert estimate.attributes[2].mean == pytest.approx(estimate.attributes[0].mean - estimate.attributes[1].mean)


def test_names_and_intervals(estimate: tv.Estimate) -> None:
    assert [entry.name for entry in estimate.attributes] == ["x0", "x1"]
    assert [entry.name for entry in estimate.answers] == ["y0"]
    assert estimate.shares == ()
    assert [entry.name for entry in estimate.frequencies] == [f"codeword {place}" for place in range(5)]
    for entry in (*estimate.attributes, *estimate.answers, *estimate.frequencies):
        assert entry.low < entry.mean < entry.high
    assert estimate.answers[0].mean == pytest.approx(sum(entry.mean for entry in estimate.attributes))
    assert sum(entry.mean for entry in estimate.frequencies) == pytest.approx(1.0)


def test_simplex_shares_are_shares() -> None:
    rare = PEOPLE.reports(150, np.random.default_rng(6))
    shares = [entry.mean for entry in tv.estimate(VEIL, rare, simplex=True).frequencies]
    assert sum(shares) == pytest.approx(1.0)
    assert min(shares) >= 0


def test_quantiles_and_histograms_hold_the_truth(estimate: tv.Estimate) -> None:
    for entry, share in zip(estimate.quantiles("x0", (0.25, 0.5, 0.75)), (0.25, 0.5, 0.75), strict=True):
        assert entry.low <= entry.mean <= entry.high
        assert entry.low <= np.quantile(EVERYBODY[:, 0], share) <= entry.high
        assert entry.name == f"x0 at {share:g}"
    edges = [-2.0, -0.5, 0.5, 7.0]
    bins = estimate.histogram("x0", edges)
    assert sum(entry.mean for entry in bins) == pytest.approx(1.0)
    true = np.histogram(EVERYBODY[:, 0], edges)[0] / len(EVERYBODY)
    assert sum(entry.low <= share <= entry.high for entry, share in zip(bins, true, strict=True)) == 3
    with pytest.raises(DataError, match="between 0 and 1"):
        estimate.quantiles("x0", (0.5, 1.5))
    with pytest.raises(DataError, match="only of: x0, x1, y0"):
        estimate.quantiles("x7")


def test_differences_between_rounds_forget_the_volunteers(estimate: tv.Estimate) -> None:
    """Two rounds that share their volunteers: the difference is surer than the volunteers allow either mean to be."""
    few = drawn.with_volunteers(VEIL, EVERYBODY[1000:1200])
    earlier, later = (tv.estimate(few, who.reports(10**6, np.random.default_rng(7))) for who in (PEOPLE, MOVED))
    change = later.minus(earlier)
    assert set(change) == {"attributes", "answers"}
    first = change["attributes"][0]
    assert first.mean == pytest.approx(0.3, abs=0.1)
    same = earlier.minus(tv.estimate(few, PEOPLE.reports(10**6, np.random.default_rng(8))))["attributes"][0]
    assert same.low <= 0 <= same.high
    assert same.high - same.low < 0.5 * (earlier.attributes[0].high - earlier.attributes[0].low)
    # Other volunteers do not cancel.
    other = earlier.minus(estimate)["attributes"][0]
    assert other.high - other.low > earlier.attributes[0].high - earlier.attributes[0].low


def test_weights_are_for_the_same_records(estimate: tv.Estimate) -> None:
    X = EVERYBODY[:50]
    assert estimate.weights(X, X.sum(axis=1, keepdims=True)).mean() == pytest.approx(1.0)
    with pytest.raises(DataError, match="other records"):
        estimate.weights(X[:, :1], X[:, :1])


def test_means_are_told_of_what_follows_from_the_task_alone() -> None:
    """Reports designed for a sum tell the sum; its parts only if they are reported one by one, not as the volunteers'
    word. What is the same for everybody is known."""
    rng = np.random.default_rng(0)
    records = rng.normal(size=(3000, 4)) * [1.0, 2.0, 3.0, 1.0]
    records[:, 3] = 7.0
    K = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    domain = tv.Box([-20, -20, -20, 7], [20, 20, 20, 7])
    veil = tv.design(records[:500], tv.MeanTask(K), epsilon=4.0, domain=domain)
    found = tv.estimate(veil, veil.privatize(records[500:] + np.array([3.0, 0.0, 0.0, 0.0])))
    told = {entry.name: entry for entry in found.attributes}
    assert {"x2", "x3"} <= set(told)
    for name, truth in {"x0": 3.0, "x1": 0.0, "x2": 0.0}.items():
        if name in told:
            assert abs(told[name].mean - truth) < 2.5 * (told[name].high - told[name].low) / 2  # five standard errors
    assert [entry.name for entry in found.answers] == ["y0", "y1", "y2"]
    assert told["x3"][1:] == pytest.approx((7.0, 7.0, 7.0))
    assert found.answers[0].mean == pytest.approx(3.0, abs=1.4)  # five standard errors
