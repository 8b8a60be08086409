"""Panels: which of the planned rounds a person reports in. The device draws them before it reads a record.

A release over time names its T rounds in order, and how many of them, r, a person reports in:

    {"kind": "panel", "reports": r, "rounds": ["2026-11-16", "2026-11-23", …], "days": 7}

The rounds are cut into r blocks of consecutive rounds, block b from round ⌊bT/r⌋ on. When a device joins, it draws one
round of every block that has not begun, uniformly and from entropy alone (`draw_places`), and stores them in the
ledger. In each block it makes at most one report: in the round that was drawn or, if the application did not ask in
that round, in the first later round of the block in which it does.

**Guarantee.** Let every report be ε-LDP. For any two sequences of records x_1, …, x_T and x'_1, …, x'_T, everything
that leaves the device, silence included, is at most e^(rε) times as likely under one as under the other.

**Proof.** Let S be the drawn rounds, and let A be what the application does: when the device joins, and for which
rounds it asks, in which order. A may depend on S and on earlier reports, but not on the records. S and A fix the round
t_b of the only report of each block b, or that it has none. The ledger refuses a second report of a block, whatever S
and A are. Each report is drawn with fresh entropy from the record of its own round. Failures and refusals (a kill, a
full disk, a cap that is spent) belong to A: no record causes them. So, with k ≤ r reports o_1, …, o_k and by induction
over the requests i,

    P[S, A, o | x] = P[S] Π_i P[A_i | S, A_<i, o_<i] Π_b P[o_b | x_{t_b}]
                   ≤ P[S] Π_i P[A_i | S, A_<i, o_<i] Π_b e^ε P[o_b | x'_{t_b}] ≤ e^(rε) P[S, A, o | x'].

Sums over S and A, and all that anyone computes from the reports, keep the factor. Blocks are drawn independently, so a
device that joins late has drawn the S of a device that joins first, without the blocks that have begun. The proof needs
that A does not depend on the records: a device that is switched off, or joins, because of what its record holds is not
covered. S need not be secret: it is independent of every record. It need not even stay the same: the bound comes from
the ledger's one report a block.

With (ε, δ)-LDP reports, the same holds with (rε, rδ): k reports, each of which may depend on those before it, are (kε,
kδ)-private together (basic composition).

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any

from taskveil.client import entropy
from taskveil.client.promise import chance, rounded_up, times_as_likely
from taskveil.client.values import LONGEST_TEXT
from taskveil.errors import DataError, LedgerError


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The planned rounds in order, and in how many of them a person reports.

    With `days` above 0, the rounds are named after the dates on which they begin, `days` days apart; with 0, by any
    texts.
    """

    reports: int
    rounds: tuple[str, ...]
    days: int

    def __post_init__(self) -> None:
        names = self.rounds
        if not 1 <= self.reports <= len(names):
            raise DataError(f"a person reports in 1 to {len(names)} of {len(names)} rounds, got {self.reports}.")
        if len(self.places) < len(names) or not all(0 < _length(name) <= LONGEST_TEXT for name in names):
            raise DataError(f"every round has a name of its own, of 1 to {LONGEST_TEXT} bytes.")
        # The day after the last round is a date too: so every client reads the same numbers of days.
        if self.days < 0 or (self.days and list(names) != dated(names[0], self.days, len(names) + 1)[:-1]):
            raise DataError(f"rounds every {self.days} days are named after their first days, in order.")

    def __str__(self) -> str:
        count = len(self.rounds)
        return f"in {self.reports} of {count} round{'s' if count > 1 else ''}"

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each round stands among the rounds, from 0."""
        return {name: place for place, name in enumerate(self.rounds)}

    def place(self, round: str) -> int:
        """Where this round stands; a DataError if it was not planned."""
        try:
            return self.places[round]
        except KeyError:
            first, last = self.rounds[0], self.rounds[-1]
            raise DataError(
                f"round {round!r} is not one of the {len(self.rounds)} planned rounds, {first!r} to {last!r}. No "
                "report was made."
            ) from None

    def start(self, block: int) -> int:
        """The place of the first round of a block; of the block after the last one, the number of rounds."""
        return block * len(self.rounds) // self.reports

    def block(self, place: int) -> int:
        """The block that a round belongs to."""
        return ((place + 1) * self.reports - 1) // len(self.rounds)

    @property
    def longest(self) -> int:
        """How many rounds the longest block has: one person in so many reports in each of its rounds."""
        return longest_block(self.reports, len(self.rounds))

    def block_rounds(self, block: int) -> tuple[str, ...]:
        """The names of the rounds of a block."""
        return self.rounds[self.start(block) : self.start(block + 1)]

    def are_apart(self, round: str, other: str) -> bool:
        """Whether no device reports in both of these rounds: two rounds of one block."""
        first, second = self.place(round), self.place(other)
        return first != second and self.block(first) == self.block(second)

    def first_block(self, place: int) -> int:
        """The first block that has not begun before a round: with it, a device that joins in this round begins."""
        return -(-place * self.reports // len(self.rounds))

    def round_on(self, day: date | str) -> str:
        """The round that a day belongs to; a DataError outside of all rounds, or if rounds have no dates.

        Args:
            day: a date, or text such as "2026-11-16". Of a time with a time zone, the day in universal time, as in
                browsers; clocks that change for summer do not matter then. Of a time without one, its own day.
        """
        if not self.days:
            raise DataError("the rounds of this release have names without dates: name the round.")
        asked = day_of(day)
        place = (asked - date.fromisoformat(self.rounds[0])).days // self.days
        if not 0 <= place < len(self.rounds):
            raise DataError(
                f"no round is planned for {asked}: the first begins on {self.rounds[0]}, and the last takes "
                f"{self.days} days from {self.rounds[-1]} on."
            )
        return self.rounds[place]

    def draw_places(self, place: int) -> tuple[int, ...]:
        """The drawn rounds of a device that joins in the round at `place`: one of each block that has not begun."""
        blocks = range(self.first_block(place), self.reports)
        bounds = [(self.start(block), self.start(block + 1)) for block in blocks]
        return tuple(start + int(entropy.uniform_below(after - start, 1)[0]) for start, after in bounds)

    def written(self, places: tuple[int, ...]) -> bytes:
        """Drawn rounds as the ledger stores them: the places as decimal digits with commas."""
        return ",".join(map(str, places)).encode()

    def read(self, raw: bytes) -> tuple[int, ...]:
        """The drawn rounds in a ledger's bytes: one of each of the last blocks; a LedgerError for anything else."""
        try:
            places = tuple(int(word) for word in raw.decode("ascii").split(",") if word or raw)
            blocks = range(self.reports - len(places), self.reports)
            held = len(places) <= self.reports and all(0 <= place < len(self.rounds) for place in places)
            if held and self.written(places) == raw and [self.block(place) for place in places] == list(blocks):
                return places
        except ValueError:
            pass
        raise LedgerError("the ledger was altered: it holds drawn rounds that no device draws. No report was made.")

    def statement(self, epsilon: float, joined: int | None, others: Sequence[float] = (), delta: float = 0.0) -> str:
        """What all reports of one person reveal together, in words.

        Args:
            epsilon: what one report costs.
            joined: how many rounds were drawn when this device joined; None if it has not joined.
            others: what reports cost that were made with another ε.
            delta: of one report.
        """
        count = self.reports if joined is None else joined
        period = f" (every {self.days} days)" if self.days > 1 else " (every day)" if self.days else ""
        if count == 0:
            return (
                f"This device joined too late for the {len(self.rounds)} rounds{period} of this release and will not "
                "report."
            )
        when = "When you join, the device draws" if joined is None else "When you joined, the device drew"
        times = "once" if count == 1 else f"{count} times"
        every = "this report" if count == 1 else "all these reports together"
        total = together_cost(epsilon, count, others)
        exception = f", except with probability {chance(delta, count)}" if delta else ""
        return (
            f"You will be asked {times} in {len(self.rounds)} rounds{period}. {when} the rounds at random, without "
            "looking at any record, and keeps them to itself; a round without a report says nothing about you. "
            f"Whatever your records contain and whenever they change, {every} can turn even odds between two people's "
            f"records into odds of at most {times_as_likely(total)} to 1 (ε = {rounded_up(total)}){exception}. After "
            "the last round this ends: to join again would be a new release with a new budget."
        )


