"""Designs for vectors in a ball: as good as PrivUnit, unbiased, and taken where they cost less."""

from __future__ import annotations

import json

import numpy as np
import pytest

import taskveil as tv
from balls import ball_response
from taskveil.client.mechanisms import BallResponse, CentredBallResponse, Response
from taskveil.designs.means.ball import best_favoured, best_response, normal_quantiles
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


@pytest.mark.parametrize("kind", [BallResponse, CentredBallResponse])
@pytest.mark.parametrize(("dim", "rows"), [(6, 0), (40, 8)])
@pytest.mark.parametrize("length", [1.0, 0.4, 0.001])
def test_reports_of_vectors_of_any_length_are_unbiased(
    dim: int, rows: int, length: float, kind: type[BallResponse]
) -> None:
    """Reports of sparse, flat and random vectors, and what is expected of them. A matrix makes no difference."""
    mechanism = ball_response(dim, 32, 5, 3.0, rows=rows, kind=kind)
    lean = lean_of(mechanism.response, dim, rows, mechanism.centres)
    for vector in (np.eye(dim)[0], np.ones(dim), np.random.default_rng(5).standard_normal(dim)):
        unit = vector / np.linalg.norm(vector)
        reports = mechanism(np.tile(length * unit, (20_000, 1)))
        found = mechanism.codewords.directions(reports[:, :2], reports[:, 2])
        off = found / lean.mean - length * unit
        assert (np.abs(off.mean(axis=0)) < 5 * off.std(axis=0) / np.sqrt(len(off))).all()
        along, errors = (found @ unit) ** 2, (off**2).sum(axis=1)
        expected = lean.along if lean.centre is None else length * lean.along + (1 - length) * lean.centre
        assert abs(along.mean() - expected) < 5 * along.std() / np.sqrt(len(off))
        assert abs(errors.mean() - lean.variance(dim, length)) < 5 * errors.std() / np.sqrt(len(off))


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("dim", "epsilon", "lengths"), [(2, 1.0, [0.1]), (4, 4.0, [0.9, 0.1]), (30, 8.0, [0.3])])
def test_the_number_of_favoured_codewords_is_the_best_of_all(
    dim: int, epsilon: float, lengths: list[float], centred: bool
) -> None:
    _, lean = best_favoured(64, dim, 0, epsilon, lengths, centred)
    errors = []
    for favoured in range(1, 33):
        centres = favoured if centred else 0
        response = Response.calibrated(size=64 + centres, favoured=favoured, epsilon=epsilon)
        errors.append(lean_of(response, dim, 0, centres).variance(dim, lengths))
    assert lean.variance(dim, lengths) == min(errors)


SMALL = {(4, 1.0), (30, 4.0)}


@pytest.mark.parametrize(
    ("dim", "epsilon"),
    [
        pytest.param(dim, epsilon, marks=() if (dim, epsilon) in SMALL else pytest.mark.slow)
        for dim in (4, 30)
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)
    ],
)
def test_codewords_stand_for_the_centre_where_this_costs_less(dim: int, epsilon: float) -> None:
    """Never on the sphere. Of short vectors reports cost at most a hundredth more than the better form."""
    assert best_response(dim, epsilon)[2].centre is None
    for length in (0.1, 0.3, 0.5, 0.8):
        _, _, lean = best_response(dim, epsilon, length)
        forms = [best_favoured(4096, dim, 0, epsilon, length, centred)[1] for centred in (False, True)]
        errors = [form.variance(dim, length) for form in forms]
        assert lean.variance(dim, length) <= 1.01 * min(errors)
        if max(errors) > 1.01 * min(errors):
            assert (lean.centre is None) == (errors[0] < errors[1])


@pytest.mark.parametrize("radius", [1.0, 7.0])
def test_a_design_for_short_vectors_has_codewords_for_the_centre(radius: float) -> None:
    """And its expected loss is that of its reports, for a K that weighs attributes differently too."""
    rng = np.random.default_rng(4)
    unit = people(300, 4)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    K = np.diag([1.0, 1.2, 0.8, 1.0])
    for length, kind in ((1.0, BallResponse), (0.3, CentredBallResponse)):
        X = radius * length * unit
        veil = tv.design(X, tv.MeanTask(K), epsilon=4.0, domain=tv.Ball(radius))
        assert type(veil.mechanism) is kind
        several = radius * np.concatenate([unit, unit * rng.random((300, 1)), 0.0 * unit[:100]])
        several = np.tile(several, (30, 1))
        losses = (((veil.estimates(veil.privatize(several)) - several) @ K.T) ** 2).sum(axis=1)
        assert abs(losses.mean() - veil.loss(several).mean) < 5 * losses.std() / np.sqrt(len(losses))


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
    off = veil.estimates(veil.privatize(X)) - X
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
    errors = ((veil.estimates(reports) - X) @ K.T) ** 2
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


@pytest.mark.parametrize(("length", "schema"), [(1.0, 8), (0.2, 9)])
def test_a_release_comes_back_the_same(length: float, schema: int) -> None:
    """Readers of schema 8 know directions, and are asked to be updated for codewords of the centre."""
    X = people(300, 150)
    X *= length / np.linalg.norm(X, axis=1, keepdims=True)
    veil = tv.design(X, tv.MeanTask(np.eye(150)), epsilon=4.0, domain=tv.Ball(1.0))
    assert json.loads(veil.files()["client/manifest.json"])["schema"] == schema
    again = tv.Veil.from_files(veil.files())
    reports = veil.privatize(X)
    assert (again.estimates(reports) == veil.estimates(reports)).all()
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
