"""How long one design takes, for every published budget. The bars: 20 s, for the digits 120 s, on two cores.

    python benchmarks/design.py                 # household, real estate, breast cancer
    python benchmarks/design.py --mnist         # the digits
    python benchmarks/design.py --method auto   # what judging the codebook against Laplace costs on top

`TASKVEIL_DATA` names the data folder.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import taskveil as tv
from taskveil.experiments import breast_cancer, household, mnist, real_estate
from taskveil.tasks import Task


def problems(digits: bool) -> Iterator[tuple[str, Any, Task, Any, tuple[float, ...], float]]:
    """Name, volunteers, task, labels, budgets and the bar in seconds."""
    if not digits:
        days, _, task = household.problem()
        yield "household", days, task, None, household.EPSILONS, 20.0
    for module in (mnist,) if digits else (real_estate, breast_cancer):
        experiment = module.problem()
        budgets = (*experiment.smaller, *experiment.epsilons)
        yield experiment.name, experiment.X, experiment.task, experiment.y, budgets, 120.0 if digits else 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", action="store_true")
    parser.add_argument("--method", default="codebook", choices=("codebook", "task_aware", "auto"))
    options = parser.parse_args()
    for name, X, task, y, budgets, bar in problems(options.mnist):
        slowest = 0.0
        for epsilon in budgets:
            start = time.perf_counter()
            veil = tv.design(X, task, epsilon=epsilon, y=y, method=options.method)
            took = time.perf_counter() - start
            slowest = max(slowest, took)
            print(f"{name:14s} ε = {epsilon:<4g} {options.method} → {veil.method:10s} {took:6.1f} s", flush=True)
        print(f"{name:14s} slowest {slowest:.1f} s (bar {bar:g})")


if __name__ == "__main__":
    main()
