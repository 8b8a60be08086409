"""Histograms of a survey against the square wave mechanism with EM: the Wasserstein error of both, from draws.

Means of 100 collections are known to about 3%, so that a ratio that is above its bar by less may be chance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.experiments.data import household
from taskveil.peers.frequencies import SquareWave
from taskveil.veil.surveys import questions

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
    table, schema = pd.DataFrame({"x": x}), tv.Schema({"x": tv.Number(0.0, 1.0)})
    task = tv.SurveyTask(["x"], histograms={"x": edges.tolist()})
    veil = tv.design(table, task, epsilon=epsilon, schema=schema)
    question = next(one for one in questions(veil) if one.binned == (True,))
    k, errors = veil.mechanism.region.enforce(veil.encoder(x[:, None])), []
    for _ in range(times):
        reports = question.start + question.part.draw(k)[:, None]
        histogram = tv.estimate(veil, reports).consistent().histograms["x"]
        errors.append(wasserstein(np.array([one.mean for one in histogram.shares]), truth))
    return float(np.mean(errors))


def theirs(x: Floats, bins: int, epsilon: float, times: int, truth: Floats, smooth: bool) -> float:
    """The mean Wasserstein error of the square wave mechanism with EM, or with EMS: the best of bins as they are and of
    bins that are finer and added up afterwards."""
    found = []
    for finer in (1, 2, 4, 10) if smooth else (1, 2, 4):
        rng, way = np.random.default_rng(1), SquareWave(bins=finer * bins, epsilon=epsilon, smooth=smooth)
        drawn = [way.estimate(way.reports(x, rng)).reshape(bins, finer).sum(axis=1) for _ in range(times)]
        found.append(float(np.mean([wasserstein(shares, truth) for shares in drawn])))
    return min(found)


def histograms(quick: bool) -> Iterator[tuple[str, bool]]:
    """Lines of the table."""
    heads = ("ours", "SW, EM", "ratio", "SW, EMS")
    yield f"{'data':18s} {'bins':>4s} {'ε':>4s} " + " ".join(f"{head:>10s}" for head in heads), True
    times = 40 if quick else 100
    for name, x in positions(quick):
        for bins in (10,) if quick else (10, 32):
            edges = np.linspace(0.0, 1.0, bins + 1)
            truth = np.histogram(x, edges)[0] / len(x)
            for epsilon in (1.0,) if quick else (0.5, 1.0, 2.0, 4.0):
                error = ours(x, edges, epsilon, times, truth)
                plain, smooth = (theirs(x, bins, epsilon, times, truth, one) for one in (False, True))
                ratio = error / plain
                numbers = " ".join(f"{one:10.5f}" for one in (error, plain, ratio, smooth))
                good = ratio <= MOST
                yield f"{name:18s} {bins:4d} {epsilon:4g} {numbers}" + "  MISSED" * (not good), good
