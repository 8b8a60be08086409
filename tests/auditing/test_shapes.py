"""Where parameters, latents and reports lie, on something sound and on something broken in just that way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import taskveil as tv
from auditing import exhibits, levels, sound
from auditing.targets import target
from taskveil.auditing.checks import claim_covers_parameters, latents_inside, reports_on_grid
from taskveil.auditing.pairs import hostile_records
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import BoxRegion


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


class Shifted(Laplace):
    def __call__(self, latents: np.ndarray) -> np.ndarray:
        return super().__call__(latents) + 1e-9


def with_mechanism(mechanism: object) -> tv.Veil:
    return replace(exhibits.laplace_veil(1.0), mechanism=mechanism)


def test_the_claim_must_cover_the_parameters() -> None:
    veil = exhibits.laplace_veil(1.0)
    assert claim_covers_parameters(target(veil)).outcome == "held"
    assert claim_covers_parameters(target(exhibits.lattice_veil(3.0))).outcome == "held"
    modest = with_mechanism(Modest(region=veil.mechanism.region, scale=veil.mechanism.scale))
    assert claim_covers_parameters(target(modest)).outcome == "broken"
    assert claim_covers_parameters(target(levels.level_veil(1.0))).outcome == "held"
    assert claim_covers_parameters(target(levels.level_veil(1.0, levels.Understated))).outcome == "broken"
    assert claim_covers_parameters(target(exhibits.laplace(1.0))).outcome == "not applicable"


def test_latents_outside_their_set_are_noticed() -> None:
    veil = exhibits.laplace_veil(1.0)
    region = veil.mechanism.region
    leaky = with_mechanism(
        Laplace(region=Leaky(step=region.step, low=region.low, high=region.high), scale=veil.mechanism.scale)
    )
    assert latents_inside(target(veil), [hostile()]).outcome == "held"
    assert latents_inside(target(leaky), [hostile()]).outcome == "broken"
    assert latents_inside(target(sound.codebook_for(1.0)), [hostile()]).outcome == "held"
    assert latents_inside(target(exhibits.laplace(1.0)), [hostile()]).outcome == "not applicable"


def test_reports_off_the_grid_are_noticed() -> None:
    veil = exhibits.laplace_veil(1.0)
    off = with_mechanism(Shifted(region=veil.mechanism.region, scale=veil.mechanism.scale))
    assert reports_on_grid(target(veil), [hostile()]).outcome == "held"
    assert reports_on_grid(target(off), [hostile()]).outcome == "broken"
    assert reports_on_grid(target(exhibits.lattice_veil(3.0), 2), [hostile(2)]).outcome == "held"
    assert reports_on_grid(target(exhibits.nan_passed_through), [hostile()]).outcome == "broken"
    assert reports_on_grid(target(exhibits.nan_refused), [hostile()]).outcome == "broken"
