"""Codebook reports per second on one core. The bar: 2 million single-stage reports a second for K = 64.

Measured on the mechanism alone: bounded latents in, scores, favoured set and randomised response out. Processor time,
so that other work on the machine does not count.
"""

from __future__ import annotations

import time

import numpy as np

from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.designs.domain import box_region
from taskveil.designs.selection import one_thread


def codebook(size: int, favoured: int, dim: int) -> Codebook:
    rng = np.random.default_rng(0)
    region = box_region(np.full(dim, -4.0), np.full(dim, 4.0))
    points = np.rint(rng.normal(size=(size, dim)) / region.step).astype(np.int64)
    response = Response.calibrated(size=size, favoured=favoured, epsilon=4.0)
    stage = Stage(vectors=2 * points, offsets=-(points**2).sum(axis=1), shifts=points, response=response)
    return Codebook(region=region, stages=(stage,))


def main() -> None:
    latents = np.random.default_rng(1).normal(size=(500_000, 8))
    with one_thread():
        for size, favoured, dim in ((64, 1, 2), (64, 1, 8), (64, 4, 2), (64, 4, 8), (1024, 1, 8)):
            mechanism = codebook(size, favoured, dim)
            mechanism(latents[:10_000, :dim])
            rates = []
            for _ in range(3):
                start = time.process_time()
                mechanism(latents[:, :dim])
                rates.append(len(latents) / (time.process_time() - start) / 1e6)
            print(f"K = {size:4d}, m = {favoured}, {dim} latents: {max(rates):5.2f} million reports a second")


if __name__ == "__main__":
    main()
