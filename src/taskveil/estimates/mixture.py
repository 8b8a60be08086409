"""Population means from tallied codes, if people within a group are like the volunteers of that group.

**Model.** A device favours m of K codes and sends code k with chance base + extra · [k is favoured]. Volunteers are
known as sums over G groups: how many, how often each code was favoured, means and variances of targets. People of a
group are like its volunteers and only the groups' shares π differ. Then code k has chance q_k = Σ_g π_g A_gk with
A = base + extra · favoured, and a target has mean θ = π @ means. Groups are cells of alike people (covariate shift) or
classes (label shift; the class indicators are then targets, with identity means and no variance).

**Estimate.** θ̂ = π̂ @ means, with π̂ the maximum-likelihood shares (`maximum_likelihood`).

**Limits.** Profile likelihood: θ is within the limits if shares with π @ means = θ explain the counts almost as well as
π̂ does (`profile_ends`). This respects that shares are positive. With Δ = π − π̂, q' = πA and W = diag(N / q), twice the
drop of the log-likelihood, D, is corrected for volunteers' sampling error in A and compared with the normal quantile z:
(√D (1 − x) − b) / √(1 + ρ) ≤ z.

- ρ is the variance that volunteers' codes add along q' − q, relative to that of the reports (a first-order correction
  as in Rao and Scott): ρ = d' Σ_g π_g² S_g d / (Δ'JΔ) with d = W (q' − q), J = A W A' and S_g the covariance of the
  error of A_g.
- x corrects for errors in variables: volunteers' error makes groups look more different than they are and D larger by
  Σ_g Δ_g² e_g, with e_g = tr(S_g R) and R = W − W A' J⁻¹ A W, which is zero if there are as many groups as codes.
  x = Σ_g Δ_g² e_g / (Δ'JΔ), at most 0.9. It also draws π̂ towards wrong shares, by b = Σ_g Δ_g e_g π̂_g / √(Δ'JΔ) in
  units of the reports' error; limits are moved outwards by it, never inwards.

The error of the groups' means, z² Σ_g π_g² variance_g / n_g, is added in quadrature. Limits are wider than needed where
many shares are near zero or volunteers are few per class and code: they hold in up to 100% of draws. They are too short
where reports are many and volunteers few: with 20 to 70 volunteers of a class, 20,000 reports and a class that hardly
exists rows hold in 88 to 92%, and in 78% if K is 256 and ε is 8 (there e is as large as J).

**Goodness of fit.** X² = (f − q)' R (f − q), with f the shares of the codes, against a scaled χ² with the mean and
variance that V = (diag q − qq')/N + Σ_g π_g² S_g gives it (Rao and Scott's second-order correction), less what
volunteers' error takes from the mean, (e ∘ π)' J⁻¹ (e ∘ π). J has a unit matrix added: every share is known to ± 1.
Here q is that of reports and volunteers together, each weighted by its precision: volunteers' codes alone would give a
code that no volunteer favoured far too much weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from scipy.special import chdtrc, ndtri

from taskveil.arrays import Floats, Integers
from taskveil.errors import DataError
from taskveil.estimates.intervals import MOST_STEPS
from taskveil.veil.loss_intervals import CONFIDENCE
from taskveil.veil.volunteers import Groups

DEFICIT = 1e-6
"""The log-likelihood may stay so far below its maximum; shares are then within √(2 · 1e-6) = 0.0014 of their errors."""
ROUNDING = 1e-11  # the relative gap that doubles can still show
CLOSE, MOST_TRIES = 0.02, 15
"""Limits are exact to `CLOSE` of their distance from the estimate; their fits need not be closer than that."""


def _codes(groups: Groups, kinds: tuple[Floats, Floats] | None) -> tuple[Floats, Floats]:
    """Rows r (J, K) and weights (G, J) with C_g = Σ_j weights_gj r_j r_j', the covariance of the codes that one
    volunteer of group g favours.

    There is half a volunteer more in each group, who favours all codes alike: that no volunteer of a group favours a
    code does not show that nobody does.
    """
    favoured, more = groups.measured, 0.5 / (groups.counts + 0.5)[:, None]
    size, m = favoured.shape[1], round(float(favoured[0].sum()))
    if m > 1 and kinds is not None:
        sets, mixed = kinds
        rows = np.vstack([np.eye(size), sets, mixed @ sets])
        return rows, np.hstack([mixed @ (sets * (1 - sets)), mixed, -np.eye(len(favoured))])
    p = np.clip(favoured, 0.0, 1.0) * (1.0 - more) + more * m / size
    own = p if m == 1 else p * (1 - p) * m / (m - p)  # multinomial, or the variances of independent choices
    middle = own / np.sqrt(np.maximum(own.sum(axis=1, keepdims=True), 1e-300))
    return np.vstack([np.eye(size), middle]), np.hstack([own, -np.eye(len(favoured))])


class Mixture(NamedTuple):
    """What counts of codes say about t targets, if people within a group are like its volunteers."""

    estimates: Floats  # (t,)
    limits: Floats  # (t, 2)
    shares: Floats  # (G,): the groups' shares among people
    p_value: float | None  # of the test that the groups explain the counts; None if no counts could contradict them
    degrees: int | None  # of freedom of that test, K − G
    influence: Floats  # (t,): a share s of forged reports moves an estimate by at most s times this, for small s

    @classmethod
    def fit(
        cls,
        counts: Integers,
        base: float,
        extra: float,
        groups: Groups,
        *,
        kinds: tuple[Floats, Floats] | None = None,
        confidence: float = CONFIDENCE,
    ) -> Self:
        """The mixture that explains `counts` (K,) of codes sent with chance base + extra · [favoured].

        `groups.measured` (G, K) is the share of each group that favours each code; its rows add up to m. Codes that are
        favoured together (m > 1) vary together: `kinds` are the mean favoured codes (J, K) of the J kinds of people
        that groups are made of, and how much of a group each kind is (G, J). Without them, the codes of a group count
        as chosen independently, bound to add up to m.
        """
        if counts.shape != groups.measured.shape[1:] or (counts < 0).any() or counts.sum() == 0:
            raise DataError(f"counts must be {groups.measured.shape[1]} numbers from 0 up, and not all 0.")
        chances, (rows, weights) = base + extra * groups.measured, _codes(groups, kinds)
        shares = maximum_likelihood(counts, chances)
        reports, observed = float(counts.sum()), counts / counts.sum()
        means, degrees = groups.means, chances.shape[1] - len(chances)
        expected = shares @ chances
        scale = extra**2 / (groups.counts - 1)  # S_g = scale_g C_g
        noise = scale * shares**2
        part = reports * noise.sum() / (1 + reports * noise.sum())  # of reports in the best estimate of q
        pooled = part * observed + (1 - part) * expected
        weighted = chances * (reports / pooled)
        inverse = np.linalg.inv(weighted @ chances.T + np.eye(len(chances)))
        sums = inverse.sum(axis=1)
        inverse -= np.outer(sums, sums) / sums.sum()  # on directions that add up to zero
        residual = np.diag(reports / pooled) - weighted.T @ inverse @ weighted
        bias = np.maximum(scale * (weights @ (rows @ residual * rows).sum(axis=1)), 0.0)  # tr(S_g R)
        quantile, slope = float(ndtri((1 + confidence) / 2)), inverse @ means  # (G, t)
        errors = np.sqrt(np.maximum((means * slope).sum(axis=0), 1e-300))

        def statistic(drop: Floats, ends: Floats, moves: Floats) -> Floats:
            """(√D (1 − x) − b) / √(1 + ρ) (B,) for shares (B, G), with moves W^½ (q' − q) (B, K)."""
            square, change = np.maximum((moves**2).sum(axis=1), 1e-12), ends - shares
            along = (moves * np.sqrt(reports / expected) @ rows.T) ** 2 @ weights.T  # d' C_g d
            own = (along * scale * ends**2).sum(axis=1)
            drawn = np.maximum(change @ (bias * shares), 0.0) / np.sqrt(square)
            corrected = np.sqrt(drop) * np.maximum(1 - change**2 @ bias / square, 0.1) - drawn
            return np.asarray(corrected / np.sqrt(1 + own / square))

        sides = np.concatenate([-means.T, means.T])  # (2t, G): the most of each is one limit
        ends = profile_ends(counts, chances, shares, sides, quantile, np.tile(errors, 2), statistic)
        own = (ends**2 * np.tile((groups.variances / (groups.counts - 1)[:, None]).T, (2, 1))).sum(axis=1)
        reach = np.hypot(((ends - shares) * sides).sum(axis=1), quantile * np.sqrt(own)).reshape(2, -1)
        estimates, p_value = shares @ means, None
        if degrees > 0:
            covariance = (np.diag(pooled) - np.outer(pooled, pooled)) / reports
            seen = residual @ (covariance + (rows.T * (noise @ weights)) @ rows)
            misfit, drawn, mean = observed - expected, bias * shares, float(np.trace(seen))
            shape = mean**2 / float((seen * seen.T).sum())
            mean = max(mean - float(drawn @ inverse @ drawn), 0.1 * mean)
            p_value = float(chdtrc(shape, float(misfit @ residual @ misfit) * shape / mean))
        return cls(
            estimates=estimates,
            limits=np.stack([estimates - reach[0], estimates + reach[1]], axis=1),
            shares=shares,
            p_value=p_value,
            degrees=degrees if degrees > 0 else None,
            influence=np.ptp(weighted.T @ slope, axis=0),
        )


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
    return np.asarray(shares / shares.sum(axis=1, keepdims=True)).reshape(*lead, rows)


def _inside(value: Floats, move: Floats) -> Floats:
    """The step (B, 1), at most 1, that leaves every `value` (B, G) at least a hundredth of itself."""
    return np.asarray(np.minimum(1.0, 0.99 / np.maximum((-move / value).max(axis=1, keepdims=True), 1e-300)))


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
        found = maximum_likelihood(counts, chances / weights[..., None], CLOSE) / weights
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
