"""The values that a store takes and returns, its errors, and the rows of one batch of reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum

import numpy as np

from taskveil.arrays import Bools, Bytes, Floats, Integers
from taskveil.errors import TaskveilError

SHOWN_ID_DIGITS = 12
"""Digits of a release's id that people see. They are enough to tell releases apart."""


class StoreError(TaskveilError, OSError):
    """The database cannot be used: its address is wrong, or another version of taskveil wrote it."""


class StoreUnavailableError(StoreError):
    """The database does not answer now, or it is busy or full. The call stored nothing. If the connection broke during
    the commit, it may have stored everything; the same call again finds out."""


class Fate(IntEnum):
    """What the store did with a report."""

    ACCEPTED = 0
    DUPLICATE = 1
    """The same bytes are already stored under this id."""
    CONFLICT = 2
    """Other bytes are already stored under this id. The report is refused."""
    CLOSED = 3
    """The round, or the release, takes no reports."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Submission:
    """Checked reports of one round: different `ids` (N, 16) and `payloads` (N, size)."""

    round: int
    """The `StoredRound.number`."""
    ids: Bytes
    payloads: Bytes
    moments: Callable[[Bools], Floats] | None
    """For releases that are not `counted`: a function from which reports are new (N,) to what they add to the
    moments (p,)."""


@dataclass(frozen=True, kw_only=True)
class StoredRound:
    """One round of a release."""

    number: int
    """Unique over all releases. It is never used again, even after the round was deleted."""
    name: str
    open: bool
    reports: int


@dataclass(frozen=True, kw_only=True)
class StoredRelease:
    """A release in the database. It takes reports while the release and the round are open."""

    id: str
    """64 hexadecimal digits."""
    name: str
    open: bool
    counted: bool
    """True: there are few different values, and the store counts each (`counts`). False: it adds up `moments`."""
    current: str
    """The name of the round for reports that name no round."""
    rounds: tuple[StoredRound, ...]
    """In the order in which they were opened."""
    forgotten: int = 0
    """How many more rounds it had, which were deleted."""
    planned: int | None = None
    """How many rounds it is to have in all, if the operator said so."""

    @property
    def had(self) -> int:
        """How many rounds it has had. People may have reported in all of them, also in deleted ones."""
        return len(self.rounds) + self.forgotten

    @property
    def reports(self) -> int:
        """How many reports it has in all rounds."""
        return sum(one.reports for one in self.rounds)

    def takes(self, round: str) -> bool:
        """Whether the round of this name takes reports now."""
        return self.open and any(one.open for one in self.rounds if one.name == round)


@dataclass(frozen=True, kw_only=True)
class StoredToken:
    """A token without its secret."""

    name: str
    """Unique, for people."""
    key: str
    """The public first half of the token, by which it is found."""
    digest: bytes
    """SHA-256 of the secret half."""
    scope: str
    """"upload", "read" or "admin"."""
    release: str | None
    """The id of the one release it is for; None for all."""
    expires: datetime | None
    """In UTC."""
    rate: float | None
    """At most so many reports (or, for other scopes, requests) a second; None for the collector's default."""


Key = tuple[int, bytes]
"""A release's number and a report's id. Together they are unique."""


@dataclass(frozen=True, kw_only=True)
class OpenRound:
    """What `ingest` needs to know about a round that takes reports."""

    release: int
    counted: bool


