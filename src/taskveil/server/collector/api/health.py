"""Whether the collector lives, and whether it can take reports now."""

from __future__ import annotations

from fastapi import APIRouter, Request

from taskveil.server.collector.problems import Problem, ProblemError
from taskveil.server.collector.running import collector_of

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
