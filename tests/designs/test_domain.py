from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import taskveil as tv
from hostile import hostile_records
from taskveil.designs.domain import Domain, fit_domain
from taskveil.errors import DataError, DomainError

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)

DOMAINS: list[Domain] = [
    tv.Box([-1.0, 0.0, 5.0], [1.0, 0.0, 9.0]),
    tv.Ball(2.5, [1.0, -4.0, 1e6]),
    tv.Ball(1e-9, [0.0, 0.0, 0.0]),
    tv.Points(np.random.default_rng(0).normal(size=(50, 3))),
]


def inside(domain: Domain, X: np.ndarray) -> np.ndarray:
    if isinstance(domain, tv.Ball):
        slack = 4 * np.finfo(float).eps * np.abs(domain.center).max()
        return np.linalg.norm(X - domain.center, axis=1) <= domain.radius + slack
    box = domain.bounding_box
    return ((box.low <= X) & (box.high >= X)).all(axis=1)


@pytest.mark.parametrize("domain", DOMAINS)
@given(X=arrays(np.float64, (4, 3), elements=ANY_FLOAT))
def test_any_vector_is_brought_inside(domain: Domain, X: np.ndarray) -> None:
    assert inside(domain, domain.project(X)).all()


@pytest.mark.parametrize("domain", DOMAINS)
def test_hostile_records_are_brought_inside(domain: Domain) -> None:
    assert inside(domain, domain.project(hostile_records(3))).all()


def test_members_stay_where_they_are() -> None:
    box, ball = tv.Box([0, 0], [1, 2]), tv.Ball(2.0, [1, 1])
    members = np.array([[0.25, 1.75], [1.0, 0.0]])
    assert np.array_equal(box.project(members), members)
    assert np.array_equal(ball.project(members), members)


@pytest.mark.parametrize("domain", DOMAINS)
@given(seed=st.integers(0, 10**6))
def test_no_pair_of_members_is_farther_than_the_sensitivity(domain: Domain, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(2, 3))
    members = domain.project(rng.normal(size=(60, 3)) * 10 ** rng.uniform(-2, 3))
    if isinstance(domain, tv.Points):
        members = rng.dirichlet(np.ones(50), size=60) @ domain.records  # members of the hull
    image = members @ matrix.T
    gaps = image[:, None, :] - image[None, :, :]
    slack = 1e-9 * (1 + np.abs(members).max())
    assert np.abs(gaps).sum(axis=2).max() <= domain.l1_sensitivity(matrix) + slack
    assert (image.max(axis=0) <= domain.support(matrix) + slack).all()


def test_radii_enclose_the_whitened_domain() -> None:
    """Every member lies within r_max, and every whitened vector of length r_min belongs to the domain."""
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(3, 3))
    inverse, mean = np.linalg.inv(factor), np.array([0.2, -0.1, 7.2])
    directions = rng.normal(size=(500, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for domain in (tv.Box([-1.0, -2.0, 5.0], [1.0, 3.0, 9.0]), tv.Ball(3.0, [0.0, 0.0, 7.0])):
        r_min, r_max = domain.radii(mean, factor, inverse)
        members = domain.project(rng.normal(size=(500, 3)) * 5 + mean)
        assert np.linalg.norm((members - mean) @ inverse.T, axis=1).max() <= r_max
        assert r_min > 0
        assert inside(domain, mean + 0.999 * r_min * directions @ factor.T).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tv.Box([0.0, 2.0], [1.0, 1.0]),
        lambda: tv.Box(0.0, np.inf),
        lambda: tv.Box(np.nan, 1.0),
        lambda: tv.Ball(0.0),
        lambda: tv.Ball(np.nan),
        lambda: tv.Ball(1.0, [0.0, np.inf]),
        lambda: tv.Ball(1.0, [0.0, 0.0], dim=3),
    ],
)
def test_impossible_domains_are_refused(make: object) -> None:
    with pytest.raises(DomainError):
        make()  # type: ignore[operator]


def test_points_refuse_what_is_no_sample() -> None:
    with pytest.raises(DataError):
        tv.Points([[1.0, np.nan], [0.0, 1.0]])


def test_domains_are_fitted_to_the_data() -> None:
    X = np.zeros((2, 4))
    assert fit_domain(tv.Box(0, 1), X).dim == 4
    assert fit_domain(tv.Ball(2), X).dim == 4
    assert isinstance(fit_domain(None, X), tv.Points)
    with pytest.raises(DomainError, match="2 attributes"):
        fit_domain(tv.Box([0, 0], [1, 1]), X)
    with pytest.raises(DomainError, match="Box, Ball or Points"):
        fit_domain("box", X)  # type: ignore[arg-type]


def test_domains_own_numbers_that_cannot_be_written_to() -> None:
    """A bound that changes after the noise was calibrated would void the guarantee."""
    low, center, records = np.zeros(2), np.zeros(2), np.array([[0.0, 0.0], [1.0, 1.0]])
    domains = tv.Box(low, 1.0), tv.Ball(1.0, center), tv.Points(records)
    for array in (low, center, records):
        array[:] = -9.0
    box, ball, points = domains
    assert box.low.tolist() == ball.center.tolist() == [0.0, 0.0]
    assert points.bounding_box.high.tolist() == [1.0, 1.0]
    for array in (box.low, box.high, ball.center, points.records, ball.bounding_box.low):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 5.0


def test_members_of_a_ball_stay_bit_for_bit() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    assert np.array_equal(tv.Ball(9.0, [0.1, 0.2, 0.3]).project(X), X)
