"""The volunteers, reweighted until they are as the reports say people are.

Reports tell the people's mean of u without any assumption (`scores`). What is asked for is the mean of something else,
t: an attribute, an answer, a class. The volunteers know how t and u go together, but they are other people. So they are
tilted: volunteer i counts w_i ∝ exp(λ·z_i), z the principal components of attributes and answers, all of them scaled to
variance 1 and answers emphasised (`features`), with the λ that fits the reports.

    minimise over λ   (ŝ − Σ w_i u_i)ᵀ V⁻¹ (ŝ − Σ w_i u_i) + |λ|²/τ²,      V = the covariance of ŝ − Σ w_i u_i

That is generalised least squares in the means, solved by Gauss–Newton steps. τ = 1 only matters in directions that
reports hardly see: there the volunteers' word stands, and the interval says so.

With A = Cov_w(u, z), C = Cov_w(t, z), L = (AᵀV⁻¹A + I/τ²)⁻¹AᵀV⁻¹ and H = CL, the estimate Σ w_i t_i moves with the
reports by H and with volunteer i by w_i (t_i − t̄ − H(u_i − ū)), which gives its variance:

    H Cov(ŝ) Hᵀ             the randomisation, and which people happened to answer
    Σ w_i² (t_i − t̄ − H(u_i − ū))²     which volunteers happened to come, times V/(V − 1 − what was fitted)
    ρ² (…)                  what the reports cannot see, where they show that people differ (below)

u_i is that of a stranger like volunteer i: codewords were made for the volunteers, so each is left out in turn
(`leave_one_out`).

Of u only what goes along with z more than chance would have it is fitted (`_told`); the drift test takes all of it.

**What is assumed**: people are as the volunteers but for a tilt. Reports see only some directions of it. Once they show
that people differ at all (the drift test), intervals also allow for a tilt of every attribute and answer as large as
the one seen, ρ² ≤ τ² each, where reports do not see it; and for tilts that are not straight: one that changes with λ z
may also change with half as much of its square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, softmax

from taskveil.arrays import Floats
from taskveil.server.estimates.scores import Evidence

PRIOR = 1.0
"""τ: the tilt, in standard deviations of any direction, that is thought possible before there are reports."""
BEND = 0.5
"""How large the tilt's bend is thought against its slope."""
ALARMS = 0.05
"""How often the drift test raises where people are like the volunteers."""
MOST_FEATURES = 48
"""Directions of attributes and answers that the tilt may have: the widest ones."""

_STEPS = 50
_LONGEST = 1.0  # of a step, in standard deviations: tilts are found in a few, and never overshoot


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Means:
    """Means (t,) of some quantities, with what makes them uncertain: the reports (t,), every volunteer's part (V, t)
    and what the reports cannot see (t,)."""

    mean: Floats
    from_reports: Floats
    from_volunteers: Floats
    unseen: Floats

    @property
    def variance(self) -> Floats:
        """Of the means, (t,)."""
        return np.asarray(self.from_reports + (self.from_volunteers**2).sum(axis=0) + self.unseen)


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """From features (N, f) to their principal components z (N, q), the features scaled to variance 1."""

    center: Floats
    axes: Floats

    def __call__(self, features: Floats) -> Floats:
        """Features (N, f) → z (N, q)."""
        return np.asarray((features - self.center) @ self.axes)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Calibrated:
    """The volunteers' weights (V,) and how they came about. `u` (V, p) and `z` (V, q) are centred at the weighted mean.

    u is scaled so that the covariance of what reports say of it is the identity.
    """

    weights: Floats
    tilt: Floats
    directions: Directions
    u: Floats
    z: Floats
    bent: Floats
    response: Floats
    """L (q, p): how the tilt moves with the reports."""
    p_value: float
    spread: float
    """ρ²: the squared tilt that the reports show beyond chance, of each attribute and answer; 0 unless the drift test
    raises."""

    def means(self, targets: Floats) -> Means:
        """What the people's means of `targets` (V, t), known of the volunteers, are."""
        w = self.weights[:, None]
        mean = self.weights @ targets
        t = targets - mean
        C = (w * t).T @ self.z
        H = C @ self.response
        rest = t - self.u @ H.T
        free = len(w) / max(len(w) - 1 - min(self.u.shape[1], self.z.shape[1]), 1)
        return Means(
            mean=mean,
            from_reports=(H**2).sum(axis=1),
            from_volunteers=w * rest * np.sqrt(free),
            unseen=self._unseen(t, C, H) if self.spread > 0 else np.zeros(len(mean)),
        )

    @property
    def visible(self) -> float:
        """How many of the tilt's directions reports see: 1 for each that they tell, less for what they hardly tell."""
        return float(np.trace(self.response @ ((self.weights[:, None] * self.u).T @ self.z)))

    def seen(self, targets: Floats) -> Floats:
        """How much of what a tilt does to the means of `targets` (V, t) reports see, from 0 to 1 (t,)."""
        w = self.weights[:, None]
        C = (w * (targets - self.weights @ targets)).T @ self.z
        slope = C - C @ self.response @ ((w * self.u).T @ self.z)
        all_of_it = (C**2).sum(axis=1)
        return np.asarray(1.0 - (slope**2).sum(axis=1) / np.where(all_of_it > 0, all_of_it, 1.0))

    def weights_of(self, features: Floats) -> Floats:
        """How much other volunteers with these features (N, f) count, 1 on average."""
        weights = softmax(self.directions(features) @ self.tilt)
        return np.asarray(weights * len(weights))

    def _unseen(self, t: Floats, C: Floats, H: Floats) -> Floats:
        """By how much tilts that reports do not see, the bend of those that they do, and what goes with neither can
        move the means (t,); squared."""
        w = self.weights[:, None]
        slope = C - H @ ((w * self.u).T @ self.z)
        bend = (w * t).T @ self.bent - H @ ((w * self.u).T @ self.bent)
        own = t - self.z @ np.linalg.lstsq((w * self.z).T @ self.z, C.T, rcond=None)[0]
        alike = (slope**2).sum(axis=1) + (w * own**2).sum(axis=0)
        return np.asarray(self.spread * alike + BEND**2 * (bend**2).sum(axis=1))


