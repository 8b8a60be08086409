"""The unbiased channel of least variance: which reports a few levels should lead to, and what each report says.

A report o is likelier by e^ε for the levels ℓ of its pattern than for all others: P[o | ℓ] = μ_o q_oℓ, where q_oℓ is
e^ε inside the pattern and 1 outside. Every ε-LDP channel is a mixture of such reports. With values v_o it is unbiased
if Σ_o μ_o q_oℓ v_o = z_ℓ at every level. For given masses μ the best values are

    v_o = Bᵀq_o / (π·q_o),   B = M⁻¹Z,   M = Σ_o μ_o q_o q_oᵀ / (π·q_o),

and they cost tr(ZᵀB), which is convex in μ: an A-optimal design of experiments, whose experiments are patterns, with
the condition that every row of the channel adds up to one. Newton's method on a barrier solves it for some patterns;
the multipliers then show which others would help. What is left is a linear program, whose corner has few reports.
Devices get the channel in whole numbers: rows of equal sums, ratios within e^ε, and values that are unbiased for these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import linprog

from taskveil.arrays import Floats, Integers

Patterns = NDArray[np.bool_]

NEWTON = 8
"""Steps at most for one weight of the barrier: between rounds, about the middle is good enough."""

DIRECTIONS = 12
"""Slanted half-spaces that the search starts with, besides those along single latents."""

KEPT_PER_LEVEL = 7
"""Patterns that are kept from one round to the next, for every level."""

SLIGHT = 1e-10
"""Reports of less chance than this are left out."""

TOTAL = 2.0**51
"""About the sum of every row."""

SPARED = 1e-9
"""The share of the budget that is left over for making all rows' sums equal."""

