"""Designs for vectors in a ball: as good as PrivUnit, unbiased, and taken where they cost less."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from balls import ball_response
from taskveil.client.mechanisms import BallResponse
from taskveil.designs.means.ball import best_response, normal_quantiles
from taskveil.peers.literature import PrivUnit
from taskveil.veil.channels import channel_of
from taskveil.veil.channels.ball import favoured_moments, lean_of


def people(count: int, dim: int, seed: int = 0) -> np.ndarray:
    """Vectors of all lengths up to 1 that lean towards the first axis."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, dim))
    X[:, 0] += np.sqrt(dim) / 2
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.random((count, 1)) ** 0.3


def test_the_table_has_the_moments_of_a_normal_distribution() -> None:
    values = normal_quantiles(2**12) / 2**10
    for power, moment, off in ((2, 1.0, 1e-4), (4, 3.0, 1e-3), (6, 15.0, 5e-3)):
        assert abs((values**power).mean() / moment - 1) < off


@pytest.mark.parametrize(("size", "favoured", "dim"), [(2, 1, 4), (64, 20, 4), (512, 5, 30)])
def test_moments_of_the_best_directions_are_those_of_simulated_ones(size: int, favoured: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((4000, size // 2, dim))
    cosines = np.abs(vectors[:, :, 0]) / np.linalg.norm(vectors, axis=2)
    best = np.sort(cosines, axis=1)[:, -favoured:]
    for found, values in zip(favoured_moments(size, favoured, dim), (best, best**2), strict=True):
        sums = values.sum(axis=1)
        assert abs(found - sums.mean()) < 5 * sums.std() / np.sqrt(len(sums))


def test_moments_of_very_many_directions_are_those_of_a_part_of_the_circle() -> None:
    """Of many directions in the plane, the best part v has angles up to πv/2 to one of both sides."""
    count, favoured = 2**19, 151_782
    angle = np.pi / 2 * favoured / count
    cosines, squares = favoured_moments(2 * count, favoured, 2)
    assert abs(cosines / count / (2 / np.pi * np.sin(angle)) - 1) < 1e-5
    assert abs(squares / count / ((angle + np.sin(angle) * np.cos(angle)) / np.pi) - 1) < 1e-5


def test_a_matrix_leaves_reports_unbiased() -> None:
    """Reports of sparse, flat and random vectors, and what is expected of them."""
    dim, mechanism = 40, ball_response(40, 32, 5, 3.0, rows=8)
    lean = lean_of(mechanism.response, dim, 8)
    for vector in (np.eye(dim)[0], np.ones(dim), np.random.default_rng(5).standard_normal(dim)):
        unit = vector / np.linalg.norm(vector)
        reports = mechanism(np.tile(unit, (20_000, 1)))
        found = mechanism.codewords.directions(reports[:, :2], reports[:, 2])
        off = found / lean.mean - unit
        assert (np.abs(off.mean(axis=0)) < 5 * off.std(axis=0) / np.sqrt(len(off))).all()
        along, errors = (found @ unit) ** 2, (off**2).sum(axis=1)
        assert abs(along.mean() - lean.along) < 5 * along.std() / np.sqrt(len(off))
        assert abs(errors.mean() - lean.variance(dim)) < 5 * errors.std() / np.sqrt(len(off))


@pytest.mark.parametrize("dim", [2, 3, 4, 30, 100, 1000, 10_000])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_errors_are_within_a_few_hundredths_of_privunits(dim: int, epsilon: float) -> None:
    """And never below: PrivUnit is the limit of very many codewords."""
    _, _, lean = best_response(dim, epsilon)
    least = PrivUnit.of(dim, epsilon).error
    assert least < lean.variance(dim) <= (1.02 if dim <= 1000 else 1.05) * least


@pytest.mark.parametrize(("dim", "epsilon"), [(3, 2.0), (12, 4.0), (150, 4.0)])
def test_reports_are_unbiased_and_cost_what_is_expected(dim: int, epsilon: float) -> None:
    veil = tv.design(people(300, dim), tv.MeanTask(np.eye(dim)), epsilon=epsilon, domain=tv.Ball(1.0))
    assert isinstance(veil.mechanism, BallResponse)
    assert veil.size.report_bytes <= 16
    X = people(4000, dim, 1)
    off = veil.decode(veil.privatize(X)) - X
    errors = (off**2).sum(axis=1)
    expected = veil.loss(X)
    assert expected.exact
    assert abs(errors.mean() - expected.mean) < 5 * errors.std() / np.sqrt(len(X))
    assert (np.abs(off.mean(axis=0)) < 5 * off.std(axis=0) / np.sqrt(len(X))).all()


def test_a_ball_may_lie_anywhere_and_attributes_without_weight_are_not_asked_for() -> None:
    X = 1000.0 + 50.0 * people(300, 6)
    K = np.diag([1.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    veil = tv.design(X, tv.MeanTask(K), epsilon=2.0, domain=tv.Ball(50.0, 1000.0))
    assert isinstance(veil.mechanism, BallResponse)
    assert veil.mechanism.region.dim == 4
    reports = veil.privatize(X)
    errors = ((veil.decode(reports) - X) @ K.T) ** 2
    found = errors.sum(axis=1)
    assert abs(found.mean() - veil.loss(X).mean) < 5 * found.std() / np.sqrt(len(X))
    assert len(tv.estimate(veil, np.tile(reports, (2, 1))).attributes) == 4


def test_levels_are_kept_where_they_cost_less() -> None:
    X = people(300, 4)
    one = tv.design(X, tv.MeanTask(np.diag([1.0, 1e-3, 1e-3, 1e-3])), epsilon=2.0, domain=tv.Ball(1.0))
    alike = tv.design(X, tv.MeanTask(np.eye(4)), epsilon=2.0, domain=tv.Ball(1.0))
    boxed = tv.design(X, tv.MeanTask(np.eye(4)), epsilon=2.0, domain=tv.Box(-1.0, 1.0))
    assert not isinstance(one.mechanism, BallResponse)
    assert isinstance(alike.mechanism, BallResponse)
    assert alike.loss(X).mean < boxed.loss(X).mean


def test_a_release_comes_back_the_same(tmp_path: object) -> None:
    X = people(300, 150)
    veil = tv.design(X, tv.MeanTask(np.eye(150)), epsilon=1.0, domain=tv.Ball(1.0))
    again = tv.Veil.from_files(veil.files())
    reports = veil.privatize(X)
    assert (again.decode(reports) == veil.decode(reports)).all()
    assert again.release_id == veil.release_id
    assert channel_of(again.mechanism, again.decoder).scores is not None


@pytest.mark.parametrize("dim", [4, 150])
def test_estimates_are_means_with_intervals(dim: int) -> None:
    veil = tv.design(people(300, dim), tv.MeanTask(np.eye(dim)), epsilon=4.0, domain=tv.Ball(1.0))
    X = people(4000, dim, 2)
    found = tv.estimate(veil, veil.privatize(X))
    held = [row.low <= mean <= row.high for row, mean in zip(found.attributes, X.mean(axis=0), strict=True)]
    assert np.mean(held) > (0.7 if dim == 4 else 0.88)
    wide = tv.estimate(veil, veil.privatize(X), anytime=True)
    assert all(row.low <= mean <= row.high for row, mean in zip(wide.attributes, X.mean(axis=0), strict=True))
