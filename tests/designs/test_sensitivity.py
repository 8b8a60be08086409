from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from taskveil.designs import sensitivity
from taskveil.errors import DataError, SensitivityError


def cloud(seed: int, count: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_t(2, size=(count, dim)) * rng.uniform(0.1, 10, size=dim)


def corners(dim: int) -> np.ndarray:
    return np.array(list(itertools.product([-1.0, 1.0], repeat=dim)))


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 30))
def test_point_diameters_equal_all_pairs(seed: int, count: int, dim: int) -> None:
    points = cloud(seed, count, dim)
    assert sensitivity.l1_diameter(points) == pytest.approx(pdist(points, "cityblock").max(), rel=1e-12)


@pytest.mark.parametrize(("count", "dim"), [(3000, 3), (2000, 12), (1500, 24)])
def test_l1_diameter_of_larger_clouds(count: int, dim: int) -> None:
    points = cloud(1, count, dim)
    assert sensitivity.l1_diameter(points) == pytest.approx(pdist(points, "cityblock").max(), rel=1e-12)


def test_l1_diameter_where_pruning_cannot_help() -> None:
    """All points equally far from the centre: nothing may be pruned away wrongly."""
    points = cloud(2, 600, 20)
    points /= np.abs(points).sum(axis=1, keepdims=True)
    assert sensitivity.l1_diameter(points) == pytest.approx(pdist(points, "cityblock").max(), rel=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5))
def test_images_of_boxes_equal_their_corners(seed: int, latents: int, attributes: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(latents, attributes)) * (rng.random((latents, attributes)) < 0.7)
    widths = rng.uniform(0, 3, size=attributes)
    image = (corners(attributes) * widths / 2) @ matrix.T
    assert sensitivity.box_l1_diameter(matrix, widths) == pytest.approx(pdist(image, "cityblock").max(), abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_images_of_balls_are_reached_and_never_passed(seed: int, latents: int, attributes: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, radius = rng.normal(size=(latents, attributes)), float(rng.uniform(0.5, 4))
    directions = rng.normal(size=(400, attributes))
    # The ℓ1 norm is reached where the direction is Eᵀs for the best sign vector s.
    directions = np.vstack([directions, corners(latents) @ matrix])
    members = radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    image = members @ matrix.T
    assert 2 * np.abs(image).sum(axis=1).max() == pytest.approx(sensitivity.ball_l1_diameter(matrix, radius), rel=1e-9)


def test_orthogonal_rows_decompose_into_blocks() -> None:
    """Identity on 784 attributes would need 2^783 sign vectors without blocks."""
    assert sensitivity.box_l1_diameter(np.eye(784), np.full(784, 0.5)) == pytest.approx(392.0)
    assert sensitivity.ball_l1_diameter(np.eye(100), 3.0) == pytest.approx(60.0)


def test_too_many_coupled_coordinates_are_refused() -> None:
    with pytest.raises(SensitivityError, match="latent_dim"):
        sensitivity.box_l1_diameter(np.ones((40, 40)) + np.eye(40), np.ones(40))


@pytest.mark.parametrize("points", [np.empty((0, 3)), np.empty((3, 0)), np.ones(3), [[np.nan, 1.0]], [[np.inf]]])
def test_bad_points_are_refused(points: object) -> None:
    with pytest.raises(DataError):
        sensitivity.l1_diameter(points)
