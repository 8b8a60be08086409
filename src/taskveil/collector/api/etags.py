"""Files with an ETag: whoever has the same bytes already is told so and gets nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response


@lru_cache(maxsize=256)
def tag_of(content: bytes) -> str:
    """The strong ETag of these bytes: their SHA-256."""
    return f'"{sha256(content).hexdigest()}"'


def tagged(request: Request, content: bytes, kind: str, headers: Mapping[str, str] | None = None) -> Response:
    """The bytes with their media type and ETag, to be asked for again before they are used again; or 304.

    Args:
        request: whose `If-None-Match` says what the asker has.
        content: of the file.
        kind: its media type.
        headers: more of the answer's, also where it is 304.
    """
    tag = tag_of(content)
    more = {"ETag": tag, "Cache-Control": "no-cache", **(headers or {})}
    asked = request.headers.get("if-none-match", "")
    if asked.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in asked.split(",")):
        return Response(status_code=304, headers=more)
    return Response(content, media_type=kind, headers=more)
