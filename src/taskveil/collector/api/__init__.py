"""HTTP: what the collector answers. `reports` is for devices, `client_files` too; `reading` for those who look at what
the reports say, in a browser on `pages`; `administration` for those who run it, `health` for whoever watches it.

What they share: `access` takes a request's token, `problem_answers` says no, `etags` that a file has not changed,
`shapes` is the JSON of answers and `openapi` the document about all of it. `guarding` is around every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import taskveil
from taskveil.collector.api import administration, client_files, health, pages, reading, reports
from taskveil.collector.api.guarding import Guard
from taskveil.collector.api.openapi import described
from taskveil.collector.api.problem_answers import not_routed, not_valid
from taskveil.collector.journal import failed, journal, quietly
from taskveil.collector.limits import BodyLimit
from taskveil.collector.metrics import Measured, Metrics
from taskveil.collector.running import Collector
from taskveil.collector.settings import Settings
from taskveil.collector.store import Store, StoreUnavailableError, open_store

OPEN_SECONDS = 2.0
"""That a start waits for the database. After that it goes on in the background, and requests are told to come again."""

AGAIN_SECONDS = 1.0
"""Between two attempts to open it."""


def create_app(settings: Settings, store: Store | None = None, *, demo: Path | None = None) -> FastAPI:
    """The collector as an ASGI application.

    Args:
        settings: what it is told.
        store: where reports go; by default the one at `settings.db`, opened when the application starts.
        demo: a folder of pages that are served under /demo/.

    Returns:
        An application whose `state.collector` is the running `Collector`, None until its database was opened.
    """
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(quietly)
        opened = asyncio.Event()
        running = asyncio.create_task(_run(app, store, opened))
        waiting = asyncio.create_task(opened.wait())
        await asyncio.wait({running, waiting}, timeout=OPEN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            running.result()  # a database that cannot be used at all: no start
        running.add_done_callback(_note)
        try:
            yield
        finally:
            running.cancel()
            if app.state.collector is not None:
                await app.state.collector.stop(close=store is None)

    app = FastAPI(
        title="taskveil collector",
        version=taskveil.__version__,
        description="Takes private reports, keeps them and nothing else, and gives population estimates.",
        lifespan=lifespan,
        openapi_url=None,  # `described` has it
        docs_url=None,  # they would fetch scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        # What a tracer that happens to be installed would record: addresses, and when each report came.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        exception_handlers={HTTPException: not_routed, RequestValidationError: not_valid},
    )
    app.state.settings, app.state.metrics, app.state.demo, app.state.collector = settings, metrics, demo, None
    for part in (reports, client_files, reading, administration, health, pages):
        app.include_router(part.router)
    described(app)
    app.add_middleware(reports.Straight)
    app.add_middleware(BodyLimit, most_bytes=settings.most_bytes)
    app.add_middleware(Guard, origins=settings.origins)
    app.add_middleware(Measured, metrics=metrics)
    return app


async def _run(app: FastAPI, given: Store | None, opened: asyncio.Event) -> None:
    """Open the database, however often that takes, and follow it for ever."""
    settings: Settings = app.state.settings
    said = False
    while True:
        store = given
        try:
            store = await asyncio.to_thread(open_store, settings.db) if store is None else store
            app.state.collector = await Collector.on(store, settings, app.state.metrics)
            break
        except StoreUnavailableError:
            if not said:
                journal.warning("The database does not answer yet.")
            said = True
            if store is not None and given is None:
                await asyncio.to_thread(store.close)
            await asyncio.sleep(AGAIN_SECONDS)
    opened.set()
    await app.state.collector.follow()


def _note(running: asyncio.Task[None]) -> None:
    """A database that was found unusable later."""
    if not running.cancelled() and (error := running.exception()) is not None:
        failed("The database cannot be used.", error)
