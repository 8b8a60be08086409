"""How sure a model may be of itself: what it says of strangers, held against the truth."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from taskveil.arrays import Floats
from taskveil.tasks.costs import Learnable

_STEEPEST = 8.0  # slopes are searched up to this factor and down to its inverse


def steepness(outputs: Floats, truth: Floats, *, logits: bool, cost: Learnable) -> float:
    """The factor by which outputs (N, S) must be multiplied to be honest about the truth (N, S): below one where the
    model is too sure of itself. Logits are judged by their `cost`, other numbers by squares about their mean."""
    if not logits:
        centred = outputs - outputs.mean(axis=0)
        energy = float((centred**2).sum())
        slope = float((centred * (truth - truth.mean(axis=0))).sum()) / energy if energy > 0 else 1.0
        return float(np.clip(slope, 0.0, _STEEPEST))

    def loss(power: float) -> float:
        return float(cost.losses(outputs * math.exp(power), truth).mean())

    reach = math.log(_STEEPEST)
    return math.exp(float(minimize_scalar(loss, bounds=(-reach, reach), method="bounded").x))
