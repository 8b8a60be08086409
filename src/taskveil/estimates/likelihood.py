"""Maximum-likelihood shares of a mixture of known groups, and the profile likelihood of linear functions of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.errors import DataError

DEFICIT = 1e-6
"""The log-likelihood may stay so far below its maximum; shares are then within √(2 · 1e-6) = 0.0014 of their errors."""
ROUNDING = 1e-11  # the relative gap that doubles can still show
MOST_STEPS = 200
PROFILE_DEFICIT, CLOSE, MOST_TRIES = 0.01, 0.02, 15
"""Limits are exact to `CLOSE` of their distance from the estimate; their fits need not be closer than that."""


def maximum_likelihood(counts: Integers, chances: Floats, deficit: float = DEFICIT) -> Floats:
    """The shares (..., G) of groups, from 0 up with sum 1, under which `counts` (..., K) are most likely.

    A primal-dual interior-point method for max Σ_k f_k log (π A)_k − Σ π over π ≥ 0, whose solution adds up to one. It
    ends when Σ_k counts_k A_gk / q_k ≤ N (1 + gap) for every group, which bounds how far the log-likelihood is from its
    maximum by N · gap; see `DEFICIT` and `ROUNDING`.

    `chances` (..., G, K) are positive. Leading dimensions are broadcast: many fits at once.
    """
    lead = np.broadcast_shapes(counts.shape[:-1], chances.shape[:-2])
    rows, codes = chances.shape[-2:]
    tallies = np.broadcast_to(counts, (*lead, codes)).reshape(-1, codes).astype(np.float64)
    kernels = np.broadcast_to(chances, (*lead, rows, codes)).reshape(-1, rows, codes)
    totals = tallies.sum(axis=1, keepdims=True)
    if not ((totals > 0).all() and (tallies >= 0).all() and (chances > 0).all()):
        raise DataError("a fit needs counts from 0 up, not all 0, and positive chances of every code in every group.")
    gap = np.maximum(deficit / totals[:, 0], ROUNDING)
    shares, slack = np.full((len(tallies), rows), 1 / rows), np.ones((len(tallies), rows))
    left, diagonal = np.arange(len(tallies)), np.arange(rows)
    for _ in range(MOST_STEPS):
        p, s, a = shares[left], slack[left], kernels[left] if len(left) < len(kernels) else kernels
        q = (p[:, None] @ a)[:, 0]
        ratio = tallies[left] / totals[left] / q
        gradient = (a @ ratio[..., None])[..., 0]
        open_ = (gradient * p.sum(axis=1, keepdims=True)).max(axis=1) - 1 > gap[left]
        if not open_.any():
            break
        left, p, s, a, q = left[open_], p[open_], s[open_], a[open_] if not open_.all() else a, q[open_]
        ratio, gradient = ratio[open_], gradient[open_]
        barrier = 0.1 * (p * s).mean(axis=1, keepdims=True)
        half = a * np.sqrt(ratio / q)[:, None]
        hessian = half @ half.transpose(0, 2, 1)
        hessian[:, diagonal, diagonal] *= 1 + 1e-13  # groups that are equal to each other
        hessian[:, diagonal, diagonal] += s / p
        move = np.linalg.solve(hessian, (gradient - 1 + barrier / p)[..., None])[..., 0]
        push = barrier / p - s - s / p * move
        shares[left], slack[left] = p + _inside(p, move) * move, s + _inside(s, push) * push
    found: Floats = shares / shares.sum(axis=1, keepdims=True)
    return found.reshape(*lead, rows)


def _inside(value: Floats, move: Floats) -> Floats:
    """The step (B, 1), at most 1, that leaves every `value` (B, G) at least a hundredth of itself."""
    found: Floats = np.minimum(1.0, 0.99 / np.maximum((-move / value).max(axis=1, keepdims=True), 1e-300))
    return found


def profile_ends(
    counts: Integers,
    chances: Floats,
    shares: Floats,
    sides: Floats,
    quantile: float,
    errors: Floats,
    statistic: Callable[[Floats, Floats, Floats], Floats],
) -> Floats:
    """The shares (B, G) with the largest π @ side among those whose drop of log-likelihood is within the quantile.

    Most likely shares given π @ side are, up to a factor, ρ_g / w_g with w_g = 1 + κ (max side − side_g) and ρ the most
    likely shares for chances A_g / w_g: w are the multipliers of the constraint. A search on log κ finds where the
    `statistic` of twice the drop, the shares and W^½ (q' − q) is the quantile. `errors` (B,) of π̂ @ side give its first
    guess.
    """
    expected, width = shares @ chances, np.ptp(sides, axis=1)
    far = (sides.max(axis=1, keepdims=True) - sides) / np.where(width > 0, width, 1.0)[:, None]
    ends = np.tile(shares, (len(sides), 1))
    left = np.flatnonzero(width > 0)
    place = np.log(quantile * np.maximum(width, 1e-300) / errors / counts.sum())  # right for a quadratic
    below, above = np.full((2, len(sides)), -np.inf), np.full((2, len(sides)), np.inf)  # log κ and excess
    for trial in range(MOST_TRIES):
        if not len(left):
            break
        weights = 1 + np.exp(place[left])[:, None] * far[left]
        found = maximum_likelihood(counts, chances / weights[..., None], PROFILE_DEFICIT) / weights
        found /= found.sum(axis=1, keepdims=True)
        codes = found @ chances
        drop = np.maximum(2 * (counts * np.log(expected / codes)).sum(axis=1), 0.0)
        moves = (codes - expected) * np.sqrt(counts.sum() / expected)
        excess = np.log(np.maximum(statistic(drop, found, moves), 1e-6) / quantile)
        extreme = (excess < 0) & ((found * far[left]).sum(axis=1) < 1e-6)
        found[extreme] *= far[left[extreme]] == 0
        ends[left] = found / found.sum(axis=1, keepdims=True)
        for bracket, here in ((below, excess < 0), (above, excess >= 0)):
            bracket[:, left[here]] = place[left[here]], excess[here]
        more = ~(extreme | (np.abs(excess) < CLOSE))
        left, excess = left[more], excess[more]
        (low, under), (high, over) = below[:, left], above[:, left]
        both = np.isfinite(low) & np.isfinite(high)
        with np.errstate(invalid="ignore"):
            between = low + np.clip(under / (under - over), 0.1, 0.9) * (high - low)
        beyond = place[left] - np.clip(1.3 * excess, -6, 6) - np.sign(excess) * 0.7 * trial
        place[left] = np.where(both, between, beyond)
    return ends
