"""Base blocks of cyclic block responses: of which size, and which residues.

**What a block size costs.** Let blocks be all sets of w of R rows (subset selection), h = f − mean f a functional, S
its sum over the block of an output, and c = (R − 1)/(extra · w (R − w)). Then mean f + c·S is unbiased for f. Given
that the row v of a person is in the block, the other w − 1 members are a sample without replacement of the other rows,
and given that it is not, all w are. So E[S² | v] is a combination of h(v)² and Σ h² whose coefficients depend on R, w
and ε only: all sizes are compared exactly at once.

**Few base blocks are nearly as good as all sets.** The cost of a functional is Σ_f |FFT h|²_f / λ_f times a constant if
outputs are equally likely, with λ = Σ_j |FFT D_j|². Σ λ_f is fixed by R, w and B, so by the inequality between harmonic
and arithmetic mean nothing is better than flat λ where all frequencies count alike. A local search exchanges residues
as long as Σ_f c_f/λ_f falls. With c_f = Σ |FFT h|²_f of the functionals asked for, blocks become intervals where rows
have an order and the functionals are cumulative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.veil.surveys import block_spectra
from taskveil.veil.volunteers import FEWEST

ANYWHERE = 0.02
"""The share of the prior that is spread evenly over all levels. It limits the error for people unlike the
volunteers."""


def best_width(functionals: Floats, weights: Floats, shares: Floats, epsilon: float) -> int:
    """The size of blocks with the least weighted sum of variances of functionals (R, t), for shares of people (R,)."""
    by_own, by_all = _factors(len(functionals), np.arange(1.0, len(functionals)), epsilon)
    h = functionals - functionals.mean(axis=0)
    own, square = float(weights @ (shares @ h**2)), float(weights @ (h**2).sum(axis=0))
    return int((by_own * own + by_all * square).argmin()) + 1


def subset_variances(functionals: Floats, shares: Floats, epsilon: float, width: int | None = None) -> Floats:
    """(R − 1, t): the variance of one report's unbiased score of each functional (R, t) by subset selection with blocks
    of 1 … R − 1 of R rows, if people have these shares (R,); for blocks of `width` rows alone, (t,)."""
    sizes = np.arange(1.0, len(functionals)) if width is None else np.array([float(width)])
    by_own, by_all = _factors(len(functionals), sizes, epsilon)
    h = functionals - functionals.mean(axis=0)
    second = np.outer(by_own, shares @ h**2) + np.outer(by_all, (h**2).sum(axis=0))
    found = np.asarray(np.maximum(second - (shares @ h) ** 2, 0.0))
    return found if width is None else found[0]


def _factors(size: int, w: Floats, epsilon: float) -> tuple[Floats, Floats]:
    """For blocks of w (W,) rows the factors of h(v)² and of Σ h² in the mean square of a score, (W,) each."""
    odds, others = math.exp(epsilon), size - 1.0
    total = w * odds + size - w
    extra, inside = (odds - 1.0) / total, w * odds / total
    gain = others / (extra * w * (size - w))

    def drawn(count: Floats) -> Floats:
        """The factor of a sample's variance in the sum of `count` of the other rows, without replacement."""
        return count * (others - count) / max(others - 1.0, 1.0)

    # Of the other rows: mean −h(v)/others, and second moment (Σ h² − h(v)²)/others.
    spread_own, spread_all = -1.0 / others - 1.0 / others**2, 1.0 / others
    within = (1.0 - (w - 1.0) / others) ** 2 + drawn(w - 1.0) * spread_own
    outside = (w / others) ** 2 + drawn(w) * spread_own
    by_own = inside * within + (1.0 - inside) * outside
    by_all = (inside * drawn(w - 1.0) + (1.0 - inside) * drawn(w)) * spread_all
    return gain**2 * by_own, gain**2 * by_all


@lru_cache(maxsize=256)
def flat_blocks(size: int, width: int, halvings: int = 0) -> tuple[tuple[int, ...], ...]:
    """Base blocks of `width` of `size` residues, as few as are within a five hundredth of all sets; at most 16, halved
    so many times."""
    return tuple(map(tuple, searched_blocks(np.ones(size), width, halvings).tolist()))


