"""Cross-fitting: out-of-fold predictions for volunteers, for designing and for judging.

One rule holds for every design: a model that was fitted with a volunteer's label never helps to judge that volunteer.
The volunteers form `FOLDS` folds, made once per design. A *view* serves one purpose:

- the view for the final design judges nobody. The prediction of a volunteer comes from a model that was fitted without
  the volunteer's fold;
- the view that judges fold k belongs to a design that is made without fold k. The prediction of a volunteer of another
  fold j comes from a model that was fitted without j and k; the prediction of a volunteer of fold k comes from the
  encoder that a device of that design runs. All other parts of the design (penalties, rounds, calibration, codes,
  answers) are made from the volunteers whom the view does not judge.

A model without j and k serves the views of both folds. So five folds need 5 + 10 models, and one more where devices
run a model of all volunteers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.latent_encoders import Encoder
from taskveil.tasks.costs import Learnable
from taskveil.veil.volunteers import FOLDS as FOLDS

_STEEPEST = 8.0  # outputs are multiplied by at most this factor
_LEAST_SLOPE = 1e-3  # below, a search has ended beside zero


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """The data that predictors learn from: records X (N, n), the truth (N, S), and the cost of a prediction.

    `fold` (N,) is each volunteer's fold, from 0; `low` and `high` (n,) bound the records; `most_bytes` is the
    storage of a device; torch computes on `device`.
    """

    X: Floats
    truth: Floats
    cost: Learnable
    fold: Integers
    low: Floats
    high: Floats
    seed: int
    most_bytes: int
    device: str = "cpu"

    def __len__(self) -> int:
        return len(self.X)

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return int(self.fold.max()) + 1


class Fit(Protocol):
    """A model that was fitted to some of the volunteers."""

    def outputs(self, X: Floats) -> Floats:
        """(H, N, S): logits or values for records (N, n), with each of the family's H settings."""
        ...


class PredictorFamily(ABC):
    """One kind of predictor: it fits models, and turns them into a device's encoder."""

    name: str
    """The name in `encoder=` and `veil.considered`."""
    averaged: bool = True
    """Whether devices run the mean of the folds' models, and not one model of all volunteers."""
    logits: bool = True
    """Whether outputs are logits, where the cost takes them; class probabilities or values otherwise."""
    as_it_is: bool = False
    """Whether devices run the model without calibration."""

    @abstractmethod
    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        """One model for each set of rows, fitted to these volunteers and to no others."""

    @abstractmethod
    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:
        """The device's encoder of slope · outputs + shift (S,), as class probabilities where the cost takes logits:
        the mean of the `fits` with that setting."""


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """Outputs (H, N, S) for all volunteers, with each setting of the family, and whom the view judges (N,).

    With `logits` outputs are logits, of a cost that takes them; `as_it_is` says that they cannot be calibrated.
    """

    outputs: Floats
    judged: Bools
    logits: bool
    as_it_is: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossFitted:
    """A family's views: for the final design, for judging each fold (none where nothing is to be judged), the models
    that devices run the mean of, and for each fold the same without that fold."""

    family: PredictorFamily
    final: View
    judging: tuple[View, ...]
    fits: tuple[Fit, ...]
    without: tuple[tuple[Fit, ...], ...]


def cross_fit(family: PredictorFamily, evidence: Evidence, *, judging: bool = True) -> CrossFitted:
    """The family's views of the volunteers. Without `judging`, only the view for the final design."""
    X, fold, folds = evidence.X, evidence.fold, evidence.folds
    pairs = list(combinations(range(folds), 2)) if judging else []
    left_out = [(part,) for part in range(folds)] + [tuple(pair) for pair in pairs]
    if not family.averaged:
        left_out.append(())
    fits = dict(zip(left_out, family.fit(evidence, [_without(fold, parts) for parts in left_out]), strict=True))
    final = [fits[(part,)].outputs(X[fold == part]) for part in range(folds)]
    logits = family.logits and bool(evidence.cost.logits)
    shape = (final[0].shape[0], len(X), final[0].shape[2])

    def view(parts: Sequence[Floats], judged: Bools) -> View:
        outputs = np.empty(shape)
        for part, found in enumerate(parts):
            outputs[:, fold == part] = found
        return View(outputs=outputs, judged=judged, logits=logits, as_it_is=family.as_it_is)

    views = []
    if judging:
        # The model without {j, k} predicts both folds at once, because forests are slow to call.
        rows = [np.flatnonzero(fold == part) for part in range(folds)]
        said = {
            (j, k): np.split(fits[j, k].outputs(X[np.concatenate([rows[j], rows[k]])]), [len(rows[j])], axis=1)
            for j, k in pairs
        }
        for k in range(folds):
            parts = [said[min(j, k), max(j, k)][int(j > k)] if j != k else final[k] for j in range(folds)]
            if family.averaged:
                parts[k] = np.mean([said[min(j, k), max(j, k)][int(k > j)] for j in range(folds) if j != k], axis=0)
            views.append(view(parts, fold == k))
    on_device = [fits[(part,)] for part in range(folds)] if family.averaged else [fits[()]]
    without: list[tuple[Fit, ...]] = [(fits[(part,)],) for part in range(folds)]
    if family.averaged and judging:
        without = [tuple(fits[min(j, k), max(j, k)] for j in range(folds) if j != k) for k in range(folds)]
    return CrossFitted(
        family=family,
        final=view(final, np.zeros(len(X), dtype=bool)),
        judging=tuple(views),
        fits=tuple(on_device),
        without=tuple(without),
    )