LARGEST = 27.0
"""The largest ε that fits into tables: e^27 is 2^39, and a mean needs no more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelReports:
    """Reports with their patterns (R, L), masses (R,) and values (R, k), the expected ‖v‖² under the prior, and what no
    channel on these levels can be below (as far as the search for patterns could tell)."""

    patterns: Patterns
    masses: Floats
    values: Floats
    cost: float
    bound: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _State:
    """Masses (R,) for rows q (R, L), and what follows from them: the rows' chances under the prior (R,), Cholesky's
    factor of M, B (L, k) and the cost."""

    rows: Floats
    masses: Floats
    chances: Floats
    factor: Any
    inverse: Floats
    cost: float

    @classmethod
    def of(cls, rows: Floats, masses: Floats, prior: Floats, points: Floats) -> _State:
        chances = rows @ prior
        gram = (rows * (masses / chances)[:, None]).T @ rows
        gram[np.diag_indices(len(gram))] *= 1.0 + 1e-12  # next to no budget makes all rows alike
        factor = cho_factor(gram)
        inverse = cho_solve(factor, points)
        if not 0.0 <= float((points * inverse).sum()) < np.inf:
            raise LinAlgError("rounding errors decide")
        return cls(
            rows=rows,
            masses=masses,
            chances=chances,
            factor=factor,
            inverse=inverse,
            cost=float((points * inverse).sum()),
        )

    @property
    def values(self) -> Floats:
        """The best values (R, k)."""
        return np.asarray((self.rows @ self.inverse) / self.chances[:, None])


def best_channel(
    points: Floats,
    prior: Floats,
    epsilon: float,
    *,
    start: Patterns | None = None,
    gap: float = 0.005,
    rounds: int = 12,
) -> LevelReports:
    """The channel of least expected ‖v‖² that is ε-LDP and unbiased at every level.

    Args:
        points: what the levels stand for (L, k), in the scale in which errors are measured.
        prior: how probable the levels are (L,), all above 0.
        epsilon: the budget.
        start: patterns (R, L) to begin with, besides the usual ones: those of a like problem save time.
        gap: stop when the cost is at most this share above the bound.
        rounds: how often at most to look for better patterns.
    """
    points, size = _near_one(points)
    best = plain = response_channel(points, prior, epsilon)
    try:
        state, bound = _search(points, prior, epsilon, start, gap, rounds)
    except LinAlgError:  # levels so close that rounding errors decide
        pass
    else:
        found = _corner(state, bound, prior, points)
        best = found if found is not None and found.cost < plain.cost else replace(plain, bound=bound)
    return replace(best, values=best.values * size, cost=best.cost * size**2, bound=best.bound * size**2)


def channel_cost(
    points: Floats, prior: Floats, epsilon: float, *, start: Patterns | None = None
) -> tuple[float, Patterns]:
    """About what the best channel costs, and never less: for choosing among levels and groups. With the patterns (R, L)
    that matter most."""
    points, size = _near_one(points)
    plain = response_channel(points, prior, epsilon)
    try:
        state, _ = _search(points, prior, epsilon, start, gap=0.03, rounds=5)
    except LinAlgError:
        return plain.cost * size**2, plain.patterns
    chances = state.masses * state.chances
    return min(plain.cost, state.cost) * size**2, state.rows[np.argsort(-chances)[: 3 * len(points)]] > 1.0


def _near_one(points: Floats) -> tuple[Floats, float]:
    """Points (L, k) over their size, and their size, a power of two: what solvers tolerate is meant for numbers near
    one."""
    size = 2.0 ** int(np.frexp(np.abs(points).max())[1])
    return points / size, size


def response_channel(points: Floats, prior: Floats, epsilon: float) -> LevelReports:
    """Plain randomised response between the levels: each has a report that is likelier for it alone."""
    count, extra = len(points), float(np.expm1(epsilon))
    masses = np.full(count, 1.0 / (count + extra))
    values = (points * (count + extra) - points.sum(axis=0)) / extra
    costs = (1.0 + extra * prior) * (values**2).sum(axis=1)
    return LevelReports(
        patterns=np.eye(count, dtype=bool), masses=masses, values=values, cost=float(masses @ costs), bound=-np.inf
    )


def _search(
    points: Floats, prior: Floats, epsilon: float, start: Patterns | None, gap: float, rounds: int
) -> tuple[_State, float]:
    """Masses of nearly least cost, and what the cost cannot be below."""
    extra, rng, most = float(np.expm1(epsilon)), np.random.default_rng(0), KEPT_PER_LEVEL * len(points)
    patterns = _first_patterns(points, rng)
    if start is not None:
        patterns = _distinct(np.concatenate([patterns, start, ~start]))
    masses, bound = _even(_rows(patterns, extra)), -np.inf
    weight: float | None = None
    for _ in range(rounds):
        state, multipliers, weight = _centred(_rows(patterns, extra), masses, prior, points, weight, gap)
        new, below = _better_patterns(state, multipliers, prior, points, extra, rng)
        masses, bound = state.masses, max(bound, below)
        if state.cost - bound <= gap * state.cost:
            break
        # The least likely are dropped. The next step fills what their rows lack then.
        chances = masses * state.chances
        kept = chances >= np.sort(chances)[-min(most, len(chances))]
        new = _unknown(new, patterns[kept])
        # A pattern and its complement together are the same for every level.
        pairs = np.concatenate([new, ~new])
        patterns = np.concatenate([patterns[kept], pairs])
        masses = np.concatenate([0.98 * masses[kept], 0.02 * _even(_rows(pairs, extra))])
        weight *= 0.3
    for _ in range(4 * NEWTON):
        if np.abs(state.masses @ state.rows - 1.0).max() < 1e-9:
            break
        state, _, _ = _newton(state, prior, points, state.cost * gap / len(state.masses))
    return state, bound


def _first_patterns(points: Floats, rng: np.random.Generator) -> Patterns:
    """Every level by itself, half-spaces along latents and slanted, and the complements of all these."""
    count, dim = points.shape
    scaled = points / np.maximum(np.abs(points).max(axis=0), 1e-300)
    slanted = rng.normal(size=(DIRECTIONS if dim > 1 else 0, dim))
    found = [np.eye(count, dtype=bool)]
    for direction in np.concatenate([np.eye(dim), slanted]):
        heights = scaled @ direction
        cuts = np.unique(heights)[1:]
        some = np.linspace(0, len(cuts) - 1, min(7, len(cuts))).astype(int)
        found += [(heights >= cut)[None] for cut in cuts[some]]
    both = np.concatenate(found)
    return _distinct(np.concatenate([both, ~both]))


def _distinct(patterns: Patterns) -> Patterns:
    """The same patterns, each once. (Sorting them as bytes is much faster than as rows.)"""
    packed = np.packbits(patterns, axis=1)
    _, first = np.unique(packed.view(f"V{packed.shape[1]}")[:, 0], return_index=True)
    return np.asarray(patterns[first])


def _rows(patterns: Patterns, extra: float) -> Floats:
    """q (R, L): 1 outside the patterns, e^ε = 1 + extra inside."""
    return np.where(patterns, 1.0 + extra, 1.0)


def _even(rows: Floats) -> Floats:
    """Equal masses (R,) for rows (R, L) that come with their complements."""
    if len(rows) == 0:
        return np.empty(0)
    return np.full(len(rows), 1.0 / float(rows.sum(axis=0).mean()))


def _unknown(new: Patterns, known: Patterns) -> Patterns:
    """Those new patterns that are not known and are not each other's complements."""
    seen = {row.tobytes() for row in known}
    kept = []
    for row in new:
        if row.tobytes() not in seen and row.any() and not row.all():
            kept.append(row)
            seen |= {row.tobytes(), (~row).tobytes()}
    return np.array(kept, dtype=bool).reshape(-1, known.shape[1])


