"""Scores, learned and informed."""

from __future__ import annotations

import numpy as np

import releases
from taskveil.auditing.scores import Bins, ideas


def test_categories_keep_nan_apart() -> None:
    bins = Bins.of(np.array([1.0, 2.0, np.nan, 2.0]))
    codes = bins(np.array([1.0, 2.0, np.nan, 7.0]))
    assert len(set(codes.tolist())) == 4
    many = Bins.of(np.arange(5000.0))
    assert many(np.arange(5000.0)).max() < many.size


def test_the_release_s_own_likelihood_reads_numbers_of_several_digits() -> None:
    """0.1 compared the first digit with the whole number: its score was 0 for every report."""
    veil = releases.veil(releases.hidden(8, 42), releases.lattice_codebook(60.0, latents=42, count=3, budget=42))
    assert veil.mechanism.report_width > 1
    first, second = veil.encoder.low, veil.encoder.high
    assert (veil.encode(first[None, :]) != veil.encode(second[None, :])).any()
    made = [veil.privatize(np.tile(record, (40, 1))) for record in (first, second)]
    informed = [idea for idea in ideas(veil, np.stack([first, second]), made[0]) if "likelihood" in idea.name]
    score = informed[0].learn(made[0], made[1])
    assert score(made[0]).mean() > 1 > -1 > score(made[1]).mean()
