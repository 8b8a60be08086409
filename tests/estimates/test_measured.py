"""What reports measure: shares of codes by exact enumeration, means of any population, and nothing of a constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

import collections_drawn as drawn
import releases
import taskveil as tv
from auditing.exhibits import lattice_veil
from taskveil.estimates.intervals import exact_limits
from taskveil.estimates.scores import Tally
from taskveil.veil.volunteers import Volunteers, truths

PEOPLE = 300


def counted(veil: tv.Veil, codes: np.ndarray) -> Tally:
    none = np.zeros((0, 0))
    return Tally(release=veil.release_id, count=int(codes.sum()), codes=codes, total=none.ravel(), square=none)


@pytest.fixture(scope="module")
def veil() -> tv.Veil:
    return drawn.codebook_veil(1.5, favoured=2)


@pytest.fixture(scope="module")
def limits(veil: tv.Veil) -> np.ndarray:
    """(PEOPLE + 1, 2): the limits of a code's share for every count that may come."""
    found = []
    for count in range(PEOPLE + 1):
        row = tv.estimate(veil, counted(veil, np.array([count, PEOPLE - count, 0, 0, 0]))).frequencies[0]
        found.append((row.low, row.high))
    return np.array(found)


def coverage(limits: np.ndarray, share: float, base: float, extra: float) -> float:
    """How often the limits hold a code's true share, over all counts of it."""
    chance = binom.pmf(np.arange(PEOPLE + 1), PEOPLE, base + extra * share)
    return float(chance @ ((limits[:, 0] <= share) & (share <= limits[:, 1])))


def test_shares_are_the_channel_inverted_and_add_up(veil: tv.Veil) -> None:
    response = veil.mechanism.stages[0].response
    true = np.array([0.6, 0.5, 0.3, 0.35, 0.25])  # two favoured ones each
    codes = np.rint(10**9 * (response.base + response.extra * true)).astype(np.int64)
    rows = tv.estimate(veil, counted(veil, codes)).frequencies
    np.testing.assert_allclose([row.mean for row in rows], true, atol=1e-7)
    assert sum(row.mean for row in rows) == pytest.approx(2.0)
    assert all(row.low < row.mean < row.high and row.assumes is None for row in rows)
    assert [row.name for row in rows] == [f"code {place}" for place in range(5)]


def test_limits_hold_in_95_of_100_by_the_binomial_law(veil: tv.Veil, limits: np.ndarray) -> None:
    response = veil.mechanism.stages[0].response
    held = [coverage(limits, share, response.base, response.extra) for share in np.linspace(0.02, 0.98, 25)]
    assert min(held) >= 0.95
    assert np.mean(held) <= 0.97


def test_a_wrong_inversion_is_caught(limits: np.ndarray) -> None:
    """Read with a channel of 30% less budget, limits do not hold."""
    wrong = drawn.codebook_veil(1.95, favoured=2).mechanism.stages[0].response
    assert np.mean([coverage(limits, share, wrong.base, wrong.extra) for share in (0.1, 0.9)]) < 0.9


def test_limits_are_nearly_as_narrow_as_the_cramer_rao_bound_allows(veil: tv.Veil) -> None:
    response, share = veil.mechanism.stages[0].response, 0.4
    chance = response.base + response.extra * share
    codes = np.rint(5000 * np.array([chance, 1 - chance, 0, 0, 0])).astype(np.int64)
    row = tv.estimate(veil, counted(veil, codes)).frequencies[0]
    bound = np.sqrt(chance * (1 - chance) / 5000) / response.extra
    assert row.high - row.low == pytest.approx(2 * norm.ppf(0.975) * bound, rel=0.03)


def test_no_report_and_all_reports_have_limits_too(veil: tv.Veil) -> None:
    rows = tv.estimate(veil, counted(veil, np.array([0, 100, 0, 0, 0]))).frequencies
    assert rows[0].mean < 0  # unbiased, and so below 0 where a code came more rarely than by chance
    assert all(0 <= row.low <= row.high <= 1 for row in rows)


def test_a_means_release_holds_for_people_far_from_the_volunteers(volunteers: np.ndarray) -> None:
    veil = tv.design(volunteers, tv.MeanTask(np.eye(6) / volunteers.std(axis=0)), epsilon=8.0)
    people = np.repeat(volunteers[volunteers[:, 0] > np.median(volunteers[:, 0])], 60, axis=0)
    estimate = tv.estimate(veil, veil.privatize(people))
    truth = np.clip(people, veil.encoder.low, veil.encoder.high).mean(axis=0)
    for entry, mean in zip(estimate.attributes, truth, strict=True):
        assert abs(entry.mean - mean) < 3 * (entry.high - entry.low) / 2
        assert entry.assumes is None
    assert estimate.drift.raised


RNG = np.random.default_rng(5)
VOLUNTEERS = RNG.normal(size=(400, 3)) @ np.array([[1.0, 0.9, 0.8], [0.0, 0.3, 0.1], [0.0, 0.0, 0.5]])
MOVED = np.clip(RNG.normal(size=(4000, 3)) * 0.3 + [2.0, -1.0, 0.0], -4.0, 4.0)
BOX = tv.Box([-4.0] * 3, [4.0] * 3)


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("K", [np.ones((1, 3)), np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])])
def test_a_sum_is_measured_and_its_terms_are_not(K: np.ndarray, unit: float) -> None:
    """The sum alone does not determine single attributes."""
    box = tv.Box(BOX.low * unit, BOX.high * unit)
    veil = tv.design(VOLUNTEERS * unit, tv.MeanTask(K), epsilon=4.0, domain=box)
    estimate = tv.estimate(veil, veil.privatize(MOVED * unit))
    assert estimate.attributes == ()
    truth = (MOVED * unit).mean(axis=0) @ K.T
    for answer, mean in zip(estimate.answers, truth, strict=True):
        assert abs(answer.mean - mean) < 3 * (answer.high - answer.low)