def _centred(
    rows: Floats, masses: Floats, prior: Floats, points: Floats, weight: float | None, gap: float
) -> tuple[_State, Floats, float]:
    """Masses that minimise cost − weight · Σ log masses, the multipliers (L,) of the rows' sums, and the weight.
    Without one, it is lowered from where the barrier decides everything to where it costs a few percent."""
    state = _State.of(rows, masses, prior, points)
    first = weight is None
    weight = state.cost / len(masses) if weight is None else max(weight, 0.3 * gap * state.cost / len(masses))
    while True:
        for _ in range(NEWTON):
            state, multipliers, left = _newton(state, prior, points, weight)
            if left < max(0.1 * weight, 1e-7 * state.cost):
                break
        if not first or weight * len(masses) <= 0.05 * state.cost:
            return state, multipliers, weight
        weight *= 0.2


def _newton(state: _State, prior: Floats, points: Floats, weight: float) -> tuple[_State, Floats, float]:
    """One step, the multipliers, and by about how much it could lower the aim."""
    rows, masses = state.rows, state.masses
    scaled = rows / np.sqrt(state.chances)[:, None]
    slopes = scaled @ state.inverse
    # In the logarithms of masses, so that all are of one size.
    hessian = 2.0 * (scaled @ cho_solve(state.factor, scaled.T)) * (slopes @ slopes.T) * np.outer(masses, masses)
    hessian[np.diag_indices(len(masses))] += weight
    gradient = -masses * (slopes**2).sum(axis=1) - weight
    sums = rows * masses[:, None]
    factor = cho_factor(hessian)
    by_sums, by_gradient = cho_solve(factor, sums), cho_solve(factor, gradient)
    lacking = 1.0 - sums.sum(axis=0)
    multipliers = np.linalg.lstsq(sums.T @ by_sums, -lacking - sums.T @ by_gradient, rcond=None)[0]
    step = -(by_gradient + by_sums @ multipliers)
    left = -float(gradient @ step)
    length = min(1.0, 0.95 / max(-float(step.min()), 1e-300))
    aim = state.cost - weight * float(np.log(masses).sum())
    while length > 1e-6:
        try:
            there = _State.of(rows, masses * (1.0 + length * step), prior, points)
        except LinAlgError:
            length /= 2
            continue
        lower = there.cost - weight * float(np.log(there.masses).sum()) <= aim - 1e-4 * length * left
        if lower or np.abs(lacking).max() > 1e-9:
            return there, -multipliers, left
        length /= 2
    return state, -multipliers, 0.0


