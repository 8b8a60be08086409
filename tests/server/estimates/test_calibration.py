"""Calibration has closed forms where what reports see is all there is to know."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.server.estimates.calibration import Calibrated, calibrate, drift_test
from taskveil.server.estimates.scores import Evidence


def evidence(mean: np.ndarray, error: float, count: int = 1000) -> Evidence:
    return Evidence(count=count, mean=mean, covariance=error**2 * np.eye(len(mean)))


def fitted(z: np.ndarray, shift: float, error: float, rounds: int = 1) -> Calibrated:
    """Reports see the records z (V, q) themselves and say that their means are `shift` higher, in every round."""
    said = [evidence(z.mean(axis=0) + shift, error) for _ in range(rounds)]
    return calibrate(said, [z] * rounds, z)


@pytest.fixture
def z() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, 2))


def test_what_reports_see_exactly_is_what_they_say(z: np.ndarray) -> None:
    """u = z and nearly no noise: the estimate is ŝ but for 1/V of the shift, which the prior takes back; and which
    volunteers came does not matter any more."""
    means = fitted(z, 0.3, 1e-5).means(z)
    np.testing.assert_allclose(means.mean, z.mean(axis=0) + 0.3, atol=2 * 0.3 / len(z))
    assert (np.sqrt((means.from_volunteers**2).sum(axis=0)) < 0.01 * z.std(axis=0) / 20).all()


def test_what_reports_do_not_see_is_what_the_volunteers_say(z: np.ndarray) -> None:
    blind = calibrate([evidence(np.zeros(1), 1.0)], [np.zeros((400, 1))], z)
    means = blind.means(z)
    np.testing.assert_allclose(means.mean, z.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(means.variance, z.var(axis=0, ddof=1) / 400, rtol=0.01)


def test_reports_move_what_goes_along_with_what_they_see(z: np.ndarray) -> None:
    """Only the first attribute is seen; a target 2 z₀ + noise follows it by its slope, an unrelated one stays."""
    target = np.column_stack([2 * z[:, 0] + 0.1 * np.sin(np.arange(400)), z[:, 1]])
    seen = z[:, :1]
    calibrated = calibrate([evidence(seen.mean(axis=0) + 0.2, 1e-4)], [seen], np.column_stack([z, target]))
    moved = calibrated.means(target).mean - target.mean(axis=0)
    assert moved[0] == pytest.approx(0.4, rel=0.05)
    assert abs(moved[1]) < 0.05


def test_rounds_of_one_release_are_as_one_with_all_reports(z: np.ndarray) -> None:
    twice, once = fitted(z, 0.2, 0.05, rounds=2), fitted(z, 0.2, 0.05 / np.sqrt(2))
    for way in ("mean", "from_reports"):
        np.testing.assert_allclose(
            getattr(twice.means(z), way), getattr(once.means(z), way), rtol=0.02, atol=1e-4
        )  # the volunteers' own error is taken for independent between rounds only in how they are weighted


def test_the_weights_are_a_tilt_and_fit_other_volunteers_too(z: np.ndarray) -> None:
    calibrated = fitted(z, 0.3, 0.01)
    weights = calibrated.weights_of(z)
    assert weights.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(weights / len(z), calibrated.weights, rtol=1e-9)
    log = np.log(weights)
    design = np.column_stack([z, np.ones(len(z))])
    np.testing.assert_allclose(design @ np.linalg.lstsq(design, log, rcond=None)[0], log, atol=1e-9)
    assert calibrated.visible == pytest.approx(2.0, abs=0.05)


def test_what_goes_along_by_chance_alone_is_hardly_ever_fitted(z: np.ndarray) -> None:
    """Ten columns that have nothing to do with the records, and come out one standard error off each."""
    rng = np.random.default_rng(1)
    fitted_directions = []
    for _ in range(40):
        seen = np.column_stack([z[:, :1], rng.normal(size=(400, 10))])
        said = evidence(seen.mean(axis=0) + np.append(0.0, np.full(10, 0.05)), 0.01)
        calibrated = calibrate([said], [seen], z)
        fitted_directions.append(calibrated.u.shape[1])
        if fitted_directions[-1] == 1:
            assert np.abs(calibrated.means(z).mean - z.mean(axis=0)).max() < 0.03
    assert np.mean(np.array(fitted_directions) == 1) >= 0.85


def test_a_tilt_has_as_many_directions_as_devices_looked_at(z: np.ndarray) -> None:
    """Two functions of one number: the one that goes along with the records best is fitted."""
    seen = np.column_stack([z[:, 0], z[:, 0] > 1])
    both, one = (calibrate([evidence(seen.mean(axis=0), 0.01)], [seen], z, most=most) for most in (2, 1))
    assert both.u.shape[1] >= one.u.shape[1] == 1
    assert np.abs(np.corrcoef(one.u[:, 0], z[:, 0])[0, 1]) > 0.99


def test_only_drift_makes_the_unseen_count(z: np.ndarray) -> None:
    alike, moved = (calibrate([evidence(z[:, :1].mean(axis=0) + shift, 0.03)], [z[:, :1]], z) for shift in (0.0, 0.5))
    assert alike.spread == 0.0
    assert (alike.means(z).unseen == 0).all()
    unseen = moved.means(z).unseen
    assert moved.spread == pytest.approx(0.25, rel=0.3)
    assert unseen[1] > 10 * unseen[0]  # the first attribute is seen


def test_columns_that_never_vary_or_say_the_same_do_no_harm(z: np.ndarray) -> None:
    wide = np.column_stack([z, np.full(400, 7.0), z @ [1.0, 2.0], z[:, 0] * 1e6])
    plain, more = fitted(z, 0.2, 0.05), calibrate([evidence(z.mean(axis=0) + 0.2, 0.05)], [z], wide)
    assert more.z.shape[1] == 2
    found = more.means(wide)
    np.testing.assert_allclose(found.mean[:2], plain.means(z).mean, atol=0.1 * 0.05)  # a tenth of the error
    assert found.mean[2] == pytest.approx(7.0)
    assert found.variance[2] < 1e-20


def test_the_drift_test_is_hotellings() -> None:
    """One direction: Student's t with V − 1 degrees of freedom where reports are very many, normal where volunteers
    are."""
    from scipy.stats import norm, t

    few = 1e6 * np.random.default_rng(0).normal(size=(30, 1))
    error = float(few.std() / np.sqrt(30))
    found = drift_test(few.mean(axis=0) + 2 * error, few)
    assert found == pytest.approx(2 * t.sf(2.0, 29), rel=1e-6)
    many = 1e-6 * np.random.default_rng(0).normal(size=(3000, 1))
    assert drift_test(many.mean(axis=0) + 2.0, many) == pytest.approx(2 * norm.sf(2.0), rel=1e-6)
