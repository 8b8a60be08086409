"""How `method="auto"` chooses: whether it says nothing where nothing helps, and what copies of records do to it.

    python benchmarks/statistics_choices.py

Every figure is a true expected loss on thousands of fresh records, relative to the best constant answer of the same
volunteers: 1.000 is as good as sending nothing, less is better.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import taskveil as tv
from taskveil.arrays import Floats, Integers
from taskveil.errors import NothingToReportWarning

FRESH = 4000
ATTRIBUTES = 6


@dataclass(frozen=True)
class Population:
    """Where volunteers and fresh records come from, what the records are for, and the budget."""

    name: str
    draw: Callable[[np.random.Generator, int], tuple[Floats, Integers | None]]
    task: tv.LinearTask | tv.ModelTask
    epsilon: float


def classifier(signal: float) -> Population:
    """Two classes, whose odds move by e^signal for every unit of the first attribute, and a forest fitted to others: a
    black box, so that no learned Laplace design is tried, which would take most of the time."""

    def draw(rng: np.random.Generator, count: int) -> tuple[Floats, Integers]:
        X = rng.normal(size=(count, ATTRIBUTES))
        return X, (rng.random(count) < 1 / (1 + np.exp(-signal * X[:, 0]))).astype(np.int64)

    forest = RandomForestClassifier(20, min_samples_leaf=20, random_state=0)
    task = tv.ModelTask(forest.fit(*draw(np.random.default_rng(0), 1000)), "cross_entropy")
    return Population(f"forest, signal {signal:g}", draw, task, 3.0)


def mean_of(attributes: int, epsilon: float) -> Population:
    """Independent attributes that all count alike: the more of them, the less a report can say."""
    task = tv.LinearTask(np.eye(attributes) / np.sqrt(attributes))
    return Population(
        f"linear, {attributes} attributes, ε {epsilon:g}",
        lambda rng, count: (rng.normal(size=(count, attributes)), None),
        task,
        epsilon,
    )


POPULATIONS = (classifier(0.0), classifier(0.5), classifier(2.0), mean_of(20, 0.2), mean_of(4, 2.0))


def no_signal_table(counts: tuple[int, ...] = (60, 300, 1000), replications: int = 3) -> list[str]:
    """How often `auto` says nothing, and its true loss relative to the constant answer, worst and mean."""
    lines = [f"{'population':32}{'volunteers':>11}{'says nothing':>14}{'auto / constant':>17}{'worst':>8}"]
    for population in POPULATIONS:
        for count in counts:
            found = [_auto(population, count, seed) for seed in range(replications)]
            ratios = [ratio for _, ratio in found]
            silent = sum(method == "constant" for method, _ in found)
            lines.append(
                f"{population.name:32}{count:>11}{f'{silent} of {replications}':>14}"
                f"{np.mean(ratios):>17.3f}{max(ratios):>8.3f}"
            )
    return lines


def duplicates_table(people: int = 30, copies: int = 10, replications: int = 3) -> list[str]:
    """What `auto` expects to gain over the constant answer from held-out volunteers, and what it truly gains, when
    every volunteer stands in the table several times."""
    lines = [f"{'population':32}{'copies':>8}{'expects to gain':>17}{'truly gains':>13}"]
    for population in (classifier(0.5), mean_of(20, 2.0)):
        for times in (1, copies):
            gains = [_gains(population, people, times, seed) for seed in range(replications)]
            expected, true = np.mean(gains, axis=0)
            lines.append(f"{population.name:32}{times:>8}{expected:>17.1%}{true:>13.1%}")
    return lines


def _auto(population: Population, count: int, seed: int) -> tuple[str, float]:
    """The method chosen, and its true loss relative to that of the constant answer."""
    rng = np.random.default_rng([seed, count])
    (X, y), (fresh, labels) = population.draw(rng, count), population.draw(rng, FRESH)
    veil = _design(population, X, y, seed)
    constant = population.task.constant_loss(X, y, fresh, labels)
    return veil.method, veil.loss(fresh, labels).mean / constant


def _gains(population: Population, people: int, copies: int, seed: int) -> tuple[float, float]:
    """What the codebook was expected to gain over nothing, and what it truly does, as shares of the constant's loss."""
    rng = np.random.default_rng([seed, people])
    (X, y), (fresh, labels) = population.draw(rng, people), population.draw(rng, FRESH)
    X, y = np.repeat(X, copies, axis=0), None if y is None else np.repeat(y, copies)
    seen = {entry.method: entry.held_out_loss for entry in _design(population, X, y, seed).considered}
    veil = tv.design(X, population.task, epsilon=population.epsilon, y=y, method="codebook", seed=seed)
    constant = population.task.constant_loss(X, y, fresh, labels)
    return 1 - seen["codebook"] / seen["constant"], 1 - veil.loss(fresh, labels).mean / constant


def _design(population: Population, X: Floats, y: Integers | None, seed: int) -> tv.Veil:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToReportWarning)
        return tv.design(X, population.task, epsilon=population.epsilon, y=y, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=2, help="more take longer and say more")
    asked = parser.parse_args()
    print("\n".join(no_signal_table(replications=asked.replications)))
    print()
    print("\n".join(duplicates_table(replications=asked.replications)))


if __name__ == "__main__":
    main()
