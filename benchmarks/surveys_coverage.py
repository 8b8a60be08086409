"""Do the intervals of a survey hold as often as they say?

Changes between two rounds, limits that hold at all times, and a category with 40 values, alone, by group and as groups.
Collections are drawn anew, from people whose statistics are known.

Three kinds of rounds are compared by `estimate.minus(earlier)`: other people ("different people"), the same people with
the same records, and the same people of whom the richest are the poorest in the second round, so that what both rounds
have by chance has opposite signs ("opposite people"). A line is missed if intervals of 95% hold so rarely that chance
is ruled out, for a single row or for the mean over rows. The last column is the coverage of limits that are 20%
shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import binom

import taskveil as tv
from taskveil.arrays import Floats, Integers
from taskveil.estimates.labels import Label
from taskveil.estimates.scores import Tally
from taskveil.veil.surveys import OTHER

ALARM = 1e-6
"""How rarely intervals that hold with 95% are taken for ones that do not, for each line of the table."""
CITIES = 40
PEOPLE, REPORTS = 1_000, 4_000
LOOKS = (250, 500, 1_000, 2_000, 4_000, 8_000)
SCHEMA = tv.Schema(
    {
        "city": tv.Category([f"c{number}" for number in range(CITIES)]),
        "region": tv.Category(["North", "South", "Island"]),
        "income": tv.Number(0.0, 100.0, missing=True),
    }
)


def people(count: int, seed: int, *, richer: float = 0.0) -> pd.DataFrame:
    """People of 40 cities with shares like 1, 1/2, 1/3, …; regions and incomes depend on the city."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, CITIES + 1)
    city = rng.choice(CITIES, count, p=shares / shares.sum())
    north, island = rng.random(count) < 0.2 + 0.5 * (city % 3 == 0), rng.random(count) < 0.15
    income = np.clip(rng.gamma(4.0, 8.0, count) + 8.0 * north + richer, 0.0, 100.0)
    income[rng.random(count) < 0.15] = np.nan
    region = np.where(north, "North", np.where(island, "Island", "South"))
    return pd.DataFrame({"city": [f"c{one}" for one in city], "region": region, "income": income})


@cache
def survey(by: str, epsilon: float) -> tv.Veil:
    """The release, for people poorer than those who answer; its rows are about cities and incomes."""
    task = tv.SurveyTask(["city", "income"] if by == "region" else ["income"], by=by)
    return tv.design(people(2_000, 0), task, epsilon=epsilon, schema=SCHEMA)


@dataclass(frozen=True)
class Round:
    """People (N rows) who may answer: `below` (N, outputs) has the sums of the probabilities of their reports."""

    veil: tv.Veil
    table: pd.DataFrame
    below: Floats

    @classmethod
    def of(cls, veil: tv.Veil, table: pd.DataFrame) -> Round:
        """A round with these people."""
        chances = veil.mechanism.chances(veil.encoder(veil.schema.expand(table)))
        below = np.cumsum(chances, axis=1)
        return cls(veil, table, below / below[:, -1:] + np.arange(len(table))[:, None])

    def codes(self, who: Integers, rng: np.random.Generator) -> Integers:
        """A report of each of these people."""
        place = np.searchsorted(self.below.ravel(), who + rng.random(len(who)), side="right")
        return np.minimum(place - who * self.below.shape[1], self.below.shape[1] - 1)

    def tally(self, codes: Integers) -> Tally:
        """The counts of reports."""
        none = np.zeros((0, 0))
        counts = np.bincount(codes, minlength=self.below.shape[1])
        return Tally(release=self.veil.release_id, count=len(codes), codes=counts, total=none.ravel(), square=none)

    def truth(self, label: Label) -> float:
        """The statistic of a row, NaN where nobody is in the group."""
        kind, *key = label.key
        table = self.table
        if kind == "by":
            by, group, *key = key
            table = table[_has(table, by, group)]
        if not len(table):
            return np.nan
        if kind == "missing":
            return float(table[key[0]].isna().mean())
        if len(key) == 1:
            return float(table[key[0]].mean())
        return float(_has(table, key[0], key[1]).mean())


def _has(table: pd.DataFrame, name: str, value: object) -> Floats:
    column = table[name]
    if value is None:
        return column.isna().to_numpy()
    if value is OTHER:
        return np.zeros(len(table), dtype=bool)
    return (column == value).to_numpy(dtype=bool)


