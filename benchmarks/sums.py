"""Linear tasks between lists and lattices: held-out losses with and without sums of codebooks, and reports per second.

Weights 1/spread, 70% of each table for design, the rest to judge; losses are exact expectations, in shares of what
answering with the mean costs. "before" chooses among lists and lattices alone. A loss that rises by more than 1% with
the budget is marked with an arrow.

    python benchmarks/sums.py [TABLE …]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.designs.codebooks import linear
from taskveil.designs.selection import one_thread

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)


def mixture(attributes: int) -> Floats:
    """2,000 correlated records around four centres."""
    rng = np.random.default_rng(attributes)
    factor = rng.normal(size=(attributes, attributes)) * np.arange(1, attributes + 1) ** -0.7
    centres = 1.5 * rng.normal(size=(4, attributes))
    return np.asarray((rng.normal(size=(2000, attributes)) + centres[rng.integers(4, size=2000)]) @ factor.T)


TABLES: dict[str, Callable[[], Floats]] = {
    "diabetes": lambda: load_diabetes().data,
    "wine": lambda: load_wine().data,
    "breast cancer": lambda: load_breast_cancer().data,
    "digits": lambda: load_digits().data,
    "mixture of 18": lambda: mixture(18),
    "mixture of 61": lambda: mixture(61),
}


def curve(X: Floats, *, sums: bool) -> tuple[list[float], float]:
    """Held-out loss for every budget, and the processor time of all designs."""
    X = X[np.random.default_rng(0).permutation(len(X))][:, X.std(axis=0) > 0]
    cut = int(0.7 * len(X))
    task = tv.LinearTask(np.diag(1.0 / np.maximum(X[:cut].std(axis=0), 1e-9)))
    constant = float(task.constant_losses(X[:cut], None, X[cut:], None).mean())
    start, losses = time.process_time(), []
    with patch.object(linear, "FINE", linear.FINE if sums else 0.0):  # no plan is coarser than 0 nats a direction
        for epsilon in EPSILONS:
            veil = tv.design(X[:cut], task, epsilon=epsilon, method="codebook")
            losses.append(veil.loss(X[cut:]).mean / constant)
    return losses, time.process_time() - start


def speed() -> None:
    """Of the mechanism alone."""
    X = mixture(18)
    veil = tv.design(X, tv.LinearTask(np.diag(1.0 / X.std(axis=0))), epsilon=16.0, method="codebook")
    latents = np.tile(veil.encoder(X), (10, 1))
    start = time.process_time()
    veil.mechanism(latents)
    rate = len(latents) / (time.process_time() - start)
    print(f"{type(veil.mechanism).__name__} at ε = 16, 18 attributes: {rate:,.0f} reports a second")


def main() -> None:
    warnings.simplefilter("ignore")  # few records carry the loss of large budgets
    print(f"{'ε':24}" + "".join(f"{epsilon:8g}" for epsilon in EPSILONS))
    with one_thread():
        for name in sys.argv[1:] or TABLES:
            for sums in (False, True):
                losses, seconds = curve(TABLES[name](), sums=sums)
                rises = [False, *(after > 1.01 * before for before, after in pairwise(losses))]
                shown = "".join(
                    f"{'↑' if up else ''}{loss:.4f}".rjust(8) for loss, up in zip(losses, rises, strict=True)
                )
                print(f"{name + (', now' if sums else ', before'):24}{shown}   {seconds:.0f} s", flush=True)
        speed()


if __name__ == "__main__":
    main()
