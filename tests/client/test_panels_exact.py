"""Panels in exact fractions: no application and no two sequences of records tell more than e^(rε), in real clients.

T = 4 rounds, r = 2 reports, K = 2 codes, ε = ln 3: the bound is 9. `panels.Kernel` runs a client on a ledger for every
state, round, record and draw. Each claim is checked on broken devices too, to see that it can fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from panels import ODDS, RELEASE, Kernel, answered, coin, every_draw, folder, in_order, small_panel
from taskveil.client import Client, Ledger, entropy
from taskveil.client.panels import Panel

LIMIT = ODDS**2
ORDERS = [places for count in range(5) for places in itertools.combinations(range(4), count)]


@cache
def sound() -> Kernel:
    return Kernel.of(small_panel())


def after_the_drawn(drawn: tuple[int, ...] | None, history: Any) -> int | None:
    """An application that knows the drawn rounds and is off in them."""
    if drawn is None:
        return 0
    rest = [place for place in (1, 2, 3) if place not in drawn and place > history[-1][0]]
    return rest[0] if rest else None


def while_it_says_one(_drawn: Any, history: Any) -> int | None:
    """An application that looks at each report, and goes on as long as it is 1 or silence."""
    asked = len(history)
    return None if asked == 4 or (history and history[-1][1] == 0) else asked


def backwards_twice(_drawn: Any, history: Any) -> int | None:
    return (3 - len(history) % 4) if len(history) < 8 else None


def missed_rounds_at_the_end(_drawn: Any, history: Any) -> int | None:
    return (1, 3, 0, 2)[len(history)] if len(history) < 4 else None


ADAPTIVE = [after_the_drawn, while_it_says_one, backwards_twice, missed_rounds_at_the_end]


def test_no_application_and_no_records_tell_more_than_r_reports() -> None:
    """All pairs of sequences, all applications: those that look at the drawn rounds and at earlier reports too."""
    assert sound().worst_of_all() == LIMIT
    assert sound().worst_of_requests() == LIMIT
    assert sound().faults() == set()


@pytest.mark.parametrize("asks", [*map(in_order, ORDERS), *ADAPTIVE], ids=[*map(str, ORDERS), *(
    asks.__name__ for asks in ADAPTIVE
)])  # fmt: skip
def test_what_leaves_the_device_tells_at_most_as_much(asks: Any) -> None:
    """Reports and silence, without the drawn rounds: exactly as many reports as blocks can have been asked for."""
    assert sound().worst(asks) <= LIMIT


def test_the_bound_is_met() -> None:
    assert sound().worst(in_order((0, 1, 2, 3))) == LIMIT
    assert sound().worst(in_order((2, 3))) == ODDS
    assert sound().worst(in_order((3, 2, 1, 0))) == 1  # who joins in the last round of a block begins after it
    assert sound().worst(in_order(())) == 1


def test_silence_has_the_same_probability_for_all_records() -> None:
    for asks in map(in_order, ORDERS):
        patterns = []
        for records in itertools.product((0, 1), repeat=4):
            silent: dict[Any, Fraction] = {}
            for history, chance in sound().law(asks, records).items():
                key = tuple(answer is None for _, answer in history)
                silent[key] = silent.get(key, Fraction(0)) + chance
            patterns.append(silent)
        assert all(pattern == patterns[0] for pattern in patterns)


@pytest.mark.parametrize("records", [(0, 0, 0, 0), (0, 1, 1, 0)])
def test_a_device_that_is_never_restarted_has_the_same_law(records: Sequence[int]) -> None:
    """The states are all there is: one client for all rounds does what clients do that start anew in each."""
    law: dict[Any, Fraction] = {}
    seen: list[Any] = []

    def life() -> None:
        with (
            folder() as where,
            Client(device=coin(small_panel()), release=RELEASE, ledger=Ledger(where / "l"), cap=100.0) as client,
        ):
            seen.append(tuple((place, answered(client, place, records[place])) for place in range(4)))

    for chance in every_draw(life):
        law[seen[-1]] = law.get(seen[-1], Fraction(0)) + chance
    assert law == sound().law(in_order((0, 1, 2, 3)), records)


@pytest.mark.parametrize(("reports", "rounds"), [(1, 2), (1, 4), (2, 2), (1, 1)])
def test_other_small_panels(monkeypatch: pytest.MonkeyPatch, reports: int, rounds: int) -> None:
    """One report in all, and a report in every round."""
    keep_draws_finite(monkeypatch)
    kernel = Kernel.of(small_panel(reports, rounds))
    assert kernel.worst_of_all() == ODDS**reports
    assert kernel.faults() == set()


def keep_draws_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of one round needs no draw: without this, rejection could go on forever in an exhaustive search."""
    real = entropy.uniform_below

    def below(bound: int, count: int) -> Any:
        return np.zeros(count, dtype=np.int64) if bound == 1 else real(bound, count)

    monkeypatch.setattr(entropy, "uniform_below", below)


