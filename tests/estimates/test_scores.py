"""A report's score is unbiased: for every record, its mean over all reports that a device may send is u(x), exactly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import releases
import taskveil as tv
from taskveil.client.mechanisms import Codebook, Laplace, LatticeCodebook, LevelResponse, SumCodebook
from taskveil.errors import DataError
from taskveil.estimates import tally
from taskveil.estimates.measured import moments
from taskveil.estimates.scores import scores_of
from taskveil.veil.channels import channel_of
from taskveil.veil.decoders import AffineDecoder
from taskveil.veil.volunteers import FEWEST, Volunteers, truths


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


@pytest.mark.parametrize(("name", "kind"), [("laplace", Laplace), ("sums", SumCodebook), ("lattice", LatticeCodebook)])
def test_scores_are_unbiased_for_every_record(name: str, kind: type) -> None:
    veil = made(name)
    assert isinstance(veil.mechanism, kind)
    records = some_records(veil)
    scores, reports, latents = scores_of(veil), all_reports(veil), veil.encoder(records)
    chance = np.exp(veil.mechanism.log_likelihood(reports, latents))
    np.testing.assert_allclose(chance.sum(axis=0), 1.0, atol=1e-9)
    sums = scores.sums
    assert sums is not None
    expected = chance.T @ ((sums.raw(reports) - sums.outside) / sums.kept)
    for place, (record, score) in enumerate(zip(records, expected, strict=True)):
        seen = measured_by(veil, np.repeat(record[None], FEWEST, axis=0))
        np.testing.assert_allclose(score, seen, atol=1e-8 * max(1.0, np.abs(seen).max()), err_msg=str(place))
    assert np.ptp(expected, axis=0).max() > 0  # records do differ in what they report


def measured_by(veil: tv.Veil, X: np.ndarray) -> np.ndarray:
    """(p,): the mean that reports of people with records X (N, n) are scores of, from the sums over volunteers."""
    task = tv.LinearTask(np.eye(X.shape[1]))
    known = Volunteers.of(veil.mechanism, veil.decoder, veil.encoder(X), X, task, truths(task, X, None))
    assert known is not None
    return known.mean @ veil.decoder.codewords if isinstance(veil.mechanism, SumCodebook) else known.mean


@pytest.mark.parametrize(("name", "kind"), [("codebook", Codebook), ("levels", LevelResponse)])
def test_lists_of_codes_are_counted(name: str, kind: type) -> None:
    veil = made(name)
    assert isinstance(veil.mechanism, kind)
    scores, reports = scores_of(veil), veil.privatize(some_records(veil, 300))
    assert scores.listed
    found = tally(veil, reports)
    assert np.array_equal(found.codes, np.bincount(reports[:, 0], minlength=sizes_of(veil)[0]))
    assert found.total.shape == (0,)


def test_designs_for_means_decode_to_the_record_itself(volunteers: np.ndarray) -> None:
    """Each code's record, averaged by the chances of the codes, is the record that is inside the domain."""
    veil = tv.design(volunteers, tv.MeanTask(np.eye(6)), epsilon=2.0)
    inside = np.clip(volunteers, veil.encoder.low, veil.encoder.high)[:50]
    decoded = veil.mechanism.chances(veil.encoder(inside)) @ veil.decoder.codewords
    np.testing.assert_allclose(decoded, inside, atol=2e-3 * volunteers.std())


@pytest.mark.parametrize("name", ["codebook", "levels", "laplace", "sums", "lattice"])
def test_tallies_of_parts_add_up_to_that_of_the_whole(name: str) -> None:
    veil = made(name)
    scores = scores_of(veil)
    reports = veil.privatize(some_records(veil, 400))
    whole, parts = tally(veil, reports), tally(veil, reports[:150]) + tally(veil, reports[150:])
    assert whole.count == parts.count == 400
    assert (whole.codes is None) == (parts.codes is None) == (name in ("laplace", "lattice"))
    if whole.codes is not None:
        assert np.array_equal(whole.codes, parts.codes)
        assert whole.codes.sum() == 400 * veil.mechanism.report_width
    np.testing.assert_allclose(whole.total, parts.total, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(whole.square, parts.square, rtol=1e-12, atol=1e-9)
    if (sums := scores.sums) is not None:
        values = (sums.raw(reports) - sums.outside) / sums.kept
        mean, covariance = moments(sums, whole)
        np.testing.assert_allclose(mean, values.mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(covariance, np.atleast_2d(np.cov(values.T)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["codebook", "levels", "laplace", "sums", "lattice"])
def test_simulated_reports_are_as_real_ones(name: str) -> None:
    """Benchmarks draw reports by ordinary random numbers: they must have the mean and spread of real ones."""
    veil = made(name)
    latents = np.repeat(veil.encoder(some_records(veil, 4)), 5_000, axis=0)
    rng = np.random.default_rng(0)
    simulated, real = channel_of(veil.mechanism, veil.decoder).simulate(latents, rng), veil.mechanism(latents)
    one, other = (veil.decoder(veil.mechanism.values(reports)) for reports in (simulated, real))
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(latents))
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 5 * error + 1e-12).all()
    np.testing.assert_allclose(one.var(axis=0), other.var(axis=0), rtol=0.1)


def test_codewords_that_the_decoder_does_not_have_give_no_scores() -> None:
    veil = made("lattice")
    decoder = AffineDecoder(weights=np.ones((veil.encoder.width, 1)), offset=np.zeros(veil.encoder.width))
    with pytest.raises(DataError, match="no unbiased form"):
        scores_of(replace(veil, decoder=decoder))
