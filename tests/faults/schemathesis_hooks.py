"""Loaded by Schemathesis: how binary reports are sent, which it cannot know (as the bytes that it made up)."""

from __future__ import annotations

import schemathesis

from taskveil.client.wire import BINARY


@schemathesis.serializer(BINARY)
def binary_reports(_context: object, value: object) -> bytes:
    """Bytes as they are, and of anything else its letters."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
