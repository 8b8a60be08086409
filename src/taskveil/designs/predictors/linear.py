"""The smallest predictor: linear with a ridge penalty.

For values, ridge regression has a closed form: the products XᵀX and XᵀT of a set of rows, and one eigendecomposition
that serves all penalties. For classes, multinomial logistic regression is minimised by steps with a fixed bound on the
curvature (Böhning and Lindsay), ½(XᵀX + penalty), accelerated by momentum; all penalties move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import Encoder, HiddenEncoder, LinearEncoder
from taskveil.designs.crossfit import Evidence, Fit

PENALTIES = (100.0, 10.0, 1.0, 0.1, 0.01)
"""In records' worth of evidence for every weight, attributes having variance one."""

_STEPS = 60  # of logistic regression
_LEARNT_FROM = 4000  # records that logistic regression is fitted to, at most


@dataclass(frozen=True, kw_only=True, eq=False)
class Lines:
    """Models of all penalties: outputs = X · slopesᵀ + offset. Shapes: slopes (H, S, n), offset (H, S)."""

    slopes: Floats
    offset: Floats

    def outputs(self, X: Floats) -> Floats:
        """(H, N, S)."""
        return np.asarray(X @ self.slopes.transpose(0, 2, 1) + self.offset[:, None])


@dataclass(frozen=True)
class Linear:
    """The family of ridge and logistic regression."""

    name: str = "linear"
    averaged: bool = False
    logits: bool = True
    as_it_is: bool = False

    def seconds(self, evidence: Evidence) -> float:
        """About how much processor time one fit takes."""
        (count, width), outputs = evidence.X.shape, evidence.truth.shape[1]
        products = 2e-10 * count * width * (width + outputs) + 1e-9 * width**3
        steps = _STEPS * len(PENALTIES) * 4e-10 * min(count, _LEARNT_FROM) * outputs * (width + 20)
        return float(products + (steps if evidence.cost.logits else 0.0))

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        """One model for each set of rows, fitted to these volunteers and to no others."""
        X, truth = evidence.X, evidence.truth
        if evidence.cost.logits:
            return [_logistic(X[own], truth[own], evidence.seed) for own in rows]
        return [_ridge(X[own], truth[own]) for own in rows]

    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:
        """The device's encoder of slope · outputs + shift (S,)."""
        (lines,) = fits
        assert isinstance(lines, Lines)  # noqa: S101 - its own fit
        return affine_encoder(
            evidence.low,
            evidence.high,
            slope * lines.slopes[setting],
            slope * lines.offset[setting] + shift,
            softmax=bool(evidence.cost.logits),
        )


def _standard(X: Floats) -> tuple[Floats, Floats, Floats]:
    """Records with mean zero and variance one (N, n), the mean, and the scale, infinite for constant attributes."""
    center, spread = X.mean(axis=0), X.std(axis=0)
    scale = np.where(spread > 1e-9 * np.abs(center), spread, np.inf)
    return (X - center) / scale, center, scale


def _lines(weights: Floats, start: Floats, center: Floats, scale: Floats) -> Lines:
    """Models with weights (H, n, S) and start (H, S) on the standard records, on the records as they are."""
    slopes = weights.transpose(0, 2, 1) / scale
    return Lines(slopes=slopes, offset=start - slopes @ center)


def _ridge(X: Floats, truth: Floats) -> Lines:
    inputs, center, scale = _standard(X)
    middle = truth.mean(axis=0)
    values, axes = np.linalg.eigh(inputs.T @ inputs)
    along = axes.T @ (inputs.T @ (truth - middle))
    weights = np.stack([axes @ (along / (values + penalty)[:, None]) for penalty in PENALTIES])
    return _lines(weights, np.tile(middle, (len(PENALTIES), 1)), center, scale)


def _logistic(X: Floats, truth: Floats, seed: int) -> Lines:
    """Penalties move together: weights (S, H, n), start (S, H), logits (S, H, N): sums over classes are quick if these
    come first. Momentum starts again where a step went too far."""
    some = np.random.default_rng(seed).permutation(len(X))[:_LEARNT_FROM]
    X, truth = X[some], truth[some]
    inputs, center, scale = _standard(X)
    count, width = inputs.shape
    classes, settings = truth.shape[1], len(PENALTIES)
    penalty = np.array(PENALTIES)[:, None]
    values, axes = np.linalg.eigh(inputs.T @ inputs)
    values = np.maximum(values, 0.0)
    Z = inputs @ axes  # in the directions in which the bound on the curvature is diagonal
    across, known = np.ascontiguousarray(Z.T), np.ascontiguousarray(truth.T)[:, None]
    pace = 1.0 / (values / 2.0 + penalty)
    weights = np.zeros((classes, settings, width))
    share = truth.mean(axis=0) + 1.0 / count
    start = np.tile(np.log(share / share.sum())[:, None], settings)
    ahead, ahead_start, last_weights, last_start = weights, start, weights, start
    momentum = 1.0
    for _ in range(_STEPS):
        logits = (ahead.reshape(-1, width) @ across).reshape(classes, settings, count)
        logits += ahead_start[..., None]
        logits -= logits.max(axis=0)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=0)
        logits -= known
        slope = (logits.reshape(-1, count) @ Z).reshape(weights.shape) + penalty * ahead
        weights = ahead - pace * slope
        start = ahead_start - logits.sum(axis=2) * (2.0 / count)
        if float((slope * (weights - last_weights)).sum()) > 0:  # uphill: momentum led astray
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        push = (momentum - 1.0) / following
        ahead, ahead_start = weights + push * (weights - last_weights), start + push * (start - last_start)
        last_weights, last_start, momentum = weights, start, following
    return _lines((weights @ axes.T).transpose(1, 2, 0), start.T, center, scale)


def affine_encoder(
    low: Floats, high: Floats, slopes: Floats, offset: Floats, *, softmax: bool
) -> LinearEncoder | HiddenEncoder:
    """slopes (S, n) · x + offset (S,), or the softmax of that, as a device runs it for records between low and high."""
    if not softmax:
        return LinearEncoder.of(low=low, high=high, weights=slopes, offset=offset)
    return HiddenEncoder.of(  # for its softmax: the one hidden unit is silent
        low=low,
        high=high,
        hidden_weights=np.zeros((1, len(low))),
        hidden_offset=np.zeros(1),
        weights=np.zeros((len(offset), 1)),
        skip=slopes,
        offset=offset,
        softmax=True,
    )
