"""How near the library comes to what no ε-LDP report can beat, for one Gaussian direction; about a minute.

    python benchmarks/statistics_limits.py

Shares of the variance that a report takes off. Four are bounds: information (rate-distortion), half-space (the best
single report), any data, and the best of all bounds for Gaussian data. `reached` and `ceiling` enclose the optimum of
all reports, found by linear programming. The codebook is designed on volunteers and judged exactly, on the Gaussian
itself.
"""

from __future__ import annotations

import numpy as np

import taskveil as tv
from staircases import density, staircase_ceiling, staircase_optimum
from taskveil.peers.limits import gaussian_bounds
from taskveil.peers.limits.half_space import half_space_reduction
from taskveil.veil.losses import expected_losses

EPSILONS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
VOLUNTEERS = 10_000
HEADINGS = (
    "ε",
    "information",
    "half-space",
    "any data",
    "best bound",
    "ceiling",
    "reached",
    "codebook",
    "of reached",
    "of ceiling",
)


def codebook_gain(epsilon: float, *, volunteers: int = VOLUNTEERS, seed: int = 0) -> float:
    """The share of a Gaussian's variance that the library's codebook takes off, integrated over the Gaussian."""
    records = np.random.default_rng(seed).standard_normal((volunteers, 1))
    veil = tv.design(records, tv.LinearTask(np.eye(1)), epsilon=epsilon, method="codebook", seed=seed)
    line = np.linspace(-8.0, 8.0, 16_001)
    losses, exact = expected_losses(veil.device, veil.decoder, veil.task, line[:, None], None)
    if not exact:
        raise RuntimeError("the loss of this codebook is only sampled: compare one that has one stage.")
    weights = density(line)
    return 1.0 - float(losses @ weights / weights.sum())


def limits_table(epsilons: tuple[float, ...] = EPSILONS) -> list[str]:
    """The lines of the table, the first with its headings."""
    lines = ["".join(f"{heading:>12s}" for heading in HEADINGS)]
    for epsilon in epsilons:
        bounds = gaussian_bounds([1.0], epsilon)
        reached, ceiling = staircase_optimum(epsilon), staircase_ceiling(epsilon)
        codebook = codebook_gain(epsilon)
        gains = (
            1 - bounds["information"],
            half_space_reduction(epsilon),
            1 - bounds["any data"],
            1 - max(bounds.values()),
            ceiling,
            reached,
            codebook,
        )
        lines.append(
            f"{epsilon:12g}"
            + "".join(f"{gain:12.4f}" for gain in gains)
            + f"{codebook / reached:12.1%}"
            + f"{codebook / ceiling:12.1%}"
        )
    return lines


if __name__ == "__main__":
    print("one Gaussian direction: share of its variance that a report takes off")
    for line in limits_table():
        print(line)
