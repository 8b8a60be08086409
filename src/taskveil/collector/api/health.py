"""For whoever watches the collector: whether it lives, whether it can take reports now, and what it counts."""

from __future__ import annotations

import asyncio
import ipaddress
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import Response

from taskveil.collector.api.access import granted
from taskveil.collector.api.openapi import TOKEN, problems
from taskveil.collector.metrics import CONTENT_TYPE
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.running import collector_of
from taskveil.collector.tokens import belongs

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the process lives")
async def healthz() -> dict[str, str]:
    """Always, while it can answer at all."""
    return {"status": "alive"}


@router.get("/readyz", summary="Whether reports can be stored now")
async def readyz(request: Request) -> dict[str, str]:
    """Whether the database answers and can be written to; 503 if not."""
    if not await collector_of(request).writable():
        raise ProblemError(Problem.UNAVAILABLE, "The database cannot be written to.", retry_after=2)
    return {"status": "ready"}


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "In Prometheus' text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(*TOKEN),
    },
)
async def metrics(request: Request) -> Response:
    """What this collector counts of itself. Programs of the same machine need no token; others a read token for all
    releases."""
    if not _from_here(request):
        belongs(await granted(request, "read"), None)
    text = await asyncio.to_thread(request.app.state.metrics.text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def _from_here(request: Request) -> bool:
    """Whether a program of this machine asks for itself: not a proxy for somebody else, and not a browser for a page
    whose name was made to lead here (DNS rebinding) and which could read the answer."""
    if request.client is None or any(name in request.headers for name in ("forwarded", "x-forwarded-for", "via")):
        return False
    try:
        asked = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        return all(
            ipaddress.ip_address("::1" if name == "localhost" else name).is_loopback
            for name in (request.client.host, asked)
        )
    except ValueError:
        return False