def searched_blocks(costs: Floats, width: int, halvings: int = 0) -> Integers:
    """Base blocks (B, width) of residues modulo R that make Σ_f costs_f/λ_f small, for costs (R,) of frequencies; as
    few as come within a five hundredth of the ideal; at most 16, halved so many times."""
    size, best, least = len(costs), None, math.inf
    # With λ free and its sum fixed, the best λ_f is in proportion to √costs_f.
    weights = costs[1 : size // 2 + 1] + 1e-9 * costs[1:].max()
    twice = np.where(2 * np.arange(1, size // 2 + 1) == size, 1.0, 2.0)
    ideal = float((twice * np.sqrt(weights)).sum()) ** 2 / (width * (size - width))
    count = 1
    while count <= 16 >> halvings:
        blocks, cost = _search(weights * twice, size, width, count)
        if cost < least:
            best, least = blocks, cost
        if cost <= 1.002 * ideal:
            break
        count *= 2
    if best is None:
        raise ValueError("a search needs one base block or more")
    return best


def _search(weights: Floats, size: int, width: int, count: int) -> tuple[Integers, float]:
    """`count` base blocks and their Σ_f weights_f/λ_f, with λ the mean over blocks, by exchanges of single residues."""
    rng = np.random.default_rng([size, width, count])
    half = len(weights)
    wave = np.exp(-2j * np.pi * np.arange(size) / size)
    frequencies = np.arange(1, half + 1)
    inside = np.zeros((count, size), dtype=bool)
    for block in inside:
        block[rng.choice(size, width, replace=False)] = True
    spectra = np.array([block_spectra(np.flatnonzero(block)[None], size)[0, 1 : half + 1] for block in inside])
    power = (np.abs(spectra) ** 2).sum(axis=0)

    def cost_of(power: Floats) -> Floats:
        return np.asarray((weights / np.maximum(power / count, 1e-12)).sum(axis=-1))

    cost, failed, tries = float(cost_of(power)), 0, 16  # exchanges that are compared at a time
    # An exchange changes every frequency a little, so that as many are enough as there are residues.
    for _ in range(max(200, min(2000, 4 * size))):
        j = int(rng.integers(count))
        old = rng.choice(np.flatnonzero(inside[j]), tries)
        new = rng.choice(np.flatnonzero(~inside[j]), tries)
        spectrum = spectra[j] - wave[np.outer(old, frequencies) % size] + wave[np.outer(new, frequencies) % size]
        there = power - np.abs(spectra[j]) ** 2 + np.abs(spectrum) ** 2
        costs = cost_of(there)
        k = int(costs.argmin())
        failed += 1
        if costs[k] < cost:
            cost, failed, power, spectra[j] = float(costs[k]), 0, there[k], spectrum[k]
            inside[j, old[k]], inside[j, new[k]] = False, True
        if failed > 4 * tries:
            break
    return np.array([np.flatnonzero(block) for block in inside]), cost


def shares_of(k: Integers, scales: Sequence[Integers], binned: Sequence[bool]) -> Floats:
    """(rows,): the shares of people at digits k (N, d) of the rows of these levels, rounded at random between levels.

    They are public, so the people of all rows with fewer than ten are spread over these rows, as if fields were
    independent. A small share is spread evenly over all rows, which limits the error for people unlike these.
    """
    row, share = np.zeros((1, len(k)), dtype=np.int64), np.ones((1, len(k)))
    for column, (levels, whole) in enumerate(zip(scales, binned, strict=True)):
        below = np.searchsorted(levels, k[:, column], side="right") - 1
        above = np.minimum(below + 1, len(levels) - 1)
        up = (k[:, column] - levels[below]) / np.maximum(levels[above] - levels[below], 1) * (not whole)
        row = np.concatenate([row * len(levels) + below, row * len(levels) + above])
        share = np.concatenate([share * (1.0 - up), share * up])
    size = int(np.prod([len(levels) for levels in scales]))
    counts: Floats = np.asarray(np.bincount(row.ravel(), weights=share.ravel(), minlength=size), dtype=float)
    table = counts.reshape([len(levels) for levels in scales])
    likely = np.ones(1)
    for axis in range(table.ndim):
        likely = np.outer(likely, _without_rare(table.sum(axis=tuple(set(range(table.ndim)) - {axis})))).ravel()
    counts = _without_rare(counts, likely)
    # Four digits of a binary number: the difference of two questions' sums is then nobody's record.
    mantissa, exponent = np.frexp((1.0 - ANYWHERE) * counts / counts.sum() + ANYWHERE / size)
    shares = np.ldexp(np.rint(16.0 * mantissa), exponent)
    return np.asarray(shares / shares.sum())


def _without_rare(counts: Floats, likely: Floats | None = None) -> Floats:
    """The counts (rows,), where the people of all rows with fewer than ten are spread over these rows in proportion to
    `likely` (rows,), evenly by default."""
    rare = counts < FEWEST
    weights = np.where(rare, 1.0 if likely is None else likely, 0.0)
    return np.where(rare, counts[rare].sum() * weights / max(weights.sum(), 1e-300), counts)
