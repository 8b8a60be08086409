"""Do the intervals of a survey hold as often as they say, for means, shares, ratios by group and cells? Collections
are drawn anew; intervals that are 15% too short must be caught."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import surveys_drawn as drawn
import taskveil as tv

COLLECTIONS = 200
PEOPLE = 4000
ALARM = 1e-4  # how rarely a sound row may be taken for an unsound one: there are about fifty


@dataclass(frozen=True)
class Outcome:
    """By row: its kind, whether intervals held (C,), whether those that are 15% shorter did, and means less truth."""

    kinds: list[str]
    held: np.ndarray
    held_if_short: np.ndarray
    error: np.ndarray
    raised: np.ndarray

    def of(self, kind: str, values: np.ndarray) -> np.ndarray:
        """The columns of `values` (C, t) that are of this kind."""
        return values[:, [one == kind for one in self.kinds]]


@cache
def outcome(island: float, anytime: bool = False) -> Outcome:
    """Collections from people of whom so many live on the island."""
    table = drawn.people(20_000, 1, island=island, richer=3.0)
    people, rng = drawn.Drawn.of(drawn.survey(), table), np.random.default_rng(2)
    kinds, rows = [], []
    for _ in range(COLLECTIONS if island > 0.01 else COLLECTIONS // 2):
        found = tv.estimate(people.veil, people.reports(PEOPLE, rng), anytime=anytime)
        kinds = [kind for kind, those in found.groups.items() for _ in those]
        labels = [row.label for those in found.groups.values() for row in those]
        truth = np.array([drawn.truth(table, label._replace(repeats=False)) for label in labels])
        mean, low, high = np.array([row[1:4] for those in found.groups.values() for row in those]).T
        with np.errstate(invalid="ignore"):
            short = (mean - 0.85 * (mean - low) <= truth) & (truth <= mean + 0.85 * (high - mean)) | np.isnan(mean)
        rows.append(((low <= truth) & (truth <= high), short, mean - truth, found.drift.raised))
    held, short, error, raised = (np.array(column) for column in zip(*rows, strict=True))
    return Outcome(kinds, held, short, error, raised)


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


@pytest.mark.parametrize("kind", ["means", "shares", "pairs", "by"])
def test_intervals_that_are_too_short_by_15_percent_are_rejected(kind: str) -> None:
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
    table = drawn.people(20_000, 1, richer=3.0)
    people, rng = drawn.Drawn.of(drawn.survey(), table), np.random.default_rng(3)
    held = []
    for _ in range(100):
        histogram = tv.estimate(people.veil, people.reports(PEOPLE, rng)).histograms["income"]
        found = [(histogram.quantile(q), table["income"].quantile(q)) for q in (0.1, 0.5, 0.9)]
        held.append([one.low <= value <= one.high for one, value in found])
    assert (np.mean(held, axis=0) >= 0.9).all()
