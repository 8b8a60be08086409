"""What segments gain: paired differences, honest intervals, and nothing about very few people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from taskveil.errors import DataError
from taskveil.sweeps.frontier import Frontier, Point
from taskveil.sweeps.segments import SegmentedFrontier
from taskveil.veil.loss_intervals import bounds, interval

RNG = np.random.default_rng(3)
LOSSES = RNG.gamma(2.0, size=(2, 300))
"""Of the common design, by seed."""
HERE = np.arange(0, 300, 2)


def frontier(losses: np.ndarray, block: int = 1) -> Frontier:
    points = tuple(Point.of("codebook", 2.0, seed, row, block=block) for seed, row in enumerate(losses))
    zero, one = np.zeros(losses.shape[1]), np.ones(losses.shape[1])
    return Frontier(points=points, clear=0.0, constant=1.0, block=block, clear_per_record=zero, constant_per_record=one)


def found(own: np.ndarray, block: int = 1) -> SegmentedFrontier:
    return SegmentedFrontier(
        common=frontier(LOSSES, block),
        segments={"here": frontier(own, block)},
        people={"here": (350, 150), "tiny": (3, 1)},
        why_not={"tiny": "3 volunteers."},
        tested={"here": HERE},
    )


def test_the_gain_is_a_paired_difference() -> None:
    """Losses differ much among people and little between designs: unpaired, no gain could be seen."""
    less = 0.05 + 0.05 * RNG.random(150)
    gains = found(LOSSES[:, HERE] - less)
    (row, _) = gains.rows()
    paired = LOSSES.mean(axis=0)[HERE] - (LOSSES[:, HERE] - less).mean(axis=0)
    assert row["gain"] == pytest.approx(less.mean())
    assert (row["low"], row["high"]) == pytest.approx(tuple(map(float, interval(paired))))
    assert row["sure"]
    assert row["common"] - row["own"] == pytest.approx(row["gain"])
    assert row["low"] > 0.06
    assert " *" in gains.table()


def test_neighbours_in_time_count_as_in_the_sweep() -> None:
    drift = np.repeat(RNG.normal(size=10), 15) * 0.3
    rows = [found(LOSSES[:, HERE] - drift - 0.1, block).rows()[0] for block in (1, 15)]
    widths = [row["high"] - row["low"] for row in rows]
    assert widths[1] > 2 * widths[0]
    assert found(LOSSES[:, HERE], 100).rows()[0]["low"] is None  # not two blocks
    assert "–" in found(LOSSES[:, HERE], 100).table()


def test_designs_that_are_alike_gain_nothing() -> None:
    (row, _) = found(LOSSES[:, HERE]).rows()
    assert (row["gain"], row["low"], row["high"], row["sure"]) == (0.0, None, None, False)
    (row, _) = found(LOSSES[:, HERE] - 0.5).rows()
    assert (row["gain"], row["low"], row["sure"]) == (pytest.approx(0.5), None, False)
    by_luck = found(LOSSES[:, HERE] + RNG.normal(size=(2, 150)))
    assert not by_luck.rows()[0]["sure"]


def test_many_gains_need_more_evidence_each() -> None:
    """One in forty looks like a gain by luck: ten of these. Together, hardly any may."""
    rng = np.random.default_rng(0)
    names = [f"s{place}" for place in range(400)]
    gains = SegmentedFrontier(
        common=frontier(LOSSES),
        segments={name: frontier(LOSSES[:, HERE] + rng.normal(size=(2, 150))) for name in names},
        people=dict.fromkeys(names, (300, 150)),
        tested=dict.fromkeys(names, HERE),
    ).rows()
    assert 0 < sum(row["low"] > 0 for row in gains) < 25
    assert sum(row["sure"] for row in gains) == 0  # with this seed, and with 95 of a hundred others


def test_a_star_needs_more_than_a_sample_that_leans_the_right_way() -> None:
    """Few people of whom some gain much: their interval leans away from zero. Whoever loses much may just not be among
    them, so the star goes by a bound, which is no tighter than Student's."""
    paired = np.concatenate([np.full(15, 0.2), [1.0, 2.0, 4.0, 8.0, 16.0]])
    assert interval(paired)[0] > 0
    assert bounds(paired, confidence=0.975)[0] < 0
    gains = SegmentedFrontier(
        common=frontier(paired[None]),
        segments={"here": frontier(np.zeros((1, 20)))},
        people={"here": (60, 20)},
        tested={"here": np.arange(20)},
    )
    (row,) = gains.rows()
    assert (row["low"] > 0, row["sure"]) == (True, False)


def test_of_very_few_people_nothing_is_told(tmp_path: Path) -> None:
    gains = found(LOSSES[:, HERE] - 0.1)
    (row,) = (row for row in gains.rows() if row["segment"] == "tiny")
    assert row["common"] is row["own"] is row["gain"] is None
    assert row["why_not"] == "3 volunteers."
    table = gains.table()
    assert "tiny     3           1       keeps the common design" in table
    assert table.endswith("tiny: 3 volunteers.")
    text = gains.to_json(tmp_path / "shown.json", losses=False).read_text()
    assert "per_record" not in text
    assert "tested" not in text.replace('"tested": 1', "")  # how many, not who
    with pytest.raises(DataError, match="without the losses of single records"):
        SegmentedFrontier.from_json(tmp_path / "shown.json")


def test_a_file_can_be_read_again(tmp_path: Path) -> None:
    gains = found(LOSSES[:, HERE] - 0.1)
    again = SegmentedFrontier.from_json(gains.to_json(tmp_path / "a" / "segments.json"))
    assert again.rows() == gains.rows()
    assert again.table() == gains.table()
    assert again.common == gains.common
    for content in ("{}", "[" * 100_000):
        (tmp_path / "other.json").write_text(content)
        with pytest.raises(DataError, match="holds no segments"):
            SegmentedFrontier.from_json(tmp_path / "other.json")
