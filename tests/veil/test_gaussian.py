"""The server's side of Gaussian noise: losses, simulated reports, estimates, release files, words and costs."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import taskveil as tv
from auditing.exhibits import encoder
from conftest import some_task, some_volunteers
from taskveil.client import Client
from taskveil.client.mechanisms import Gaussian
from taskveil.client.regions import BallRegion
from taskveil.errors import BudgetError
from taskveil.veil.accounting import compose
from taskveil.veil.channels import channel_of
from taskveil.veil.channels.unbiased import GaussianChannel
from taskveil.veil.decoders import AffineDecoder

DELTA = 1e-6


@pytest.fixture(scope="module")
def veil() -> tv.Veil:
    return tv.design(some_volunteers(), some_task(), epsilon=16.0, delta=DELTA, method="gaussian")


def coarse(scale: float, squared_radius: int = 9, dim: int = 2) -> tv.Veil:
    """A veil of whole latents, whose noise can be counted."""
    region = BallRegion(step=1.0, center=np.zeros(dim, dtype=np.int64), squared_radius=squared_radius)
    mechanism = Gaussian(region=region, scale=scale, delta=DELTA, order=4.0)
    decoder = AffineDecoder(weights=np.eye(dim), offset=np.zeros(dim))
    return tv.Veil(encoder=encoder(dim), mechanism=mechanism, decoder=decoder, task=None, method="coarse")


def test_the_stated_loss_is_the_mean_of_what_really_happens(veil: tv.Veil) -> None:
    """By the formula, by simulated reports and by real ones."""
    X = some_volunteers()
    loss, many = veil.loss(X), np.tile(X, (300, 1))
    assert loss.exact
    for reports in (
        veil.privatize(many),
        channel_of(veil.mechanism, veil.decoder).simulate(veil.encoder(many), np.random.default_rng(0)),
    ):
        realised = some_task().losses(veil.decode(reports), many)
        assert abs(realised.mean() - loss.mean) < 6 * realised.std() / math.sqrt(len(realised))


@pytest.mark.parametrize("scale", [0.4, 1.7, 8.0, 90.0])
def test_simulated_reports_have_the_mechanisms_probabilities(scale: float) -> None:
    """Counts of every simulated value against its likelihood: a wrong scale is seen, the right one is not."""
    made, latent, count = coarse(scale, dim=1), np.array([[2.0]]), 400_000
    channel = channel_of(made.mechanism, made.decoder)
    drawn = channel.simulate(np.repeat(latent, count, axis=0), np.random.default_rng(1))[:, 0]

    def improbable(wrong: float) -> int:
        """Values whose count has a probability below 1e-9 under noise of another scale."""
        values = np.arange(drawn.min() - 1, drawn.max() + 2)
        other = coarse(wrong * scale, dim=1).mechanism
        chances = np.exp(other.log_likelihood(values[:, None], latent)[:, 0])
        counts = np.array([(drawn == value).sum() for value in values])
        tails = np.minimum(binom.cdf(counts, count, chances), binom.sf(counts - 1, count, chances))
        return int((tails < 1e-9).sum())

    assert improbable(1.0) == 0
    assert improbable(1.2) > 0


@given(st.floats(0.05, 20.0), st.floats(-3.0, 3.0))
def test_the_log_moment_is_an_upper_bound(scale: float, rate: float) -> None:
    """Of the discrete noise itself, summed."""
    channel = channel_of(coarse(scale).mechanism, coarse(scale).decoder)
    assert isinstance(channel, GaussianChannel)
    x = np.arange(-2000.0, 2001.0)
    powers = -(x**2) / (2 * scale**2)
    moment = np.logaddexp.reduce(powers + rate / scale * x) - np.logaddexp.reduce(powers)
    bound = float(channel.log_moment(np.array([rate / scale]))[0])
    assert moment <= bound * (1 + 1e-9) + 1e-12
    if scale > 2:
        assert moment == pytest.approx(bound, rel=1e-6, abs=1e-9)  # of wide noise the bound is its moment


@pytest.mark.parametrize("anytime", [False, True])
def test_means_of_latents_have_valid_limits(veil: tv.Veil, anytime: bool) -> None:
    """Of people unlike the volunteers. A 95% interval misses no more often than the binomial law allows."""
    people = np.repeat(some_volunteers()[:60] + 1.0, 20, axis=0)
    truth = veil.mechanism.bound(veil.encoder(people)).mean(axis=0)
    runs, missed, widths = 100, np.zeros(len(truth)), []
    for _ in range(runs):
        rows = tv.estimate(veil, veil.privatize(people), anytime=anytime).reported
        assert [row.name for row in rows] == [f"latent {n + 1}" for n in range(len(truth))]
        low, high = (np.array([getattr(row, end) for row in rows]) for end in ("low", "high"))
        missed += (truth < low) | (truth > high)
        widths.append((high - low).mean())
    assert (missed <= binom.ppf(1 - 1e-8, runs, 0.05)).all()
    noise = math.sqrt(veil.mechanism.noise_variance / len(people))
    assert np.mean(widths) < (12 if anytime else 5) * noise


def test_a_release_keeps_everything(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "release")
    again = tv.Veil.load(tmp_path / "release")
    assert again.release_id == veil.release_id
    assert (again.guarantee, again.method) == (veil.guarantee, "gaussian")
    assert again.guarantee.delta == DELTA
    reports = again.privatize(some_volunteers())
    assert np.array_equal(again.decode(reports), veil.decode(reports))
    with Client.load(tmp_path / "release" / "client", ledger=tmp_path / "ledger", cap=40.0) as client:
        sent = client.report(some_volunteers()[0], round="one")
        assert sent is not None
        assert "δ = 1e-06 (1 in 1,000,000)" in client.statement
        assert again.decode(again.receive(sent.to_bytes())).shape == (1, 6)
    assert again.loss(some_volunteers()) == veil.loss(some_volunteers())


def test_a_central_guarantee_is_refused_in_words(veil: tv.Veil) -> None:
    with pytest.raises(BudgetError, match="a central guarantee is known for mechanisms with δ = 0 only"):
        veil.central(reports=100_000, delta=1e-7)


def test_delta_stands_wherever_epsilon_stands(veil: tv.Veil) -> None:
    assert repr(veil).startswith("<Veil gaussian, ε = 16, δ = 1e-06, ")
    assert "δ = 1e-06" in veil._repr_html_()
    one, said = veil.guarantee, "δ = 1e-06 (1 in 1,000,000)"
    assert said in one.statement
    assert "1e-06" in one._repr_html_()
    made = tv.dossier(veil, rounds=52, people=10_000)
    content = made.content
    assert content["promise"]["delta"] == DELTA
    assert said in content["promise"]["words"]
    assert "δ = 5.2e-05" in content["total"]["words"]
    assert content["crowd"] == []
    assert said in made.html()


def test_the_cost_of_a_veil_carries_its_rho(veil: tv.Veil) -> None:
    cost = tv.Cost.of(veil, times=52)
    mechanism = veil.mechanism
    assert isinstance(mechanism, Gaussian)
    assert cost.rho is not None
    assert Fraction(math.nextafter(cost.rho, 0)) < mechanism.rho <= Fraction(cost.rho)
    assert (cost.epsilon, cost.delta) == (veil.guarantee.epsilon, DELTA)
    total = compose([cost], delta=DELTA).epsilon
    assert total < 0.5 * compose([cost], delta=52 * DELTA * (1 + 1e-9)).basic_epsilon
    with pytest.raises(BudgetError, match="add up to"):  # without ρ, δ of 52 reports is above this
        compose([tv.Cost(epsilon=cost.epsilon, delta=DELTA, times=52)], delta=DELTA)
    assert compose([tv.Cost.of(veil)], delta=DELTA).epsilon <= veil.guarantee.epsilon
