"""Where reports lie: what every store promises. `open_store` in `opening` opens the one that an address names.

Stored of a report: its release, its round, its id and its value. Nothing else, and nothing in any order of arrival: the
id is random, and it is what rows are ordered by (`close_round` rewrites what a database keeps by arrival underneath).

All methods block; what they change is durable when they return. Any number of processes may use one database at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Protocol

from taskveil.arrays import Bools, Bytes, Floats, Integers
from taskveil.errors import TaskveilError

SHORT = 12
"""Digits of a release's id that are shown: enough to tell it from others."""


class StoreError(TaskveilError, OSError):
    """The database cannot be used as it is: its address is wrong, or it is of a newer version."""


class StoreUnavailableError(StoreError):
    """The database does not answer, is busy or full: a matter of time. Nothing of the call was stored, or (if the
    connection broke during the commit) all of it was: the same call again finds out."""


class Fate(IntEnum):
    """What became of a report."""

    ACCEPTED = 0
    DUPLICATE = 1
    """The same bytes under this id are there already."""
    CONFLICT = 2
    """Other bytes under this id are there already: refused."""
    CLOSED = 3
    """The round, or the release, takes no reports now (or not any more)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Submission:
    """Checked reports of one round: `ids` (N, 16) without repetition and `payloads` (N, size)."""

    round: int
    """The `StoredRound.number`."""
    ids: Bytes
    payloads: Bytes
    moments: Callable[[Bools], Floats] | None
    """Of releases that are not `counted`: from which reports are new (N,) to what these add to the moments (p,)."""


@dataclass(frozen=True, kw_only=True)
class StoredRound:
    """One occasion to report, of one release."""

    number: int
    """Unique over all releases; never used again, even after the round was forgotten."""
    name: str
    open: bool
    reports: int


@dataclass(frozen=True, kw_only=True)
class StoredRelease:
    """A release that the collector knows. It takes reports while it and the round are open."""

    id: str
    """64 hexadecimal digits."""
    name: str
    open: bool
    counted: bool
    """Whether different values are few, so that the store counts each (`counts`); else it adds up `moments`."""
    current: str
    """The name of the round that reports belong to which name none."""
    rounds: tuple[StoredRound, ...]
    """In the order in which they were opened."""

    def takes(self, round: str) -> bool:
        """Whether reports of the round of this name are taken now."""
        return self.open and any(one.open for one in self.rounds if one.name == round)


@dataclass(frozen=True, kw_only=True)
class StoredToken:
    """A token as it is kept: the secret itself is not."""

    name: str
    """Unique, for people."""
    key: str
    """Public first half of the token, by which it is found."""
    digest: bytes
    """SHA-256 of the secret half."""
    scope: str
    """"upload", "read" or "admin"."""
    release: str | None
    """The id of the one release it is for; None for all."""
    expires: datetime | None
    """In UTC."""
    rate: float | None
    """Reports (or, of other scopes, requests) a second, at most; None for the collector's default."""


class Store(Protocol):
    """What a database must do. Unknown releases, rounds and tokens are a KeyError."""

    def close(self) -> None:
        """Give back what the store holds."""

    def ping(self) -> None:
        """StoreUnavailableError unless the database answers and can be written to."""

    def version(self) -> int:
        """A number that grows whenever releases, rounds or tokens change (reports do not change it); cheap to ask."""

    # Releases and rounds

    def add_release(self, id: str, *, name: str, counted: bool, files: Mapping[str, bytes], round: str) -> None:
        """Keep a release's `files` ("client/manifest.json" …), open it, and open this `round`, which becomes the
        current one. Of a release that is known already: opens it again and opens the round; files are replaced."""

    def releases(self) -> tuple[StoredRelease, ...]:
        """All, in the order in which they came."""

    def files(self, release: str) -> dict[str, bytes]:
        """What `add_release` kept."""

    def set_open(self, release: str, *, open: bool) -> None:
        """Whether the release takes reports."""

    def open_round(self, release: str, name: str) -> None:
        """Open a round, new or closed, and make it the current one. Others stay as they are."""

    def close_round(self, release: str, name: str) -> None:
        """The round takes no more reports, and what is underneath is rewritten in the order of ids."""

    def forget_round(self, release: str, name: str) -> int:
        """Delete a round for good, pages and files underneath included. Returns how many reports it had."""

    # Reports

    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        """Store all of them in one durable transaction. Returns the `Fate` of every report (N,) of each submission.

        An id is unique in its release, whatever the round. Two submissions of one call may name the same id.
        """
        ...

    def counts(self, release: str, round: str | None = None) -> tuple[Bytes, Integers]:
        """The different payloads (K, size) of a counted release, in ascending order, and how often each came (K,)."""
        ...

    def moments(self, release: str, round: str | None = None) -> tuple[int, Floats]:
        """How many reports there are, and the sum of what `Submission.moments` said of them (empty if none came)."""
        ...

    def payloads(self, release: str, round: str | None = None) -> Iterator[tuple[str, Bytes]]:
        """All reports in the order of their ids, some thousands at a time: the name of a round and payloads (N, size).
        Constant memory; a reader disturbs no writer."""
        ...

    def check(self) -> list[str]:
        """Where counts and totals differ from the reports themselves, in words: nowhere, if the list is empty. Reads
        every report and keeps writers out meanwhile."""
        ...

    # Tokens

    def add_token(self, token: StoredToken) -> None:
        """ValueError if the name is taken."""

    def tokens(self) -> tuple[StoredToken, ...]:
        """All, expired ones too."""

    def revoke_token(self, name: str) -> None:
        """It is worth nothing any more."""
