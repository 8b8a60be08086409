"""Connections to SQLite: all that the tests of a file opened are closed at its end.

From Python 3.13 on, one that is left to the garbage collector is a ResourceWarning, in whichever test runs then.
"""

from __future__ import annotations

import sqlite3
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

_open: dict[int, str] = {}
"""Where each open connection was opened."""


class Followed(sqlite3.Connection):
    """A connection that notes its opening and its closing."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        _open[id(self)] = "".join(traceback.format_stack(limit=12)[:-1])

    def close(self) -> None:
        _open.pop(id(self), None)
        super().close()


@pytest.fixture(scope="module", autouse=True)
def connections_are_closed() -> Iterator[None]:
    connect = sqlite3.connect
    patch = pytest.MonkeyPatch()
    patch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **{"factory": Followed, **more}))
    _open.clear()
    yield
    patch.undo()
    deadline = time.monotonic() + 10.0
    while _open and time.monotonic() < deadline:  # an estimate that nobody waits for gives its connection back later
        time.sleep(0.01)
    assert not _open, "\n".join(_open.values())
