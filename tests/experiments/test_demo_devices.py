"""Simulated devices are counted once each, whatever they do."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import releases
from http_servers import answering
from taskveil.client import Ledger
from taskveil.client.panels import Panel
from taskveil.client.wire import arrived
from taskveil.experiments.demo_devices import Crowd, Outcome


class Collector(ThreadingHTTPServer):
    """Takes everything and notes it by round."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.found: list[tuple[str, bytes, str | None]] = []

    def handle_error(self, *_: object) -> None:
        pass


class Answer(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        ids = arrived(body).ids
        self.server.found.append((self.path, ids.tobytes(), self.headers["Authorization"]))
        said = json.dumps({"accepted": len(ids), "duplicate": 0, "rejected": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with answering(Collector()) as server:
        yield server


@pytest.fixture
def crowd(collector: Collector, tmp_path: Path) -> Crowd:
    """Devices with two releases for the same records."""
    device = releases.devices()["codebook"]
    releases.veil(device.encoder, device.mechanism).save(tmp_path / "first")
    releases.veil(device.encoder, releases.laplace(releases.box(4), 1.0)).save(tmp_path / "second")
    return Crowd(
        releases=(tmp_path / "first", tmp_path / "second"),
        url=f"http://127.0.0.1:{collector.server_address[1]}/v1/reports",
        ledgers=tmp_path / "ledgers",
        token="tv_a_b",
        rounds=2,
        repeat=0.25,
        hang_up=0.25,
        away=0.25,
    )


def test_every_device_is_one_id_a_round_and_release(crowd: Crowd, collector: Collector) -> None:
    width = releases.devices()["codebook"].encoder.width
    first = crowd.report([np.zeros(width)] * 24, round="first round", seconds=0.2)
    second = crowd.report({3: np.ones(width), 70: np.ones(width)}, round="2")
    time.sleep(0.1)  # for devices that hung up
    assert (first.devices, second.devices, (first + second).failed) == (24, 2, 0)
    assert min(first.repeated, first.unheard, first.late) > 0
    found = {path: Counter(id for one, id, _ in collector.found if one == path) for path, _, _ in collector.found}
    assert {path: len(ids) for path, ids in found.items()} == {
        "/v1/reports?round=first%20round": 2 * 24,
        "/v1/reports?round=2": 2 * 2,
    }
    assert sum(found["/v1/reports?round=first%20round"].values()) == 2 * (24 + first.repeated + first.unheard)
    assert {token for _, _, token in collector.found} == {"Bearer tv_a_b"}
    assert len(list(crowd.ledgers.glob("[0-9]*.sqlite"))) == 25  # device 3 came twice
    with Ledger(crowd.ledgers / "3.sqlite") as ledger:  # two rounds of both releases
        assert ledger.spent == pytest.approx(2 * (3.0 + 1.0), rel=1e-3)


def test_devices_that_were_stopped_stay_away(crowd: Crowd, collector: Collector) -> None:
    stop = threading.Event()
    stop.set()
    assert crowd.report([0.0] * 9, round="1", seconds=60, stop=stop) == Outcome()
    assert collector.found == []


def test_of_a_release_over_time_every_device_sends_one_report_a_block(crowd: Crowd, collector: Collector) -> None:
    device = releases.devices()["codebook"]
    panel = Panel(reports=2, rounds=("1", "2", "3", "4"), days=0)
    planned = replace(releases.veil(device.encoder, device.mechanism), panel=panel)
    planned.save(crowd.ledgers.parent / "planned")
    people = replace(crowd, releases=(crowd.ledgers.parent / "planned",), repeat=0.0, hang_up=0.0)
    for round in panel.rounds:
        assert people.report([np.zeros(device.encoder.width)] * 6, round=round).failed == 0
    for block in (("1", "2"), ("3", "4")):
        found = Counter(
            id for path, id, _ in collector.found if path.endswith(tuple(f"round={name}" for name in block))
        )
        assert [len(id) // 16 for id in found] == [1] * 6
        assert set(found.values()) == {1}
