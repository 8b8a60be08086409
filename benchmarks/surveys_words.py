"""A vocabulary of 10⁵ words against optimal local hashing: error, time of an estimate, bytes of a report."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.arrays import Integers
from taskveil.peers.frequencies import LocalHashing
from taskveil.veil.surveys import questions

MOST, SECONDS, BYTES = 1.1, 30.0, 8
SIDE = 3_001
"""Words are points of a plane with so many numbers a side: more than e^8, so that the side suits every ε here."""


def drawn(veil: tv.Veil, words: list[str], people: Integers) -> tuple[float, float]:
    """The total squared error of one collection, times reports, and the seconds of `tv.estimate`."""
    (_question,) = questions(veil)
    points = np.asarray(veil.schema["word"].expand(words), dtype=np.float64)
    latents = np.concatenate([points, np.zeros((len(points), veil.encoder.width - 2))], axis=1)
    encoded = veil.encoder(latents)
    reports = np.concatenate([veil.mechanism(encoded[some]) for some in np.array_split(people, 50)])
    start = time.perf_counter()
    found = tv.estimate(veil, reports, candidates={"word": words}).shares["word"]
    seconds = time.perf_counter() - start
    truth = np.bincount(people, minlength=len(words)) / len(people)
    # Words that devices do not tell apart have one estimate: they count once, with their shares added up.
    _, point = np.unique(points, axis=0, return_inverse=True)
    sums = np.bincount(point.ravel(), weights=truth)
    means = np.zeros(len(sums))
    means[point.ravel()] = [found[word].mean for word in words]
    return float(((means - sums) ** 2).sum()) * len(people) / len(sums) * len(words), seconds


def words(quick: bool) -> Iterator[tuple[str, bool]]:
    """Lines of the table."""
    count, reports = (2_000, 20_000) if quick else (100_000, 1_000_000)
    vocabulary, rng = [f"word {number}" for number in range(count)], np.random.default_rng(3)
    people = np.minimum(rng.zipf(1.3, reports) - 1, count - 1)
    table = pd.DataFrame({"word": [vocabulary[one] for one in people[:2_000].tolist()]})
    yield f"{count:,} words, {reports:,} reports; drawn: real reports' squared error over the expected one", True
    yield f"{'ε':>4s} {'p':>6s} {'w':>5s} {'ratio':>7s} {'drawn':>7s} {'seconds':>8s} {'bytes':>6s}", True
    for epsilon in (1.0,) if quick else (0.5, 1.0, 2.0, 4.0, 8.0):
        schema = tv.Schema({"word": tv.Words(SIDE)})
        veil = tv.design(table, tv.SurveyTask(), epsilon=epsilon, schema=schema)
        (question,) = questions(veil)
        inside, outside = question.hits
        expected = (inside * (1 - inside) + (count - 1) * outside * (1 - outside)) / (inside - outside) ** 2
        ratio = expected / LocalHashing.best(count, epsilon).error(np.full(count, 1.0 / count))
        seen, seconds = drawn(veil, vocabulary, people)
        size = veil.mechanism.layout.length
        good = ratio <= MOST and seconds <= SECONDS and size <= BYTES
        numbers = f"{ratio:7.4f} {seen / expected:7.3f} {seconds:8.1f} {size:6d}"
        yield f"{epsilon:4g} {SIDE:6,d} {question.part.response.favoured:5d} {numbers}" + "  MISSED" * (not good), good
