"""Rows that several releases measure are joined by how precise they are; codes are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import collections_drawn as drawn
import taskveil as tv
from taskveil.veil.channels import channel_of

EVERYBODY = drawn.records(50_000, np.random.default_rng(5))
BOX = tv.Box([-3.0, -8.0], [7.0, 8.0])
MEANS = [tv.design(EVERYBODY[:500], tv.MeanTask(np.eye(2)), epsilon=epsilon, domain=BOX) for epsilon in (1.0, 4.0)]


def widths(estimate: tv.Estimate) -> np.ndarray:
    return np.array([entry.high - entry.low for entry in estimate.attributes])


def test_releases_are_weighted_by_precision() -> None:
    reports = [veil.privatize(EVERYBODY[start : start + 5000]) for veil, start in zip(MEANS, (0, 5000), strict=True)]
    single = [tv.estimate(veil, part) for veil, part in zip(MEANS, reports, strict=True)]
    both = tv.estimate(MEANS, reports)
    for place, entry in enumerate(both.attributes):
        one, other = (estimate.attributes[place] for estimate in single)
        assert min(one.mean, other.mean) <= entry.mean <= max(one.mean, other.mean)
        assert entry.assumes is None
    variance = [widths(estimate) ** 2 for estimate in single]
    np.testing.assert_allclose(widths(both) ** 2, 1 / sum(1 / part for part in variance), rtol=0.02)
    assert both.reports == 10_000
    assert both.epsilon == pytest.approx(4.0)
    assert both.drift.p_value >= min(estimate.drift.p_value for estimate in single)
    # Limits that hold at all times are averaged, and each is asked for with half of the error probability.
    anytime = tv.estimate(MEANS, reports, anytime=True)
    assert (widths(anytime) > widths(both)).all()
    assert anytime.confidence == 0.95


def test_one_release_in_two_parts_is_one() -> None:
    veil, reports = MEANS[1], MEANS[1].privatize(EVERYBODY[:10_000])
    parted, whole = tv.estimate([veil, veil], [reports[:5000], reports[5000:]]), tv.estimate(veil, reports)
    assert parted.attributes == whole.attributes
    assert parted.reports == whole.reports


def test_codes_of_different_releases_stand_beside_each_other() -> None:
    veils = [drawn.with_volunteers(drawn.codebook_veil(epsilon), EVERYBODY[:500]) for epsilon in (1.0, 4.0)]
    rng = np.random.default_rng(0)
    reports = [drawn.People.of(veil, EVERYBODY).reports(1000, rng) for veil in veils]
    both = tv.estimate(veils, reports)
    assert [row.name for row in both.frequencies] == [
        f"{veil.release_id[:8]}: code {code}" for veil in veils for code in range(5)
    ]
    apart = [row for veil, part in zip(veils, reports, strict=True) for row in tv.estimate(veil, part).frequencies]
    assert [row[1:] for row in both.frequencies] == [row[1:] for row in apart]


def test_rare_values_are_pooled_without_bias() -> None:
    """Unbiased shares of rare values lie below 0 half of the time. Cut off at 0, they would look precise, and count."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"c": rng.choice(list("abcdefghij"), 5000, p=[0.55, *[0.05] * 9])})
    schema = tv.Schema.of(table)
    veils = [tv.design(table[:400], tv.MeanTask(np.eye(1)), epsilon=e, schema=schema) for e in (1.0, 1.01)]
    numbers = schema.expand(table)
    latents, truth, held = [veil.encoder(numbers) for veil in veils], numbers.mean(axis=0), []
    for _ in range(50):
        reports = [
            channel_of(veil.mechanism, veil.decoder).simulate(own[rng.integers(5000, size=400)], rng)
            for veil, own in zip(veils, latents, strict=True)
        ]
        rows = tv.estimate(veils, reports).attributes
        held.append([row.low <= mean <= row.high for row, mean in zip(rows, truth, strict=True)])
        assert all(0 <= row.low <= row.mean <= row.high <= 1 for row in rows)
    assert np.mean(held) >= 0.93


def test_what_is_known_exactly_is_pooled_too() -> None:
    X = np.column_stack([EVERYBODY[:300, 0], np.full(300, 3.0)])
    veils = [tv.design(X, tv.MeanTask(np.eye(2)), epsilon=epsilon) for epsilon in (1.0, 2.0)]
    found = tv.estimate(veils, [veil.privatize(X) for veil in veils])
    assert found.attributes[1][1:4] == pytest.approx((3.0, 3.0, 3.0))
