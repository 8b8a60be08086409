"""Attributes with heavy tails: what a veil loses as they are, and with tables by rank for the light predictor.

    python benchmarks/statistics_skew.py

Five attributes, made from Gaussians z by a rising function; the truth is a rule of z. Losses are those of 2,000 other
people at ε = 20, where the predictor and not the noise decides, in cross-entropy or as a share of the truth's variance.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.client.latent_encoders import MeanEncoder, TabledEncoder

VOLUNTEERS, PEOPLE, EPSILON = 1000, 2000, 20.0

SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "z": lambda z: z,
    "e^z": np.exp,
    "e^2z": lambda z: np.exp(2 * z),
    "e^3z": lambda z: np.exp(3 * z),
    "sinh 3z": lambda z: np.sinh(3 * z),
    "two of five e^2z": lambda z: np.hstack([np.exp(2 * z[:, :2]), z[:, 2:]]),
    "half zeros, then e^2z": lambda z: np.where(z > 0, np.exp(2 * z) - 1, 0.0),
}

VALUES = ("z", "e^2z", "half zeros, then e^2z")
"""The shapes for which values are predicted too."""


def losses(shape: Callable[[Floats], Floats], seed: int, *, classes: bool) -> tuple[float, float, float, bool]:
    """(as they are, as designed, boosted trees in the clear, whether devices run tables)."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(VOLUNTEERS + PEOPLE, 5))
    X, value = shape(z), z @ rng.normal(size=5)
    y = (value > 0).astype(np.int64) if classes else value / value.std()
    train, test = slice(VOLUNTEERS), slice(VOLUNTEERS, None)
    if classes:
        model = HistGradientBoostingClassifier(random_state=0).fit(X[train], y[train])
        trees = float(log_loss(y[test], model.predict_proba(X[test])))
    else:
        model = HistGradientBoostingRegressor(random_state=0).fit(X[train], y[train])
        trees = float(np.square(model.predict(X[test]) - y[test]).mean())
    task = tv.ModelTask(model, loss="cross_entropy" if classes else "mse")

    def designed() -> tv.Veil:
        return tv.design(X[train], task, epsilon=EPSILON, y=y[train], method="codebook", seed=seed)

    with patch("taskveil.designs.predictors.light.tables_for", return_value=None):
        before = designed().loss(X[test], y[test]).mean
    veil = designed()
    parts = veil.encoder.encoders if isinstance(veil.encoder, MeanEncoder) else (veil.encoder,)
    tabled = any(isinstance(part, TabledEncoder) for part in parts)
    return before, veil.loss(X[test], y[test]).mean, trees, tabled


def skew_table(seeds: int = 1) -> list[str]:
    """Lines to print: one per shape and kind of truth, means over `seeds`. Two minutes of one core per seed."""
    lines = [f"{'attributes':<22} {'truth':<8} {'as they are':>12} {'as designed':>12} {'trees':>7}  tables"]
    for name, shape in SHAPES.items():
        for kind in ("classes", "values") if name in VALUES else ("classes",):
            found = [losses(shape, seed, classes=kind == "classes") for seed in range(seeds)]
            before, after, trees, tabled = np.mean(found, axis=0)
            lines.append(f"{name:<22} {kind:<8} {before:>12.3f} {after:>12.3f} {trees:>7.3f}  {tabled:.0%}")
    return lines


if __name__ == "__main__":
    print("\n".join(skew_table()))
