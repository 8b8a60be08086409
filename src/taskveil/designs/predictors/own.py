"""The task's own model on the device, when its owner shares it: nobody predicts its truth better.

A model that was fitted to the volunteers has seen their labels, and what it says of them is too good to calibrate
anything by. Copies that are fitted without a part of the volunteers say of that part what the model would say of
strangers: cross-fitting.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from taskveil.arrays import Floats, Integers
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask
from taskveil.tasks.costs import LinearInTruth
from taskveil.tasks.models.estimators import from_estimator

_STEEPEST = 8.0  # slopes are searched up to this factor and down to its inverse


def out_of_fold(task: ModelTask, X: Floats, y: Any, fold: Integers) -> Floats:
    """(N, S): what copies of the task's scikit-learn estimator, each fitted without one part, answer to that part.

    TaskError where the model cannot be fitted again (a torch module, an ONNX file). Without labels y the model itself
    is the truth, and what it says is what it says.

    Args:
        task: the model and its loss.
        X: the volunteers' records (N, n).
        y: their labels, or None.
        fold: the part of every volunteer (N,), from 0.
    """
    if y is None:
        return task.answers(X)
    if not hasattr(task.model, "get_params"):
        raise TaskError("only scikit-learn estimators can be fitted again without some of the volunteers.")
    from sklearn.base import clone

    labels, found = np.asarray(y), np.empty((len(X), task.outputs))
    for part in range(int(fold.max()) + 1):
        held = fold == part
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the fit of a copy has to say, the fit of the model said before
            try:
                copy = clone(task.model).fit(X[~held], labels[~held])
            except Exception as error:  # whatever someone else's estimator raises
                raise TaskError(f"the model cannot be fitted again without some of the volunteers: {error}") from error
            frozen = from_estimator(copy, task.cost)
        outputs = frozen(X[held])
        if frozen.classes is not None and task.frozen.classes is not None:
            # A copy knows only the classes it has seen: of the others it says that they are next to impossible.
            places = np.searchsorted(task.frozen.classes, frozen.classes)
            every = np.full((len(outputs), task.outputs), np.log(1e-12))
            every[:, places] = outputs
            outputs = every
        found[held] = task.cost.answers(outputs)
    return found


def steepness(outputs: Floats, truth: Floats, cost: LinearInTruth) -> float:
    """The factor by which outputs (N, S) must be multiplied to be honest about the truth (N, S): below one where the
    model is too sure of itself. For class probabilities, outputs are logits; for values, about their mean."""
    if not cost.logits:
        centred = outputs - outputs.mean(axis=0)
        energy = float((centred**2).sum())
        return float(np.clip((centred * (truth - truth.mean(axis=0))).sum() / energy, 0.0, 1.0)) if energy > 0 else 1.0

    def loss(power: float) -> float:
        return float(cost.losses(outputs * np.exp(power), truth).mean())

    reach = np.log(_STEEPEST)
    return float(np.exp(minimize_scalar(loss, bounds=(-reach, reach), method="bounded").x))
