"""What the collector counts of itself: by route templates and short ids, over all workers, and no moments."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import APIRouter, FastAPI
from httpx import ASGITransport, AsyncClient
from prometheus_client.parser import text_string_to_metric_families

from taskveil.collector.metrics import FOLDER, Measured, Metrics, prepare, worker_ended
from taskveil.collector.store import Fate

RELEASE = "ab" * 32


@pytest.fixture(autouse=True)
def _environment_is_left_as_it_was() -> Iterator[None]:
    yield
    assert FOLDER not in os.environ


def samples(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every number by its name and the values of its labels, in the order of the labels' names."""
    return {
        (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_reports_are_counted_by_fate_under_a_short_id() -> None:
    metrics = Metrics()
    metrics.reports(RELEASE, np.array([Fate.ACCEPTED, Fate.ACCEPTED, Fate.CONFLICT]), refused=4)
    metrics.reports(RELEASE, np.array([Fate.ACCEPTED, Fate.DUPLICATE]))
    found = {labels: n for (name, labels), n in samples(metrics.text()).items() if name == "taskveil_reports_total"}
    short = "abababababab"
    assert found == {("accepted", short): 3, ("conflict", short): 1, ("duplicate", short): 1, ("refused", short): 4}


def test_requests_are_counted_by_template_and_status_and_never_by_what_was_asked() -> None:
    router, metrics = APIRouter(), Metrics()

    @router.get("/v1/releases/{id}")
    async def release(id: str) -> None:
        if id == "broken":
            raise RuntimeError

    app = FastAPI()
    app.include_router(router)
    app.add_middleware(Measured, metrics=metrics)

    async def ask() -> None:
        transport = ASGITransport(app, raise_app_exceptions=False)
        async with AsyncClient(transport=transport, base_url="http://t") as client:
            for path in ("/v1/releases/secret", "/v1/releases/other", "/secret", "/v1/releases/broken"):
                await client.get(path)
            await client.post("/v1/releases/secret")
            await client.post("/v1/reports")

    asyncio.run(ask())
    found = {labels: n for (name, labels), n in samples(metrics.text()).items() if name == "taskveil_requests_total"}
    route = "/v1/releases/{id}"
    assert found == {(route, "200"): 2, ("other", "404"): 1, (route, "500"): 1, (route, "405"): 1} | {
        ("/v1/reports", "404"): 1  # known without a router
    }
    assert b"secret" not in metrics.text()


def test_no_moment_is_told() -> None:
    metrics = Metrics()
    metrics.reports(RELEASE, np.array([0]))
    ours = {name: value for (name, _), value in samples(metrics.text()).items() if name.startswith("taskveil")}
    assert max(ours.values()) < 1e6  # a moment is seconds since 1970


WORKER = """
import sys
import numpy as np
from taskveil.collector.metrics import Metrics
metrics = Metrics()
metrics.reports("ab" * 32, np.zeros(int(sys.argv[1]), int))
metrics.waiting(7)
metrics.committed(0.002, 3)
print(metrics.text().decode())
"""


def test_workers_add_up_and_what_a_dead_one_had_waiting_is_gone() -> None:
    def work(reports: int) -> tuple[dict[Any, float], int]:
        run = subprocess.Popen([sys.executable, "-c", WORKER, str(reports)], stdout=subprocess.PIPE)
        text, _ = run.communicate(timeout=60)
        assert run.returncode == 0
        return samples(text), run.pid

    with prepare(2):
        folder = Path(os.environ[FOLDER])
        first, pid = work(2)
        assert first["taskveil_waiting_reports", ()] == 7
        worker_ended(pid)
        second, _ = work(3)
        assert second["taskveil_reports_total", ("accepted", "abababababab")] == 5
        assert Metrics().fates() == {"abababababab": {"accepted": 5}}  # what the page shows, whichever worker answers
        assert second["taskveil_commit_reports_sum", ()] == 6
        assert second["taskveil_waiting_reports", ()] == 7
    assert not folder.exists()


def test_one_worker_needs_no_folder() -> None:
    with prepare(1):
        assert FOLDER not in os.environ


def test_folders_of_killed_collectors_are_deleted_and_those_of_living_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "taskveil-metrics-left"
    left.mkdir()
    (left / "lock").touch()
    other = tmp_path / "taskveil-metrics-other-kind"
    other.mkdir()
    with prepare(2):
        living = Path(os.environ[FOLDER])
        assert not left.exists()
        with prepare(2):
            assert living.exists()
    assert [path.name for path in tmp_path.iterdir()] == [other.name]
