"""`taskveil audit` shows how far it is, and says what more trials would give."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from scipy.stats import beta

import taskveil as tv
from cli.running import run
from taskveil.auditing import attack


def test_it_says_what_so_many_and_more_trials_can_show(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "r")
    said = " ".join(run("audit", tmp_path / "r", "--trials", "2000").split())
    found = re.search(
        r"2,000 trials took \d+ s and can show ε ≥ ([\d.]+) at most\. With --trials 20000, which takes up to ten times "
        r"as long, it is ([\d.]+)\.",
        said,
    )
    assert found, said
    report = json.loads(run("audit", tmp_path / "r", "--trials", "2000", "--json"))
    alpha = (1 - report["confidence"]) / len(report["findings"]) / 2
    for bound, trials in zip(found.groups(), (1000, 10_000), strict=True):  # half of the trials choose the event
        low, high = beta.ppf(alpha, trials, 1), beta.ppf(1 - alpha, 1, trials)  # Clopper and Pearson, all and none
        assert float(bound) == pytest.approx(math.log(low / high), rel=0.01)
    assert report["seconds"] >= 0


def test_progress_names_every_pair_of_inputs(veil: tv.Veil) -> None:
    told: list[tuple[str, float]] = []
    result = attack.audit(veil, trials=1000, structural=False, progress=lambda what, share: told.append((what, share)))
    pairs = [what for what, _ in told if what.startswith("comparing")]
    count = len(result.findings)
    assert pairs == [f"comparing reports of pair {place} of {count}" for place in range(1, count + 1)]
    assert [share for _, share in told] == sorted(share for _, share in told)