def _better_patterns(
    state: _State, multipliers: Floats, prior: Floats, points: Floats, extra: float, rng: np.random.Generator
) -> tuple[Patterns, float]:
    """Patterns that would lower the cost, the best first, and what the cost can at most be lowered to.

    A report of value v pays most where it is likelier for exactly those levels that gain by it; for a given pattern the
    best value is known. From many values, both are improved in turn.
    """
    slopes, known = 2.0 * state.inverse, state.values
    spread = np.abs(known).max(axis=0)
    values = np.concatenate(
        [known, known + 0.1 * spread * rng.normal(size=known.shape), rng.uniform(-spread, spread, (300, len(spread)))]
    )
    found = []
    for _ in range(4):
        pays = (values**2).sum(axis=1)[:, None] * prior - multipliers - values @ slopes.T < 0
        found.append(pays)
        rows = _rows(pays, extra)
        values = (rows @ slopes) / (2.0 * (rows @ prior))[:, None]
    patterns = _distinct(np.concatenate(found))
    rows = _rows(patterns, extra)
    prices = -((rows @ state.inverse) ** 2).sum(axis=1) / (rows @ prior) - rows @ multipliers
    prices /= rows.mean(axis=1)  # per unit of chance: those of all reports add up to one
    order = np.argsort(prices, kind="stable")
    order = order[prices[order] < 0][: len(prior)]
    least = float(prices.min(initial=0.0))
    return patterns[order], float(multipliers.sum() + (slopes * points).sum()) + min(0.0, least)


def _corner(state: _State, bound: float, prior: Floats, points: Floats) -> LevelReports | None:
    """The same values with as few reports as they need, found by a linear program; it costs no more. None where
    rounding errors decide."""
    values, rows = state.values, state.rows
    costs = state.chances * (values**2).sum(axis=1)
    scale = 1.0 / rows.mean(axis=1)  # masses as chances, all of one size
    conditions = np.concatenate([rows.T, *((rows * column[:, None]).T for column in values.T)]) * scale
    wanted = np.concatenate([np.ones(len(prior)), points.T.ravel()])
    solved = linprog(
        costs * scale, A_eq=conditions, b_eq=wanted, bounds=(0, None), method="highs", options={"time_limit": 5.0}
    )
    masses = solved.x * scale if solved.status == 0 else state.masses
    kept = masses / scale > SLIGHT
    masses, rows = masses[kept], rows[kept]
    # Solvers end a little beside the conditions; that rows add up to one is the guarantee's business.
    masses = masses + np.linalg.lstsq(rows.T, 1.0 - rows.T @ masses, rcond=None)[0]
    if masses.min() <= 0.0 or np.abs(rows.T @ masses - 1.0).max() > 1e-12:
        return None
    return LevelReports(
        patterns=rows > 1.0, masses=masses, values=values[kept], cost=float(costs[kept] @ masses), bound=bound
    )


def whole_numbers(channel: LevelReports, epsilon: float) -> Integers:
    """The channel as a table (L, R) whose rows have the same sum; no column has a ratio above e^ε. It may have been
    searched for a larger ε: if rows have equal sums for one, they have for all."""
    low = np.maximum(np.rint(channel.masses * TOTAL), 1.0)
    # Masses are rounded by a half, so entries by less than e^ε, and no row lacks more than that for each report: the
    # likeliest report, whose larger entries are e^ε times `low`, makes up for it within what is spared.
    spared = max(SPARED * epsilon, 4.0 * len(low) / float(low.max()))
    high = np.floor(low * np.exp(max(0.0, min(epsilon, LARGEST) - spared)))
    table = np.where(channel.patterns.T, high, low).astype(np.int64)
    sums = table.sum(axis=1)
    table[:, int(low.argmax())] += sums.max() - sums
    return np.asarray(table)
