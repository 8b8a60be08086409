"""Means of any population: how large errors are, and how they compare with the best of the literature.

    python benchmarks/means.py                 one random split of every data set, about two minutes
    python benchmarks/means.py --splits 3      the worst of several splits

Domains are boxes of the attributes' ranges. Volunteers (1,500 of fair, a third of the others) make the design, and the
rest are asked. Losses are expectations over the randomisation for just these people, by formula; "drawn" is the error
of real reports, the root mean square of 20 collections. Exit code 1 if an aim is missed.

Weights: "equal" counts every attribute's squared error alike; "halving" counts the first attribute's fully, the next
one's half, and so on. Errors in standard deviations are the root of that weighted mean of (error/standard deviation)².
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.designs.problem import Problem
from taskveil.experiments.data import household
from taskveil.experiments.field_data import load
from taskveil.peers.literature import LITERATURE

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DATA: dict[str, Callable[[], Floats]] = {
    "fair": lambda: load("fair").X,
    "household": household,
    "breast cancer": lambda: load("breast_cancer").X,
    "star98": lambda: load("star98").X,
}
AIMS = {
    "equal": {1.0: 0.175, 2.0: 0.096, 4.0: 0.060, 8.0: 0.042},
    "halving": {1.0: 0.136, 2.0: 0.075, 4.0: 0.048, 8.0: 0.034},
}
"""Largest errors in standard deviations, fair with 4,866 people."""
MOST = {"equal": 1.02, "halving": 0.75}
"""Largest mean squared errors, as a multiple of the literature's best."""
COLLECTIONS = 20


def weights(name: str, count: int) -> Floats:
    """What squared errors of `count` attributes count, adding up to one."""
    each = np.ones(count) if name == "equal" else 0.5 ** np.arange(count)
    return each / each.sum()


def halves(X: Floats, split: int, volunteers: int) -> tuple[Floats, Floats]:
    """Volunteers and the people asked."""
    order = np.random.default_rng(split).permutation(len(X))
    return X[order[:volunteers]], X[order[volunteers:]]


def errors(splits: int) -> Iterator[tuple[str, float, float, float, float]]:
    """(weights, ε, error in standard deviations, that of real reports, what it may be) for fair."""
    X = DATA["fair"]()
    box = tv.Box(X.min(axis=0), X.max(axis=0))
    for name, aims in AIMS.items():
        for epsilon, aim in aims.items():
            found, drawn = [], []
            for split in range(splits):
                volunteers, people = halves(X, split, 1500)
                root = np.sqrt(weights(name, X.shape[1]))
                veil = tv.design(
                    volunteers, tv.MeanTask(np.diag(root / volunteers.std(axis=0))), epsilon=epsilon, domain=box
                )
                judge = tv.MeanTask(np.diag(root / people.std(axis=0)))
                found.append(float(np.sqrt(replace(veil, task=judge).losses(people).mean() / len(people))))
                means = [veil.estimates(veil.privatize(people)).mean(axis=0) for _ in range(COLLECTIONS)]
                wrong = judge.predict(np.array(means) - people.mean(axis=0))
                drawn.append(float(np.sqrt((wrong**2).sum(axis=1).mean())))
            yield name, epsilon, max(found), max(drawn), aim


def ratios(splits: int) -> Iterator[tuple[str, str, float, str, float, float]]:
    """(data, weights, ε, the literature's best, our mean squared error as a multiple of it, seconds of design)."""
    for data, read in DATA.items():
        X = read()
        X = X[:, np.ptp(X, axis=0) > 0]
        box = tv.Box(X.min(axis=0), X.max(axis=0))
        for name in MOST:
            task = tv.MeanTask(np.diag(np.sqrt(weights(name, X.shape[1])) / np.ptp(X, axis=0)))
            for epsilon in EPSILONS:
                worst = ("", 0.0, 0.0)
                for split in range(splits):
                    volunteers, people = halves(X, split, 1500 if data == "fair" else len(X) // 3)
                    start = time.process_time()
                    veil = tv.design(volunteers, task, epsilon=epsilon, domain=box)
                    seconds = time.process_time() - start
                    problem = Problem.of(volunteers, task, domain=box)
                    others = {way.name: way.expected_losses(problem, epsilon, people).mean() for way in LITERATURE}
                    best = min(others, key=lambda way: float(others[way]))
                    ratio = float(veil.losses(people).mean() / others[best])
                    worst = max(worst, (best, ratio, seconds), key=lambda entry: entry[1])
                yield data, name, epsilon, *worst


def report(splits: int = 1) -> bool:
    """Print both tables; whether every aim is met."""
    good = True
    print("error of the mean in standard deviations, fair, 4,866 people")
    print(f"{'weights':10s} {'ε':>4s} {'expected':>9s} {'drawn':>9s} {'aim':>6s}")
    for name, epsilon, found, drawn, aim in errors(splits):
        good &= found <= aim
        print(
            f"{name:10s} {epsilon:4g} {found:9.4f} {drawn:9.4f} {aim:6.3f}  {'' if found <= aim else 'MISSED'}",
            flush=True,
        )
    print("\nmean squared error as a multiple of the literature's best")
    print(f"{'data':14s} {'weights':10s} {'ε':>4s} {'ratio':>7s} {'at most':>8s}  against, seconds of design")
    for data, name, epsilon, best, ratio, seconds in ratios(splits):
        good &= ratio <= MOST[name]
        said = f"{best}, {seconds:.1f} s" + ("" if ratio <= MOST[name] else "  MISSED")
        print(f"{data:14s} {name:10s} {epsilon:4g} {ratio:7.3f} {MOST[name]:8.2f}  {said}", flush=True)
    return bool(good)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=1)
    return 0 if report(parser.parse_args().splits) else 1


if __name__ == "__main__":
    sys.exit(main())
