"""`method="means"`: reports whose mean is the population's, at the least variance.

Latents are single attributes, or directions in which correlated attributes vary together. K x̂ must be unbiased. So the
latents span all that the task weighs and the domain lets vary, whether or not volunteers vary there. Groups of latents
are reported together, at a few levels each, by the channel of least variance (`channels`). A category may be one atom
instead (`atoms`), which is much better for many values; whichever costs less is taken. Vectors in a ball
are also tried as directions (`ball`); the lower expected loss decides.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import itemgetter

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import BlockGroup, LevelGroup, LevelResponse
from taskveil.client.regions import BoxRegion
from taskveil.designs.domain import Ball, Domain
from taskveil.designs.means.atoms import Atom, atoms_of
from taskveil.designs.means.ball import ball_veil, weighed
from taskveil.designs.means.blocks import ANYWHERE
from taskveil.designs.means.channels import (
    LARGEST,
    LevelReports,
    Patterns,
    best_channel,
    channel_cost,
    response_channel,
    whole_numbers,
)
from taskveil.designs.problem import Problem
from taskveil.designs.selection import SLACK, one_thread
from taskveil.errors import HardlyAskedWarning, TaskError, callers_line, printable
from taskveil.records.inference import FEWEST_ALIKE
from taskveil.records.schema import SHOWN_VALUES
from taskveil.tasks import MeanTask
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder
from taskveil.veil.surveys import GRID_BITS, exact_values

LEAST = 0.05
"""Channels for smaller budgets have the same patterns: they are searched for at this one."""

RIVAL = 1.25
"""Directions that cost so many times more one by one than others are not tried together."""

DRAWS = 2**40
"""The approximate sum of the groups' integer probabilities."""

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

APART_IN_RANGE = 2**12
"""Levels are at least this part of the range apart: an exact distinction of neighbouring grid steps costs
more than rounding at random does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """Latents u = weights x + offset between 0 and 1 for every record of the domain, and the way back:
    x̂ = mean + back (û − ū). Shapes: weights (r, n), offset (r,), back (n, r)."""

    weights: Floats
    offset: Floats
    back: Floats

    @classmethod
    def of(cls, rows: Floats, back: Floats, domain: Domain) -> Directions:
        """Rows (r, n) scaled by the domain's reach along them, with `back` (n, r) scaled likewise."""
        low, high = -domain.support(-rows), domain.support(rows)
        width = high - low
        return cls(weights=rows / width[:, None], offset=-low / width, back=back * width)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """Directions and atoms, the encoder and the region that they make, and the volunteers' latents there."""

    directions: Directions
    atoms: Sequence[Atom]
    encoder: LinearEncoder
    region: BoxRegion
    latents: GridLatents

    @property
    def alone(self) -> float:
        """What it costs to report latents one by one."""
        return self.cost([self.latents.alone(place) for place in range(len(self.directions.weights))])

    def cost(self, groups: Sequence[LatentGroup]) -> float:
        """What groups and the atoms cost together, each drawn as often as the root of its cost says."""
        return total_cost([*groups, *self.atoms])


@one_thread()
def design_means(problem: Problem, epsilon: float, name: str) -> Veil:
    """The veil of least expected loss for the volunteers that is unbiased for everybody in the domain."""
    task = problem.task
    if not isinstance(task, MeanTask):
        raise TaskError(f"{name} serves a MeanTask, got {type(task).__name__}.")
    ball = _in_ball(problem, task, epsilon, name)
    # So many latents, each searched for, would take minutes, and lose against directions unless K weighs few of them.
    if ball is not None and np.linalg.matrix_rank(task.K) > MOST_SEARCHED:
        return ball
    veil, shares = _by_levels(problem, task, epsilon, name)
    if ball is not None and ball.loss(problem.X).mean < veil.loss(problem.X).mean:
        return ball
    _warn_of_hardly_asked(problem, shares)
    return veil


def _warn_of_hardly_asked(problem: Problem, share: Floats) -> None:
    """Name the attributes that fewer reports are about than a thousandth of an even share: weights in the units of
    columns give nearly all reports to the column of the largest numbers."""
    asked = share > 0
    rarely = np.flatnonzero(asked & (share < 0.1 * SLACK / asked.sum()))
    if not len(rarely):
        return
    names = [printable(problem.schema.columns[place]) for place in rarely[:SHOWN_VALUES].tolist()]
    more = f" and {len(rarely) - SHOWN_VALUES} more" if len(rarely) > SHOWN_VALUES else ""
    warnings.warn(
        f"hardly any report is about {', '.join(names)}{more}: one in {1 / share[rarely].max():,.0f} at most, because "
        "K weighs other columns far more. These means stay unknown. To let all columns count alike, leave out K, or "
        "divide each column of K by the spread of its values.",
        HardlyAskedWarning,
        stacklevel=callers_line(),
    )


