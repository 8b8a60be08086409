"""Where reports are stored. `open_store` opens the SQLite or PostgreSQL database at an address.

`base` has the tables and what both databases share, `rows` the values that go in and out.
"""

from __future__ import annotations

from typing import Any

from taskveil.collector.store.base import Store
from taskveil.collector.store.rows import (
    SHOWN_ID_DIGITS,
    Fate,
    StoredRelease,
    StoredRound,
    StoredToken,
    StoreError,
    StoreUnavailableError,
    Submission,
)
from taskveil.collector.store.sqlite import SqliteStore

__all__ = [
    "SHOWN_ID_DIGITS",
    "Fate",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "StoredRelease",
    "StoredRound",
    "StoredToken",
    "Submission",
    "open_store",
]


def open_store(url: str, **options: Any) -> Store:
    """The store at an address: `sqlite:///file.db` (or a bare path ending in .db or .sqlite) or `postgresql://…`.

    The database's schema is updated first. Errors never contain the address: it may hold a password.
    """
    scheme, _, rest = url.partition("://")
    if not rest and url.endswith((".db", ".sqlite")):
        return SqliteStore(f"sqlite:///{url}", **options)
    if scheme == "sqlite":
        return SqliteStore(url, **options)
    if scheme in ("postgresql", "postgres"):
        from taskveil.collector.store.postgres import PostgresStore

        return PostgresStore(url, **options)
    raise StoreError("the database must be sqlite:///FILE or postgresql://USER@HOST/NAME.")