@dataclass(frozen=True)
class Held:
    """Whether intervals held in every collection (C, rows), and whether those that are 20% shorter did; both are true
    where the statistic does not exist."""

    held: Floats
    short: Floats

    @property
    def least_of_rows(self) -> float:
        """The smallest coverage of a row."""
        return float(self.held.mean(axis=0).min())

    def missed(self, held: Floats) -> bool:
        """Whether intervals hold so rarely that 95% is ruled out, for a row, or on average over rows, which depend on
        each other."""
        times, rows = held.shape
        if float(binom.cdf(int(held.sum(axis=0).min()), times, 0.95)) < ALARM / rows:
            return True
        each = held.mean(axis=1)
        return bool(each.mean() < 0.95 - 4.9 * each.std() / np.sqrt(times))


def _inside(limits: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """Whether limits (3, rows) of mean, low and high hold, and those that are 20% shorter."""
    mean, low, high = limits
    with np.errstate(invalid="ignore"):
        held = (low <= truth) & (truth <= high)
        short = (mean - 0.8 * (mean - low) <= truth) & (truth <= mean + 0.8 * (high - mean))
    nothing = np.isnan(truth)
    return held | nothing, short | nothing | (np.isnan(mean) & held)


def _limits(groups: Mapping[str, object]) -> Floats:
    return np.array([row[1:4] for rows in groups.values() for row in rows], dtype=float).T  # type: ignore[attr-defined]


def always(by: str, epsilon: float, times: int) -> Held:
    """Whether limits with `anytime=True` hold at every one of the looks, as reports come in."""
    there = Round.of(survey(by, epsilon), people(PEOPLE, 1, richer=4.0))
    rng, found = np.random.default_rng(3), []
    for _ in range(times):
        codes = there.codes(rng.integers(0, PEOPLE, LOOKS[-1]), rng)
        looks = []
        for count in LOOKS:
            estimate = tv.estimate(there.veil, there.tally(codes[:count]), anytime=True)
            labels = [row.label for rows in estimate.groups.values() for row in rows]
            looks.append(_inside(_limits(estimate.groups), np.array([there.truth(label) for label in labels])))
        found.append([np.all(column, axis=0) for column in zip(*looks, strict=True)])
    return Held(*(np.array(column) for column in zip(*found, strict=True)))


def rounds(by: str, epsilon: float, times: int) -> dict[str, Held]:
    """The intervals of one round, of everybody and by group, and changes to a second one, by who answers in both."""
    veil = survey(by, epsilon)
    table, other = people(PEOPLE, 1, richer=4.0), people(PEOPLE, 4, richer=8.0)
    before = Round.of(veil, table.sort_values("income", ignore_index=True))
    after = Round.of(veil, other.sort_values("income", ignore_index=True))
    rng, found = np.random.default_rng(5), dict[str, list[tuple[Floats, Floats]]]()
    for _ in range(times):
        who = rng.integers(0, PEOPLE, REPORTS)
        earlier = tv.estimate(veil, before.tally(before.codes(who, rng)))
        labels = [row.label for rows in earlier.groups.values() for row in rows]
        was = np.array([before.truth(label) for label in labels])
        group = np.array([label.key[0] == "by" for label in labels])
        for name, some in (("one look, of everybody", ~group), (f"one look, by {by}", group)):
            found.setdefault(name, []).append(_inside(_limits(earlier.groups)[:, some], was[some]))
        again = {"different people": rng.integers(0, PEOPLE, REPORTS), "opposite people": PEOPLE - 1 - who}
        for name, those in {**again, "the same people": who}.items():
            there = before if name == "the same people" else after
            now = tv.estimate(veil, there.tally(there.codes(those, rng)))
            truth = np.array([there.truth(label) for label in labels]) - was
            limits = _limits(now.minus(earlier, different_people=name == "different people"))
            found.setdefault(f"change, {name}", []).append(_inside(limits, truth))
    return {name: Held(*(np.array(column) for column in zip(*those, strict=True))) for name, those in found.items()}


def coverage(quick: bool) -> Iterator[tuple[str, bool]]:
    """Lines of the table."""
    yield f"{'by':7s} {'ε':>4s} {'intervals':32s} {'rows':>5s} {'held':>7s} {'least':>7s} {'20% shorter':>12s}", True
    times = 20 if quick else 120
    for by, epsilon in (("city", 2.0),) if quick else (("region", 6.0), ("city", 2.0)):
        parts = rounds(by, epsilon, times)
        parts[f"at all of {len(LOOKS)} looks, anytime"] = always(by, epsilon, times // 2)
        for name, one in parts.items():
            good = not one.missed(one.held)
            yield (
                f"{by:7s} {epsilon:4g} {name:32s} {one.held.shape[1]:5d} {one.held.mean():7.4f} "
                f"{one.least_of_rows:7.4f} {one.short.mean():12.4f}" + "  MISSED" * (not good),
                good,
            )
