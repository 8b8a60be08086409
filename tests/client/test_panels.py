"""Panels: at most one report in each block of rounds, in rounds that are drawn before any record is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.auditing.over_time import _Memory
from taskveil.client import Client
from taskveil.client.families import DRAWN, DeviceFamily, Member
from taskveil.client.ledger import Ledger
from taskveil.client.panels import Panel, dated, times_cost
from taskveil.errors import BudgetSpentError, DataError, LedgerError

NAMES = tuple(f"week {number}" for number in range(1, 8))
PANEL = Panel(reports=3, rounds=NAMES, days=0)  # blocks of 2, 2 and 3 rounds
LAST = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))
"""In universal time, this moment lies in the year 10000."""


def client(veil: tv.Veil, folder: Path, panel: Panel = PANEL, cap: float | None = None) -> Client:
    planned = replace(veil, panel=panel)
    return Client(
        device=planned.device, release=bytes.fromhex(planned.release_id), ledger=Ledger(folder / "ledger"), cap=cap
    )


@pytest.mark.parametrize(("count", "total"), [(1, 1), (1, 5), (2, 4), (3, 7), (7, 52), (52, 52), (5, 9)])
def test_blocks_cut_the_rounds(count: int, total: int) -> None:
    panel = Panel(reports=count, rounds=tuple(map(str, range(total))), days=0)
    blocks = [panel.block(place) for place in range(total)]
    assert sorted(set(blocks)) == list(range(count))
    assert blocks == sorted(blocks)
    assert [name for block in range(count) for name in panel.block_rounds(block)] == list(panel.rounds)
    sizes = Counter(blocks).values()
    assert max(sizes) - min(sizes) <= 1
    assert panel.longest == max(sizes)
    for place in range(total):  # the blocks that have not begun before this round
        assert panel.first_block(place) == sum(panel.start(block) < place for block in range(count))


def test_a_device_reports_once_a_block_in_the_drawn_rounds(veil: tv.Veil, tmp_path: Path) -> None:
    with client(veil, tmp_path) as one:
        made = [one.report(np.zeros(6), round=name) for name in NAMES]
        drawn = one._drawn()
        assert drawn is not None
        assert [place for place, report in enumerate(made) if report is not None] == list(drawn)
        assert one.spent() == one.spent().so_far == one.spent().planned == one.spent().lifetime == 6.0
        # Asked again, in any order, with other records: the same bytes, and silence stays silence.
        assert [one.report(np.ones(6), round=name) for name in reversed(NAMES)] == made[::-1]
        with pytest.raises(DataError, match=r"'week 8' is not one of the 7 planned rounds, 'week 1' to 'week 7'"):
            one.report(np.zeros(6), round="week 8")


def test_a_round_that_was_missed_is_made_up_in_its_block_only(veil: tv.Veil, tmp_path: Path) -> None:
    panel = Panel(reports=2, rounds=NAMES[:6], days=0)
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        with client(veil, tmp_path / str(number), panel) as one:
            one.enrol(NAMES[0])
            first, second = one._drawn() or ()
            if first < 2:  # off in the drawn round: the last round of the block makes it up
                assert one.report(np.zeros(6), round=NAMES[2]) is not None
                assert one.report(np.zeros(6), round=NAMES[first]) is None
            if second > 3:
                assert one.report(np.zeros(6), round=NAMES[3]) is None
            assert one.spent() <= 2.0  # the second block is not touched by the first


@pytest.mark.parametrize(("joins", "blocks"), [(0, 3), (1, 2), (2, 2), (3, 1), (4, 1), (5, 0), (6, 0)])
def test_a_device_that_joins_late_takes_the_blocks_that_have_not_begun(
    veil: tv.Veil, tmp_path: Path, joins: int, blocks: int
) -> None:
    with client(veil, tmp_path) as one:
        assert one.spent().planned == 6.0
        assert "draws the rounds at random, without looking at any record, and keeps them" in one.statement
        made = [one.report(np.zeros(6), round=name) for name in NAMES[joins:]]
        assert sum(report is not None for report in made) == blocks
        assert one.spent() == one.spent().planned == 2.0 * blocks
        assert ("joined too late" in one.statement) == (blocks == 0)
        assert one.report(np.zeros(6), round=NAMES[0]) is None or joins == 0


def test_every_round_of_a_block_is_drawn_equally_often() -> None:
    counts = Counter(place for _ in range(2100) for place in PANEL.draw_places(0))
    for block in range(3):
        places = range(PANEL.start(block), PANEL.start(block + 1))
        assert sum(counts[place] for place in places) == 2100
        expected = 2100 / len(places)
        assert all(abs(counts[place] - expected) < 5.5 * expected**0.5 for place in places)


def test_devices_that_are_often_off_report_late_in_a_block(veil: tv.Veil) -> None:
    """Off in 60% of the rounds: in round t of a block a device of those that are due reports with 1 − 0.6^t."""
    panel, rng, people = Panel(reports=1, rounds=NAMES[:4], days=0), np.random.default_rng(6), 4000
    device, counts = replace(veil, panel=panel).device, np.zeros(4, dtype=int)
    for _ in range(people):
        with Client(device=device, release=bytes(32), ledger=_Memory(), cap=None) as one:
            one.enrol(NAMES[0])
            for place in np.flatnonzero(rng.random(4) >= 0.6).tolist():
                counts[place] += one.report(np.zeros(6), round=NAMES[place]) is not None
    expected = people / 4 * (1 - 0.6 ** np.arange(1, 5))
    assert (np.abs(counts - expected) < 5.5 * np.sqrt(expected)).all(), counts


def test_drawn_rounds_survive_and_are_never_drawn_twice(veil: tv.Veil, tmp_path: Path) -> None:
    with client(veil, tmp_path) as one:
        one.enrol("week 1")
        first = one._drawn()
        one.enrol("week 4")
    with client(veil, tmp_path) as again:
        again.enrol("week 2")
        assert again._drawn() == first


@pytest.mark.parametrize(
    "raw", [b"0", b"0,1,4", b"0,2,4,6", b"-1,0,2,4", b"0,2,04", b"0,,2,4", b"x", b"0,2,7", b"\xff"]
)
def test_drawn_rounds_that_no_device_draws_are_refused(raw: bytes) -> None:
    with pytest.raises(LedgerError, match="drawn rounds that no device draws"):
        PANEL.read(raw)


@pytest.mark.parametrize("places", [(), (4,), (3, 6), (1, 2, 5)])
def test_drawn_rounds_are_read_as_they_were_written(places: tuple[int, ...]) -> None:
    assert PANEL.read(PANEL.written(places)) == places


def test_the_cap_still_holds(veil: tv.Veil, tmp_path: Path) -> None:
    panel = Panel(reports=3, rounds=NAMES[:3], days=0)
    with client(veil, tmp_path, panel, cap=4.0) as one:
        assert [one.report(np.zeros(6), round=name) is not None for name in NAMES[:2]] == [True, True]
        with pytest.raises(BudgetSpentError):
            one.report(np.zeros(6), round=NAMES[2])


def test_rounds_with_dates() -> None:
    rounds = tuple(dated("2026-12-28", 7, 3))
    assert rounds == ("2026-12-28", "2027-01-04", "2027-01-11")
    panel = Panel(reports=1, rounds=rounds, days=7)
    assert panel.round_on(date(2027, 1, 3)) == "2026-12-28"
    assert panel.round_on(date(2027, 1, 17)) == "2027-01-11"
    for day in (date(2026, 12, 27), date(2027, 1, 18)):
        with pytest.raises(DataError, match="no round is planned"):
            panel.round_on(day)
    with pytest.raises(DataError, match="names without dates"):
        PANEL.round_on(date(2027, 1, 1))


def test_a_day_is_a_date_a_time_or_a_text() -> None:
    panel = Panel(reports=1, rounds=tuple(dated("2024-02-28", 1, 3)), days=1)
    assert panel.rounds == ("2024-02-28", "2024-02-29", "2024-03-01")
    for day in (date(2024, 2, 29), "2024-02-29", datetime(2024, 2, 29, 23, 59), pd.Timestamp("2024-02-29 12:00")):
        assert panel.round_on(day) == "2024-02-29"
    # In universal time, as browsers count: two hours ahead, the first of March begins on the day before.
    ahead = timezone(timedelta(hours=2))
    assert panel.round_on(datetime(2024, 3, 1, 1, 59, tzinfo=ahead)) == "2024-02-29"
    assert panel.round_on(datetime(2024, 3, 1, 2, 0, tzinfo=ahead)) == "2024-03-01"
    others = ("20240229", "2024-W09-4", "2024/02/29", "2024-02-29T12:00", "2024-02-29T23:59-05:00")
    for wrong in ("2023-02-29", "tomorrow", "", None, 7, b"2024-02-29", pd.NaT, LAST, *others):
        with pytest.raises(DataError, match="a day is a date such as 2026-11-16"):
            panel.round_on(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("day", "zone"),
    [("2026-03-29", "Europe/Berlin"), ("2026-10-25", "Europe/Berlin"), ("2026-11-01", "America/New_York")],
)
def test_days_of_23_and_25_hours_have_one_round(day: str, zone: str) -> None:
    """Clocks change on this day: every time of it, and no other, belongs to the round of the day."""
    first = date.fromisoformat(day) - timedelta(days=1)
    panel = Panel(reports=1, rounds=tuple(dated(first.isoformat(), 1, 3)), days=1)
    found = Counter(
        panel.round_on(moment.to_pydatetime().replace(tzinfo=None))
        for moment in pd.date_range(first, periods=72 * 4, freq="15min", tz=zone)
        if moment.date() <= first + timedelta(days=2)
    )
    assert set(found) == set(panel.rounds)
    assert found[day] in (23 * 4, 25 * 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reports": 0},
        {"reports": 8},
        {"rounds": ("a", "a", "b")},
        {"rounds": ("a", "", "b")},
        {"rounds": ("a", "b" * 1001, "c")},
        {"rounds": ("a", "\ud800", "c")},
        {"rounds": ()},
        {"days": -1},
        {"days": 7},
        {"days": 7, "rounds": ("2026-11-16", "2026-11-23", "2026-12-01")},
        {"days": 7, "rounds": ("20261116", "2026-11-23", "2026-11-30")},
        {"days": 1000, "rounds": ("9999-01-01", "9999-02-01", "9999-03-01")},
        {"days": 1, "reports": 1, "rounds": ("9999-12-31",)},
        {"days": 10**17, "reports": 1, "rounds": ("2026-11-16",)},
    ],
)
def test_panels_that_cannot_be_kept_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DataError):
        Panel(**{"reports": 3, "rounds": NAMES, "days": 0, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(("epsilon", "count"), [(4 / 3, 3), (0.1, 10), (4 / 52, 52), (0.7, 9)])
def test_the_sum_is_never_stated_too_small(epsilon: float, count: int) -> None:
    assert Fraction(times_cost(epsilon, count)) >= count * Fraction(epsilon)
    assert times_cost(epsilon, count) <= count * epsilon * (1 + 2.0**-50)


def test_members_of_a_family_have_the_same_rounds(veil: tv.Veil) -> None:
    planned = [replace(veil, panel=panel).device for panel in (PANEL, replace(PANEL, reports=2))]
    members = [
        Member(name=f"member{place}", weight=1, device=device, release=bytes([place]) * 32)
        for place, device in enumerate([planned[0], *planned])
    ]
    assert DeviceFamily(release=bytes(32), kind=DRAWN, members=tuple(members[:2])).panel == PANEL
    with pytest.raises(DataError, match="the same planned rounds"):
        DeviceFamily(release=bytes(32), kind=DRAWN, members=tuple(members))


def test_a_release_carries_its_rounds(veil: tv.Veil, tmp_path: Path) -> None:
    planned = replace(veil, panel=PANEL)
    planned.save(tmp_path / "release")
    assert planned.release_id != veil.release_id
    assert tv.Veil.load(tmp_path / "release").panel == PANEL
    with Client.load(tmp_path / "release", ledger=tmp_path / "ledger") as one:
        assert one.panel == PANEL
        assert one.cap == 6.0
        assert "asked 3 times in 7 rounds" in one.statement
        assert "odds of at most 404 to 1 (ε = 6)" in one.statement
