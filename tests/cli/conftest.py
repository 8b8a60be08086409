"""Commands close the databases that they open."""

from __future__ import annotations

from connections import connections_are_closed  # noqa: F401
