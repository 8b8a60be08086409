"""What every mechanism answers for itself, held against what it draws."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

import releases
from hostile import hostile_records
from taskveil.client.device import Device
from taskveil.client.mechanisms import (
    Codebook,
    Gaussian,
    Laplace,
    Lattice,
    LatticeCodebook,
    LevelGroup,
    LevelResponse,
    Mechanism,
    Stage,
    SumCodebook,
)
from taskveil.client.regions import BallRegion, BoxRegion
from taskveil.client.wire import Layout

DEVICES = releases.devices()
DRAWS = 20_000
TOGETHER = pytest.mark.parametrize("together", [True, False], ids=["a batch", "one by one"])


def draws(mechanism: Mechanism, latent: np.ndarray, count: int, together: bool) -> np.ndarray:
    """Reports of one latent (1, d), which devices draw one by one; a batch may take another way."""
    if together:
        return mechanism(np.repeat(latent, count, axis=0))
    return np.concatenate([mechanism(latent) for _ in range(count)])


def combinations(mechanism: Mechanism) -> int:
    """How many reports the layout can hold."""
    layout = mechanism.layout
    return int(np.prod([float(high - low + 1) for low, high in zip(layout.low, layout.high, strict=True)]))


LISTED = [name for name, device in DEVICES.items() if combinations(device.mechanism) < 2**21]
NOISY = [
    name for name, device in DEVICES.items() if isinstance(device.mechanism, Laplace | Gaussian) and name not in LISTED
]
every = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES.keys())


def all_reports(mechanism: Mechanism) -> np.ndarray:
    layout = mechanism.layout
    ranges = [np.arange(low, high + 1) for low, high in zip(layout.low, layout.high, strict=True)]
    return np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))


def latents(device: Device, *shares: float) -> np.ndarray:
    """The latents of records that lie this far along the way through every attribute's range."""
    encoder = device.encoder
    with np.errstate(all="ignore"):
        return encoder(np.array([encoder.low + share * (encoder.high - encoder.low) for share in shares]))


def test_all_kinds_are_listed_here() -> None:
    kinds = {Laplace, Gaussian, Codebook, LatticeCodebook, SumCodebook, LevelResponse}
    assert {type(DEVICES[name].mechanism) for name in LISTED} == kinds
    assert {type(DEVICES[name].mechanism) for name in NOISY} == {Laplace, Gaussian}
    assert len(NOISY) >= 6


@pytest.mark.parametrize("name", LISTED)
def test_probabilities_of_all_reports_sum_to_one(name: str) -> None:
    mechanism = DEVICES[name].mechanism
    reports = all_reports(mechanism)
    reports = reports[mechanism.possible(reports)]
    chances = np.exp(mechanism.log_likelihood(reports, latents(DEVICES[name], 0.1, 0.6, 0.9)))
    assert chances.sum(axis=0) == pytest.approx(1.0, abs=1e-9)


