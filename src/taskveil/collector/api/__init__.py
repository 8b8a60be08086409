"""The collector's HTTP interface: `devices` for reports, `reading` for estimates and the page, `operating` for
administration and health. `common` has what all requests share, `openapi` the JSON of requests and answers.
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
from taskveil.collector.api import devices, operating, reading
from taskveil.collector.api.common import BodyLimit, Guard, not_routed, not_valid
from taskveil.collector.api.openapi import described
from taskveil.collector.journal import failed, journal, quietly
from taskveil.collector.metrics import Measured, Metrics
from taskveil.collector.running import Collector
from taskveil.collector.settings import Settings
from taskveil.collector.store import Store, StoreUnavailableError, open_store

OPEN_SECONDS = 2.0
"""How long a start waits for the database. After that it continues in the background, and requests get 503."""

REOPEN_SECONDS = 1.0


def create_app(settings: Settings, store: Store | None = None, *, demo: Path | None = None) -> FastAPI:
    """The collector as an ASGI application.

    Args:
        settings: of the collector.
        store: for reports; by default the one at `settings.db`, opened when the application starts.
        demo: a folder of pages that are served under /demo/.

    Returns:
        An application. Its `state.collector` is the running `Collector`, or None until the database is open.
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
            running.result()  # raises if the database cannot be used at all
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
        description="Receives private reports, stores only them, and gives population estimates.",
        lifespan=lifespan,
        openapi_url=None,  # `described` has it
        docs_url=None,  # it would fetch scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        # An installed tracer would record addresses, and when each report came.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        exception_handlers={HTTPException: not_routed, RequestValidationError: not_valid},
    )
    app.state.settings, app.state.metrics, app.state.demo, app.state.collector = settings, metrics, demo, None
    for router in (devices.router, reading.router, operating.router, reading.page_router):
        app.include_router(router)
    described(app)
    app.add_middleware(devices.Shortcut)
    app.add_middleware(BodyLimit, most_bytes=settings.most_bytes)
    app.add_middleware(Guard, origins=settings.origins)
    app.add_middleware(Measured, metrics=metrics)
    return app


async def _run(app: FastAPI, given: Store | None, opened: asyncio.Event) -> None:
    """Open the database, with as many attempts as it takes, and follow its changes."""
    settings: Settings = app.state.settings
    warned = False
    while True:
        store = given
        try:
            store = await asyncio.to_thread(open_store, settings.db) if store is None else store
            app.state.collector = await Collector.on(store, settings, app.state.metrics)
            break
        except StoreUnavailableError:
            if not warned:
                journal.warning("The database does not answer yet.")
            warned = True
            if store is not None and given is None:
                await asyncio.to_thread(store.close)
            await asyncio.sleep(REOPEN_SECONDS)
    opened.set()
    await app.state.collector.follow()


def _note(running: asyncio.Task[None]) -> None:
    """Log that the database was found unusable after the start."""
    if not running.cancelled() and (error := running.exception()) is not None:
        failed("The database cannot be used.", error)
