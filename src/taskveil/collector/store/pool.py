"""Connections that a store keeps: each is lent to one thread at a time, so that callers need not think of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """What a pool must be able to do with its connections."""

    def close(self) -> Any:
        """Give it up."""


Connection = TypeVar("Connection", bound=Closable)


class Pool(Generic[Connection]):
    """Lends connections, opening one when none is idle. One during whose use anything was raised is closed, not kept:
    whatever state it was in (a transaction, a dead server), the next caller does not meet it."""

    def __init__(self, open: Callable[[], Connection]) -> None:
        self._open = open
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """A connection for the length of a `with`."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._open()
        try:
            yield connection
        except BaseException:
            with suppress(Exception):
                connection.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def drop_idle(self) -> None:
        """Close what nobody uses now: after one connection was found dead the others are too, as a rule."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(Exception):
                connection.close()

    def close(self) -> None:
        """Close all; one that is lent now, when it is given back."""
        self._closed = True
        self.drop_idle()