@TOGETHER
@pytest.mark.parametrize("name", LISTED)
def test_draws_are_as_frequent_as_their_likelihood_says(name: str, together: bool) -> None:
    """Reports of equal likelihood form a class: how often each class is drawn, against its probability."""
    device = DEVICES[name]
    mechanism, latent = device.mechanism, latents(device, 0.3)
    listed = all_reports(mechanism)
    classes, member = np.unique(mechanism.log_likelihood(listed, latent)[:, 0].round(9), return_inverse=True)
    count = DRAWS if together else DRAWS // 10
    expected = count * np.bincount(member, np.exp(classes[member]))
    drawn = mechanism.log_likelihood(draws(mechanism, latent, count, together), latent)[:, 0].round(9)
    seen = np.bincount(np.searchsorted(classes, drawn), minlength=len(classes))
    rare = expected < 5
    observed = np.append(seen[~rare], seen[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    if wanted[-1] < 1e-9:
        assert observed[-1] == 0
        observed, wanted = observed[:-1], wanted[:-1]
    assert len(observed) == 1 or chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-6


def likelihood_ratios(device: Device, judge: Mechanism, together: bool = True) -> np.ndarray:
    """P[r | b] / P[r | a] as `judge` says, for reports r drawn from a; their mean is 1 if it says the truth.

    b is as far from a as costs 1.5 at most, or 0.7 scales of Gaussian noise: with larger ratios the mean would rest on
    a few reports.
    """
    assert isinstance(device.mechanism, Laplace | Gaussian)
    order, most = (1, 1.5) if isinstance(device.mechanism, Laplace) else (2, 0.7)
    count = device.mechanism.latent_dim
    along = np.append([1e300, -1e300], np.zeros(max(0, count - 2)))[:count]
    a, far = device.mechanism.bound(np.array([-along, along]))
    cost = np.linalg.norm(far - a, order) / (device.mechanism.scale * device.mechanism.region.step)
    pair = np.array([a, a + (far - a) * min(1.0, most / cost)])
    said = judge.log_likelihood(draws(device.mechanism, pair[:1], DRAWS if together else DRAWS // 10, together), pair)
    return np.exp(said[:, 1] - said[:, 0])


def is_one(ratios: np.ndarray) -> bool:
    return abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))


@TOGETHER
@pytest.mark.parametrize("name", NOISY)
def test_likelihoods_of_noise_that_cannot_be_listed(name: str, together: bool) -> None:
    assert is_one(likelihood_ratios(DEVICES[name], DEVICES[name].mechanism, together))


@pytest.mark.parametrize("name", ["laplace_wide", "gaussian_many"])
def test_a_likelihood_of_another_scale_is_noticed(name: str) -> None:
    device = DEVICES[name]
    assert isinstance(device.mechanism, Laplace | Gaussian)
    for wrong in (0.7, 1.3):
        assert not is_one(likelihood_ratios(device, replace(device.mechanism, scale=wrong * device.mechanism.scale)))


@TOGETHER
@pytest.mark.parametrize("name", ["lattice_digits", "lattice_far", "sums_many"])
def test_the_nearest_of_very_many_codewords_is_as_frequent_as_it_should(name: str, together: bool) -> None:
    """In 0.1 the likelihood of reports of several digits was always that of another codeword."""
    mechanism, latent = DEVICES[name].mechanism, latents(DEVICES[name], 0.3)
    said = mechanism.log_likelihood(draws(mechanism, latent, 400, together), latent)[:, 0]
    chance = np.exp(mechanism.responses[0].log_chances(True))
    told = (said == mechanism.responses[0].log_chances(True)).mean()
    assert abs(told - chance) <= 5 * np.sqrt(chance * (1 - chance) / 400) + 1e-9


@every
def test_what_is_drawn_is_whole_possible_and_held(device: Device) -> None:
    mechanism = device.mechanism
    drawn = mechanism(device.encoder(hostile_records(device.encoder.width)))
    assert drawn.dtype == np.int64
    assert drawn.shape[1] == mechanism.report_width == len(mechanism.layout.low)
    assert mechanism.possible(drawn).all()
    assert mechanism.layout.holds(drawn).all()
    step = mechanism.region.step if isinstance(mechanism, Laplace | Gaussian) else 1
    assert np.array_equal(mechanism.values(drawn), drawn * step)


@every
def test_what_cannot_be_drawn_is_not_possible(device: Device) -> None:
    mechanism = device.mechanism
    for edge, beyond in ((mechanism.layout.low, -1), (mechanism.layout.high, 1)):
        for place in range(mechanism.report_width):
            outside = np.zeros((1, mechanism.report_width), dtype=np.int64)
            outside[0, place] = edge[place] + beyond
            assert not mechanism.possible(outside).any()


def test_digits_that_are_in_range_one_by_one_may_number_no_codeword() -> None:
    mechanism = DEVICES["lattice_digits"].mechanism
    assert isinstance(mechanism, LatticeCodebook)
    size = mechanism.lattice.size
    places = [0, size - 1, size, size + 7]
    digits = np.array([[place >> 62, place & 2**62 - 1] for place in places])
    assert mechanism.layout.holds(digits).all()
    assert mechanism.possible(digits).tolist() == [True, True, False, False]


@every
def test_the_stated_epsilon_is_the_exact_one_and_a_hair_more(device: Device) -> None:
    mechanism = device.mechanism
    exact, stated = mechanism.exact_epsilon, Decimal(mechanism.epsilon)
    assert exact * (1 - Decimal(10) ** -55) <= stated <= exact * (1 + Decimal(2) ** -39)
    assert (mechanism.delta > 0) == isinstance(mechanism, Gaussian)
    assert mechanism.enforced_by.endswith(".")


@every
def test_bounded_latents_lie_on_the_grid_inside(device: Device) -> None:
    mechanism, encoded = device.mechanism, device.encoder(hostile_records(device.encoder.width))
    k = mechanism.bound(encoded) / mechanism.region.step
    assert np.array_equal(k, np.floor(k))
    assert mechanism.region.contains(k.astype(np.int64)).all()
    assert np.array_equal(mechanism.bound(mechanism.bound(encoded)), mechanism.bound(encoded))
    assert mechanism.contrast(encoded).shape[0] == len(encoded)


@every
def test_sound_mechanisms_have_no_fault(device: Device) -> None:
    k = device.mechanism.region.enforce(device.encoder(hostile_records(device.encoder.width)))
    assert device.mechanism.fault(k) is None


class NarrowBox(BoxRegion):
    """Charges for less than it lets through."""

    @property
    def l1_diameter(self) -> int:
        return super().l1_diameter - 1


class Cube(BallRegion):
    """Lets through what is in the cube around the ball that it charges for."""

    def contains(self, k: np.ndarray) -> np.ndarray:
        return np.abs(k - self.center).max(axis=1) <= self.farthest


class Echo(Stage):
    """Favours the same output several times."""

    def favoured(self, k: np.ndarray) -> np.ndarray:
        return np.repeat(super().favoured(k)[:, :1], self.response.favoured, axis=1)


class Spendthrift(Lattice):
    """Codes by what no budget allows."""

    def nearest(self, k: np.ndarray) -> np.ndarray:
        return np.zeros((len(k), self.dim), dtype=np.int64)


class Elsewhere(SumCodebook):
    """Codes by numbers that no codeword has."""

    def nearest(self, k: np.ndarray) -> np.ndarray:
        return super().nearest(k) + self.sizes


class LevelBeside(LevelGroup):
    """Rounds to levels that are not the neighbours."""

    def between(self, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        below, part, whole = super().between(k)
        return below + 1, part, whole


def broken() -> dict[str, Mechanism]:
    box, stage, lattice = releases.box(2), releases.stage(8, 3, 1.0, 2), releases.lattice(2, budget=3)
    arrays = {name: getattr(stage, name) for name in ("vectors", "offsets", "shifts", "response")}
    parts = {name: getattr(lattice, name) for name in ("levels", "lengths", "counts", "budget")}
    sums = releases.sum_codebook(4, 5, epsilon=1.0, latents=2)
    levels = releases.level_group(box, [1], [3], outputs=4)
    beside = {name: getattr(levels, name) for name in ("places", "counts", "levels", "table", "chance")}
    fields = ("region", "codewords", "sizes", "branches", "response")
    response = releases.Response.calibrated(size=lattice.size, favoured=1, epsilon=2.0)
    return {
        "laplace": Laplace(region=NarrowBox(step=box.step, low=box.low, high=box.high), scale=100.0),
        "gaussian": Gaussian(
            region=Cube(step=1.0, center=np.array([0, 9]), squared_radius=100), scale=30.0, delta=1e-6, order=9.0
        ),
        "codebook": Codebook(region=box, stages=(Echo(**arrays),)),
        "sums": Elsewhere(**{name: getattr(sums, name) for name in fields}),
        "levels": LevelResponse(region=box, groups=(LevelBeside(**beside),)),
        "lattice": LatticeCodebook(region=box, lattice=Spendthrift(**parts), response=response),
    }


def test_a_mechanism_that_does_not_answer_everything_cannot_be_built() -> None:
    class Silent(Mechanism):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Silent()  # type: ignore[abstract]


@pytest.mark.parametrize("name", list(broken()))
def test_broken_mechanisms_have_one(name: str) -> None:
    mechanism = broken()[name]
    corners = np.array(list(itertools.product(*zip(*mechanism.region.reach, strict=True))))
    said = mechanism.fault(corners)
    assert said is not None
    assert said.endswith(".")


def test_a_mechanism_without_responses_states_its_own_epsilon_or_none() -> None:
    """A default of nearly 0 would be the strongest promise, for a mechanism that keeps none."""

    class Forgetful(Mechanism):
        region = BoxRegion(low=np.zeros(1, dtype=np.int64), high=np.ones(1, dtype=np.int64), step=1.0)
        report_width = 1
        layout = Layout(low=(0,), high=(1,))

        def __call__(self, latents: Any) -> Any:
            return self.region.enforce(latents)

        def log_likelihood(self, reports: Any, latents: Any) -> Any:
            return np.zeros(len(reports))

        def fault(self, k: Any) -> str | None:
            return None

    with pytest.raises(TypeError, match="epsilon"):
        Forgetful()  # type: ignore[abstract]
