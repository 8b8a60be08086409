"""Designs for models: how long `auto` takes, and whether more budget ever costs.

    python benchmarks/models.py            # both
    python benchmarks/models.py --times    # 2,000 records × 20 attributes: the bars are 30 s for one ε, 45 s for five
    python benchmarks/models.py --doubling # ε from 0.5 to 64, on 20,000 fresh records: no rise of more than 1%

Times are the processor's: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge

import taskveil as tv
from taskveil.designs.methods import design_many, designer_of
from taskveil.designs.on_device import OnDevice
from taskveil.designs.problem import Problem

FIVE = (0.5, 1.0, 2.0, 4.0, 8.0)
DOUBLING = tuple(2.0**power for power in range(-1, 7))
FRESH = 20_000


def problems(volunteers: int) -> Iterator[tuple[str, Any, Any, Any, Any, tv.ModelTask]]:
    """Name, volunteers and labels, fresh records and labels, task."""
    count = volunteers + FRESH
    X, y = make_classification(
        count, 20, n_informative=8, n_classes=3, n_clusters_per_class=2, flip_y=0.1, random_state=0
    )
    for name, model in (("forest", RandomForestClassifier(100, random_state=0)), ("logistic", LogisticRegression())):
        task = tv.ModelTask(model.fit(X[:volunteers], y[:volunteers]), "cross_entropy")
        yield f"three classes, {name}", X[:volunteers], y[:volunteers], X[volunteers:], y[volunteers:], task
    X, y = make_friedman1(count, 20, noise=1.0, random_state=0)
    for name, model in (("forest", RandomForestRegressor(100, random_state=0)), ("ridge", Ridge())):
        task = tv.ModelTask(model.fit(X[:volunteers], y[:volunteers]))
        yield f"Friedman, {name}", X[:volunteers], y[:volunteers], X[volunteers:], y[volunteers:], task


def designed(X: Any, y: Any, task: tv.ModelTask, epsilons: tuple[float, ...], share: bool) -> dict[float, tv.Veil]:
    """A veil of `auto` for every budget."""
    problem = Problem.of(X, task, y=y, on_device=OnDevice(share_model=share))
    return {e: veil for e, _, veil in design_many(designer_of("auto"), problem, epsilons=epsilons, seeds=[0])}


def times() -> None:
    """Seconds for one ε and for five."""
    for name, X, y, _, _, task in problems(2000):
        for share in (False, True):
            took = []
            for epsilons in ((2.0,), FIVE):
                start = time.process_time()
                designed(X, y, task, epsilons, share)
                took.append(time.process_time() - start)
            shipped = "shipped" if share else "kept"
            print(
                f"{name:26s} model {shipped:8s} one ε {took[0]:5.1f} s (bar 30), five {took[1]:5.1f} s (bar 45)",
                flush=True,
            )


def doubling() -> None:
    """Losses on fresh records as ε doubles, each design by itself, and the largest rise."""
    for volunteers in (200, 1000):
        for name, X, y, X_test, y_test, task in problems(volunteers):
            losses = [float(designed(X, y, task, (e,), share=True)[e].losses(X_test, y_test).mean()) for e in DOUBLING]
            rise = max(after / before - 1 for before, after in pairwise(losses))
            shown = " ".join(f"{loss:.4g}" for loss in losses)
            print(f"{volunteers:5d} volunteers, {name:26s} {shown}: largest rise {100 * rise:+.1f}%", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--doubling", action="store_true")
    options = parser.parse_args()
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    if options.times or not options.doubling:
        times()
    if options.doubling or not options.times:
        doubling()


if __name__ == "__main__":
    main()
