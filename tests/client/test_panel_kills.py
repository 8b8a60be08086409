"""SIGKILL at any point of enrolment or report: the drawn rounds stay, and each block has one report at most."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import taskveil as tv
from taskveil.client import Client
from taskveil.client.ledger import Ledger
from taskveil.client.panels import Panel

NAMES = tuple(f"week {number}" for number in range(1, 9))
PANEL = Panel(reports=3, rounds=NAMES, days=0)
MOST_KILLS = 3
"""Of one person's device."""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


@dataclass(kw_only=True)
class Person:
    """A device, what has left it, and what its ledger held when it was last looked at."""

    ledger: Path
    joins: int
    away: set[int]
    """Rounds in which nobody asks."""
    schedule: bytes | None = None
    sent: dict[int, str] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)

    @property
    def left(self) -> list[int]:
        """The rounds that are still to come, and the one in which the device was killed."""
        after = max([*self.sent, *self.silent], default=-1) + 1
        return [place for place in range(max(self.joins, after), len(NAMES)) if place not in self.away]

    def heard(self, told: str) -> None:
        """Note what left the device before it was killed."""
        for line in told.splitlines(keepends=True):
            if line.endswith("\n"):  # a line that was cut short was not sent
                place, report = line.rstrip("\n").split(" ")
                if report:
                    assert self.sent.setdefault(int(place), report) == report, "a retry changed what had been sent"
                else:
                    self.silent.add(int(place))

    def check(self) -> None:
        """Compare the ledger with what left the device."""
        with closing(sqlite3.connect(self.ledger)) as connection:
            recorded = {
                NAMES.index(name): raw.hex() for name, raw in connection.execute("SELECT round, bytes FROM reports")
            }
            rows: list[tuple[bytes]] = []
            with suppress(sqlite3.OperationalError):  # nobody has joined
                rows = connection.execute("SELECT places FROM drawn").fetchall()
        schedule = rows[0][0] if rows else None
        assert self.schedule in (None, schedule), "the drawn rounds were lost or replaced"
        self.schedule = schedule
        assert self.sent.items() <= recorded.items(), "a report that left the device is not in the ledger"
        assert len(recorded) <= len(self.sent) + 1  # at most one that was recorded and not sent
        assert not self.silent & recorded.keys()
        if schedule is None:
            assert not recorded, "a report was made, but no rounds are drawn"
            assert not self.silent
            return
        turns = {PANEL.block(place): place for place in PANEL.read(schedule)}
        assert min(turns, default=PANEL.reports) == PANEL.first_block(self.joins)
        blocks = [PANEL.block(place) for place in recorded]
        assert len(set(blocks)) == len(blocks), "two reports in one block"
        for place, block in zip(recorded, blocks, strict=True):
            assert turns[block] <= place, "a report before the drawn round"
        for place in self.silent:  # nobody is silent in the drawn round, or after it if nobody asked then
            turn = turns.get(PANEL.block(place), len(NAMES))
            asked = any(turn <= other < place for other in self.sent if PANEL.block(other) == PANEL.block(place))
            assert place < turn or asked, "no report was made in this device's turn"


def client(veil: tv.Veil, ledger: Path) -> Client:
    return Client(device=veil.device, release=bytes.fromhex(veil.release_id), ledger=Ledger(ledger), cap=1e6)


def live(one: Client, places: list[int], tell: Callable[[str], object]) -> None:
    """Ask in these rounds, and send what is made."""
    for place in places:
        report = one.report(np.zeros(6), round=NAMES[place])
        tell(f"{place} {'' if report is None else report.to_bytes().hex()}\n")


def counted(step: Callable[[], object]) -> None:
    """Take a step at every call and return in the client's modules, C functions included."""
    home = os.path.dirname(sys.modules[Client.__module__].__file__ or "")

    def hook(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code.co_filename.startswith(home):
            step()

    sys.setprofile(hook)


def killed(veil: tv.Veil, person: Person, step: int | None, seconds: float) -> bool:
    """Whether a life of this device was ended by a kill: at a step of its code, or by the clock."""
    here, there = os.pipe()
    if (child := os.fork()) == 0:
        try:
            left = [0 if step is None else step]

            def countdown() -> None:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            one = client(veil, person.ledger)
            if step is not None:
                counted(countdown)
            live(one, person.left, lambda line: os.write(there, line.encode()))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(there)
    if step is None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(here) as pipe:
        person.heard(pipe.read())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


@pytest.mark.parametrize("kills", [pytest.param(8, id="few"), pytest.param(100, id="full", marks=pytest.mark.slow)])
def test_a_kill_at_any_point_keeps_the_drawn_rounds(kills: int, veil: tv.Veil, tmp_path: Path) -> None:
    planned, chance = replace(veil, panel=PANEL), random.Random(33)
    steps, start = [0], time.monotonic()
    with client(planned, tmp_path / "first") as one:
        counted(lambda: steps.__setitem__(0, steps[0] + 1))
        live(one, list(range(len(NAMES))), lambda _: None)
        sys.setprofile(None)
    seconds = time.monotonic() - start
    done, people, before, reports = 0, 0, 0, 0
    while done < kills:
        joins = chance.choice([0, 0, 0, 1, 4])
        away = {place for place in range(joins + 1, len(NAMES)) if chance.random() < 0.25}
        person = Person(ledger=tmp_path / str(people), joins=joins, away=away)
        people += 1
        for number in range(MOST_KILLS):
            # The first is often in the enrolment, which is the first tenth of a life.
            share = chance.random() * (0.2 if number == 0 else 0.8)
            step = None if chance.random() < 0.4 else max(1, int(share * steps[0]))
            if not killed(planned, person, step, share * seconds):
                break
            done += 1
            if not person.ledger.exists():  # killed before the ledger was made
                continue
            person.check()
            before += person.schedule is None
        with client(planned, person.ledger) as one:
            live(one, person.left, lambda line, person=person: person.heard(line))  # type: ignore[misc]
            person.check()
            assert one.spent() == pytest.approx(len(person.sent) * one.epsilon)
            for place, report in person.sent.items():
                again = one.report(np.ones(6), round=NAMES[place])
                assert again is not None
                assert again.to_bytes().hex() == report
        reports += len(person.sent)
    print(f"{done} kills of {people} devices, {before} before any rounds were drawn; {reports} reports")
    assert reports > people
    assert kills < 100 or 5 < before < 95
