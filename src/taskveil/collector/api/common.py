"""What all requests share: middleware around them, tokens, problem documents, and files with an ETag."""

from __future__ import annotations

import asyncio
import math
import re
from functools import lru_cache
from hashlib import sha256
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskveil.client.wire import PROBLEM
from taskveil.collector.journal import failed
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.running import collector_of
from taskveil.collector.store import StoredToken, StoreUnavailableError
from taskveil.collector.tokens import AUTHENTICATE
from taskveil.collector.tokens import Scope as TokenScope

LARGE_BODY_BYTES = 2**16
"""Larger bodies are counted in memory, and read in a thread, so that other requests are answered meanwhile."""

MAX_BODIES_IN_MEMORY = 8
"""One process holds at most as many bytes of bodies as this number of the largest ones."""

FOR_DEVICES = re.compile(r"/v1/reports|/v1/releases/[^/]+/client/[^/]+")
"""Paths that pages of other origins may use: those that devices need. No cookie or browser credential opens them."""

PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match",
    "Access-Control-Max-Age": "3600",
}
DEFAULT_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
    ),
)

BY_STATUS = {404: ProblemType.NOT_FOUND, 405: ProblemType.METHOD_NOT_ALLOWED, 413: ProblemType.TOO_LARGE}
"""Problems that the web framework finds. All others are requests that cannot be read."""


# Middleware


class Guard:
    """Middleware that adds headers (CORS among them), answers HEAD, and turns each exception into a problem document.
    The log gets only the exception's kind."""

    def __init__(self, app: ASGIApp, *, origins: tuple[str, ...]) -> None:
        self._app, self._origins = app, frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        shared = self._shared(scope)
        headless = scope["method"] == "HEAD"
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [*(header for header in DEFAULT_HEADERS if header[0] not in there), *shared]
            elif headless:
                message = {**message, "body": b""}
            await send(message)

        if shared and scope["method"] == "OPTIONS":
            return await Response(status_code=204, headers=PREFLIGHT)(scope, receive, guarded)
        try:
            await self._app({**scope, "method": "GET"} if headless else scope, receive, guarded)
        except ClientDisconnect:
            return None
        except asyncio.CancelledError:  # the time for a stop is over
            if not started:
                await answer(ProblemError(ProblemType.STOPPING, "Send it again later.", retry_after=5))(
                    scope, receive, guarded
                )
        except Exception as error:
            found = _problem(error)
            if not started:  # otherwise uvicorn breaks the connection, so that half an answer is not taken for a whole
                await answer(found)(scope, receive, guarded)
        return None

    def _shared(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """The headers that let a page of another origin read the answer, if it may."""
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        if origin is None or not self._origins & {b"*", origin} or not FOR_DEVICES.fullmatch(scope["path"]):
            return []
        return [
            (b"access-control-allow-origin", b"*" if b"*" in self._origins else origin),
            (b"access-control-expose-headers", b"ETag, Retry-After"),
            (b"vary", b"Origin"),
        ]


def _problem(error: Exception) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, StoreUnavailableError):
        return ProblemError(ProblemType.UNAVAILABLE, "Send it again later.", retry_after=2)
    failed("A request failed.", error)
    return ProblemError(ProblemType.FAULT, "The collector's log has the details.")


class BodyLimit:
    """Middleware that refuses bodies that are too large, by their declared length or while they are read. It also
    bounds the memory of this process for large bodies."""

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        self._app, self._most = app, most_bytes
        self._held = 0
        """Bytes of large bodies that have arrived and are not answered yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if declared is not None:
            if not declared.isdigit() or len(declared) > 18 or int(declared) > self._most:
                raise self._too_large
            if int(declared) <= LARGE_BODY_BYTES:
                return await self._app(scope, receive, send)
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            size = len(message.get("body", b""))
            taken += size
            self._held += size
            if taken > self._most:
                raise self._too_large
            if self._held > MAX_BODIES_IN_MEMORY * self._most:
                raise ProblemError(ProblemType.BUSY, "There are many large bodies now. Try again later.", retry_after=1)
            return message

        try:
            return await self._app(scope, counted, send)
        finally:
            self._held -= taken

    @property
    def _too_large(self) -> ProblemError:
        return ProblemError(ProblemType.TOO_LARGE, f"A body has at most {self._most:,} bytes: send several.")


# Problem documents


def answer(error: ProblemError) -> Response:
    """The problem's document, with the headers that HTTP asks for."""
    document = error.problem.document(error.detail)
    headers = dict(AUTHENTICATE) if document.status == 401 else {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return Response(document.to_json(), document.status, headers, media_type=PROBLEM)


async def not_routed(_request: Request, error: Exception) -> Response:
    """The answer for an unknown path, or a method that the path does not have."""
    status, headers = (error.status_code, error.headers) if isinstance(error, HTTPException) else (400, None)
    found = answer(ProblemError(BY_STATUS.get(status, ProblemType.BAD_REQUEST)))
    found.headers.update(headers or {})  # Allow
    return found


async def not_valid(_request: Request, error: Exception) -> Response:
    """The answer for wrong parameters: which ones, and what was expected. It does not repeat what was sent."""
    wrong = error.errors() if isinstance(error, RequestValidationError) else []
    detail = "; ".join(f"{'.'.join(map(str, one['loc'][1:2]))}: {one['msg']}" for one in wrong[:10])
    return answer(ProblemError(ProblemType.INVALID, detail))


# Tokens

_BEARER = HTTPBearer(
    scheme_name="token",
    bearerFormat="tv_<key>_<secret>",
    description="What `taskveil token create` printed: of scope upload, read or admin (which includes both).",
    auto_error=False,
)
"""Only for the OpenAPI document: `Tokens.granted` reads the header."""

Shown = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]


async def granted(request: Request, scope: TokenScope) -> StoredToken:
    """The token of a request, if it allows this and is within its rate; otherwise a ProblemError."""
    collector = collector_of(request)
    token = await collector.granted(request.headers.get("authorization"), scope)
    if token.rate is not None:
        collector.buckets.take(token.key, 1, token.rate)
    return token


async def reader(request: Request, _shown: Shown) -> StoredToken:
    """The token of a request that reads."""
    return await granted(request, "read")


async def administrator(request: Request, _shown: Shown) -> StoredToken:
    """The token of a request that opens, closes or deletes."""
    return await granted(request, "admin")


Reader = Annotated[StoredToken, Depends(reader)]
Administrator = Annotated[StoredToken, Depends(administrator)]


# Files


@lru_cache(maxsize=256)
def tag_of(content: bytes) -> str:
    """The strong ETag of these bytes: their SHA-256."""
    return f'"{sha256(content).hexdigest()}"'


def tagged(request: Request, content: bytes, kind: str) -> Response:
    """These bytes of this media type as a file with an ETag, or 304 if the request's `If-None-Match` names them."""
    tag = tag_of(content)
    more = {"ETag": tag, "Cache-Control": "no-cache"}
    asked = request.headers.get("if-none-match", "")
    if asked.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in asked.split(",")):
        return Response(status_code=304, headers=more)
    return Response(content, media_type=kind, headers=more)
