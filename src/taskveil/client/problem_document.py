"""Why a collector said no, as RFC 9457 writes it: what a device reads is what the collector wrote.

This module ships to devices: the standard library only.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any

PROBLEM = "application/problem+json"


@dataclass(frozen=True, kw_only=True)
class ProblemDocument:
    """An RFC 9457 problem document: why the collector said no."""

    status: int
    title: str
    detail: str = ""
    type: str = "about:blank"

    def to_json(self) -> bytes:
        """The document, as RFC 9457 writes it."""
        return json.dumps(
            {"type": self.type, "title": self.title, "status": self.status, "detail": self.detail}
        ).encode()

    @classmethod
    def from_json(cls, raw: bytes, *, status: int) -> ProblemDocument:
        """What a body says, however little that is; `status` is the one of the response."""
        body: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(raw)
        named = body if isinstance(body, dict) else {}
        text = {key: value for key, value in named.items() if isinstance(value, str)}
        return cls(
            status=status,
            title=text.get("title", f"status {status}"),
            detail=text.get("detail", ""),
            type=text.get("type", "about:blank"),
        )

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}" if self.detail else self.title
