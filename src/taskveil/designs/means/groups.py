"""Which latents are reported together, at which levels, and by which channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.means.channels import Channel, Patterns, best_channel, channel_cost, response_channel
from taskveil.designs.means.levels import best_levels, by_lot, level_prior

FEW, MANY = 29, 128
"""Rows of a group's table at most, at small budgets and at large ones."""

APART, MOST_SEARCHED = 1.5, 48
"""Below this ε latents are told one by one: together they would cost hardly a hundredth less. So are more than so many
where every group's channel has to be searched for, to save time."""

ALONE = 8
"""Levels of a latent at most, and at first."""

FINE = (16, 24, 32, 48)
"""Levels of a latent that is told alone, where the budget is enough for plain randomised response between so many."""

PLAIN = 6.0
"""Where e^ε is so many times the levels, plain randomised response is nearly the best channel."""

NEARLY = 1.01
"""Plain randomised response has the smallest table: it may cost this much more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Latents `places` at levels `scales` (one array in grid steps for each), `points` (L, k) that these levels stand
    for in the scale of errors and seen from the mean, their prior (L,), and about what the best channel costs."""

    places: tuple[int, ...]
    scales: tuple[Integers, ...]
    points: Floats
    prior: Floats
    cost: float
    paying: Patterns | None = None
    """Patterns (R, L) that the search for the best channel begins with."""

    def channel(self, epsilon: float) -> Channel:
        """The best channel, or plain randomised response where that is about as good."""
        plain = response_channel(self.points, self.prior, epsilon)
        if len(self.points) > FEW:
            return plain
        best = best_channel(self.points, self.prior, epsilon, start=self.paying)
        return plain if plain.cost <= NEARLY * best.cost else best


def most_rows(epsilon: float, latents: int) -> int:
    """How many rows the tables of so many latents may have: more than a few only where plain randomised response is
    nearly best."""
    if epsilon < APART or (latents > MOST_SEARCHED and not _is_plain(FEW, epsilon)):
        return 1
    return int(np.clip(math.exp(min(epsilon, 20.0)) / PLAIN, FEW, MANY))


def _is_plain(levels: int, epsilon: float) -> bool:
    return epsilon >= math.log(PLAIN * levels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Latents:
    """Volunteers' latents k (N, r) in grid steps between `low` and `high` (r,); `gram` (r, r) is the squared error that
    a grid step makes in each latent, and in two together."""

    k: Integers
    low: Integers
    high: Integers
    gram: Floats
    epsilon: float
    alone_levels: int = ALONE
    _known: dict[tuple[tuple[int, ...], int], Group] = field(default_factory=dict, init=False, repr=False)
    _paying: dict[tuple[int, ...], Patterns] = field(default_factory=dict, init=False, repr=False)
    """What paid for the last group whose latents had so many levels: it mostly does for the next."""

    def alone(self, place: int, rows: int = 1) -> Group:
        """One latent as a group, at more than the usual levels where that costs less and a table has so many rows."""
        fine = [most for most in FINE if most <= rows and _is_plain(most, self.epsilon)]
        groups = [self._group((place,), most) for most in (self.alone_levels, *fine)]
        return min(groups, key=lambda group: group.cost)

    def together(self, places: tuple[int, ...], rows: int) -> Group | None:
        """These latents as one group of least cost; None where levels worth the name would make more than so many
        rows."""
        if len(places) == 1:
            return self.alone(places[0], rows)
        groups = [self._group(places, most) for most in self._level_counts(places, rows)]
        return min(groups, key=lambda group: group.cost, default=None)

    def _group(self, places: tuple[int, ...], most: int) -> Group:
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

    def _made(self, places: tuple[int, ...], most: int) -> Group:
        scales = tuple(best_levels(self.k[:, place], self.low[place], self.high[place], most) for place in places)
        prior = level_prior([by_lot(self.k[:, place], levels) for place, levels in zip(places, scales, strict=True)])
        steps = np.stack(np.meshgrid(*scales, indexing="ij"), axis=-1).reshape(-1, len(places))
        points = (steps - self.k[:, places].mean(axis=0)) @ self.root(places).T
        counts, paying = tuple(map(len, scales)), None
        if _is_plain(len(points), self.epsilon):
            cost = response_channel(points, prior, self.epsilon).cost
        else:
            cost, paying = channel_cost(points, prior, self.epsilon, start=self._paying.get(counts))
            self._paying[counts] = paying
        return Group(places=places, scales=scales, points=points, prior=prior, cost=cost, paying=paying)

    def root(self, places: Sequence[int]) -> Floats:
        """(k, k): from grid steps of these latents to the scale in which errors are measured."""
        gram = self.gram[np.ix_(places, places)]
        # Latents that the task sees as one have a singular Gram matrix, and yet each must be told.
        return np.asarray(np.linalg.cholesky(gram + 1e-9 * np.diag(np.diag(gram))).T)

    def parted(self, rows: int) -> tuple[Group, ...]:
        """All latents in groups with tables of at most so many rows, such that Σ √cost is least: drawn as often as
        √cost says, that is the square root of what all groups cost together.

        Alike in cost is who gains most from being told together. So groups are runs of latents in the order of their
        cost, found by dynamic programming over where runs end.
        """
        order = sorted(range(len(self.low)), key=lambda place: self.alone(place).cost)
        ways: list[tuple[float, tuple[Group, ...]]] = [(0.0, ())]
        ending: list[list[Group]] = [[] for _ in order]
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


def total_cost(groups: Sequence[Group]) -> float:
    """What groups cost together, each drawn as often as the root of its cost says."""
    return sum(math.sqrt(group.cost) for group in groups) ** 2
