"""What SQLite and PostgreSQL do alike. A store of either kind says how its transactions begin and how reports lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

import numpy as np

from taskveil.arrays import Bytes, Floats, Integers
from taskveil.collector.store import StoredRelease, StoredToken, catalogue
from taskveil.collector.store.migrations import Execute

PAGE = 8192
"""Reports that `payloads` reads at once."""


class SqlStore(ABC):
    """Transactions are `with` blocks that give an `execute`; what goes wrong inside leaves the database as it was."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Execute]:
        """A transaction that changes nothing and waits for no writer."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Execute]:
        """A transaction that is durable when the `with` block is left; no report is stored meanwhile."""

    @abstractmethod
    def page(self, execute: Execute, release: int, round: int | None, after: bytes) -> list[tuple[bytes, int, bytes]]:
        """The next `PAGE` reports: ids `after` this one, rounds and payloads, in the order of ids."""

    @abstractmethod
    def rows(self) -> str:
        """What to select all reports from, in SQL."""

    def ping(self) -> None:
        """As `Store.ping`: a row is written, and durable."""
        with self.writing() as execute:
            execute("UPDATE collector SET changes = changes")

    def version(self) -> int:
        """As `Store.version`."""
        with self.reading() as execute:
            return catalogue.version(execute)

    def add_release(self, id: str, *, name: str, counted: bool, files: Mapping[str, bytes], round: str) -> None:
        """As `Store.add_release`."""
        with self.writing() as execute:
            catalogue.add_release(execute, id, name=name, counted=counted, files=files, round=round)

    def releases(self) -> tuple[StoredRelease, ...]:
        """As `Store.releases`."""
        with self.reading() as execute:
            return catalogue.releases(execute)

    def files(self, release: str) -> dict[str, bytes]:
        """As `Store.files`."""
        with self.reading() as execute:
            return catalogue.files(execute, release)

    def set_open(self, release: str, *, open: bool) -> None:
        """As `Store.set_open`."""
        with self.writing() as execute:
            catalogue.set_open(execute, release, open=open)

    def open_round(self, release: str, name: str) -> None:
        """As `Store.open_round`."""
        with self.writing() as execute:
            catalogue.open_round(execute, release, name)

    def counts(self, release: str, round: str | None = None) -> tuple[Bytes, Integers]:
        """As `Store.counts`: the counts are kept up to date by every ingest, so that no report is read."""
        with self.reading() as execute:
            return catalogue.counts(execute, release, round)

    def moments(self, release: str, round: str | None = None) -> tuple[int, Floats]:
        """As `Store.moments`: kept up to date by every ingest too."""
        with self.reading() as execute:
            return catalogue.moments(execute, release, round)

    def payloads(self, release: str, round: str | None = None) -> Iterator[tuple[str, Bytes]]:
        """As `Store.payloads`, page by page, and in a page round by round. Every page is a transaction of its own: a
        long one would keep SQLite from emptying its log and PostgreSQL from rewriting tables. So a report that was
        stored before the first page is met exactly once, one that comes meanwhile or is forgotten may be met or not."""
        with self.reading() as execute:
            names = catalogue.round_names(execute, release, round)
            owner = catalogue.release_number(execute, release)
        after = b""
        while True:
            with self.reading() as execute:
                found = self.page(execute, owner, None if round is None else next(iter(names)), after)
                if not {number for _, number, _ in found} <= names.keys():  # a round that was opened meanwhile
                    names = catalogue.round_names(execute, release, None)
            pages: dict[int, list[bytes]] = {}
            for _, number, payload in found:
                pages.setdefault(number, []).append(payload)
            for number, page in sorted(pages.items()):
                yield names[number], np.frombuffer(b"".join(page), dtype=np.uint8).reshape(len(page), -1)
            if len(found) < PAGE:
                return
            after = found[-1][0]

    def check(self) -> list[str]:
        """As `Store.check`."""
        with self.writing() as execute:
            return catalogue.check(execute, self.rows())

    def add_token(self, token: StoredToken) -> None:
        """As `Store.add_token`."""
        with self.writing() as execute:
            catalogue.add_token(execute, token)

    def tokens(self) -> tuple[StoredToken, ...]:
        """As `Store.tokens`."""
        with self.reading() as execute:
            return catalogue.tokens(execute)

    def revoke_token(self, name: str) -> None:
        """As `Store.revoke_token`."""
        with self.writing() as execute:
            catalogue.revoke_token(execute, name)
