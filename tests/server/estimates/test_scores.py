"""A report's score is unbiased: for every record, its mean over all reports that a device may send is u(x), exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

import collections_drawn as drawn
import releases
import taskveil as tv
from taskveil.client.mechanisms import Codebook, Laplace, LatticeCodebook, LevelResponse, SumCodebook
from taskveil.errors import DataError
from taskveil.losses import _simulated
from taskveil.server.estimates import tally
from taskveil.server.estimates.scores import scores_of


def all_reports(veil: tv.Veil) -> np.ndarray:
    """Every report that there is; of Laplace noise, those that are not rarer than 1e-16."""
    mechanism = veil.mechanism
    match mechanism:
        case LatticeCodebook(lattice=lattice):
            return lattice.digits(list(range(lattice.size)))
        case Laplace():
            reach = int(40 * mechanism.scale) + int(mechanism.region.high.max())
            return np.arange(-reach, reach + 1)[:, None]
        case _:
            return np.stack(np.unravel_index(np.arange(math.prod(sizes := sizes_of(veil))), sizes), axis=1)


def sizes_of(veil: tv.Veil) -> list[int]:
    return (np.array(veil.mechanism.layout.high) + 1).tolist()


def some_records(veil: tv.Veil, count: int = 9) -> np.ndarray:
    low, high = veil.encoder.low, veil.encoder.high
    return low + np.random.default_rng(0).random((count, len(low))) * (high - low)


def made(name: str) -> tv.Veil:
    if name == "laplace":
        return releases.veil(releases.linear(3, 1), releases.laplace(releases.box(1, 2.0**-4, 40), 2.0))
    device = releases.devices()[name]
    return releases.veil(device.encoder, device.mechanism)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("codebook", Codebook),
        ("laplace", Laplace),
        ("sums", SumCodebook),
        ("lattice", LatticeCodebook),
        ("levels", LevelResponse),
    ],
)
def test_scores_are_unbiased_for_every_record(name: str, kind: type) -> None:
    veil = made(name)
    assert isinstance(veil.mechanism, kind)
    veil = drawn.with_volunteers(veil, some_records(veil))
    scores, reports, latents = scores_of(veil), all_reports(veil), veil.reference.latents
    chance = np.exp(veil.mechanism.log_likelihood(reports, latents))
    np.testing.assert_allclose(chance.sum(axis=0), 1.0, atol=1e-9)
    expected = chance.T @ ((scores.raw(reports) - scores.outside) / scores.told)
    seen = scores.seen(veil.reference)
    np.testing.assert_allclose(expected, seen, atol=1e-8 * max(1.0, np.abs(seen).max()))
    assert np.ptp(seen, axis=0).max() > 0  # records do differ in what they tell


def test_designs_for_means_see_the_record_itself(volunteers: np.ndarray) -> None:
    veil = tv.design(volunteers, tv.MeanTask(np.eye(6)), epsilon=2.0)
    scores = scores_of(veil)
    assert scores.direct
    inside = np.clip(volunteers, veil.encoder.low, veil.encoder.high)[:50]
    seen = scores.seen(drawn.with_volunteers(veil, inside).reference)
    np.testing.assert_allclose(seen, inside, atol=2e-3 * volunteers.std())


def test_tallies_of_parts_add_up_to_that_of_the_whole() -> None:
    for name in ("codebook", "lattice"):  # counted by code number, and summed up
        veil = made(name)
        scores = scores_of(veil)
        reports = veil.privatize(some_records(veil, 400))
        whole, parts = tally(veil, reports), tally(veil, reports[:150]) + tally(veil, reports[150:])
        assert whole.count == parts.count == 400
        one, other = scores.evidence(whole), scores.evidence(parts)
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-12)
        np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-12)
        values = (scores.raw(reports) - scores.outside) / scores.told
        np.testing.assert_allclose(one.mean, values.mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(one.covariance, np.cov(values.T, ddof=1) / 400 * (399 / 400), rtol=5e-3, atol=1e-9)


def test_simulated_reports_are_as_real_ones() -> None:
    """Benchmarks draw reports by ordinary random numbers: they must have the mean and spread of real ones."""
    veil = made("codebook")
    latents = np.repeat(veil.encoder(some_records(veil, 4)), 10_000, axis=0)
    scores, rng = scores_of(veil), np.random.default_rng(0)
    simulated = scores.evidence(scores.tally(_simulated(veil.mechanism, latents, rng)))
    real = scores.evidence(scores.tally(veil.mechanism(latents)))
    error = np.sqrt(np.diag(simulated.covariance) + np.diag(real.covariance))
    assert (np.abs(simulated.mean - real.mean) < 5 * error).all()
    np.testing.assert_allclose(np.diag(simulated.covariance), np.diag(real.covariance), rtol=0.1)


def test_stages_that_correct_each_other_have_no_scores() -> None:
    with pytest.raises(DataError, match="no unbiased form"):
        scores_of(made("codebook_stages"))