@pytest.mark.parametrize(
    "K", [np.diag([1.0, 0.0, 2.0]), np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])]
)
def test_attributes_that_the_task_determines_are_measured(K: np.ndarray) -> None:
    veil = tv.design(VOLUNTEERS, tv.MeanTask(K), epsilon=4.0, domain=BOX)
    estimate = tv.estimate(veil, veil.privatize(MOVED))
    weighed = np.flatnonzero(np.abs(K).max(axis=0))
    assert [interval.name for interval in estimate.attributes] == [f"x{place}" for place in weighed]
    for interval, mean in zip(estimate.attributes, MOVED.mean(axis=0)[weighed], strict=True):
        assert abs(interval.mean - mean) < 3 * (interval.high - interval.low)


def test_what_is_the_same_for_everybody_is_known() -> None:
    rng = np.random.default_rng(0)
    records = np.column_stack([rng.normal(size=(3000, 2)), np.full(3000, 7.0)])
    veil = tv.design(records[:500], tv.MeanTask(np.eye(3)), epsilon=4.0, domain=tv.Box([-9, -9, 7], [9, 9, 7]))
    found = tv.estimate(veil, veil.privatize(records[500:]))
    assert found.attributes[2][:4] == ("x2", *[pytest.approx(7.0)] * 3)
    assert [entry.name for entry in found.answers] == ["answer 1", "answer 2", "answer 3"]


@pytest.mark.parametrize(
    ("epsilon", "method", "kinds"),
    [
        (2.0, "task_aware", {"reported"}),
        (2.0, "gaussian", {"reported"}),
        (3.0, "codebook", {"frequencies"}),
        (40.0, "codebook", {"reported"}),
        (1.0, "constant", set()),
    ],
)
def test_every_kind_of_release_gives_what_it_measures(
    volunteers: np.ndarray, epsilon: float, method: str, kinds: set[str]
) -> None:
    veil = tv.design(volunteers, tv.LinearTask(np.eye(6)), epsilon=epsilon, delta=1e-6, method=method)
    people = np.repeat(volunteers, 3, axis=0)
    found = tv.estimate(veil, veil.privatize(people))
    assert set(found.groups) == kinds
    assert all(row.assumes is None for rows in found.groups.values() for row in rows)
    if not kinds:
        assert "carry no information" in found.table()
    if "reported" in kinds and method == "codebook":
        names = [row.name for row in found.reported]
        assert names == [f"mean codeword: x{place}" for place in range(6)]


def test_sums_of_codebooks_measure_the_codes_of_every_stage_and_the_mean_codeword() -> None:
    device = releases.devices()["sums"]
    veil = releases.veil(device.encoder, device.mechanism)
    sizes = veil.mechanism.sizes.tolist()
    people = np.random.default_rng(0).normal(size=(500, veil.encoder.width))
    found = tv.estimate(veil, veil.privatize(people))
    wanted = [f"stage {stage}, code {code}" for stage, size in enumerate(sizes, 1) for code in range(size)]
    assert [row.name for row in found.frequencies] == wanted
    shares = np.array([row.mean for row in found.frequencies])
    ends = np.cumsum(sizes)
    for start, end in zip(ends - sizes, ends, strict=True):
        assert shares[start:end].sum() == pytest.approx(1.0)
    # The mean codeword is the codewords' mean by these shares.
    np.testing.assert_allclose([row.mean for row in found.reported], shares @ veil.decoder.codewords, atol=1e-9)


def test_without_volunteers_the_rows_are_the_same(veil: tv.Veil) -> None:
    known = drawn.with_volunteers(veil, drawn.records(300, np.random.default_rng(0)))
    codes = np.array([50, 60, 70, 80, 90])
    one, other = (tv.estimate(made, counted(made, codes)) for made in (known, replace(known, volunteers=None)))
    assert one.frequencies == other.frequencies
    assert "keeps no sums over its volunteers" in other.drift.words


def test_two_scores_have_clopper_and_pearsons_limits() -> None:
    from scipy.stats import beta

    low, high = exact_limits([270, 30], [0.0, 1.0])
    assert low == pytest.approx(beta.ppf(0.025, 30, 271), rel=1e-6)
    assert high == pytest.approx(beta.ppf(0.975, 31, 270), rel=1e-6)


@pytest.mark.parametrize("far", [1e9, 1e16, 1e50])
def test_means_far_from_zero_are_compared_with_the_volunteers(far: float) -> None:
    """Sums of squares then lose the spread to rounding: the test for drift raised a LinAlgError."""
    X, task = np.random.default_rng(2).uniform(-1, 1, size=(500, 2)), tv.LinearTask(np.eye(2))
    veil = lattice_veil(3.0)
    veil = replace(veil, decoder=replace(veil.decoder, offset=np.array([far, 0.0])), task=task)
    known = Volunteers.of(veil.mechanism, veil.decoder, veil.encoder(X), X, task, truths(task, X, None))
    found = tv.estimate(replace(veil, volunteers=known), veil.privatize(X))
    assert found.drift.p_value > 1e-4  # these are people like the volunteers
    first, second = found.reported
    assert first.low < first.mean < first.high
    assert first.mean == pytest.approx(far)
    assert -0.5 < second.low < second.high < 0.5
