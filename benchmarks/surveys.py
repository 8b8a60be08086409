"""Surveys against the best of the literature: shares, large vocabularies, histograms, questionnaires, weighted means.
And how often their intervals hold.

    python benchmarks/surveys.py                    all parts
    python benchmarks/surveys.py --only shares      one of them
    python benchmarks/surveys.py --quick            a few cases of each, for the tests

Errors are exact expectations over the randomisation, of real designs of `tv.design`; "drawn" is what real reports give,
where it is shown. A ratio is our squared error over that of the best peer. Exit code 1 if an aim is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import pandas as pd
from benchmarks.surveys_coverage import coverage
from benchmarks.surveys_data import halving_weights, mean_tables
from benchmarks.surveys_histograms import histograms
from benchmarks.surveys_questionnaires import questionnaires
from benchmarks.surveys_words import words

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.designs.problem import Problem
from taskveil.peers.frequencies import best_frequencies
from taskveil.peers.literature import LITERATURE, Scaled, importance
from taskveil.veil.surveys import Question, questions

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
VALUES = (2, 3, 5, 10, 50, 256, 1_000)
MOST_SHARES = 1.03
VOLUNTEERS = 4_000


@dataclass(frozen=True)
class Line:
    """A line of a table, and whether its aim is met."""

    text: str
    good: bool = True


def shares_of(kind: str, values: int) -> Floats:
    """Even shares, or Zipf's: in proportion to 1, 1/2, 1/3, …"""
    each = np.ones(values) if kind == "even" else 1.0 / np.arange(1, values + 1)
    return each / each.sum()


def category(values: int, shares: Floats, epsilon: float) -> tv.Veil:
    """A survey of one field with so many values: a flag, or a category with one of them not listed."""
    people = np.searchsorted(np.cumsum(shares), (np.arange(VOLUNTEERS) + 0.5) / VOLUNTEERS).clip(0, values - 1)
    words = np.array(["something else", *(f"v{value}" for value in range(1, values))])
    field = tv.Flag() if values == 2 else tv.Category(tuple(words[1:].tolist()))
    column = (people == 1).tolist() if values == 2 else words[people].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tv.design(
            pd.DataFrame({"c": column}), tv.SurveyTask(), epsilon=epsilon,
            schema=tv.Schema({"c": field}), on_device=tv.OnDevice(max_bytes=1 << 24),
        )  # fmt: skip


def total_error(question: Question, shares: Floats) -> float:
    """E Σ_v (score_v − 1[row = v])² of one report for people with these shares (rows,)."""
    chances = question.expected(shares)
    return sum(float((chances @ question.scores(some) ** 2).sum()) for some in _units(question.rows)) - 1.0


def drawn_error(veil: tv.Veil, question: Question, shares: Floats, reports: int, times: int) -> float:
    """The mean total squared error, times reports, of `times` collections of real reports."""
    values = question.rows
    people = np.searchsorted(np.cumsum(shares), (np.arange(reports) + 0.5) / reports).clip(0, values - 1)
    truth = np.bincount(people, minlength=values) / reports
    top = veil.mechanism.region.high[0] if values == 2 else (values - 1) << 24
    latents = people[:, None] * (top / max(values - 1, 1)) * veil.mechanism.region.step
    drawn = [np.bincount(veil.mechanism(latents)[:, 0], minlength=question.outputs) for _ in range(times)]
    found = np.concatenate([np.array(drawn) @ question.scores(some) for some in _units(values)], axis=1) / reports
    return float(((found - truth) ** 2).sum(axis=1).mean()) * reports


def _units(values: int) -> Iterator[Floats]:
    """The functionals (values, ≤ 64) of all shares in turn, so that their scores need little memory."""
    for start in range(0, values, 64):
        yield np.eye(values)[:, start : start + 64]


