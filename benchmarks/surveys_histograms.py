"""Histograms of a survey against the square wave mechanism with EM: the Wasserstein error of both, from draws."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.experiments.data import household
from taskveil.peers.frequencies import SquareWave

MOST = 1.05
PEOPLE = 20_000


def positions(quick: bool) -> Iterator[tuple[str, Floats]]:
    """Numbers between 0 and 1: household power, and people made here."""
    rng = np.random.default_rng(7)
    yield "incomes (made)", np.clip(rng.lognormal(-1.6, 0.6, PEOPLE), 0, 1)
    if quick:
        return
    power = household().ravel()
    yield "household power", rng.choice((power - power.min()) / np.ptp(power), PEOPLE)
    yield "beta(2, 5) (made)", rng.beta(2, 5, PEOPLE)
    two = np.where(rng.random(PEOPLE) < 0.5, rng.normal(0.25, 0.07, PEOPLE), rng.normal(0.75, 0.07, PEOPLE))
    yield "two humps (made)", np.clip(two, 0, 1)


def wasserstein(found: Floats, truth: Floats) -> float:
    """∫ |difference of the distribution functions|, for shares of equal bins between 0 and 1."""
    return float(np.abs(np.cumsum(found - truth)[:-1]).sum() / len(truth))


def ours(x: Floats, edges: Floats, epsilon: float, times: int, truth: Floats) -> float:
    """The mean Wasserstein error of the consistent histogram of `tv.estimate`, all people asked for it."""
    table = pd.DataFrame({"x": x})
    schema = tv.Schema({"x": tv.Number(0.0, 1.0)})
    task = tv.SurveyTask(["x"], histograms={"x": edges.tolist()}, weights={"x": 1.0})
    veil = tv.design(table, task, epsilon=epsilon, schema=schema)
    number = next(q for q, group in enumerate(veil.mechanism.groups) if getattr(group, "binned", [False])[0])
    group, start = veil.mechanism.groups[number], sum(one.outputs for one in veil.mechanism.groups[:number])
    k = veil.mechanism.region.enforce(veil.encoder(x[:, None]))
    errors = []
    for _ in range(times):
        reports = start + group.draw(k)[:, None]
        histogram = tv.estimate(veil, reports).consistent().histograms["x"]
        shares = np.array([one.mean for one in histogram.shares])
        errors.append(wasserstein(shares / shares.sum(), truth))
    return float(np.mean(errors))


def theirs(x: Floats, bins: int, epsilon: float, times: int, truth: Floats, smooth: bool) -> float:
    """The mean Wasserstein error of the square wave mechanism with EM, or with EMS."""
    rng, way = np.random.default_rng(1), SquareWave(bins=bins, epsilon=epsilon, smooth=smooth)
    return float(np.mean([wasserstein(way.estimate(way.reports(x, rng)), truth) for _ in range(times)]))


def histograms(quick: bool) -> Iterator[tuple[str, bool]]:
    """Lines of the table."""
    yield f"{'data':20s} {'bins':>4s} {'ε':>4s} {'ours':>8s} {'SW, EM':>8s} {'ratio':>6s} {'SW, EMS':>8s}", True
    times = 4 if quick else 20
    for name, x in positions(quick):
        for bins in (10,) if quick else (10, 32):
            edges = np.linspace(0.0, 1.0, bins + 1)
            truth = np.histogram(x, edges)[0] / len(x)
            for epsilon in (1.0,) if quick else (0.5, 1.0, 2.0, 4.0):
                error = ours(x, edges, epsilon, times, truth)
                plain, smooth = (theirs(x, bins, epsilon, times, truth, one) for one in (False, True))
                good = error <= MOST * plain
                numbers = f"{error:8.5f} {plain:8.5f} {error / plain:6.2f} {smooth:8.5f}"
                yield f"{name:20s} {bins:4d} {epsilon:4g} {numbers}" + "  MISSED" * (not good), good
