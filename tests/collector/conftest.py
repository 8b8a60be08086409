"""Databases of both kinds for the collector's tests, with one PostgreSQL for all of them."""

from __future__ import annotations

from connections import connections_are_closed  # noqa: F401
from databases import postgres_server, store_url  # noqa: F401
