"""From an address to its store."""

from __future__ import annotations

from typing import Any

from taskveil.collector.store import Store, StoreError
from taskveil.collector.store.sqlite import SqliteStore


def open_store(url: str, **options: Any) -> Store:
    """The store at an address: `sqlite:///file.db` (or a bare path ending in .db or .sqlite) or `postgresql://…`.

    Its schema is brought up to date first. An error never contains the address: it may hold a password.
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
