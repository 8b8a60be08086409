"""What devices fetch: the client files of a release, and nothing else of it.

They are public, and they stay there while the release is known, open or closed: a device that has reports to send
again, or a person who wants to check what was promised, needs them after the end too.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from taskveil.client.reading import CLIENT
from taskveil.client.wire import JSON
from taskveil.collector.api.etags import tagged
from taskveil.collector.api.openapi import problems
from taskveil.collector.api.shapes import ReleaseId
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.running import collector_of

BYTES = "application/octet-stream"

router = APIRouter(tags=["devices"])


@router.get(
    "/v1/releases/{id}/client/{name}",
    summary="A file that devices run",
    response_class=Response,
    responses={
        200: {
            "description": "The file, as it was registered.",
            "content": {
                JSON: {"schema": {"type": "object"}},
                BYTES: {"schema": {"type": "string", "format": "binary"}},
            },
            "headers": {"ETag": {"schema": {"type": "string"}, "description": "SHA-256 of the file."}},
        },
        304: {"description": "The device has this file already (If-None-Match)."},
        **problems(Problem.RELEASE_UNKNOWN, Problem.NOT_FOUND, Problem.INVALID),
    },
)
async def client_file(
    request: Request,
    id: Annotated[ReleaseId, Path(description="The release.")],
    name: Annotated[str, Path(examples=["manifest.json"])],
) -> Response:
    """One of the files in the folder client/ of a release. Needs no token, from any web page's origin."""
    release = await collector_of(request).known(id)
    content = release.files.get(f"{CLIENT}/{name}")
    if content is None:
        raise ProblemError(Problem.NOT_FOUND, "A release's client files are manifest.json and those it names.")
    return tagged(request, content, JSON if name.endswith(".json") else BYTES)
