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
from starlette.responses import FileResponse, RedirectResponse
from starlette.staticfiles import StaticFiles

import taskveil
from taskveil.collector.api import devices, operating, reading
from taskveil.collector.api.common import BodyLimit, Guard, not_routed, not_valid
from taskveil.collector.api.openapi import described
from taskveil.collector.journal import failed, journal, quietly
from taskveil.collector.metrics import Measured, Metrics
from taskveil.collector.running import Collector
from taskveil.collector.settings import RETRY_SECONDS, Settings
from taskveil.collector.store import Store, StoreUnavailableError, open_store


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
        await _open(app, store)  # raises if the database cannot be used at all
        running = asyncio.create_task(_run(app, store))
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
        docs_url=None,  # it would fetch scripts from elsewhere; `_serve_pages` has a viewer of ours
        redoc_url=None,
        redirect_slashes=False,
        # An installed tracer would record addresses, and when each report came.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        exception_handlers={HTTPException: not_routed, RequestValidationError: not_valid},
    )
    app.state.settings, app.state.metrics, app.state.collector = settings, metrics, None
    for router in (devices.router, reading.router, operating.router):
        app.include_router(router)
    described(app)
    _serve_pages(app, demo)
    app.add_middleware(devices.Shortcut)
    app.add_middleware(BodyLimit, most_bytes=settings.most_bytes)
    app.add_middleware(Guard, origins=settings.origins)
    app.add_middleware(Measured, metrics=metrics)
    return app


def _serve_pages(app: FastAPI, demo: Path | None) -> None:
    """Serve the page, the viewer of the API and their files, and those of the demonstration. The policy in `Guard` lets
    nothing else in."""
    folder = Path(__file__).parents[1] / "pages"
    app.add_route("/", lambda _: FileResponse(folder / "index.html"), include_in_schema=False)
    app.add_route("/docs", lambda _: FileResponse(folder / "docs.html"), include_in_schema=False)
    app.mount("/assets", StaticFiles(directory=folder))
    if demo is not None:
        app.add_route("/demo", lambda _: RedirectResponse("/demo/", status_code=308), include_in_schema=False)
        app.mount("/demo", StaticFiles(directory=demo, html=True))


async def _open(app: FastAPI, given: Store | None) -> bool:
    """Open the database and set `app.state.collector`. Returns False if the database does not answer."""
    settings: Settings = app.state.settings
    store = given
    try:
        store = await asyncio.to_thread(open_store, settings.db) if store is None else store
        app.state.collector = await Collector.on(store, settings, app.state.metrics)
    except StoreUnavailableError:
        if store is not None and given is None:
            await asyncio.to_thread(store.close)
        return False
    return True


async def _run(app: FastAPI, given: Store | None) -> None:
    """Open the database, if it did not answer at the start, and follow its changes. Meanwhile requests get 503."""
    try:
        if app.state.collector is None:
            journal.warning("The database does not answer yet.")
            while not await _open(app, given):
                await asyncio.sleep(RETRY_SECONDS)
        await app.state.collector.follow()
    except Exception as error:
        failed("The database cannot be used.", error)
