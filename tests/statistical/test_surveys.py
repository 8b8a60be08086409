"""Do the intervals of a survey hold as often as they say, for means, shares, ratios by group and cells? Collections
are drawn anew; intervals that are 20% too short must be caught."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import surveys_drawn as drawn
import taskveil as tv
from taskveil.estimates.labels import Label

COLLECTIONS = 160
PEOPLE = 4000
ALARM = 1e-4  # how rarely a sound row may be taken for an unsound one: there are about fifty


@dataclass(frozen=True)
class Outcome:
    """By row: its label, whether intervals held (C,), whether those that are 20% shorter did, and means less truth; and
    whether three quantiles held (C, 3)."""

    labels: list[Label]
    held: np.ndarray
    held_if_short: np.ndarray
    error: np.ndarray
    raised: np.ndarray
    quantiles: np.ndarray

    @property
    def kinds(self) -> list[str]:
        return [label.key[0] for label in self.labels]

    def of(self, kind: str, values: np.ndarray) -> np.ndarray:
        """The columns of `values` (C, t) that are of this kind; "ratios": means, and those of a group."""
        ratio = [label.key[0] == "means" or label.key[:3] == ("by", "region", "North") for label in self.labels]
        return values[:, ratio if kind == "ratios" else [one == kind for one in self.kinds]]


@cache
def outcome(island: float, anytime: bool = False) -> Outcome:
    """Collections from people of whom so many live on the island."""
    table = drawn.people(20_000, 1, island=island, richer=3.0)
    people, rng = drawn.Drawn.of(drawn.survey(), table), np.random.default_rng(2)
    rows, labels = [], []
    quantiles = [(q, float(table["income"].quantile(q))) for q in (0.1, 0.5, 0.9)]
    for _ in range(COLLECTIONS if island > 0.01 else COLLECTIONS // 2):
        found = tv.estimate(people.veil, people.reports(PEOPLE, rng), anytime=anytime)
        labels = [row.label for those in found.groups.values() for row in those]
        truth = np.array([drawn.truth(table, label._replace(repeats=False)) for label in labels])
        mean, low, high = np.array([row[1:4] for those in found.groups.values() for row in those]).T
        with np.errstate(invalid="ignore"):
            short = (mean - 0.8 * (mean - low) <= truth) & (truth <= mean + 0.8 * (high - mean)) | np.isnan(mean)
        middle = [(found.histograms["income"].quantile(q), value) for q, value in quantiles]
        inside = [one.low <= value <= one.high for one, value in middle]
        rows.append(((low <= truth) & (truth <= high), short, mean - truth, found.drift.raised, inside))
    return Outcome(labels, *(np.array(column) for column in zip(*rows, strict=True)))


def too_rarely(held: np.ndarray) -> bool:
    """Whether so few of (C,) hold that 95% is ruled out."""
    return bool(binom.cdf(int(held.sum()), len(held), 0.95) < ALARM)


def too_rarely_on_average(held: np.ndarray) -> bool:
    """Whether the rows of (C, t), which depend on each other, hold so rarely that 95% on average is ruled out."""
    each = held.mean(axis=1)
    return bool(each.mean() < 0.95 - 3.5 * each.std() / np.sqrt(len(each)))


@pytest.mark.parametrize("island", [0.1, 0.003])
def test_intervals_hold_for_people_unlike_the_volunteers_and_for_rare_groups(island: float) -> None:
    found = outcome(island)
    for kind, held in zip(found.kinds, found.held.T, strict=True):
        assert not too_rarely(held), (kind, held.mean())
    for kind in dict.fromkeys(found.kinds):
        assert not too_rarely_on_average(found.of(kind, found.held)), kind


@pytest.mark.parametrize("kind", ["ratios", "shares", "pairs"])
def test_intervals_that_are_too_short_by_20_percent_are_rejected(kind: str) -> None:
    found = outcome(0.1)
    assert too_rarely_on_average(found.of(kind, found.held_if_short))


def test_means_and_shares_are_unbiased_for_any_people() -> None:
    found = outcome(0.1)
    linear = [kind in ("shares", "missing", "pairs") for kind in found.kinds]
    error = found.error[:, linear]
    assert (np.abs(error.mean(axis=0)) < 4.5 * error.std(axis=0) / np.sqrt(len(error))).all()


def test_bands_of_a_histogram_hold_together() -> None:
    found = outcome(0.1)
    bands = found.of("bands", found.held).all(axis=1)
    assert not too_rarely(bands)


def test_quantiles_hold() -> None:
    for held in outcome(0.1).quantiles.T:
        assert not too_rarely(held)
