"""How problems are answered, by whatever part of a request they were found."""

from __future__ import annotations

import math

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from taskveil.client.wire import PROBLEM
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.tokens import AUTHENTICATE

BY_STATUS = {404: Problem.NOT_FOUND, 405: Problem.METHOD_NOT_ALLOWED, 413: Problem.TOO_LARGE}
"""Of what the framework finds by itself; anything else is a request that cannot be read."""


def answer(error: ProblemError) -> Response:
    """The problem's document, with the headers that HTTP asks for."""
    document = error.problem.document(error.detail)
    headers = dict(AUTHENTICATE) if document.status == 401 else {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return Response(document.to_json(), document.status, headers, media_type=PROBLEM)


async def not_routed(_request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    status, headers = (error.status_code, error.headers) if isinstance(error, HTTPException) else (400, None)
    found = answer(ProblemError(BY_STATUS.get(status, Problem.BAD_REQUEST)))
    found.headers.update(headers or {})  # Allow
    return found


async def not_valid(_request: Request, error: Exception) -> Response:
    """Parameters that are not as the route declares them: which, and what was expected, not what was sent."""
    wrong = error.errors() if isinstance(error, RequestValidationError) else []
    detail = "; ".join(f"{'.'.join(map(str, one['loc'][1:2]))}: {one['msg']}" for one in wrong[:10])
    return answer(ProblemError(Problem.INVALID, detail))
