"""The least loss that any ε-LDP report could have, were the outputs Gaussian: the best of all bounds that hold."""

from __future__ import annotations

from numpy.typing import ArrayLike

from taskveil.designs.moments import gaussian_distortion, positive_variances
from taskveil.peers.limits.any_data import any_data_limit
from taskveil.peers.limits.half_space import half_space_reduction
from taskveil.peers.limits.information import information_limit
from taskveil.peers.limits.prices import layered_reduction, price_limit


def gaussian_bounds(variances: ArrayLike, epsilon: float) -> dict[str, float]:
    """Every lower bound on the loss that holds for Gaussian outputs of these variances, by its name.

    Args:
        variances: eigenvalues of the outputs' covariance, in any order; zeros are allowed.
        epsilon: the budget of the report.

    Returns:
        `any data`, `information`, `half-space`, `layers` and `prices`: losses that no report can go below.
    """
    ordered = positive_variances(variances)
    if len(ordered) == 0:
        return dict.fromkeys(("any data", "information", "half-space", "layers", "prices"), 0.0)
    return {
        "any data": any_data_limit(ordered, epsilon),
        "information": gaussian_distortion(ordered, information_limit(epsilon)),
        "half-space": max(0.0, float(ordered.sum() - ordered[0] * half_space_reduction(epsilon))),
        "layers": max(0.0, float(ordered.sum() - layered_reduction(ordered, epsilon))),
        "prices": price_limit(ordered, epsilon),
    }


def gaussian_limit(variances: ArrayLike, epsilon: float) -> float:
    """The best lower bound on the loss of ε-LDP reports, for Gaussian task outputs with these variances.

    It is the largest of `gaussian_bounds`. Whether it can be reached is another question: `benchmarks/staircases.py`.
    """
    return max(gaussian_bounds(variances, epsilon).values())


def captured(constant: float, loss: float, limit: float) -> float:
    """A design's gain over a constant guess as a share of the limit's gain: 1 where no report can do better.

    The limit may be out of reach, so even the best design may stay below 1.
    """
    return (constant - loss) / (constant - limit)
