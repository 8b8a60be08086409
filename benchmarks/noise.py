"""Exact Laplace noise per second, ours and OpenDP's, in the same run. The bar: at least 50 times OpenDP's.

OpenDP is measured twice: its vector Laplace on integers (the faster) and on floats (what a latent is).
"""

from __future__ import annotations

import time

import numpy as np
import opendp.prelude as dp

from taskveil.client.mechanisms import Laplace
from taskveil.designs.domain import box_region

SCALE = 1000.0


def opendp_rate(kind: type, count: int = 100_000) -> float:
    atom = dp.atom_domain(T=int) if kind is int else dp.atom_domain(T=float, nan=False)
    measure = dp.m.make_laplace(dp.vector_domain(atom), dp.l1_distance(T=kind), scale=SCALE)
    zeros = [kind(0)] * count
    start = time.perf_counter()
    measure(zeros)
    return count / (time.perf_counter() - start)


def our_rate(count: int = 4_000_000) -> float:
    """The whole mechanism: bound, round, add noise."""
    mechanism = Laplace.calibrated(region=box_region(np.array([-1.0]), np.array([1.0])), epsilon=1.0)
    latents = np.zeros((count, 1))
    start = time.perf_counter()
    mechanism(latents)
    return count / (time.perf_counter() - start)


def main() -> None:
    dp.enable_features("contrib")
    our_rate(100_000)
    ours = max(our_rate() for _ in range(3))
    print(f"taskveil Laplace mechanism:       {ours / 1e6:8.2f} million samples a second")
    for kind in (int, float):
        theirs = max(opendp_rate(kind) for _ in range(3))
        print(
            f"OpenDP vector Laplace ({kind.__name__:5s}):    {theirs / 1e6:8.2f} million samples a second, "
            f"ratio {ours / theirs:6.1f}"
        )


if __name__ == "__main__":
    main()
