"""How often bands over the rounds contain the truth at all rounds at once; a few minutes on one core.

    python benchmarks/over_time_bands.py [--collections 500]

Each collection has 5,200 simulated people over 52 weekly rounds: a number whose mean drifts, and a category with ten
values whose shares drift; each round a tenth of the people change their own value. Each person reports in two rounds,
one of each half, with ε = 2 (lifetime 4). The truth of a round is the mean, or the share, of all 5,200 people. A row is
covered if the bands of `tv.estimate(veil, {round: reports, …})` contain the truth in all 52 rounds.

The bands of the first collection are compared with those of `tv.estimate`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

import taskveil as tv
from taskveil.client.panels import Panel, dated
from taskveil.estimates.intervals import exact_limits
from taskveil.estimates.scores import Tally
from taskveil.estimates.survey_statistics import statistics
from taskveil.estimates.surveyed import Survey
from taskveil.veil.channels import channel_of

CONFIDENCE, BAR = 0.95, 0.935
WORDS = tuple("abcdefghij")


class People(NamedTuple):
    """One collection: codes of reports (N·r,), the rounds that they belong to, and the truth (rounds, rows)."""

    codes: np.ndarray
    rounds: np.ndarray
    truth: np.ndarray


Values = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]
"""New values of these people in a round."""


def hours(people: np.ndarray, round: int, rng: np.random.Generator) -> np.ndarray:
    """A number from 0 to 12 with a drifting mean."""
    return (5 + 1.5 * np.sin(round / 8) + rng.normal(0, 2, len(people))).clip(0, 12)


def apps(people: np.ndarray, round: int, rng: np.random.Generator) -> np.ndarray:
    """One of ten values with drifting shares."""
    weights = np.exp(-0.25 * np.arange(10) + np.sin(round / 10 + np.arange(10)))
    return rng.choice(10, len(people), p=weights / weights.sum())


def survey(kind: Values, rounds: int) -> tv.Veil:
    """A release for this kind of value: two reports of ε = 2 in so many weekly rounds."""
    rng = np.random.default_rng(0)
    drawn = kind(np.arange(500), 0, rng)
    table = pd.DataFrame({"value": drawn if kind is hours else np.array(WORDS)[drawn]})
    schema = tv.Schema.of(table).replace(value=tv.Number(low=0.0, high=12.0)) if kind is hours else None
    veil = tv.design(table, tv.SurveyTask(), epsilon=2.0, schema=schema)
    return replace(veil, panel=Panel(reports=2, rounds=tuple(dated("2026-11-16", 7, rounds)), days=7))


def rows_of(veil: tv.Veil) -> dict[str, np.ndarray]:
    """By row: the score of every code."""
    none = Tally(release=veil.release_id, count=0, codes=None, total=np.zeros(0), square=np.zeros((0, 0)))
    found = Survey.of(veil, replace(none, codes=np.zeros(channel_of(veil.mechanism, veil.decoder).sizes[0], dtype=int)))
    asked = [found.scored(one) for one in statistics(veil, found.questions) if one.kind in ("means", "shares")]
    names = ["value", *(f"value={word}" for word in WORDS)]
    return {one.statistic.label.name: one.values for one in asked if one and one.statistic.label.name in names}


def collected(veil: tv.Veil, kind: Values, people: int, rng: np.random.Generator) -> People:
    """The reports of one collection, and the truth of its rounds."""
    panel = veil.panel
    total = len(panel.rounds)
    everybody = np.arange(people)
    bounds = [panel.start(block) for block in range(panel.reports + 1)]
    drawn = [rng.integers(first, after, people) for first, after in pairwise(bounds)]
    value, truth, due, records = kind(everybody, 0, rng), [], [], []
    for round in range(total):
        changed = np.flatnonzero(rng.random(people) < 0.1)
        value = value.copy()
        value[changed] = kind(changed, round, rng)
        truth.append([value.mean()] if kind is hours else np.bincount(value, minlength=10) / people)
        asked = np.flatnonzero(drawn[panel.block(round)] == round)
        records.append(value[asked])
        due.append(np.full(len(asked), round))
    every = np.concatenate(records)
    table = pd.DataFrame({"value": every if kind is hours else np.array(WORDS)[every]})
    latents = veil.encoder(veil.schema.expand(table))
    codes = channel_of(veil.mechanism, veil.decoder).simulate(latents, rng)[:, 0]
    return People(codes, np.concatenate(due), np.array(truth))


def limits(counts: np.ndarray, values: np.ndarray, confidence: float) -> np.ndarray:
    """(2, rounds): limits of the mean score from the counts (rounds, codes), as `tv.estimate` computes them; of two
    different scores they are those of Clopper and Pearson."""
    scores, places = np.unique(values.round(9), return_inverse=True)
    some = np.stack([counts[:, places == place].sum(axis=1) for place in range(len(scores))], axis=1)
    if len(scores) > 2:
        return np.array([exact_limits(one, scores, confidence=confidence) for one in some]).T
    (low, high), (no, yes), rest = scores, some.T, (1 - confidence) / 2
    below = np.nan_to_num(beta.ppf(rest, yes, no + 1), nan=0.0)
    above = np.nan_to_num(beta.ppf(1 - rest, yes + 1, no), nan=1.0)
    return low + (high - low) * np.stack([below, above])


def covered(veil: tv.Veil, found: People, rows: dict[str, np.ndarray], each: float) -> np.ndarray:
    """(rounds, rows): whether the interval of each round, of confidence `each`, contains the truth."""
    low, high = bands(veil, found, rows, each)
    return (low <= found.truth) & (found.truth <= high)


def counts_of(veil: tv.Veil, found: People) -> np.ndarray:
    """(rounds, codes): how often each code came in each round."""
    size = channel_of(veil.mechanism, veil.decoder).sizes[0]
    return np.array([np.bincount(found.codes[found.rounds == t], minlength=size) for t in range(len(found.truth))])


def bands(veil: tv.Veil, found: People, rows: dict[str, np.ndarray], each: float) -> tuple[np.ndarray, np.ndarray]:
    """Low and high (rounds, rows)."""
    counts = counts_of(veil, found)
    low, high = np.stack([limits(counts, values, each) for values in rows.values()], axis=-1)
    return low, high


def check(veil: tv.Veil, found: People, rows: dict[str, np.ndarray], each: float) -> None:
    """That the bands are those of `tv.estimate`; else an error."""
    none = np.zeros((0, 0))
    tallies = {
        name: Tally(release=veil.release_id, count=int(counts.sum()), codes=counts, total=none.ravel(), square=none)
        for name, counts in zip(veil.panel.rounds, counts_of(veil, found), strict=True)
    }
    series = tv.estimate(veil, tallies, confidence=CONFIDENCE)
    low, high = bands(veil, found, rows, each)
    for place, name in enumerate(rows):
        line = list(series.line(name).values())
        bounds = (0.0, 12.0) if name == "value" else (0.0, 1.0)
        expected = np.clip(np.column_stack([low[:, place], high[:, place]]), *bounds)
        np.testing.assert_allclose([(one.low, one.high) for one in line], expected, rtol=1e-6, atol=1e-8)


def shares(
    kind: Values, collections: int, *, rounds: int = 52, people: int = 5200, each: float | None = None, seed: int = 1
) -> dict[str, float]:
    """By row: the share of collections whose intervals contain the truth at all rounds. `each` is the confidence of one
    interval, by default that of the bands."""
    veil = survey(kind, rounds)
    rows, alone = rows_of(veil), 1 - (1 - CONFIDENCE) / rounds if each is None else each
    rng = np.random.default_rng(seed)
    always = []
    for number in range(collections):
        found = collected(veil, kind, people, rng)
        if number == 0 and each is None:
            check(veil, found, rows, alone)
        always.append(covered(veil, found, rows, alone).all(axis=0))
    return dict(zip(rows, np.mean(always, axis=0).tolist(), strict=True))


def main() -> None:
    """Print the shares, and whether all reach the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collections", type=int, default=500)
    wanted = parser.parse_args()
    found: dict[str, float] = {}
    for title, kind in (("drifting mean", hours), ("category with ten values", apps)):
        print(f"{title}: covered at all 52 rounds, of {wanted.collections} collections", flush=True)
        for name, share in shares(kind, wanted.collections).items():
            print(f"  {name:10s} {100 * share:5.1f}%", flush=True)
            found[name] = share
    worst = min(found.values())
    print(f"worst row {100 * worst:.1f}%, at least {100 * BAR}%: {'ok' if worst >= BAR else 'MISSED'}")
    raise SystemExit(worst < BAR)


if __name__ == "__main__":
    main()
