"""Families of predictors under test: what they learn from, what a design makes of them, and whether they peek."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import Encoder
from taskveil.designs.crossfit import Calibrated, CrossFitted, Evidence, PredictorFamily, calibrate, cross_fit
from taskveil.designs.selection import bytes_of
from taskveil.tasks.costs import CrossEntropy, Learnable, SquaredError

VALUES, CLASSES = SquaredError(), CrossEntropy()


def evidence_of(X: Floats, truth: Floats, cost: Learnable, *, fold: Integers | None = None, **options: Any) -> Evidence:
    """Of records anywhere among these, in five folds."""
    fold = np.random.default_rng(1).permutation(len(X)) % 5 if fold is None else fold
    given = {"low": X.min(axis=0), "high": X.max(axis=0), "seed": 0, "most_bytes": 2**19} | options
    return Evidence(X=X, truth=truth, cost=cost, fold=fold, **given)


@dataclass(frozen=True)
class Designed:
    """A family as a design has it: its views, the final calibration, and the device's encoder."""

    fitted: CrossFitted
    final: Calibrated
    encoder: Encoder

    @property
    def held_out(self) -> Floats:
        """(N, S): what is said of each volunteer by a model that did not see it."""
        return self.final.predicted

    @property
    def bytes(self) -> int:
        return bytes_of(self.encoder)

    def on_device(self, X: Floats, cost: Learnable) -> Floats:
        """(N, S): what the encoder should say, computed from the fits."""
        outputs = np.mean([fit.outputs(X)[self.final.setting] for fit in self.fitted.fits], axis=0)
        honest = self.final.slope * outputs + self.final.shift
        return cost.answers(honest) if self.fitted.final.logits else honest


def designed(family: PredictorFamily, evidence: Evidence) -> Designed:
    fitted = cross_fit(family, evidence, judging=False)
    final = calibrate(fitted.final, evidence)
    return Designed(fitted, final, family.encoder(evidence, fitted.fits, final.setting, final.slope, final.shift))


def assert_blind(family_of: Callable[[Evidence], PredictorFamily], evidence: Evidence) -> None:
    """No fit changes by a bit when labels of rows that it must not learn from are replaced.

    One fit lacks fold 0, the other folds 0 and 1. What both lack becomes no number at all; what only the second lacks,
    which the first does learn from in the same call, becomes other labels.
    """
    fold = evidence.fold
    rows = [np.flatnonzero(fold > 0), np.flatnonzero(fold > 1)]

    def outputs(truth: Floats) -> list[Floats]:
        changed = replace(evidence, truth=truth)
        return [fit.outputs(evidence.X) for fit in family_of(changed).fit(changed, rows)]

    before = outputs(evidence.truth)
    assert all(np.isfinite(said).all() for said in before)
    nothing, other = evidence.truth.copy(), evidence.truth.copy()
    nothing[fold == 0] = np.nan
    other[fold == 0] = garbage(evidence, fold == 0)
    for truth in (nothing, other):
        for said, now in zip(before, outputs(truth), strict=True):
            np.testing.assert_array_equal(said, now)
    other[fold <= 1] = garbage(evidence, fold <= 1)
    first, second = outputs(other)
    np.testing.assert_array_equal(before[1], second)
    assert not np.array_equal(before[0], first)  # the fit that may learn from them does


def garbage(evidence: Evidence, rows: np.ndarray) -> Floats:
    """Labels that are all wrong: the next class, or a value that is far away."""
    truth = evidence.truth[rows]
    return np.roll(truth, 1, axis=1) if evidence.cost.logits else 1000.0 - 7.0 * truth
