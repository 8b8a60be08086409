"""What people look at: the page at /, its files under /assets/, and a demonstration's under /demo/ when there is one.

The page and everything it needs come from here: nothing is fetched from elsewhere, and the policy forbids it.
"""

from __future__ import annotations

import asyncio
import mimetypes
from functools import cache
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from taskveil.collector.api.etags import tagged
from taskveil.collector.problems import Problem, ProblemError

POLICY = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
    )
}
INDEX = "index.html"
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".json": "application/json", ".wasm": "application/wasm"}
"""What machines disagree about, or do not know."""

router = APIRouter(include_in_schema=False)


@cache
def pages() -> dict[str, bytes]:
    """The package's own files by name: whatever else is asked for is not there."""
    folder = files("taskveil.collector") / "pages"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()} if folder.is_dir() else {}


@router.get("/")
async def index(request: Request) -> Response:
    """The page."""
    return _page(request, INDEX, pages().get(INDEX))


@router.get("/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    """What the page needs."""
    return _page(request, name, pages().get(name))


@router.get("/demo")
async def towards_demo() -> Response:
    """Its files name each other from the folder."""
    return RedirectResponse("/demo/", status_code=308)


@router.get("/demo/{name:path}")
async def demo(request: Request, name: str) -> Response:
    """A file of the demonstration's folder."""
    folder: Path | None = request.app.state.demo
    name = name or INDEX
    return _page(request, name, None if folder is None else await asyncio.to_thread(_inside, folder, name))


def _inside(folder: Path, name: str) -> bytes | None:
    """The file of exactly this name among those of the folder: a name leads nowhere else."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return found[name].read_bytes() if name in found else None


def _page(request: Request, name: str, content: bytes | None) -> Response:
    if content is None:
        raise ProblemError(Problem.NOT_FOUND)
    suffix = Path(name).suffix.lower()
    kind = TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return tagged(request, content, kind, POLICY)