@pytest.mark.parametrize(("returns", "most"), [(True, 4), (False, 3)], ids=["to past rounds", "in order"])
def test_a_ledger_that_is_lost_costs_one_report_more_if_rounds_are_asked_in_order(returns: bool, most: int) -> None:
    """The device goes on from any of its earlier states, the first included, in the round that takes place.

    If the application goes back to past rounds, every forgotten report is made again.
    """
    found = set()
    for lost in range(5):
        waiting: list[tuple[int, int, list[Any]]] = [(0, 0, [(None, ())])]
        while waiting:
            place, made, states = waiting.pop()
            if place == lost:
                again = 0 if returns else max(lost - 1, 0)
                found |= {made + more for state in states for more in reports_from(state, again)}
                continue
            for (_, after), _ in sound().steps[states[-1]][place, 0].items():
                waiting.append((place + 1, made + len(after[1]) - len(states[-1][1]), [*states, after]))
    assert max(found) == most


def reports_from(state: Any, place: int) -> set[int]:
    """How many reports a device can make in this state, if it is asked in order from this round on."""
    if place == 4:
        return {0}
    ends = {after for _, after in sound().steps[state][place, 0]}
    return {len(end[1]) - len(state[1]) + more for end in ends for more in reports_from(end, place + 1)}


# Broken devices.

REPORT, DRAW, ONCE, DRAWN = Client.report, Panel.draw_places, Ledger.once, Ledger.drawn


def every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report in each round that the application asks for."""
    monkeypatch.setattr(Client, "report", lambda self, x, *, round: spend(self, x, round))


def spend(client: Client, x: Any, name: str, block: tuple[str, ...] = ()) -> Any:
    client.enrol(name)
    record = client.device.record(x)
    raw = client.ledger.once(
        client.release, name, client.epsilon, client.cap, lambda: client._make(record).to_bytes(), block
    )
    return None if raw is None else client._checked(raw, name)


def drawn_by_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """People whose bit is 1 report early in each block, the others late."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        monkeypatch.setattr(Panel, "draw_places", lambda panel, place: late_or_early(panel, place, x[0] > 0.5))
        return REPORT(self, x, round=round)

    monkeypatch.setattr(Client, "report", report)


def late_or_early(panel: Panel, place: int, early: bool) -> tuple[int, ...]:
    blocks = range(panel.first_block(place), panel.reports)
    return tuple(panel.start(block) if early else panel.start(block + 1) - 1 for block in blocks)


def made_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missed round is made up in every later round of the block that is asked for."""
    monkeypatch.setattr(Ledger, "once", lambda self, *arguments: ONCE(self, *arguments[:5]))


def made_up_in_later_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that was missed is made up later: in all there are r reports, until the missed round is asked for too."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        made = REPORT(self, x, round=round)
        panel = self.panel
        assert panel is not None
        block = panel.block(panel.place(round))
        if made is None and any(self.recorded(name) for name in panel.block_rounds(block)):
            for earlier in range(block):
                if not any(self.recorded(name) for name in panel.block_rounds(earlier)):
                    return spend(self, x, round)
        return made

    monkeypatch.setattr(Client, "report", report)


def drawn_at_every_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drawn rounds are forgotten at a restart, and drawn again."""

    def drawn(self: Ledger, release: bytes, draw: Any = None) -> Any:
        if draw is not None and not getattr(self, "joined", False):
            self._alone(lambda connection: forget(connection))
            self.joined = True  # type: ignore[attr-defined]
        return DRAWN(self, release, draw)

    def forget(connection: Any) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS drawn (release BLOB PRIMARY KEY, places BLOB) WITHOUT ROWID")
        connection.execute("DELETE FROM drawn")
        connection.execute("COMMIT")

    monkeypatch.setattr(Ledger, "drawn", drawn)


def drawn_at_every_start_and_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for all blocks, in a device that does not look at the other rounds of a block."""
    drawn_at_every_start(monkeypatch)
    made_up_twice(monkeypatch)
    monkeypatch.setattr(Panel, "draw_places", lambda panel, place: DRAW(panel, 0))


# Restarts multiply the states: one block of two rounds is enough to see them.
BROKEN_AT_RESTARTS = {
    drawn_at_every_start: {"drawn again", "a report before its turn"},
    drawn_at_every_start_and_trusted: {
        "more than 3",
        "drawn again",
        "two reports in a block",
        "a report before its turn",
    },
}
BROKEN = {
    every_round: {"more than 9", "two reports in a block", "a report before its turn"},
    drawn_by_the_record: {"more than 9"},
    made_up_twice: {"more than 9", "two reports in a block"},
    made_up_in_later_blocks: {"more than 9", "two reports in a block", "a report before its turn"},
}


@pytest.mark.parametrize(("breaks", "faults"), BROKEN.items(), ids=[breaks.__name__ for breaks in BROKEN])
def test_broken_devices_are_found(monkeypatch: pytest.MonkeyPatch, breaks: Any, faults: set[str]) -> None:
    breaks(monkeypatch)
    assert Kernel.of(small_panel(), most=60).faults() == faults


@pytest.mark.parametrize(
    ("breaks", "faults"), BROKEN_AT_RESTARTS.items(), ids=[breaks.__name__ for breaks in BROKEN_AT_RESTARTS]
)
def test_devices_that_draw_again_at_a_restart_are_found(
    monkeypatch: pytest.MonkeyPatch, breaks: Any, faults: set[str]
) -> None:
    """To draw again tells nothing more as long as the ledger allows one report a block, but breaks the schedule."""
    breaks(monkeypatch)
    assert Kernel.of(small_panel(1, 2)).faults() == faults
