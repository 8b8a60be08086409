"""Databases of both kinds for the collector's tests, with one PostgreSQL for all of them."""

from __future__ import annotations

from databases import postgres_server, store_url  # noqa: F401
