"""Cross-fitting: what was fitted with a volunteer's label never helps to judge that volunteer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import Encoder
from taskveil.designs.crossfit import (
    FOLDS,
    Calibrated,
    Evidence,
    Fit,
    View,
    calibrate,
    cross_fit,
    honest_logits,
    honest_values,
)
from taskveil.designs.predictors.light import Linear
from taskveil.tasks.costs import CrossEntropy, SquaredError


def evidence(count: int = 40, folds: int = FOLDS, *, classes: int = 0) -> Evidence:
    """Volunteers in random folds: values, or labels of so many classes."""
    rng = np.random.default_rng(count)
    X = rng.normal(size=(count, 2))
    truth = (
        np.eye(classes)[rng.integers(classes, size=count)] if classes else 3.0 + X[:, :1] + rng.normal(size=(count, 1))
    )
    return Evidence(
        X=X,
        truth=truth,
        cost=CrossEntropy() if classes else SquaredError(),
        fold=rng.permutation(count) % folds,
        low=X.min(axis=0),
        high=X.max(axis=0),
        seed=0,
        most_bytes=2**19,
    )


@dataclass(frozen=True)
class Members:
    """A model that predicts who it was fitted to: 1 for each of these volunteers, times 1 and 2 in its two settings."""

    rows: Integers
    count: int

    def outputs(self, X: Floats) -> Floats:
        said = np.zeros((2, len(X), self.count))
        said[:, :, self.rows] = np.array([1.0, 2.0])[:, None, None]
        return said


@dataclass(frozen=True)
class Recording:
    """A family whose models say which volunteers they were fitted to."""

    averaged: bool
    name: str = "recording"
    logits: bool = False
    as_it_is: bool = False
    fitted: list[frozenset[int]] = field(default_factory=list)

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        self.fitted.extend(frozenset(own.tolist()) for own in rows)
        return [Members(own, len(evidence)) for own in rows]

    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:
        raise NotImplementedError


AVERAGED = pytest.mark.parametrize("averaged", [True, False])


@AVERAGED
@pytest.mark.parametrize("folds", [3, 5])
def test_every_prediction_is_of_models_that_saw_neither_its_fold_nor_the_judged(averaged: bool, folds: int) -> None:
    given = evidence(31, folds)
    fitted, fold = cross_fit(Recording(averaged), given), given.fold
    assert len(fitted.judging) == folds
    for setting, unit in enumerate((1.0, 2.0)):
        helped = fitted.final.outputs[setting] / unit  # [i, j]: in what share of the models that predict i, j was seen
        for row in range(len(given)):
            np.testing.assert_array_equal(helped[row], fold != fold[row])
        for part, view in enumerate(fitted.judging):
            helped = view.outputs[setting] / unit
            assert (helped[:, fold == part] == 0).all()
            for row in range(len(given)):
                others = (fold != fold[row]) & (fold != part)
                assert (helped[row, ~others] == 0).all()
                # What judges is the mean of models which each lack one fold more.
                share = (folds - 2) / (folds - 1) if averaged and fold[row] == part else 1.0
                assert helped[row, others] == pytest.approx(share)


@AVERAGED
def test_a_view_says_whom_it_judges(averaged: bool) -> None:
    given = evidence()
    fitted = cross_fit(Recording(averaged), given)
    assert not fitted.final.judged.any()
    for part, view in enumerate(fitted.judging):
        np.testing.assert_array_equal(view.judged, given.fold == part)


@AVERAGED
@pytest.mark.parametrize("judging", [True, False])
def test_as_many_fits_as_views_need_and_none_twice(averaged: bool, judging: bool) -> None:
    given, family = evidence(), Recording(averaged)
    fitted = cross_fit(family, given, judging=judging)
    assert len(family.fitted) == len(set(family.fitted)) == 5 + 10 * judging + (not averaged)
    assert len(fitted.judging) == 5 * judging
    everyone = frozenset(range(len(given)))
    without = [everyone - set(np.flatnonzero(given.fold == part).tolist()) for part in range(5)]
    on_device = [frozenset(fit.rows.tolist()) for fit in fitted.fits]  # type: ignore[attr-defined]
    assert on_device == (without if averaged else [everyone])
    np.testing.assert_array_equal(fitted.final.outputs, cross_fit(Recording(averaged), given).final.outputs)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("logits", [True, False])
def test_outputs_are_logits_where_family_and_cost_agree(classes: int, logits: bool) -> None:
    fitted = cross_fit(replace(Recording(False), logits=logits), evidence(classes=classes))
    assert fitted.final.logits == all(view.logits for view in fitted.judging) == (logits and classes > 0)


@pytest.mark.parametrize("classes", [0, 2])
def test_five_volunteers_are_enough(classes: int) -> None:
    given = evidence(5, classes=classes)
    fitted = cross_fit(Linear(), given)
    for view in (fitted.final, *fitted.judging):
        found = calibrate(view, given)
        assert np.isfinite(found.predicted).all()
        assert found.predicted.shape == given.truth.shape


# Calibration.


def outputs_of(given: Evidence, noise: float = 1.0) -> Floats:
    """Three settings of outputs that say more or less of the truth: the second says most."""
    rng = np.random.default_rng(1)
    return np.stack([2.0 * given.truth + share * noise * rng.normal(size=given.truth.shape) for share in (3, 1, 2)])


VIEWS = pytest.mark.parametrize(
    ("classes", "logits"), [(0, False), (2, True), (3, True), (3, False)], ids=["values", "two", "three", "chances"]
)


@VIEWS
@pytest.mark.parametrize("garbage", [np.nan, 1e9, -7.0])
def test_calibration_ignores_the_labels_of_whom_it_judges(classes: int, logits: bool, garbage: float) -> None:
    given = evidence(60, classes=classes)
    view = View(outputs=outputs_of(given), judged=given.fold == 2, logits=logits)
    truth = given.truth.copy()
    truth[view.judged] = garbage
    one, other = calibrate(view, given), calibrate(view, replace(given, truth=truth))
    assert (one.setting, one.slope) == (other.setting, other.slope)
    np.testing.assert_array_equal(one.shift, other.shift)
    np.testing.assert_array_equal(one.predicted, other.predicted)
    # It would notice: with anybody else's labels, it is another one.
    truth = given.truth.copy()
    truth[~view.judged] = truth[~view.judged][::-1]
    changed = calibrate(view, replace(given, truth=truth))
    assert not np.array_equal(one.predicted, changed.predicted)


@VIEWS
def test_the_setting_of_least_loss_is_taken(classes: int, logits: bool) -> None:
    given = evidence(200, classes=classes)
    found = calibrate(View(outputs=outputs_of(given), judged=given.fold == 0, logits=logits), given)
    assert found.setting == 1


@VIEWS
def test_outputs_that_mislead_become_exactly_the_constant(classes: int, logits: bool) -> None:
    """The constant of the volunteers whom the view does not judge, wherever the outputs lie."""
    given = evidence(60, classes=classes)
    for scale, offset in ((-1.0, 0.0), (-1e-3, 50.0), (-1e4, -3.0)):
        outputs = scale * given.truth + offset
        view = View(outputs=outputs[None], judged=given.fold == 1, logits=logits)
        found = calibrate(view, given)
        known = given.truth[~view.judged]
        constant = given.cost.best_constant(known, lambda known=known: known)
        assert found.slope == 0.0
        np.testing.assert_array_equal(found.predicted, np.tile(given.cost.answers(constant[None]), (60, 1)))


def test_values_of_any_unit_are_brought_to_the_truth() -> None:
    given = evidence(100)
    for scale, offset in ((0.5, 0.0), (4.0, 1e3), (1.0, -50.0)):
        view = View(outputs=(scale * given.truth + offset)[None], judged=given.fold == 1, logits=False)
        found = calibrate(view, given)
        assert found.slope == pytest.approx(1.0 / scale)
        known = ~view.judged
        np.testing.assert_allclose(found.predicted[known], given.truth[known], rtol=1e-9)


@pytest.mark.parametrize("logits", [True, False])
def test_no_slope_is_below_zero_or_above_eight(logits: bool) -> None:
    given = evidence(60, classes=2)
    centred = given.truth - given.truth.mean(axis=0)
    honest = honest_logits if logits else honest_values
    constant = given.cost.best_constant(given.truth, lambda: given.truth)
    constant = constant if logits else given.cost.answers(constant[None])[0]
    for useless in (-centred, 0.0 * centred):
        slope, shift = honest(useless, given.truth, given.cost)
        assert slope == 0.0
        np.testing.assert_array_equal(shift, constant)
    assert honest(1e-3 * centred, given.truth, given.cost)[0] == pytest.approx(8.0, rel=1e-3)
    assert 0.0 < honest(1e3 * centred, given.truth, given.cost)[0] < 0.1


def test_the_mean_of_calibrated_probabilities_is_the_constant() -> None:
    """Else a constant that is more or less cautious would look like a design that knows something."""
    rng = np.random.default_rng(3)
    given = evidence(200, classes=3)
    logits = 2.0 * given.truth + rng.normal(size=(200, 3)) + np.array([3.0, -2.0, 0.0])
    found = calibrate(View(outputs=logits[None], judged=np.zeros(200, dtype=bool), logits=True), given)
    constant = given.cost.answers(given.cost.best_constant(given.truth, lambda: given.truth)[None])[0]
    assert found.slope > 0.1
    np.testing.assert_allclose(found.predicted.mean(axis=0), constant, rtol=1e-3)


def test_records_told_apart_without_a_mistake_do_not_make_answers_sure() -> None:
    """One more volunteer could have been of the other class: about 1 in 61 stays possible."""
    given = evidence(60, classes=2)
    view = View(outputs=8.0 * given.truth[None], judged=np.zeros(60, dtype=bool), logits=True)
    found = calibrate(view, given)
    assert 0.0 < found.slope < 2.0
    assert (given.truth * found.predicted).sum(axis=1).max() < 1 - 0.2 / 61


def test_what_runs_as_it_is_is_not_calibrated() -> None:
    given = evidence(60, classes=2)
    outputs = np.stack([np.zeros((60, 2)), -5.0 * given.truth])
    found = calibrate(View(outputs=outputs, judged=given.fold == 0, logits=True, as_it_is=True), given)
    np.testing.assert_array_equal(found.predicted, np.full((60, 2), 0.5))
    assert (found.slope, found.shift.tolist()) == (1.0, [0.0, 0.0])
    np.testing.assert_array_equal(Calibrated.given(outputs[1]).predicted, outputs[1])