def calibrate(
    evidence: Sequence[Evidence],
    seen: Sequence[Floats],
    features: Floats,
    emphasis: Floats | float = 1.0,
    most: int = MOST_FEATURES,
) -> Calibrated:
    """The volunteers tilted towards what the reports of one or several releases say.

    Args:
        evidence: of every release, what its reports say.
        seen: of every release, u (V, p) of the volunteers.
        features: attributes and answers (V, f) of the volunteers, along which people may differ from them.
        emphasis: how large a tilt along each feature (f,) is thought, against the others.
        most: how many numbers of a record devices looked at: a tilt in so many directions is what reports can tell.
    """
    mean, u = _together(evidence, seen)
    directions = _directions(features, emphasis)
    z = directions(features)
    p_value = drift_test(mean, u)
    told = _told(u, z)[:, :most]
    u, mean = u @ told, mean @ told
    tilt, prior = np.zeros(z.shape[1]), np.eye(z.shape[1]) / PRIOR**2
    untilted = at = _Tilted.by(tilt, u, z, mean)
    for _ in range(_STEPS):
        move = np.linalg.solve(at.information + prior, at.solved.T @ at.gap - prior @ tilt)
        length = float(np.linalg.norm(move))
        tilt = tilt + move * min(1.0, _LONGEST / max(length, 1e-300))
        at = _Tilted.by(tilt, u, z, mean)
        if length < 1e-7:
            break
    bent = _bent(features, directions, tilt)
    return Calibrated(
        weights=at.weights,
        tilt=tilt,
        directions=directions,
        u=at.u,
        z=at.z,
        bent=bent - at.weights @ bent,
        response=np.asarray(np.linalg.solve(at.information + prior, at.solved.T), dtype=np.float64),
        p_value=p_value,
        spread=min(untilted.beyond_chance, PRIOR**2) if p_value < ALARMS else 0.0,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tilted:
    """The volunteers by a tilt: weights (V,), u (V, p) and z (V, q) centred, the gap (p,) that is left to the reports'
    mean, its covariance V (p, p), V⁻¹A (p, q) and AᵀV⁻¹A (q, q)."""

    weights: Floats
    u: Floats
    z: Floats
    gap: Floats
    covariance: Floats
    solved: Floats
    information: Floats

    @classmethod
    def by(cls, tilt: Floats, u: Floats, z: Floats, mean: Floats) -> _Tilted:
        weights = np.asarray(softmax(z @ tilt))
        here, there = weights @ u, weights @ z
        u, z = u - here, z - there
        A = (weights[:, None] * u).T @ z
        covariance = np.eye(len(mean)) + (u.T * weights**2) @ u
        solved = np.asarray(np.linalg.solve(covariance, A), dtype=np.float64)
        return cls(
            weights=weights, u=u, z=z, gap=mean - here, covariance=covariance, solved=solved, information=A.T @ solved
        )

    @property
    def beyond_chance(self) -> float:
        """The squared tilt of every direction that would make such a gap, less what chance makes."""
        told = float(np.trace(self.information))
        statistic = float(self.gap @ np.linalg.solve(self.covariance, self.gap))
        return max(0.0, (statistic - len(self.gap)) / told) if told > 0 else 0.0


def drift_test(mean: Floats, u: Floats) -> float:
    """The p-value of Hotelling's T²: how rare so large a gap between the reports' mean (p,), whose covariance is the
    identity, and that of u (V, p) is where people are like the volunteers.

    The volunteers' part of the covariance is an estimate; its degrees of freedom are those of Nel and van der Merwe.
    """
    p, volunteers = len(mean), len(u)
    gap, centred = mean - u.mean(axis=0), u - u.mean(axis=0)
    theirs = centred.T @ centred / volunteers**2
    covariance = np.eye(p) + theirs
    part = np.linalg.solve(covariance, theirs)
    freedom = (p + p**2) / max((np.trace(part @ part) + np.trace(part) ** 2) / max(volunteers - 1, 1), 1e-300)
    if freedom <= p:
        return 1.0
    left = min(freedom, 1e12) - p + 1
    statistic = float(gap @ np.linalg.solve(covariance, gap))
    return float(fdtrc(p, left, statistic * left / ((left + p - 1) * p)))


def _together(evidence: Sequence[Evidence], seen: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Mean (p,) and u (V, p) of all releases side by side, in directions that differ between reports, scaled so that
    the covariance of the mean is the identity."""
    bases = [one.directions for one in evidence]
    mean = np.concatenate([one.mean @ basis for one, basis in zip(evidence, bases, strict=True)])
    return mean, np.hstack([u @ basis for u, basis in zip(seen, bases, strict=True)])


def _told(u: Floats, z: Floats) -> Floats:
    """Directions (p, k) of u (V, p) that go along with z (V, q) more than chance would have it, what reports tell best
    first; in u, reports have the covariance 1.

    A codebook has many codewords, and what they stand for may be ten functions of one number. Among V volunteers each
    goes along with every z a little, by chance; a tilt that was fitted to that would follow the noise. Canonical
    correlations of what has nothing in common stay below (√p + √q)/√V (Marchenko and Pastur's edge).
    """
    basis, other = _uncorrelated(u), _uncorrelated(z)
    common, correlations, _ = np.linalg.svd(
        ((u - u.mean(axis=0)) @ basis).T @ (z - z.mean(axis=0)) @ other / len(u), full_matrices=False
    )
    edge = (np.sqrt(basis.shape[1]) + np.sqrt(other.shape[1])) / np.sqrt(len(u))
    orthonormal, _ = np.linalg.qr(basis @ common[:, correlations > edge])
    best, _, _ = np.linalg.svd(
        ((u - u.mean(axis=0)) @ orthonormal).T @ (z - z.mean(axis=0)) @ other, full_matrices=False
    )
    return np.asarray(orthonormal @ best)


def _uncorrelated(values: Floats) -> Floats:
    """Directions (p, r) in which values (V, p) have variance 1 and go along with each other not at all."""
    _, lengths, axes = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
    kept = lengths > 1e-9 * max(float(lengths.max(initial=0.0)), 1e-300)
    return np.asarray(axes[kept].T / lengths[kept] * np.sqrt(len(values)))


def _directions(features: Floats, emphasis: Floats | float) -> Directions:
    """The widest ones, every feature that varies counting by its emphasis."""
    center = features.mean(axis=0)
    spread = features.std(axis=0)
    varies = spread > 1e-12 * np.abs(features).max(axis=0, initial=1e-300)
    scale = np.where(varies, emphasis / np.where(varies, spread, 1.0), 0.0)
    _, values, axes = np.linalg.svd((features - center) * scale / np.sqrt(len(features)), full_matrices=False)
    kept = (values > 1e-4 * values[0]) & (np.arange(len(values)) < min(MOST_FEATURES, len(features) // 5 + 1))
    return Directions(center=center, axes=scale[:, None] * axes[kept].T)


def _bent(features: Floats, directions: Directions, tilt: Floats) -> Floats:
    """(V, f): by the tilt of each feature, its square without what goes straight with z."""
    z, spread = directions(features), features.std(axis=0)
    scaled = (features - directions.center) / np.where(spread > 0, spread, 1.0)
    squares = np.clip(scaled, -4.0, 4.0) ** 2  # one wild record is no bend
    squares -= squares.mean(axis=0)
    rest = squares - z @ np.linalg.lstsq(z, squares, rcond=None)[0]
    return np.asarray(rest * (spread * (directions.axes @ tilt)))
