"""What somebody can learn: the numbers of a dossier bound what real reports tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dossiers import model, survey
from taskveil.client.promise import WEAK
from taskveil.signoff.odds import BEFORE, gains, level, meaning, percent, surer
from taskveil.signoff.picture import picture


@pytest.mark.parametrize("before", BEFORE)
def test_no_report_makes_anybody_surer_than_is_said(before: float) -> None:
    """Two people who differ: Bayes' rule with the exact probabilities of every report."""
    veil = model()
    latents = np.eye(veil.mechanism.latent_dim)[:2] * 100 - 50
    codes = np.arange(veil.mechanism.layout.high[0] + 1)[:, None]
    one, other = (np.exp(veil.mechanism.log_likelihood(codes, row[None])[:, 0]) for row in latents)
    posterior = before * one / (before * one + (1 - before) * other)
    most = surer(before, veil.guarantee.epsilon)
    assert posterior.max() <= most + 1e-12
    assert posterior.max() > 0.9 * most  # the bound is reached, up to the rounding of the odds
    assert surer(before, 0.0) == pytest.approx(before)
    assert surer(before, 1e4) == 1.0


def test_percentages_are_rounded_up() -> None:
    assert [percent(share) for share in (0.5, 0.70001, 0.9989, 0.9991, 0.01)] == [
        "50%",
        "70.1%",
        "99.9%",
        "over 99.9%",
        "1%",
    ]


def test_protection_is_lost_where_a_suspicion_becomes_a_certainty() -> None:
    edge = 2 * math.log(99)
    assert [level(epsilon) for epsilon in (0.1, WEAK, WEAK + 1e-9, edge - 1e-9, edge + 1e-9, 1e4)] == [
        *("kept", "kept", "weak", "weak", "none", "none")
    ]
    assert meaning(edge + 1, "one report").startswith("This is no protection.")
    assert "1,000 to 1" in meaning(math.log(999.5), "one report")
    assert "more than a million million to 1" in meaning(31.0, "one report")


def test_bars_are_as_long_as_the_numbers() -> None:
    import re

    rows = gains(1.0, 4.0)
    drawn = picture(rows, 4)
    widths = [float(width) for width in re.findall(r'class="(?:before|one|all)" [^>]*width="([\d.]+)"', drawn)]
    shares = [share for row in rows for share in (row["before"], row["after_one"], row["after_all"])]
    full = float(re.search(r'class="track" [^>]*width="(\d+)"', drawn).group(1))  # type: ignore[union-attr]
    assert widths == pytest.approx([full * share for share in shares], abs=0.06)
    assert "after 4 reports" in drawn
    assert picture(gains(1.0, None), None).count("<rect") == 12
    assert survey().guarantee.epsilon <= 1.0
