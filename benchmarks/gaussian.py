"""Where δ > 0 pays: losses of codebooks, Laplace and Gaussian noise, and what 52 rounds cost at equal loss.

Losses are those of people who had no part in the design, divided by the loss of the constant prediction. Bar: "auto"
takes no design whose loss in cross-validation is more than 1% above the lowest.

    TASKVEIL_DATA=… python benchmarks/gaussian.py            # about ten minutes on one core
    TASKVEIL_DATA=… python benchmarks/gaussian.py --only 18  # one problem
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

import taskveil as tv
from taskveil.designs.designing import design_many, designer_of
from taskveil.designs.problem import Problem
from taskveil.experiments import household, real_estate
from taskveil.tasks import Task

DELTA = 1e-6
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
METHODS = {"codebook": "codebook", "task_aware": "Laplace", "gaussian": "Gaussian"}
ROUNDS = 52
TARGETS = (0.998, 0.99, 0.95, 0.8)
NAMES = ("household", "real-estate", "18", "64", "18-even")


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """Volunteers with labels, a task, and other people to judge designs by."""

    problem: Problem
    X: Any
    y: Any = None

    @classmethod
    def of(cls, task: Task, volunteers: tuple[Any, Any], others: tuple[Any, Any]) -> Setting:
        return cls(problem=Problem.of(volunteers[0], task, y=volunteers[1], delta=DELTA), X=others[0], y=others[1])

    def designs(self, method: str, epsilons: tuple[float, ...]) -> dict[float, tv.Veil]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = design_many(designer_of(method), self.problem, epsilons=epsilons, seeds=[0])
            return {epsilon: veil for epsilon, _, veil in made}

    def loss(self, veil: tv.Veil) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return veil.loss(self.X, self.y).mean


def setting(name: str) -> Setting:
    """The problem of that name. 18 and 64 are linear tasks for correlated Gaussian records of so many attributes; of
    18-even all directions matter alike."""
    if name == "household":
        days, others, task = household.problem()
        return Setting.of(task, (days, None), (others, None))
    if name == "real-estate":
        one = real_estate.problem()
        return Setting.of(one.task, (one.X, one.y), (one.X_test, one.y_test))
    rng, size = np.random.default_rng(0), int(name[:2])
    mixing = np.eye(size) if name.endswith("even") else rng.normal(size=(size, size)) * 0.9 ** np.arange(size)
    volunteers, others = (rng.normal(size=(count, size)) @ mixing.T for count in (2000, 10_000))
    return Setting.of(tv.LinearTask(np.eye(size)), (volunteers, None), (others, None))


def losses(name: str, one: Setting) -> bool:
    """One line for each ε."""
    good, constant = True, one.loss(one.designs("constant", (1.0,))[1.0])
    found = {method: one.designs(method, EPSILONS) for method in METHODS if method != "codebook"}
    found["auto"] = one.designs("auto", EPSILONS)
    for epsilon in EPSILONS:
        auto = found["auto"][epsilon]
        same = auto.method == "codebook"  # then it is the codebook design
        codebook = auto if same else one.designs("codebook", (epsilon,))[epsilon]
        veils = {"codebook": codebook, **{method: found[method][epsilon] for method in ("task_aware", "gaussian")}}
        lowest = min(entry.held_out_loss for entry in auto.considered)
        fine = auto.method == "constant" or auto.considered[0].held_out_loss <= 1.01 * lowest
        good &= fine
        cells = " | ".join(f"{one.loss(veils[method]) / constant:.3f}" for method in METHODS)
        print(f"| {name} | {epsilon:g} | {cells} | {auto.method}{'' if fine else ' MISSED'} |", flush=True)
    return good


def at_loss(one: Setting, method: str, target: float) -> tv.Veil:
    """The design of the ε at which this method has that loss."""

    def excess(log_epsilon: float) -> float:
        epsilon = math.exp(log_epsilon)
        return math.log(one.loss(one.designs(method, (epsilon,))[epsilon]) / target)

    low, high = math.log(0.05), math.log(0.1)
    while excess(high) > 0:
        low, high = high, high + math.log(2)
    epsilon = math.exp(brentq(excess, low, high, xtol=0.01))
    return one.designs(method, (epsilon,))[epsilon]


def rounds(name: str, one: Setting) -> None:
    """One line for each loss and method."""
    constant = one.loss(one.designs("constant", (1.0,))[1.0])
    for target in TARGETS:
        for method, called in METHODS.items():
            veil = at_loss(one, method, target * constant)
            promise, cost = veil.guarantee, tv.Cost.of(veil, times=ROUNDS)
            deltas = ROUNDS * promise.delta
            added = tv.compose([cost], delta=deltas * (1 + 1e-9)).basic_epsilon
            composed = tv.compose([cost], delta=DELTA).epsilon
            print(
                f"| {name} | {one.loss(veil) / constant:.3f} | {called} | {promise.epsilon:.3f} | {added:.1f} | "
                f"{deltas:g} | {composed:.2f} |",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NAMES, help="one problem")
    chosen = parser.parse_args()
    # This folder has a statistics.py, and torch asks for that of the standard library.
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]
    settings = {name: setting(name) for name in ([chosen.only] if chosen.only else NAMES)}
    print(f"One report: loss / loss of the constant prediction, δ = {DELTA:g} for Gaussian noise")
    print("| problem | ε | codebook | Laplace | Gaussian | auto takes |\n| --- | --- | --- | --- | --- | --- |")
    fine = [losses(name, one) for name, one in settings.items()]
    print(f"\n{ROUNDS} reports of a person at equal loss, Gaussian noise with δ = {DELTA:g} for each report")
    print(f"| problem | loss | method | ε of a report | sum: ε | sum: δ | composed: ε at δ = {DELTA:g} |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, one in settings.items():
        if one.problem.linear is not None:
            rounds(name, one)
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
