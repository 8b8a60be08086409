"""ε-LDP reports of all kinds, as matrices p(y|z) (values, reports), and what they gain: adversaries of every bound."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from taskveil.arrays import Floats


def gaussian_cells(variances: list[float], counts: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Cell means (N, d) and masses (N,) of independent Gaussians cut into cells.

    A report of the cell is a report of the Gaussian, and it gains the same on both: every bound must hold for it.
    """
    axes, masses = [], []
    for variance, count in zip(variances, counts, strict=True):
        edges = np.sqrt(3) * ndtri(np.linspace(0, 1, count + 1))
        mass = np.diff(ndtr(edges))
        axes.append(np.sqrt(variance) * -np.diff(np.exp(-(edges**2) / 2)) / np.sqrt(2 * np.pi) / mass)
        masses.append(mass)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    weights = np.prod(np.stack(np.meshgrid(*masses, indexing="ij"), axis=-1), axis=-1).ravel()
    return points, weights


def gain(values: Floats, masses: Floats, report: Floats) -> float:
    """By how much the report (N, Y) lowers the loss of the best decoder for values (N, d) of mean 0."""
    joint = masses[:, None] * report
    total = joint.sum(axis=0)
    return float((((joint.T @ values) ** 2).sum(axis=1)[total > 0] / total[total > 0]).sum())


def favouring(values: Floats, codewords: Floats, count: int, epsilon: float) -> Floats:
    """The `count` nearest codewords are e^ε times as likely as the others."""
    distances = ((values[:, None, :] - codewords[None]) ** 2).sum(axis=2)
    near = np.argsort(np.argsort(distances, axis=1), axis=1) < count
    weights = np.where(near, 1.0, np.exp(-epsilon))
    return weights / weights.sum(axis=1, keepdims=True)


def improved(values: Floats, masses: Floats, codewords: Floats, count: int, epsilon: float, rounds: int = 12) -> Floats:
    """A report whose codewords have been moved to what they are decoded to, again and again: hard to beat."""
    for _ in range(rounds):
        joint = masses[:, None] * favouring(values, codewords, count, epsilon)
        codewords = (joint.T @ values) / joint.sum(axis=0)[:, None]
        codewords *= 3.0 if count > 1 else 1.0  # decoded values shrink towards 0; the order of distances should not
    return favouring(values, codewords, count, epsilon)


def graded(rng: np.random.Generator, values: int, size: int, epsilon: float) -> Floats:
    """No staircase: p(y|z) ∝ e^{ε s/2} with random scores s in [0, 1], then garbled by a random matrix."""
    likelihoods = np.exp(epsilon / 2 * rng.beta(0.3, 0.3, (values, size)))
    garbling = rng.dirichlet(np.full(size, 0.2), size)
    return likelihoods / likelihoods.sum(axis=1, keepdims=True) @ garbling


def random_report(rng: np.random.Generator, values: Floats, masses: Floats, epsilon: float) -> Floats:
    """One of all kinds: graded, favouring random codewords, improved, or a mixture that says which one it is."""
    kind = rng.integers(4)
    if kind == 3:
        share = rng.random()
        one, other = (random_report(rng, values, masses, epsilon) for _ in range(2))
        return np.hstack([share * one, (1 - share) * other])
    size = int(rng.integers(2, 24))
    if kind == 0:
        return graded(rng, len(values), size, epsilon)
    count = int(rng.integers(1, max(2, size // 2)))
    codewords = rng.standard_normal((size, values.shape[1])) * values.std(axis=0)
    if kind == 1:
        return favouring(values, codewords, count, epsilon)
    return improved(values, masses, codewords, count, epsilon)
