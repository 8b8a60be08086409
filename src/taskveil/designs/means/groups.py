"""Which latents are reported together, at which levels, and by which channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import itemgetter

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.means.channels import LevelReports, Patterns, best_channel, channel_cost, response_channel
from taskveil.designs.selection import SLACK
from taskveil.records.inference import FEWEST_ALIKE

FEW, MANY = 29, 128
"""Rows of a group's table at most, at small budgets and at large ones."""

APART, MOST_SEARCHED = 1.5, 48
"""Below this ε latents are reported one by one: together they would cost hardly a hundredth less. To save time, so are
more latents than this where the channel of every group must be searched for."""

ALONE = 8
"""Levels of a latent at most, and at first."""

FINE = (16, 24, 32, 48)
"""Levels of a latent that is reported alone, if the budget is enough for plain randomised response between so many."""

PLAIN = 6.0
"""Where e^ε is so many times the levels, plain randomised response is nearly the best channel."""

CANDIDATES = 48
"""Values among which levels are chosen, besides both ends."""

MARKS = 128
"""Parts of the domain's reach to which other values are rounded first."""

ANYWHERE = 0.02
"""The share of the prior that is spread evenly over all levels. It limits the error for people unlike the
volunteers."""

APART_IN_RANGE = 2**12
"""Levels are at least this part of the range apart: an exact distinction of neighbouring grid steps costs
more than rounding at random does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentGroup:
    """Latents `places` at levels `scales` (one array in grid steps for each), `points` (L, k) that these levels stand
    for in the scale of errors and seen from the mean, their prior (L,), and about what the best channel costs."""

    places: tuple[int, ...]
    scales: tuple[Integers, ...]
    points: Floats
    prior: Floats
    cost: float
    paying: Patterns | None = None
    """Patterns (R, L) that the search for the best channel begins with."""

    def channel(self, epsilon: float) -> LevelReports:
        """The best channel, or plain randomised response, which has the smallest table, where that is as good."""
        plain = response_channel(self.points, self.prior, epsilon)
        if len(self.points) > FEW:
            return plain
        best = best_channel(self.points, self.prior, epsilon, start=self.paying)
        return plain if plain.cost <= (1.0 + SLACK) * best.cost else best


def most_rows(epsilon: float, latents: int) -> int:
    """How many rows the tables of so many latents may have: more than a few only where plain randomised response is
    nearly best."""
    if epsilon < APART or (latents > MOST_SEARCHED and not _is_plain(FEW, epsilon)):
        return 1
    return int(np.clip(math.exp(min(epsilon, 20.0)) / PLAIN, FEW, MANY))


def _is_plain(levels: int, epsilon: float) -> bool:
    return epsilon >= math.log(PLAIN * levels)


@dataclass(frozen=True, kw_only=True, eq=False)
class GridLatents:
    """Volunteers' latents k (N, r) in grid steps between `low` and `high` (r,); `gram` (r, r) is the squared error that
    a grid step makes in each latent, and in two together."""

    k: Integers
    low: Integers
    high: Integers
    gram: Floats
    epsilon: float
    alone_levels: int = ALONE
    _known: dict[tuple[tuple[int, ...], int], LatentGroup] = field(default_factory=dict, init=False, repr=False)
    _paying: dict[tuple[int, ...], Patterns] = field(default_factory=dict, init=False, repr=False)
    """What paid for the last group whose latents had so many levels: it mostly does for the next."""

    def alone(self, place: int, rows: int = 1) -> LatentGroup:
        """One latent as a group, at more than the usual levels where that costs less and a table has so many rows."""
        fine = [most for most in FINE if most <= rows and _is_plain(most, self.epsilon)]
        groups = [self._group((place,), most) for most in (self.alone_levels, *fine)]
        return min(groups, key=lambda group: group.cost)

    def together(self, places: tuple[int, ...], rows: int) -> LatentGroup | None:
        """These latents as one group of least cost; None where levels worth the name would make more than so many
        rows."""
        if len(places) == 1:
            return self.alone(places[0], rows)
        groups = [self._group(places, most) for most in self._level_counts(places, rows)]
        return min(groups, key=lambda group: group.cost, default=None)

    def _group(self, places: tuple[int, ...], most: int) -> LatentGroup:
        """These latents at so many levels each; made once."""
        if (places, most) not in self._known:
            self._known[places, most] = self._made(places, most)
        return self._known[places, most]

    def _level_counts(self, places: tuple[int, ...], rows: int) -> list[int]:
        """How many levels each latent may have; very few are enough only for latents that have no more. The best
        channel gains by every level, plain randomised response does not."""
        distinct = [len(np.unique([*self.k[:, place], self.low[place], self.high[place]])) for place in places]
        fitting = [most for most in range(2, ALONE + 1) if math.prod(min(most, one) for one in distinct) <= rows]
        plain = _is_plain(rows, self.epsilon)
        fitting = [most for most in fitting if most >= min(3 if plain else 4, max(distinct))]
        return fitting if plain else fitting[-1:]

    def _made(self, places: tuple[int, ...], most: int) -> LatentGroup:
        scales = tuple(best_levels(self.k[:, place], self.low[place], self.high[place], most) for place in places)
        prior = level_prior(
            [level_chances(self.k[:, place], levels) for place, levels in zip(places, scales, strict=True)]
        )
        steps = np.stack(np.meshgrid(*scales, indexing="ij"), axis=-1).reshape(-1, len(places))
        points = (steps - self.k[:, places].mean(axis=0)) @ self.root(places).T
        counts, paying = tuple(map(len, scales)), None
        if _is_plain(len(points), self.epsilon):
            cost = response_channel(points, prior, self.epsilon).cost
        else:
            cost, paying = channel_cost(points, prior, self.epsilon, start=self._paying.get(counts))
            self._paying[counts] = paying
        return LatentGroup(places=places, scales=scales, points=points, prior=prior, cost=cost, paying=paying)

    def root(self, places: Sequence[int]) -> Floats:
        """(k, k): from grid steps of these latents to the scale in which errors are measured."""
        gram = self.gram[np.ix_(places, places)]
        # Latents that the task sees as one have a singular Gram matrix, and yet each must be reported.
        return np.asarray(np.linalg.cholesky(gram + 1e-9 * np.diag(np.diag(gram))).T)

    def parted(self, rows: int) -> tuple[LatentGroup, ...]:
        """All latents in groups with tables of at most so many rows, such that Σ √cost is least: drawn as often as
        √cost says, that is the square root of what all groups cost together.

        Latents of like cost gain most if they are reported together. So groups are runs of latents in the order of
        their cost, found by dynamic programming over where runs end.
        """
        order = sorted(range(len(self.low)), key=lambda place: self.alone(place).cost)
        ways: list[tuple[float, tuple[LatentGroup, ...]]] = [(0.0, ())]
        ending: list[list[LatentGroup]] = [[] for _ in order]
        for start in range(len(order)):
            apart = math.inf
            for end in range(start, len(order)):
                group = self.together(tuple(order[start : end + 1]), rows)
                if group is None or math.sqrt(group.cost) >= apart:
                    break  # one more is worth no group
                ending[end].append(group)
                apart = math.sqrt(group.cost) + math.sqrt(self.alone(order[min(end + 1, len(order) - 1)], rows).cost)
        for end, groups in enumerate(ending):
            found = [(ways[end + 1 - len(group.places)], group) for group in groups]
            made = ((least + math.sqrt(group.cost), (*before, group)) for (least, before), group in found)
            ways.append(min(made, key=itemgetter(0)))
        return ways[-1][1]


def total_cost(groups: Sequence[LatentGroup]) -> float:
    """What groups cost together, each drawn as often as the root of its cost says."""
    return sum(math.sqrt(group.cost) for group in groups) ** 2


def best_levels(k: Integers, low: int, high: int, most: int) -> Integers:
    """The `most` levels from `low` to `high` between which volunteers at `k` (N,), all in grid steps, are rounded
    at random at the least cost in variance; where they have no more values than that, these."""
    public = _public(k, low, high)
    distinct = np.unique(public)
    if len(distinct) > CANDIDATES:
        distinct = np.unique(np.quantile(public, np.linspace(0.0, 1.0, CANDIDATES), method="nearest"))
    places = _apart(np.unique(np.concatenate([[low, high], distinct])))
    if len(places) <= most:
        return places
    # A volunteer at x between levels a < b has variance (x − a)(b − x) after rounding: three sums for each interval.
    x, scale = np.sort(k).astype(np.float64), float(high - low)
    at = np.searchsorted(x, places, side="right")
    counts, sums, squares = (np.append(0.0, np.cumsum((x / scale) ** power))[at] for power in (0, 1, 2))
    a = (places / scale)[:, None]
    costs = (a + a.T) * (sums - sums[:, None]) - (squares - squares[:, None]) - a * a.T * (counts - counts[:, None])
    costs = np.where(places[:, None] < places, costs, np.inf)
    # Dynamic programming: the least cost of reaching each place with so many intervals.
    least, came_from = costs[0], []
    for _ in range(most - 2):
        through = least[:, None] + costs
        came_from.append(through.argmin(axis=0))
        least = through.min(axis=0)
    chosen = [len(places) - 1]
    for before in reversed(came_from):
        chosen.append(int(before[chosen[-1]]))
    return np.unique(np.append(places[chosen], low))


def _public(k: Integers, low: int, high: int) -> Integers:
    """The values k (N,), rounded to marks of the domain where few volunteers share them: levels are public."""
    _, which, counts = np.unique(k, return_inverse=True, return_counts=True)
    marks = low + (np.rint((k - low) / max(high - low, 1) * MARKS) * (high - low)).astype(np.int64) // MARKS
    return np.where(counts[which] >= FEWEST_ALIKE, k, marks)


def _apart(places: Integers) -> Integers:
    """The first place, the last, and of those between all that are not next to another."""
    least, kept = (places[-1] - places[0]) / APART_IN_RANGE, [places[0]]
    for place in places[1:-1]:
        if place - kept[-1] >= least and places[-1] - place >= least:
            kept.append(place)
    return np.unique([*kept, places[-1]])


def level_chances(k: Integers, levels: Integers) -> Floats:
    """(N, levels): how probable each level is for volunteers at k (N,), between the first level and the last."""
    below = np.clip(np.searchsorted(levels, k, side="right") - 1, 0, max(0, len(levels) - 2))
    above = np.minimum(below + 1, len(levels) - 1)
    up = (k - levels[below]) / np.maximum(levels[above] - levels[below], 1)
    chances, rows = np.zeros((len(k), len(levels))), np.arange(len(k))
    chances[rows, below] += 1.0 - up
    chances[rows, above] += up
    return chances


def level_prior(chances: Sequence[Floats]) -> Floats:
    """(L,): how probable every choice of one level of each latent is, by the volunteers' `chances` (N, levels) of each.

    Of few volunteers, little is said about choices together: what their latents say one by one is mixed in, and a
    small share that is the same everywhere.
    """
    count = len(chances[0])
    joint = reduce(lambda one, other: (one[:, :, None] * other[:, None, :]).reshape(count, -1), chances).mean(axis=0)
    single = reduce(np.outer, [each.mean(axis=0) for each in chances]).ravel()
    few = len(joint) / (len(joint) + count) if len(chances) > 1 else 0.0
    return np.asarray((1.0 - ANYWHERE) * ((1.0 - few) * joint + few * single) + ANYWHERE / len(joint))
