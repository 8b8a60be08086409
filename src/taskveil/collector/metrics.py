"""What the collector counts of itself, for Prometheus: totals by release, route and status, never anything of a person.

With several workers each writes its counts into a file of a folder that they share, and any of them answers for all:
`prepare` makes the folder and names it in the environment that workers are spawned with, since prometheus_client looks
for it when it is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskveil.arrays import Integers
from taskveil.client.locking import own_folder
from taskveil.client.wire import PATH
from taskveil.collector.store import SHORT, Fate

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable by which prometheus_client knows that there are several workers."""
CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REFUSED = "refused"

disable_created_metrics()  # type: ignore[no-untyped-call]  # the moment of a first report is nobody's business


@contextmanager
def prepare(workers: int) -> Iterator[None]:
    """While workers are spawned and run: the folder that they share, if there are several of them. Folders that
    collectors left which were killed are deleted."""
    if workers == 1:
        yield
        return
    with own_folder("taskveil-metrics-") as folder:
        os.environ[FOLDER] = str(folder)
        try:
            yield
        finally:
            os.environ.pop(FOLDER, None)


def worker_ended(pid: int) -> None:
    """A worker is gone: what it had waiting is not waiting any more. What it counted stays counted."""
    if os.environ.get(FOLDER):
        mark_process_dead(pid)  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one worker. All methods are cheap and safe in any thread."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._reports = Counter(
            "taskveil_reports", "Reports by what became of them.", ["release", "fate"], registry=registry
        )
        self._requests = Counter(
            "taskveil_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self._request_seconds = Histogram(
            "taskveil_request_seconds", "From a request to its answer.", ["route"], buckets=_SECONDS, registry=registry
        )
        self._commit_seconds = Histogram(
            "taskveil_commit_seconds", "How long a durable commit took.", buckets=_SECONDS, registry=registry
        )
        self._group = Histogram(
            "taskveil_commit_reports",
            "Reports in a commit.",
            buckets=[4**power for power in range(10)],
            registry=registry,
        )
        self._waiting = Gauge(
            "taskveil_waiting_reports",
            "Reports that wait for a commit.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._store_errors = Counter(
            "taskveil_store_errors", "Commits and queries that the database did not do.", registry=registry
        )
        self._estimate_seconds = Histogram(
            "taskveil_estimate_seconds", "How long an estimate took to compute.", buckets=_SECONDS, registry=registry
        )
        if FOLDER not in os.environ:
            ProcessCollector(registry=registry)
        self._by_fate: dict[tuple[str, str], Counter] = {}
        self._by_route: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def reports(self, release: str, fates: Integers, refused: int = 0) -> None:
        """Reports of one request were answered: their `Fate`s (N,), and how many no device can have made."""
        counts = np.bincount(fates, minlength=len(Fate)).tolist()
        for fate in Fate:
            if counts[fate]:
                self._fate(release, fate.name.lower()).inc(counts[fate])
        if refused:
            self._fate(release, _REFUSED).inc(refused)

    def _fate(self, release: str, fate: str) -> Counter:
        found = self._by_fate.get((release, fate))
        if found is None:
            found = self._by_fate[release, fate] = self._reports.labels(release[:SHORT], fate)
        return found

    def committed(self, seconds: float, reports: int) -> None:
        """So many reports became durable together."""
        self._commit_seconds.observe(seconds)
        self._group.observe(reports)

    def waiting(self, reports: int) -> None:
        """So many reports of this worker wait now."""
        self._waiting.set(reports)

    def store_failed(self) -> None:
        """The database did not do what it was asked."""
        self._store_errors.inc()

    def estimated(self, seconds: float) -> None:
        """An estimate was computed."""
        self._estimate_seconds.observe(seconds)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is a template such as "/v1/releases/{id}/frontier", never what was asked."""
        found = self._by_route.get((route, status))
        if found is None:
            found = self._requests.labels(route, str(status)), self._request_seconds.labels(route)
            self._by_route[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def text(self) -> bytes:
        """What Prometheus reads, of all workers. Blocks: call it in a thread."""
        registry = self.registry
        if os.environ.get(FOLDER) and Path(os.environ[FOLDER]).is_dir():
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class Measured:
    """ASGI middleware: every request is counted under its route and status when its answer is complete."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            # Reports may go past the router; anything else that it did not find is what somebody thought of.
            route = PATH if scope["path"] == PATH else getattr(scope.get("route"), "path", "other")
            self._metrics.answered(route, status, perf_counter() - start)
