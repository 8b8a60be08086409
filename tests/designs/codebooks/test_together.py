"""Predictors together: the group whose mean costs least, chosen in every view without whom it judges."""

from __future__ import annotations

import numpy as np
import pytest

from fits import VALUES, evidence_of
from taskveil.client.latent_encoders import Encoder, LinearEncoder, MeanEncoder, NamedEncoder
from taskveil.designs.codebooks.model import Predictor, together
from taskveil.designs.crossfit import Calibrated

RNG = np.random.default_rng(4)
X = RNG.random((400, 3))
TRUTH = (X @ [3.0, -2.0, 1.0])[:, None]
EVIDENCE = evidence_of(X, TRUTH, VALUES, low=np.zeros(3), high=np.ones(3))


def encoder(factor: float = 1.0) -> Encoder:
    weights = factor * np.array([[3.0, -2.0, 1.0]])
    return LinearEncoder.of(low=np.zeros(3), high=np.ones(3), weights=weights, offset=np.zeros(1))


def predictor(name: str, error: float, *, where: np.ndarray | None = None, judged: bool = True) -> Predictor:
    """Right but for independent errors, or for those of some volunteers alone."""
    noise = error * RNG.normal(size=TRUTH.shape) * (1.0 if where is None else where[:, None])
    said = Calibrated.given(TRUTH + noise)
    return Predictor(
        name=name,
        encoder=encoder(),
        final=said,
        judging=(said,) * (5 if judged else 0),
        on_devices=lambda: np.stack([said.predicted] * 6),
    )


def test_what_errs_in_different_ways_errs_less_together() -> None:
    one, other = predictor("one", 0.5), predictor("other", 0.6)
    (both,) = together([one, other], EVIDENCE)
    assert both.name == "one and other"
    assert isinstance(both.encoder, MeanEncoder)
    assert both.encoder.weights == pytest.approx([0.5, 0.5])
    assert both.encoder(X) == pytest.approx(TRUTH, abs=1e-5)
    assert both.final.predicted == pytest.approx((one.final.predicted + other.final.predicted) / 2)
    costs = [np.square(each.final.predicted - TRUTH).mean() for each in (both, one, other)]
    assert costs[0] < 0.8 * min(costs[1:])
    assert len(both.judging) == 5


def test_a_predictor_of_no_use_is_left_out_where_two_others_remain() -> None:
    (two,) = together([predictor("a", 0.3), predictor("bad", 8.0), predictor("b", 0.3)], EVIDENCE)
    assert two.name == "a and b"
    (all_three,) = together([predictor(name, 0.3) for name in "abc"], EVIDENCE)
    assert all_three.name == "a and b and c"


def test_the_group_of_a_view_does_not_depend_on_whom_it_judges() -> None:
    """One member errs only on fold 0. The view that judges fold 0 cannot know; the final group does."""
    judged = EVIDENCE.fold == 0
    members = [predictor("a", 0.3), predictor("b", 0.3), predictor("bad on 0", 20.0, where=judged)]
    (found,) = together(members, EVIDENCE)
    assert found.name == "a and b"
    assert np.abs(found.judging[0].predicted - TRUTH)[judged].mean() > 3.0
    assert np.abs(found.judging[1].predicted - TRUTH)[judged].mean() < 1.0
    # Labels of whom it judges change nothing in the view.
    wrong = TRUTH.copy()
    wrong[judged] = 1e6
    (after,) = together(members, evidence_of(X, wrong, VALUES, low=np.zeros(3), high=np.ones(3)))
    assert np.array_equal(after.judging[0].predicted, found.judging[0].predicted)


def test_what_a_release_only_names_is_no_part_of_a_mean() -> None:
    named = NamedEncoder.of(lambda x: x[:, :1], name="model", low=np.zeros(3), high=np.ones(3), latents=1)
    said = Calibrated.given(TRUTH + 0.1)
    other = Predictor(
        name="own", encoder=named, final=said, judging=(said,) * 5, on_devices=lambda: np.stack([said.predicted] * 6)
    )
    assert together([predictor("a", 0.3), other], EVIDENCE) == []


def test_without_judging_there_are_no_views() -> None:
    (both,) = together([predictor("a", 0.3, judged=False), predictor("b", 0.3, judged=False)], EVIDENCE)
    assert both.judging == ()
