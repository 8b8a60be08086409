from __future__ import annotations

import math

import numpy as np
import pytest

import taskveil as tv
from taskveil.errors import BudgetError
from taskveil.peers.limits import captured, gaussian_bounds, gaussian_limit, information_limit
from taskveil.veil.losses import expected_losses


def loss_on_gaussian(veil: tv.Veil) -> float:
    """The exact loss of a veil for one attribute, integrated over a standard Gaussian."""
    line = np.linspace(-8.0, 8.0, 8001)
    losses, exact = expected_losses(veil.device, veil.decoder, veil.task, line[:, None], None)
    assert exact
    weights = np.exp(-(line**2) / 2)
    return float(losses @ weights / weights.sum())


@pytest.mark.parametrize(("epsilon", "share"), [(0.5, 0.98), (2.0, 0.9), (5.0, 0.95)])
def test_one_direction_is_no_longer_half_of_a_loose_limit(epsilon: float, share: float) -> None:
    """The codebook for one Gaussian attribute is all but optimal: the limit must not say that much is missing."""
    records = np.random.default_rng(0).standard_normal((2000, 1))
    loss = loss_on_gaussian(tv.design(records, tv.LinearTask(np.eye(1)), epsilon=epsilon, method="codebook"))
    assert share < captured(1.0, loss, gaussian_limit([1.0], epsilon)) <= 1.0


@pytest.mark.parametrize("method", ["codebook", "task_aware", "task_agnostic"])
def test_no_veil_goes_below(method: str) -> None:
    """Losses of the library's own veils on fresh Gaussian records, two and three directions."""
    rng = np.random.default_rng(4)
    for scales, epsilon in ((np.array([1.0, 0.7]), 1.0), (np.array([2.0, 1.0, 1.0]), 3.0)):
        volunteers, records = (rng.standard_normal((count, len(scales))) for count in (400, 20_000))
        veil = tv.design(volunteers, tv.LinearTask(np.diag(scales)), epsilon=epsilon, method=method)
        assert veil.loss(records).high >= gaussian_limit(scales**2, epsilon)


def test_which_bound_is_best_where() -> None:
    """The half-space for small budgets, layers of equal directions around 1, prices above."""
    best = set()
    for variances, epsilon in (([1.0], 0.05), ([1.0, 0.3], 1.0), ([1.0, 0.5, 0.2], 8.0), ([1.0, 0.2, 0.01], 700.0)):
        bounds = gaussian_bounds(variances, epsilon)
        best.add(max(bounds, key=lambda name: bounds[name]))
    assert best == {"half-space", "layers", "prices"}


def test_it_is_never_below_the_old_limits() -> None:
    for epsilon in (0.1, 4.0, 60.0):
        nats = information_limit(epsilon)
        assert gaussian_limit([1.0], epsilon) >= math.exp(-2 * nats) * (1 - 1e-12)
        assert gaussian_limit([1.0], epsilon) >= 1 / math.cosh(epsilon / 2) ** 2 * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.05, 1.0, 30.0, 200.0, 700.0])
def test_numbers_of_every_size(epsilon: float) -> None:
    """No overflow (warnings are errors), no cancellation, zeros and negative rounding errors ignored, any scale."""
    variances = [2.0, 1.0, 0.0, -1e-18]
    limit = gaussian_limit(variances, epsilon)
    assert 0 < limit < 3.0
    assert gaussian_limit([1.0, 2.0], epsilon) == limit
    assert gaussian_limit([2e-12, 1e-12], epsilon) == pytest.approx(1e-12 * limit, rel=1e-6)
    if epsilon < 0.01:
        assert 3.0 - limit == pytest.approx(2 * epsilon**2 / (2 * math.pi), rel=0.01, abs=1e-15)
    assert gaussian_limit(np.zeros(3), epsilon) == 0.0


def test_many_variances_and_wrong_budgets() -> None:
    variances = np.geomspace(1.0, 1e-9, 60)
    limits = [gaussian_limit(variances, epsilon) for epsilon in (0.1, 5.0, 50.0)]
    assert variances.sum() > limits[0] > limits[1] > limits[2] > 0
    with pytest.raises(BudgetError):
        gaussian_limit([1.0], 0.0)


def test_shares_of_the_limit() -> None:
    assert captured(1.0, 0.6, 0.2) == pytest.approx(0.5)