def _without(fold: Integers, parts: Sequence[int]) -> Integers:
    return np.flatnonzero(~np.isin(fold, parts))


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrated:
    """One setting of a family, and slope and shift (S,) that make its outputs honest; `predicted` (N, S) are the
    answers that follow."""

    setting: int
    slope: float
    shift: Floats
    predicted: Floats

    @classmethod
    def given(cls, predicted: Floats) -> Calibrated:
        """Predictions (N, S) that need no calibration."""
        return cls(setting=0, slope=1.0, shift=np.zeros(predicted.shape[1]), predicted=predicted)


def calibrate(view: View, evidence: Evidence) -> Calibrated:
    """The setting of least loss, with the slope of least loss, on the volunteers whom the view does not judge."""
    known, cost = ~view.judged, evidence.cost
    truth = evidence.truth[known]

    def answers(outputs: Floats) -> Floats:
        return cost.answers(outputs) if view.logits else outputs

    losses = [float(cost.paired_scores(answers(outputs[known]), truth).mean()) for outputs in view.outputs]
    setting = int(np.argmin(losses))
    outputs = view.outputs[setting]
    if view.as_it_is:
        return Calibrated.given(answers(outputs))
    if view.logits:
        slope, shift = honest_logits(outputs[known], truth, cost)
    else:
        slope, shift = honest_values(outputs[known], truth, cost)
    honest = answers(slope * outputs + shift)
    return Calibrated(
        setting=setting,
        slope=slope,
        shift=shift,
        predicted=honest if view.logits else np.clip(honest, *cost.latent_range(honest[known])),
    )


def on_devices(fitted: CrossFitted, evidence: Evidence, chosen: Calibrated) -> Floats:
    """(1 + F, N, S): the answers that devices compute for every volunteer, by the encoder of all volunteers, and then
    by the encoder that is fitted without each of the F folds."""

    def answers(fits: Sequence[Fit]) -> Floats:
        outputs = np.mean([fit.outputs(evidence.X)[chosen.setting] for fit in fits], axis=0)
        honest = chosen.slope * outputs + chosen.shift if not fitted.final.as_it_is else outputs
        if fitted.final.logits:
            return np.asarray(evidence.cost.answers(honest))
        return np.asarray(np.clip(honest, *evidence.cost.latent_range(chosen.predicted)))

    return np.stack([answers(fits) for fits in (fitted.fits, *fitted.without)])


def honest_values(outputs: Floats, truth: Floats, cost: Learnable) -> tuple[float, Floats]:
    """Slope and shift (S,) by least squares about the constant prediction. Outputs (N, S) without information about the
    truth (N, S) become the constant itself."""
    center = outputs.mean(axis=0)
    middle = cost.answers(cost.best_constant(truth, lambda: truth)[None])[0]
    energy = float(((outputs - center) ** 2).sum())
    slope = float(((outputs - center) * (truth - truth.mean(axis=0))).sum()) / energy if energy > 0 else 0.0
    slope = float(np.clip(slope, 0.0, _STEEPEST))
    return slope, middle - slope * center


def honest_logits(outputs: Floats, truth: Floats, cost: Learnable) -> tuple[float, Floats]:
    """Slope and shift (S,) of least loss for logits (N, S), which is convex in both. At the least, the mean of the
    predictions is the constant prediction; logits without information about the truth (N, S) become the constant.

    The truth counts one volunteer more (`cautious`). Otherwise no slope would be steep enough where a few records are
    classified without a mistake.
    """
    cautious, constant = cost.cautious(truth, truth), cost.best_constant(truth, lambda: truth)
    outputs = outputs - outputs.mean(axis=1, keepdims=True)  # a shift of all logits makes no difference

    def loss(parameters: Floats) -> tuple[float, Floats]:
        shifted = parameters[0] * outputs + parameters[1:]
        slopes = cost.slopes(shifted, cautious)
        return float(cost.losses(shifted, cautious).mean()), np.concatenate(
            [[(slopes * outputs).sum(axis=1).mean()], slopes.mean(axis=0)]
        )

    bounds = [(0.0, _STEEPEST), *[(None, None)] * len(constant)]
    start = np.concatenate([[0.0], constant])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 100})
    if not found.fun < loss(start)[0] or found.x[0] < _LEAST_SLOPE:
        return 0.0, constant
    return float(found.x[0]), np.asarray(found.x[1:])
