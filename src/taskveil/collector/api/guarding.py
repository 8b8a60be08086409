"""What surrounds every request: headers for browsers (CORS among them), HEAD, and an answer to all that is raised."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskveil.collector.api.problem_answers import answer
from taskveil.collector.journal import failed
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.store import StoreUnavailableError

FOR_DEVICES = re.compile(r"/v1/reports|/v1/releases/[^/]+/client/[^/]+")
"""What pages of other origins may use: what devices need. No cookie and no credential of a browser opens any of it."""

PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match",
    "Access-Control-Max-Age": "3600",
}
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
"""Unless the answer itself says otherwise."""


class Guard:
    """Lets nothing through but an answer: an exception becomes a problem document, and the journal has its kind."""

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
                said = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [*(header for header in ALWAYS if header[0] not in said), *shared]
            elif headless:
                message = {**message, "body": b""}
            await send(message)

        if shared and scope["method"] == "OPTIONS":
            return await Response(status_code=204, headers=PREFLIGHT)(scope, receive, guarded)
        try:
            # Whoever may GET may ask for the head.
            await self._app({**scope, "method": "GET"} if headless else scope, receive, guarded)
        except ClientDisconnect:
            return None
        except asyncio.CancelledError:  # the time for a stop is over
            if not started:
                await answer(ProblemError(Problem.STOPPING, "Send it again later.", retry_after=5))(
                    scope, receive, guarded
                )
        except Exception as error:
            found = _problem(error)
            if not started:  # else uvicorn breaks the connection, so that nobody takes half an answer for all of it
                await answer(found)(scope, receive, guarded)
        return None

    def _shared(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """The headers that let a page of another origin have the answer, if it may."""
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
        return ProblemError(Problem.UNAVAILABLE, "Send it again later.", retry_after=2)
    failed("A request failed.", error)
    return ProblemError(Problem.FAULT, "It was noted in the journal of whoever runs this collector.")