def _in_ball(problem: Problem, task: MeanTask, epsilon: float, name: str) -> Veil | None:
    """The veil whose reports are directions, where records are vectors of numbers in a ball."""
    ball, asked = problem.domain, weighed(task)
    most = problem.on_device.latent_dim
    if (
        not isinstance(ball, Ball)
        or not problem.schema.unbounded
        or len(asked) < 2
        or (most or len(asked)) < len(asked)
    ):
        return None
    veil = ball_veil(problem, ball, asked, epsilon, name)
    return veil if veil.size.client_bytes <= problem.on_device.max_bytes else None


def _by_levels(problem: Problem, task: MeanTask, epsilon: float, name: str) -> tuple[Veil, Floats]:
    """The veil whose reports are of groups of latents at levels, and the share of reports about each attribute (n,)."""
    box = problem.domain.bounding_box
    # Only ratios of errors decide, in whichever unit the task has them.
    K = task.K / (float(np.abs(task.K * (box.high - box.low)).max()) or 1.0)
    planned, ways = min(max(epsilon, LEAST), LARGEST), _ways(problem, K, epsilon)
    levels, rows, halvings = ALONE, most_rows(planned, len(ways[0][0].weights)), 0
    while True:
        plans = [_plan(problem, *way, K, planned, levels) for way in ways]
        rivals = [plan for plan in plans if plan.alone <= RIVAL * min(plan.alone for plan in plans)]
        parted = [(plan, plan.latents.parted(rows)) for plan in rivals]
        plan, groups = min(parted, key=lambda found: found[0].cost(found[1]))
        veil, shares = _veil(problem, plan, groups, epsilon, name, halvings)
        if veil.size.client_bytes <= problem.on_device.max_bytes or levels == 2:
            return veil, shares
        # Smaller tables: of fewer latents together, then of fewer levels; fewer base blocks, too.
        levels, rows = (levels, rows // 2) if rows > 1 else (levels // 2, 1)
        halvings = min(halvings + 1, 4)


def _ways(problem: Problem, K: Floats, epsilon: float) -> list[tuple[Directions, list[Atom]]]:
    """Directions and atoms that may be reported; TaskError where the caller allows fewer than the task has."""
    epsilon = min(max(epsilon, LEAST), LARGEST)
    atoms = atoms_of(problem, K, epsilon)
    ways: list[tuple[Directions, list[Atom]]] = []
    if atoms:
        rest = K.copy()
        for atom in atoms:
            rest[:, atom.columns] = 0.0
        nothing = Directions(weights=np.empty((0, K.shape[1])), offset=np.empty(0), back=np.empty((K.shape[1], 0)))
        others = list(directions_of(problem.X, rest, problem.domain)) if rest.any() else [nothing]
        ways = [(directions, atoms) for directions in others]
    # One latent for each value can only be better if several fields are reported together.
    if epsilon >= APART or not atoms:
        ways += [(directions, []) for directions in directions_of(problem.X, K, problem.domain)]
    if (most := problem.on_device.latent_dim) is not None:
        least = min(len(way.weights) + len(atoms) for way, atoms in ways)
        ways = [(way, atoms) for way, atoms in ways if len(way.weights) + len(atoms) <= most]
        if not ways:
            raise TaskError(
                f"latent_dim={most} leaves out some of the {least} directions that this task weighs, and "
                "their means would be biased: leave out latent_dim, or weigh fewer attributes."
            )
    return ways


def _plan(
    problem: Problem, directions: Directions, atoms: Sequence[Atom], K: Floats, epsilon: float, levels: int
) -> _Plan:
    """The latents of directions, and after them those of atoms."""
    box, count = problem.domain.bounding_box, len(directions.weights)
    weights = np.concatenate([directions.weights, *(atom.weights[None] for atom in atoms)])
    offset = np.concatenate([directions.offset, np.zeros(len(atoms))])
    encoder = LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=offset)
    tops = np.array([*[1] * count, *(atom.rows - 1 for atom in atoms)], dtype=np.int64)
    region = BoxRegion(step=2.0**-GRID_BITS, low=np.zeros_like(tops), high=tops << GRID_BITS)
    errors = K @ directions.back * region.step
    gram = errors.T @ errors
    gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram) / max(len(gram), 1) + 1e-300
    k, ends = region.enforce(encoder(problem.X))[:, :count], (region.low[:count], region.high[:count])
    latents = GridLatents(k=k, low=ends[0], high=ends[1], gram=gram, epsilon=epsilon, alone_levels=levels)
    return _Plan(directions=directions, atoms=atoms, encoder=encoder, region=region, latents=latents)


