"""The smooth shares of the bins of a number that fit their unbiased estimates: a logistic Gaussian process.

    s ~ N(p, V)                                   unbiased shares s of n bins; the covariance V of their errors is known
    p_b ∝ w_b exp f_b                             bins have the widths w, so exp f is a density
    f ~ N(0, (λ K + L/30²)⁻¹)                     log densities that bend are less probable: fᵀ K f = ∫ f″².
                                                  Straight ones cost next to nothing: fᵀ L f is the slope, squared

Shares are never negative this way. Lengths are in parts of the range of all bins, so the units of the number do not
matter. For a given λ, f is the likeliest one given s (Newton's method with Fisher's information). λ has the largest
marginal likelihood of s: by Laplace's approximation its logarithm is

    log p(s | f) − ½ fᵀ(λ K + L/30²)f + ½ (n − 2) log λ − ½ log det⁺(I + λ K + L/30²),

where I is the information about f, and f and p are those for this λ (Leonard 1978; Riihimäki and Vehtari 2014). With
many reports the information grows, and all that the estimates say is kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from taskveil.arrays import Floats

STEEP = 30.0
"""The standard deviation of the logarithm of the ratio of the densities at both ends, before any report. People of one
bin alone would make it infinite."""
LEAST_GAIN = 1e-3
"""Where a search ends: a smaller gain of a log-likelihood says nothing."""


def bending(edges: Floats) -> Floats:
    """(n, n): K, so that fᵀ K f is ∫ f″² for values f at the middles of n ≥ 3 bins, whose range has length 1."""
    width = np.diff(edges) / (edges[-1] - edges[0])
    apart = (width[1:] + width[:-1]) / 2.0
    slopes = np.diff(np.eye(len(width)), axis=0) / apart[:, None]
    middle = (apart[1:] + apart[:-1]) / 2.0
    second = np.diff(slopes, axis=0)
    return np.asarray(second.T @ (second / middle[:, None]))


def steepness(edges: Floats) -> Floats:
    """(n, n): L, so that fᵀ L f is b² for the straight line with slope b that is nearest to f, as in `bending`."""
    middle = (edges[1:] + edges[:-1]) / (2.0 * (edges[-1] - edges[0]))
    middle -= middle.mean()
    return np.asarray(np.outer(middle, middle) / float(middle @ middle) ** 2)


def smooth_shares(shares: Floats, precision: Floats, edges: Floats) -> Floats:
    """Smooth shares (n,) of at least 0 that add up to 1.

    Args:
        shares: (n,) unbiased ones of n ≥ 3 bins.
        precision: (n, n), the inverse of the covariance of their errors; singular, since shares add up to 1.
        edges: (n + 1,) of the bins.
    """
    K, sloping, log_width = bending(edges), steepness(edges) / STEEP**2, np.log(np.diff(edges))
    even = np.diff(edges) / (edges[-1] - edges[0])
    bent = np.linalg.eigh(K)[1][:, 2:]  # all directions but straight lines
    known = bent.T @ _information(even, precision) @ bent
    scales = eigh(known, bent.T @ K @ bent, eigvals_only=True)
    # From log densities that bend freely, also where shares are a hundredth of even ones, to nearly straight ones. From
    # the other end the search may be stuck: a straight one may fit a share near 0 well, and the others not at all.
    high, low = 10.0 * float(scales[-1]), 1e-4 * max(float(scales[0]), 1e-12 * float(scales[-1]))
    f = np.log(np.maximum(shares, 0.0) + even) - log_width
    best, most = shares, -math.inf
    for strength in np.geomspace(low, high, 1 + math.ceil(math.log10(high / low))).tolist():
        found = _fitted(f, shares, precision, sloping + strength * K, log_width)
        evidence = found.value - 0.5 * found.curvature + 0.5 * (len(K) - 2) * math.log(strength)
        if evidence > most:
            best, most = found.shares, evidence
        f = found.f
    return best


class Fitted(NamedTuple):
    """The likeliest log densities f (n,) and their shares, their log-likelihood with that of the prior, and the
    logarithm of the determinant of its curvature."""

    f: Floats
    shares: Floats
    value: float
    curvature: float


def _information(p: Floats, precision: Floats) -> Floats:
    """The information (n, n) about f: JᵀPJ, where J = diag p − p pᵀ is the derivative of the shares p in f."""
    part = p[:, None] * (precision - p @ precision)  # J P
    return np.asarray((part - (part @ p)[:, None]) * p)


def _fitted(f: Floats, shares: Floats, precision: Floats, penalty: Floats, log_width: Floats) -> Fitted:
    """The f (n,) of the largest log p(s | f) − ½ fᵀ(penalty)f near the given one."""
    constants = np.full(penalty.shape, 1.0 / len(f))  # they change no share
    barely = 1e-12 * np.eye(len(f))  # where doubles cannot tell curvature from 0

    def at(f: Floats) -> tuple[float, Floats]:
        density = np.exp(f + log_width - (f + log_width).max())
        p = density / density.sum()
        return -0.5 * float((shares - p) @ precision @ (shares - p) + f @ penalty @ f), p

    value, p = at(f)
    while True:
        curvature = _information(p, precision) + penalty
        curvature += curvature.trace() / len(f) * barely
        away = precision @ (shares - p)
        slope = p * (away - p @ away) - penalty @ f
        step = np.linalg.solve(curvature + curvature.trace() / len(f) * constants, slope)
        gain, part = float(slope @ step), 1.0
        while gain >= LEAST_GAIN and part > 1e-8:
            there, p_there = at(f + part * step)
            if there >= value + 1e-4 * part * gain:
                break
            part /= 2.0
        else:  # nothing left to gain
            return Fitted(f, p, value, float(np.linalg.slogdet(curvature + constants)[1]))
        f, value, p = f + part * step, there, p_there
        f -= f.mean()