def shares_table(quick: bool) -> Iterator[Line]:
    """Total squared error of all shares of a category."""
    yield Line(f"{'k':>6s} {'ε':>4s} {'shares':>7s} {'ratio':>7s} {'drawn':>7s}  best peer, its error × reports")
    for values in (2, 5, 50) if quick else VALUES:
        for epsilon in (1.0, 4.0) if quick else EPSILONS:
            for kind in ("even", "zipf"):
                shares = shares_of(kind, values)
                (question,) = questions(veil := category(values, shares, epsilon))
                peer = best_frequencies(values, epsilon, shares)
                ours, theirs = total_error(question, shares), peer.error(shares)
                # As many collections as make the mean known to about 5%, whatever the number of values.
                times = 5 + 800 // (values - 1)
                drawn = drawn_error(veil, question, shares, 2_000, times) / ours
                good = ours <= MOST_SHARES * theirs
                yield Line(
                    f"{values:6,d} {epsilon:4g} {kind:>7s} {ours / theirs:7.4f} {drawn:7.3f}  {peer.name}, {theirs:.4g}"
                    + ("" if good else "  MISSED"),
                    good,
                )


def weights_table(quick: bool) -> Iterator[Line]:
    """Means with halving weights: peers that sample attributes evenly, and by importance as we do."""
    yield Line(
        f"{'data':14s} {'ε':>4s} {'even sampling':>14s} {'importance':>11s}   ratios of squared errors, best peer"
    )
    for name, X in mean_tables(quick):
        box = tv.Box(X.min(axis=0), X.max(axis=0))
        task = tv.MeanTask(np.diag(np.sqrt(halving_weights(X.shape[1])) / np.ptp(X, axis=0)))
        order = np.random.default_rng(0).permutation(len(X))
        volunteers, people = X[order[: len(X) // 3]], X[order[len(X) // 3 :]]
        for epsilon in (1.0,) if quick else EPSILONS:
            veil = tv.design(volunteers, task, epsilon=epsilon, domain=box)
            ours = float(veil.losses(people).mean())
            problem = Problem.of(volunteers, task, domain=box)
            even = min(float(way.expected_losses(problem, epsilon, people).mean()) for way in LITERATURE)
            best, loss = importance(Scaled.of(people, task.K, box), epsilon)
            good = ours <= 1.02 * min(loss, even)
            yield Line(
                f"{name:14s} {epsilon:4g} {ours / even:14.3f} {ours / loss:11.3f}   {best}" + "  MISSED" * (not good),
                good,
            )


PARTS: dict[str, tuple[str, Callable[[bool], Iterator[Line]]]] = {
    "shares": ("Total squared error of the shares of a category (at most 1.03)", shares_table),
    "words": ("10⁵ values against optimal local hashing (at most 1.1, 30 s, 8 bytes)",
              lambda quick: map_lines(words(quick))),
    "histograms": ("Wasserstein error of histograms against the square wave mechanism (at most 1.05)",
                   lambda quick: map_lines(histograms(quick))),
    "questionnaires": ("Every statistic of a questionnaire, peers with optimal sampling too (in all at most 1.03)",
                       lambda quick: map_lines(questionnaires(quick))),
    "weights": ("Means with halving weights (at most 1.02)", weights_table),
    "coverage": ("How often 95% intervals hold: changes, at all times, 40 values (at least 95%)",
                 lambda quick: map_lines(coverage(quick))),
}  # fmt: skip


def map_lines(found: Iterator[tuple[str, bool]]) -> Iterator[Line]:
    """Lines of a part that lies in a file of its own."""
    return (Line(text, good) for text, good in found)


def report(parts: list[str], quick: bool) -> bool:
    """Print the parts; whether every aim is met."""
    good = True
    for name in parts:
        title, lines = PARTS[name]
        start = time.perf_counter()
        print(f"## {title}\n", flush=True)
        for line in lines(quick):
            good &= line.good
            print(line.text, flush=True)
        print(f"\n({name}: {time.perf_counter() - start:.0f} s)\n", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given several times")
    parser.add_argument("--quick", action="store_true", help="a few cases of each part")
    chosen = parser.parse_args()
    return 0 if report(chosen.only or list(PARTS), chosen.quick) else 1


if __name__ == "__main__":
    sys.exit(main())
