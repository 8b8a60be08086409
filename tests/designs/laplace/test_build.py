"""From a linear map to a working veil: the region contains the image of the domain, and hardly more."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.regions import MOST_SIGNED_LATENTS, BoxRegion, DiamondRegion, SignRegion
from taskveil.designs.domain import Domain, box_region, cloud_region, grid_step, image_region
from taskveil.designs.laplace.closed_form import build_linear, loss_bounds
from taskveil.designs.moments import LinearProblem
from taskveil.veil.decoders import AffineDecoder

RNG = np.random.default_rng(4)


def encoder_for(domain: Domain, weights: np.ndarray, offset: np.ndarray) -> LinearEncoder:
    box = domain.bounding_box
    return LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=offset)


@pytest.mark.parametrize("extent", [1e-200, 3e-7, 0.999, 1.0, 1.5, 7e9, 1e200])
def test_grid_steps_are_powers_of_two_that_divide_finely(extent: float) -> None:
    step = grid_step(extent)
    assert np.frexp(step)[0] == 0.5
    assert 2**20 <= extent / step < 2**21


@pytest.mark.parametrize(
    "domain",
    [
        tv.Box([-1.0, 0.0, 5.0], [1.0, 2.0, 9.0]),
        tv.Ball(2.5, [1.0, -4.0, 10.0]),
        tv.Points(RNG.normal(size=(60, 3))),
    ],
)
@pytest.mark.parametrize("latents", [1, 2, 3])
def test_the_region_contains_the_image_and_has_its_diameter(domain: Domain, latents: int) -> None:
    weights, offset = RNG.normal(size=(latents, 3)), RNG.normal(size=latents)
    encoder = encoder_for(domain, weights, offset)
    region = image_region(domain, encoder, weights, offset)
    members = domain.records if isinstance(domain, tv.Points) else domain.project(RNG.normal(size=(500, 3)) * 20)
    k = np.floor(encoder(members) / region.step + 0.5).astype(np.int64)
    assert region.contains(k).all()
    assert region.l1_diameter * region.step == pytest.approx(domain.l1_sensitivity(weights), rel=1e-4)
    assert isinstance(region, SignRegion if isinstance(domain, tv.Points) else DiamondRegion)


def test_too_many_coupled_latents_are_bounded_one_by_one() -> None:
    domain, weights = tv.Box(np.zeros(40), np.ones(40)), np.ones((40, 40)) + np.eye(40)
    region = image_region(domain, encoder_for(domain, weights, np.zeros(40)), weights, np.zeros(40))
    assert isinstance(region, BoxRegion)
    assert region.high * region.step == pytest.approx(np.full(40, 41.0), rel=1e-4)
    assert region.low * region.step == pytest.approx(np.zeros(40), abs=1e-3)


def test_clouds_of_many_latents_take_the_smaller_of_box_and_diamond() -> None:
    dim = MOST_SIGNED_LATENTS + 1
    cube, cross = RNG.uniform(-1, 1, size=(4000, dim)), np.vstack([np.eye(dim), -np.eye(dim)])
    cube[:2] = [np.ones(dim), -np.ones(dim)]
    for cloud, kind in ((cube, BoxRegion), (cross, DiamondRegion)):
        region = cloud_region(cloud)
        assert isinstance(region, kind)
        assert region.contains(np.floor(cloud / region.step + 0.5).astype(np.int64)).all()


def test_a_box_of_no_extent_is_a_point() -> None:
    region = box_region(np.array([3.0]), np.array([3.0]))
    assert region.low == region.high
    assert region.low * region.step == pytest.approx(3.0)


def test_what_is_given_is_used(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    problem = LinearProblem(X=volunteers, task=task, domain=tv.Points(volunteers))
    weights, offset = np.eye(6)[:2], np.zeros(2)
    region, decoder = box_region(-np.ones(2), np.ones(2)), AffineDecoder(weights=np.ones((6, 2)), offset=np.zeros(6))
    veil = build_linear(problem, 2.0, weights=weights, offset=offset, method="mine", region=region, decoder=decoder)
    assert veil.mechanism.region is region
    assert veil.decoder is decoder
    assert (veil.method, veil.bounds, veil.task) == ("mine", loss_bounds(problem, 2.0), task)
    best = build_linear(problem, 2.0, weights=weights, offset=offset, method="mine", region=region)
    assert best.loss(volunteers).mean < veil.loss(volunteers).mean