def _veil(
    problem: Problem, plan: _Plan, groups: Sequence[LatentGroup], epsilon: float, name: str, halvings: int
) -> tuple[Veil, Floats]:
    """Whole numbers for devices, and what their reports say for the server; shares of reports as in `_by_levels`."""
    channels = [group.channel(plan.latents.epsilon) for group in groups]
    costs = [channel.cost for channel in channels] + [atom.cost for atom in plan.atoms]
    roots = np.sqrt(np.maximum(costs, 1e-300))
    chances = np.maximum(1, np.rint(DRAWS * roots / roots.sum())).astype(np.int64)
    mean = problem.X.mean(axis=0)
    parts: list[LevelGroup | BlockGroup] = []
    codewords = []
    for group, channel, chance in zip(groups, channels, chances.tolist()[: len(groups)], strict=True):
        table = whole_numbers(channel, epsilon)
        values = exact_values(table, group.points, group.prior)
        steps = np.linalg.solve(plan.latents.root(group.places), values.T) * (float(chances.sum()) / chance)
        codewords.append(mean + (plan.directions.back[:, group.places] @ steps).T * plan.region.step)
        parts.append(
            LevelGroup(
                places=np.array(group.places),
                counts=np.array([len(levels) for levels in group.scales]),
                levels=np.concatenate(group.scales),
                table=table,
                chance=chance,
            )
        )
    for place, (atom, chance) in enumerate(zip(plan.atoms, chances.tolist()[len(groups) :], strict=True)):
        block = atom.group(len(plan.directions.weights) + place, chance, epsilon, halvings)
        codewords.append(atom.codewords(block, mean, float(chances.sum()) / chance))
        parts.append(block)
    decoder = CodewordDecoder(codewords=np.concatenate(codewords), sizes=np.array([sum(map(len, codewords))]))
    mechanism = LevelResponse(region=plan.region, groups=tuple(parts))
    about = np.array([(plan.encoder.weights[part.places] != 0).any(axis=0) for part in parts])
    veil = Veil(encoder=plan.encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=name)
    return veil, np.asarray(chances @ about / chances.sum())


def directions_of(X: Floats, K: Floats, domain: Domain) -> Iterator[Directions]:
    """Directions that determine Kx, single attributes first: for volunteers X (N, n), a task K (m, n), the domain."""
    width = X.shape[1]
    reach = domain.support(np.eye(width)) + domain.support(-np.eye(width))
    asked = np.flatnonzero((np.abs(K).max(axis=0) * reach) > 0)
    if len(asked) == 0:  # nothing matters: any latent will do, and tells nothing
        asked = np.array([int(reach.argmax())])
        yield Directions.of(np.eye(width)[asked], np.eye(width)[:, asked] * 0.0, domain)
        return
    yield Directions.of(np.eye(width)[asked], np.eye(width)[:, asked], domain)
    if len(asked) == 1:
        return
    # In shares of the attributes' reach, whatever their units: K = U S Vᵀ there, and S Vᵀ x is all that the task sees.
    _, singular, right = np.linalg.svd(K[:, asked] * reach[asked], full_matrices=False)
    kept = singular > len(asked) * np.finfo(float).eps * singular[0]
    seen = singular[kept, None] * right[kept] / reach[asked]
    # Where volunteers do not vary, any basis is as good as another.
    _, axes = np.linalg.eigh(np.atleast_2d(np.cov(seen @ X[:, asked].T)))
    rows, back = np.zeros((len(seen), width)), np.zeros((width, len(seen)))
    rows[:, asked] = axes.T @ seen
    back[asked] = reach[asked, None] * ((right[kept].T / singular[kept]) @ axes)
    yield Directions.of(rows, back, domain)


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
    if epsilon < APART or (latents > MOST_SEARCHED and not is_plain(FEW, epsilon)):
        return 1
    return int(np.clip(math.exp(min(epsilon, 20.0)) / PLAIN, FEW, MANY))


def is_plain(levels: int, epsilon: float) -> bool:
    """Whether plain randomised response between so many levels is nearly the best channel."""
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
        fine = [most for most in FINE if most <= rows and is_plain(most, self.epsilon)]
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
        plain = is_plain(rows, self.epsilon)
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
        if is_plain(len(points), self.epsilon):
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


def total_cost(groups: Sequence[LatentGroup | Atom]) -> float:
    """The expected squared error of all groups, each drawn in proportion to the root of its own."""
    return sum(math.sqrt(group.cost) for group in groups) ** 2


def best_levels(k: Integers, low: int, high: int, most: int) -> Integers:
    """The `most` levels from `low` to `high` between which volunteers at `k` (N,), all in grid steps, are rounded
    at random at the least cost in variance; where they have no more values than that, these."""
    public = _public(k, low, high)
    distinct = np.unique(public)
    if len(distinct) > FINE[-1]:  # as many candidates as a latent may have levels
        distinct = np.unique(np.quantile(public, np.linspace(0.0, 1.0, FINE[-1]), method="nearest"))
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
    """The values k (N,), rounded to marks of the domain, as many as a table has rows, where few volunteers share them:
    levels are public."""
    _, which, counts = np.unique(k, return_inverse=True, return_counts=True)
    marks = low + (np.rint((k - low) / max(high - low, 1) * MANY) * (high - low)).astype(np.int64) // MANY
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
