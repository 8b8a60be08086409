"""Estimates of several releases and budgets are joined by how precise they are."""

from __future__ import annotations

import numpy as np
import pytest

import collections_drawn as drawn
import taskveil as tv
from taskveil.errors import DataError

EVERYBODY = drawn.records(50_000, np.random.default_rng(5))


def asked(epsilon: float, first: int, volunteers: int = 500) -> tv.Veil:
    return drawn.with_volunteers(drawn.codebook_veil(epsilon), EVERYBODY[first : first + volunteers])


def said(veil: tv.Veil, count: int, seed: int) -> object:
    return drawn.People.of(veil, EVERYBODY).reports(count, np.random.default_rng(seed))


def widths(estimate: tv.Estimate) -> np.ndarray:
    return np.array([entry.high - entry.low for entry in (*estimate.attributes, *estimate.answers)])


def test_releases_with_other_volunteers_are_weighted_by_precision() -> None:
    veils = [asked(1.0, 0), asked(4.0, 2000)]
    reports = [said(veil, 5000, seed) for seed, veil in enumerate(veils)]
    single = [tv.estimate(veil, part) for veil, part in zip(veils, reports, strict=True)]
    both = tv.estimate(veils, reports)
    for place, entry in enumerate(both.attributes):
        one, other = (estimate.attributes[place] for estimate in single)
        assert min(one.mean, other.mean) <= entry.mean <= max(one.mean, other.mean)
    variance = [widths(estimate) ** 2 for estimate in single]
    np.testing.assert_allclose(widths(both) ** 2, 1 / sum(1 / part for part in variance), rtol=0.02)
    assert both.reports == 10_000
    assert both.frequencies == ()
    assert both.epsilon == pytest.approx(4.0)
    assert both.drift.p_value >= min(estimate.drift.p_value for estimate in single)
    with pytest.raises(DataError, match="each with weights of its own"):
        both.quantiles(both.attributes[0].name)
    with pytest.raises(DataError, match="each with weights of its own"):
        both.weights(EVERYBODY[:5], EVERYBODY[:5])


def test_one_release_in_two_parts_is_as_one() -> None:
    """The volunteers' error is common to both parts and does not shrink by counting it twice."""
    veil = asked(2.0, 0)
    one, other = said(veil, 5000, 1), said(veil, 5000, 2)
    parted, whole = tv.estimate([veil, veil], [one, other]), tv.estimate(veil, one + other)
    np.testing.assert_allclose(
        [entry.mean for entry in parted.attributes], [entry.mean for entry in whole.attributes], atol=0.01
    )
    np.testing.assert_allclose(widths(parted), widths(whole), rtol=0.03)


def test_budgets_with_the_same_volunteers_are_fitted_together() -> None:
    veils = [asked(1.0, 0), asked(4.0, 0)]
    reports = [said(veil, 5000, seed) for seed, veil in enumerate(veils)]
    both = tv.estimate(veils, reports)
    assert both.reweighted is not None
    best = tv.estimate(veils[1], reports[1])
    assert (widths(both) < 1.02 * widths(best)).all()
    # As independent estimates they would be too sure of the volunteers.
    apart = [widths(tv.estimate(veil, part)) for veil, part in zip(veils, reports, strict=True)]
    assert (widths(both) > 0.9 * np.sqrt(1 / sum(1 / width**2 for width in apart))).all()
