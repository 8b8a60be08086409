"""Every structural check, on something sound and on something broken in just that way."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from auditing import museum
from taskveil.auditing import structure
from taskveil.auditing.pairs import hostile_records
from taskveil.auditing.processes import fork_digests, spawn_digests
from taskveil.auditing.reach import foreign_randomness
from taskveil.auditing.scores import Bins, bit_patterns
from taskveil.auditing.target import Target
from taskveil.client import entropy
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import BoxRegion
from taskveil.errors import AuditError


def target(what: object, dim: int = 1) -> Target:
    records = None if isinstance(what, tv.Veil) else np.random.default_rng(3).uniform(-1, 1, size=(50, dim))
    return Target.of(what, epsilon=None if isinstance(what, tv.Veil) else 1.0, delta=0.0, records=records)


def hostile(dim: int = 1) -> np.ndarray:
    return hostile_records(np.full(dim, -1.0), np.ones(dim), np.random.default_rng(0), 2000)


class Leaky(BoxRegion):
    """Lets NaN and everything huge through to where it should not be."""

    def enforce(self, latents: np.ndarray) -> np.ndarray:
        inside = super().enforce(latents)
        return np.where(np.abs(latents) == 1.0, 2 * inside, inside)


class Modest(Laplace):
    """Claims less than its scale implies."""

    @property
    def epsilon(self) -> float:
        return 0.9 * super().epsilon


def with_mechanism(mechanism: object) -> tv.Veil:
    return replace(museum.laplace_veil(1.0), mechanism=mechanism)


def test_the_claim_must_cover_the_parameters() -> None:
    sound = museum.laplace_veil(1.0)
    assert structure.claim_covers_parameters(target(sound)).passed
    assert structure.claim_covers_parameters(target(museum.lattice_veil(3.0))).passed
    modest = with_mechanism(Modest(region=sound.mechanism.region, scale=sound.mechanism.scale))
    assert not structure.claim_covers_parameters(target(modest)).passed


def test_latents_outside_their_set_are_noticed() -> None:
    sound = museum.laplace_veil(1.0)
    region = sound.mechanism.region
    leaky = with_mechanism(
        Laplace(region=Leaky(step=region.step, low=region.low, high=region.high), scale=sound.mechanism.scale)
    )
    assert structure.latents_inside(target(sound), hostile()).passed
    assert not structure.latents_inside(target(leaky), hostile()).passed
    assert structure.latents_inside(target(museum.codebook_for(1.0)), hostile()).passed


def test_reports_off_the_grid_are_noticed() -> None:
    class Shifted(Laplace):
        def __call__(self, latents: np.ndarray) -> np.ndarray:
            return super().__call__(latents) + 1e-9

    sound = museum.laplace_veil(1.0)
    off = with_mechanism(Shifted(region=sound.mechanism.region, scale=sound.mechanism.scale))
    assert structure.reports_on_grid(target(sound), hostile()).passed
    assert not structure.reports_on_grid(target(off), hostile()).passed
    assert structure.reports_on_grid(target(museum.lattice_veil(3.0), 2), hostile(2)).passed


@pytest.mark.parametrize(
    ("what", "held"),
    [(museum.laplace(museum.WIDE), True), (museum.float_laplace, False), (museum.latent_off_the_grid, False)],
)
def test_bit_patterns(what: object, held: bool) -> None:
    assert structure.bit_pattern_attack(target(what)).passed == held


def test_bit_patterns_name_exponent_and_lowest_bit() -> None:
    values = np.array([[1.0], [1.5], [3.0], [-3.0], [np.nan], [np.inf], [0.0]])
    codes = bit_patterns(values)[:, 0]
    assert codes[2] == codes[3]  # the sign is no bit pattern
    assert len(set(codes.tolist())) == 6


@pytest.mark.parametrize(
    ("what", "held"),
    [
        (museum.laplace(museum.WIDE), True),
        (museum.silent_without_entropy, False),
        (museum.global_generator, False),
    ],
)
def test_entropy_failures(what: object, held: bool) -> None:
    before = entropy.system_bytes
    assert structure.no_entropy_no_report(target(what)).passed == held
    assert entropy.system_bytes is before


@pytest.mark.parametrize(
    ("what", "held"),
    [
        (museum.laplace(museum.WIDE), True),
        (museum.codebook_for(8.0), True),
        (museum.one_draw_for_all_rows, False),
        (museum.fixed_seed, False),
    ],
)
def test_fresh_noise(what: object, held: bool) -> None:
    assert structure.fresh_noise(target(what)).passed == held


def test_processes() -> None:
    assert structure.no_shared_noise(target(museum.codebook_for(8.0)), forks=8, spawns=2).passed
    assert not structure.no_shared_noise(target(museum.ForkBlind()), forks=3, spawns=0).passed
    same = fork_digests(lambda: np.arange(3), 3)
    assert len(same) == 3
    assert len(set(same)) == 1
    fresh = spawn_digests(museum.laplace_veil(1.0), np.zeros((8, 1)), 2)
    assert len(set(fresh)) == 2
    assert spawn_digests(None, np.zeros((8, 1)), 2) == []


def uses_random(X: np.ndarray) -> np.ndarray:
    return X + random.random()


def imports_random(X: np.ndarray) -> np.ndarray:
    from random import gauss

    return X + gauss()


class Holds:
    def __init__(self) -> None:
        self.source = {"rng": [np.random.default_rng(0)]}

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X


def through_a_helper(X: np.ndarray) -> np.ndarray:
    return museum.fixed_seed(X)


def from_the_system(X: np.ndarray) -> np.ndarray:
    return X + random.SystemRandom().random()


@pytest.mark.parametrize(
    "what",
    [uses_random, imports_random, Holds(), through_a_helper, np.random.default_rng(0).normal, random.gauss],
)
def test_predictable_randomness_within_reach(what: object) -> None:
    assert foreign_randomness(what)


def test_mechanisms_reach_the_operating_system_only() -> None:
    veils = [museum.laplace_veil(1.0), museum.codebook_for(1.0), museum.lattice_veil(3.0)]
    assert foreign_randomness(*(part for veil in veils for part in (veil.mechanism, veil.encoder))) == []
    assert foreign_randomness(from_the_system) == []


def test_browser_code_never_asks_math_random() -> None:
    sources = [
        path
        for path in (Path(__file__).parents[2] / "js").glob("**/*.[jt]s")
        if "node_modules" not in path.parts and "test" not in path.parts
    ]
    assert [path.name for path in sources if "Math.random" in path.read_text(encoding="utf-8")] == []


def test_categories_keep_nan_apart() -> None:
    bins = Bins.of(np.array([1.0, 2.0, np.nan, 2.0]))
    codes = bins(np.array([1.0, 2.0, np.nan, 7.0]))
    assert len(set(codes.tolist())) == 4
    many = Bins.of(np.arange(5000.0))
    assert many(np.arange(5000.0)).max() < many.size


@pytest.mark.parametrize(
    ("what", "options", "says"),
    [
        (3, {}, "Veil or a callable"),
        (np.sign, {}, "epsilon it claims"),
        (np.sign, {"epsilon": 1.0, "records": np.eye(2), "delta": 2.0}, "delta"),
        (np.sign, {"epsilon": 1.0, "records": np.eye(2), "trials": 10}, "1000 trials"),
        (lambda X: X.astype(str), {"epsilon": 1.0, "records": np.eye(2)}, "two inputs"),
    ],
)
def test_what_cannot_be_audited_is_explained(what: object, options: dict, says: str) -> None:
    with pytest.raises(AuditError, match=says):
        tv.audit(what, **options)