@dataclass(kw_only=True)
class Growth:
    """What a round gains: new reports, the count of each payload (of a counted release), and the sum of moments."""

    reports: int = 0
    counts: Counter[bytes] = field(default_factory=Counter)
    moments: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The n reports of several submissions to open rounds, in the order in which they were given."""

    submissions: Sequence[Submission]
    rounds: Mapping[int, OpenRound]
    places: Sequence[int]
    """The submissions that belong to the batch. The rounds of the others are closed."""
    releases: Integers
    numbers: Integers
    order: Integers
    """The different reports, ascending by release and id. Rows are written in this order: it hides the order of
    arrival, and all writers take locks in the same order."""
    first: Integers
    """(n,): where each key appeared first."""

    @classmethod
    def of(cls, submissions: Sequence[Submission], rounds: Mapping[int, OpenRound]) -> Batch:
        """The batch of the submissions whose round is among the open `rounds`."""
        places = [place for place, one in enumerate(submissions) if one.round in rounds and len(one.ids)]
        inside = [submissions[place] for place in places]
        lengths = [len(one.ids) for one in inside]
        numbers = np.repeat(np.array([one.round for one in inside], dtype=np.int64), lengths)
        releases = np.repeat(np.array([rounds[one.round].release for one in inside], dtype=np.int64), lengths)
        raw = b"".join([one.ids.tobytes() for one in inside])
        ids = np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2)  # ordered as the bytes are
        order = np.lexsort((ids[:, 1], ids[:, 0], releases))
        fresh = np.ones(len(order), dtype=bool)
        ordered, owner = ids[order], releases[order]
        fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1) | (owner[1:] != owner[:-1])
        first = np.empty(len(order), dtype=np.int64)
        first[order] = order[fresh][np.cumsum(fresh) - 1]
        return cls(
            submissions=submissions,
            rounds=rounds,
            places=places,
            releases=releases,
            numbers=numbers,
            order=order[fresh],
            first=first,
        )

    @property
    def winners(self) -> Bools:
        """(n,): which reports are the first with their key."""
        found: Bools = self.first == np.arange(len(self.first))
        return found

    def rows(self) -> list[tuple[int, bytes, int, bytes]]:
        """Release, id, round and payload of each report, in the order in which they were given."""
        ids: list[bytes] = []
        payloads: list[bytes] = []
        for place in self.places:
            one = self.submissions[place]
            ids += cells(one.ids)
            payloads += cells(one.payloads)
        return list(zip(self.releases.tolist(), ids, self.numbers.tolist(), payloads, strict=True))

    def fates(self, stored: Mapping[Key, bytes]) -> list[Integers]:
        """The fate of each report of each submission; `stored` is what the database already had under these keys."""
        flat = np.full(len(self.first), Fate.ACCEPTED, dtype=np.int64)
        repeated = ~self.winners
        if stored or repeated.any():
            rows = self.rows()
            for place, (release, id, _, payload) in enumerate(rows):
                there = stored.get((release, id), rows[self.first[place]][3] if repeated[place] else None)
                if there is not None:
                    flat[place] = Fate.DUPLICATE if there == payload else Fate.CONFLICT
        found = [np.full(len(one.ids), Fate.CLOSED, dtype=np.int64) for one in self.submissions]
        at = 0
        for place in self.places:
            found[place] = flat[at : at + len(found[place])]
            at += len(found[place])
        return found

    def growth(self, fates: Sequence[Integers]) -> dict[int, Growth]:
        """What each round gains, by its number in ascending order: all writers use the same order."""
        grown: dict[int, Growth] = {
            number: Growth() for number in sorted({self.submissions[p].round for p in self.places})
        }
        for place in self.places:
            one = self.submissions[place]
            new: Bools = fates[place] == Fate.ACCEPTED
            if not new.any():
                continue
            total = grown[one.round]
            total.reports += int(new.sum())
            if self.rounds[one.round].counted:
                total.counts.update(cells(one.payloads[new]))
            if one.moments is not None:
                added = np.asarray(one.moments(new), dtype=np.float64)
                total.moments = added + total.moments if total.moments.size else added
        return {number: total for number, total in grown.items() if total.reports}


def cells(table: Bytes) -> list[bytes]:
    """The rows of an array of bytes (N, size), each as bytes."""
    table = np.ascontiguousarray(table, dtype=np.uint8)
    if table.shape[1] == 0:
        return [b""] * len(table)
    found: list[bytes] = table.view(f"V{table.shape[1]}").ravel().tolist()
    return found