def longest_block(reports: int, rounds: int) -> int:
    """How many rounds the longest block has, if so many rounds are cut into `reports` blocks."""
    return -(-rounds // reports)


def times_cost(epsilon: float, count: int) -> float:
    """What `count` reports cost together: the least double that is not below count · ε."""
    total = count * epsilon
    return total if math.fsum([*[epsilon] * count, -total]) <= 0 else math.nextafter(total, math.inf)


def together_cost(epsilon: float, count: int, others: Sequence[float] = ()) -> float:
    """What `count` reports cost together, of which some cost something else than `epsilon`; never below the sum.

    Args:
        epsilon: what each of the rest costs.
        count: how many there are in all.
        others: the costs of those that are not `epsilon`.
    """
    parts = [times_cost(epsilon, max(count - len(others), 0)), *others]
    total = math.fsum(parts)
    return total if math.fsum([*parts, -total]) <= 0 else math.nextafter(total, math.inf)


def dated(first: str, days: int, count: int) -> list[str]:
    """The names of `count` rounds of `days` days, of which the first begins on the date `first`."""
    try:
        start = date.fromisoformat(first)
        return [(start + timedelta(days=days * place)).isoformat() for place in range(count)]
    except (ValueError, OverflowError) as error:
        raise DataError(f"rounds begin on a date such as 2026-11-16, got {first!r}: {error}.") from None


def day_of(given: Any) -> date:
    """The day of a date, of a time (in universal time, if it has a time zone) or of a text; a DataError for others."""
    try:
        if isinstance(given, datetime) and given.tzinfo is not None:
            given = given.astimezone(UTC)
        if isinstance(given, date):
            return date(given.year, given.month, given.day)
        day = date.fromisoformat(given)
        if day.isoformat() == given:  # Python reads other ways to write a date too, browsers do not
            return day
    except (TypeError, ValueError, OverflowError):  # "no time" of a table is a date too, and its year no number
        pass
    raise DataError(f"a day is a date such as 2026-11-16, got {given!r}.")


def _length(name: str) -> int:
    try:
        return len(name.encode())
    except UnicodeEncodeError:  # halves of characters
        return 0
