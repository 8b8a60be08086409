"""Counters for Prometheus: totals by release, route and status, and nothing about single people.

With several workers, each writes its counters into a file of a shared folder, and any worker answers for all. `prepare`
creates the folder and names it in the workers' environment, because prometheus_client reads it when it is imported.
"""

from __future__ import annotations

import os
from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
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
from taskveil.collector.store import SHOWN_ID_DIGITS, Fate

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client's environment variable for several workers."""
CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # it would show when the first report came


@contextmanager
def prepare(workers: int) -> Iterator[None]:
    """Keep a shared folder while several workers run. Folders of killed collectors are deleted."""
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
    """Remove a dead worker's waiting reports. Its other counts stay."""
    if os.environ.get(FOLDER):
        mark_process_dead(pid)  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one worker. All methods are fast and may be called in any thread."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        counter, timer = partial(Counter, registry=registry), partial(Histogram, registry=registry, buckets=_SECONDS)
        self._reports = counter("taskveil_reports", "Reports by fate.", ["release", "fate"])
        self._requests = counter("taskveil_requests", "Requests by route and status.", ["route", "status"])
        self._request_seconds = timer("taskveil_request_seconds", "Time to answer a request.", ["route"])
        self._commit_seconds = timer("taskveil_commit_seconds", "Time of a durable commit.")
        self._estimate_seconds = timer("taskveil_estimate_seconds", "Time to compute an estimate.")
        self._store_errors = counter("taskveil_store_errors", "Commits and queries that failed.")
        sizes = [4**power for power in range(10)]
        self._group = Histogram("taskveil_commit_reports", "Reports in a commit.", buckets=sizes, registry=registry)
        waiting = "Reports that wait for a commit."
        self._waiting = Gauge("taskveil_waiting_reports", waiting, multiprocess_mode="livesum", registry=registry)
        if FOLDER not in os.environ:
            ProcessCollector(registry=registry)

    def reports(self, release: str, fates: Integers, refused: int = 0) -> None:
        """Count the reports of one request: their `Fate`s (N,), and how many were not valid."""
        counts = dict(zip((fate.name.lower() for fate in Fate), np.bincount(fates, minlength=len(Fate)), strict=True))
        for fate, count in {**counts, "refused": refused}.items():
            if count:
                self._reports.labels(release[:SHOWN_ID_DIGITS], fate).inc(int(count))

    def fates(self) -> dict[str, Counts[str]]:
        """How many reports had each fate, by the short id of their release: in all workers, since the collector
        started. Blocks."""
        found: dict[str, Counts[str]] = {}
        for labels, value in self._counted("taskveil_reports"):
            found.setdefault(labels["release"], Counts())[labels["fate"]] += value
        return found

    def refused_requests(self, route: str) -> int:
        """How many requests of this route were refused as a whole (a status from 400 to 499), as in `fates`. Blocks."""
        counted = self._counted("taskveil_requests")
        return sum(value for labels, value in counted if labels["route"] == route and labels["status"].startswith("4"))

    def committed(self, seconds: float, reports: int) -> None:
        """Count a commit."""
        self._commit_seconds.observe(seconds)
        self._group.observe(reports)

    def waiting(self, reports: int) -> None:
        """Set the number of reports that wait for a commit in this worker."""
        self._waiting.set(reports)

    def store_failed(self) -> None:
        """Count a failure of the database."""
        self._store_errors.inc()

    def estimated(self, seconds: float) -> None:
        """Count a computed estimate."""
        self._estimate_seconds.observe(seconds)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is a template such as "/v1/releases/{id}/frontier", never the requested path."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """The counters of all workers in Prometheus' text format. Blocks: call it in a thread."""
        return generate_latest(self._shared())

    def _counted(self, name: str) -> Iterator[tuple[dict[str, str], int]]:
        """The labels and values of a counter, of all workers."""
        for metric in self._shared().collect():
            for sample in metric.samples if metric.name == name else ():
                if sample.name == f"{name}_total":
                    yield sample.labels, int(sample.value)

    def _shared(self) -> CollectorRegistry:
        """The counters of all workers."""
        if not (os.environ.get(FOLDER) and Path(os.environ[FOLDER]).is_dir()):
            return self.registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return registry


class Measured:
    """Middleware that counts each request by route and status when its answer is complete."""

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
            # Reports bypass the router. Paths without a route are counted as "other".
            route = PATH if scope["path"] == PATH else getattr(scope.get("route"), "path", "other")
            self._metrics.answered(route, status, perf_counter() - start)
