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
  as in Rao and Scott): ρ = d' Σ_g π̂_g² S_g d / (Δ'JΔ) with d = W (q' − q), J = A W A' and S_g the covariance of the
  error of A_g.
- x corrects for errors in variables: volunteers' error makes groups look more different than they are and D larger by
  Σ_g Δ_g² e_g, with e_g = tr(S_g R) and R = W − W A' J⁻¹ A W, which is zero if there are as many groups as codes.
  x = Σ_g Δ_g² e_g / (Δ'JΔ), at most 0.9. It also draws π̂ towards wrong shares, by b = Σ_g Δ_g e_g π̂_g / √(Δ'JΔ) in
  units of the reports' error; limits are moved outwards by it, never inwards.

The error of the groups' means, z² Σ_g π_g² variance_g / n_g, is added in quadrature. Limits are wider than needed where
many shares are near zero or volunteers are few per class and code: they hold in up to 100% of draws. They are
too short for a class that hardly exists if K is 256 and ε is 8 (there e is as large as J; rows hold in 78%).

**Goodness of fit.** X² = (f − q)' R (f − q), with f the shares of the codes, against a scaled χ² with the mean and
variance that V = (diag q − qq')/N + Σ_g π_g² S_g gives it (Rao and Scott's second-order correction), less what
volunteers' error takes from the mean, (e ∘ π)' J⁻¹ (e ∘ π). J has a unit matrix added: every share is known to ± 1.
Here q is that of reports and volunteers together, each weighted by its precision: volunteers' codes alone would give a
code that no volunteer favoured far too much weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from taskveil.arrays import Floats, Integers, check_arrays, own_arrays
from taskveil.errors import DataError, needs
from taskveil.estimates.likelihood import maximum_likelihood, profile_ends


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Volunteers as sums over G groups: `counts` (G,); `favoured` (G, K), the share of a group that favours each code,
    whose rows add up to m; `means` and `variances` (G, t) of the targets within the group.

    Codes that are favoured together (m > 1) vary together. `sets` (J, K) are mean favoured codes of the J kinds of
    people that groups are made of, and `mixed` (G, J) is how much of a group each kind is. Without them, the codes of a
    group count as chosen independently, bound to add up to m.
    """

    counts: Integers
    favoured: Floats
    means: Floats
    variances: Floats
    sets: Floats | None = None
    mixed: Floats | None = None

    def __post_init__(self) -> None:
        groups, codes = self.favoured.shape
        shape = (groups, self.means.shape[-1])
        check_arrays(favoured=(self.favoured, (groups, codes)), counts=(self.counts.astype(np.float64), (groups,)))
        check_arrays(means=(self.means, shape), variances=(self.variances, shape))
        totals = self.favoured.sum(axis=1)
        if (self.counts < 2).any() or (self.variances < 0).any() or np.ptp(totals) > 1e-6 or totals[0] < 0.5:
            raise DataError(
                "every group needs two volunteers or more, variances from 0 up and shares of favoured codes that "
                "add up to the same m. Merge small groups and compute the sums again."
            )
        own_arrays(self)

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """own (G, K), rows (J, K), weights (G, J) and middles (G, K): a volunteer's favoured codes have the covariance
        C = diag(own) + Σ_j weights_j rows_j rows_j' − middle middle'."""
        m, p = round(float(self.favoured[0].sum())), np.clip(self.favoured, 0.0, 1.0)
        if m > 1 and self.sets is not None and self.mixed is not None:
            return self.mixed @ (self.sets * (1 - self.sets)), self.sets, self.mixed, self.mixed @ self.sets
        own = p if m == 1 else p * (1 - p) * m / (m - p)  # multinomial, or the variances of independent choices
        none = np.zeros((1, p.shape[1]))
        return own, none, np.zeros((len(p), 1)), own / np.sqrt(np.maximum(own.sum(axis=1, keepdims=True), 1e-300))

    def traces(self, matrix: Floats) -> Floats:
        """tr(C_g matrix) (G,) for the covariance C_g of a volunteer's favoured codes in every group."""
        own, rows, weights, middle = self._parts
        found: Floats = own @ np.diag(matrix) + weights @ ((rows @ matrix) * rows).sum(axis=1)
        return np.asarray(found - ((middle @ matrix) * middle).sum(axis=1))

    def along(self, directions: Floats) -> Floats:
        """d' C_g d (B, G) for directions d (B, K)."""
        own, rows, weights, middle = self._parts
        return directions**2 @ own.T + (directions @ rows.T) ** 2 @ weights.T - (directions @ middle.T) ** 2

    def covariance(self, scales: Floats) -> Floats:
        """Σ_g scales_g C_g (K, K)."""
        own, rows, weights, middle = self._parts
        found: Floats = np.diag(scales @ own) + (rows.T * (scales @ weights)) @ rows - (middle.T * scales) @ middle
        return found


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """What counts of codes say about t targets, if people within a group are like its volunteers.

    Attributes:
        estimates: (t,).
        limits: (t, 2).
        shares: (G,), the groups' shares among people.
        p_value: of the test that the groups explain the counts; None if no counts could contradict them.
        degrees: of freedom of that test, K − G.
        influence: (t,). A share s of forged reports moves an estimate by at most s times this, for small s.
    """

    estimates: Floats
    limits: Floats
    shares: Floats
    p_value: float | None
    degrees: int | None
    influence: Floats

    def __post_init__(self) -> None:
        own_arrays(self)

    @classmethod
    def fit(cls, counts: Integers, base: float, extra: float, groups: Groups, *, confidence: float = 0.95) -> Self:
        """The mixture that explains `counts` (K,) of codes sent with chance base + extra · [favoured]."""
        with needs("an estimate under an assumption"):
            from scipy.special import ndtri
            from scipy.stats import chi2

        if counts.shape != groups.favoured.shape[1:] or (counts < 0).any() or counts.sum() == 0:
            raise DataError(f"counts must be {groups.favoured.shape[1]} numbers from 0 up, and not all 0.")
        chances = base + extra * groups.favoured
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
        bias = np.maximum(scale * groups.traces(residual), 0.0)
        slope = weighted.T @ (inverse @ means)  # (K, t)

        quantile = float(ndtri((1 + confidence) / 2))
        errors = np.sqrt(np.maximum((means * (inverse @ means)).sum(axis=0), 1e-300))

        def statistic(drop: Floats, ends: Floats, moves: Floats) -> Floats:
            """(√D (1 − x) − b) / √(1 + ρ) (B,) for shares (B, G), with moves W^½ (q' − q) (B, K)."""
            square, change = np.maximum((moves**2).sum(axis=1), 1e-12), ends - shares
            codes = groups.along(moves * np.sqrt(reports / expected)) @ noise
            drawn = np.maximum(change @ (bias * shares), 0.0) / np.sqrt(square)
            return np.asarray(
                (np.sqrt(drop) * np.maximum(1 - change**2 @ bias / square, 0.1) - drawn) / np.sqrt(1 + codes / square)
            )

        sides = np.concatenate([-means.T, means.T])  # (2t, G): the most of each is one limit
        ends = profile_ends(counts, chances, shares, sides, quantile, np.tile(errors, 2), statistic)
        own = (ends**2 * np.tile((groups.variances / (groups.counts - 1)[:, None]).T, (2, 1))).sum(axis=1)
        reach = np.hypot(((ends - shares) * sides).sum(axis=1), quantile * np.sqrt(own)).reshape(2, -1)
        estimates = shares @ means
        p_value = None
        if degrees > 0:
            covariance = (np.diag(pooled) - np.outer(pooled, pooled)) / reports
            seen = residual @ (covariance + groups.covariance(noise))
            misfit, drawn, mean = observed - expected, bias * shares, float(np.trace(seen))
            shape = mean**2 / float((seen * seen.T).sum())
            mean = max(mean - float(drawn @ inverse @ drawn), 0.1 * mean)
            p_value = float(chi2.sf(float(misfit @ residual @ misfit) * shape / mean, shape))
        return cls(
            estimates=estimates,
            limits=np.stack([estimates - reach[0], estimates + reach[1]], axis=1),
            shares=shares,
            p_value=p_value,
            degrees=degrees if degrees > 0 else None,
            influence=np.abs(slope - observed @ slope).max(axis=0),
        )
