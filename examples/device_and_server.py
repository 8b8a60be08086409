"""The whole path of a report: design, release, device with a ledger, upload, collector, estimates.

You learn what is stored where. A retry repeats the same bytes and costs nothing. The ledger refuses reports beyond the
cap. The server refuses each report that no device can have made. The collector here is Python's own HTTP server on this
machine; nothing leaves it.
"""

from __future__ import annotations

import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.client import Client, upload
from taskveil.client.wire import PATH, Report, arrived
from taskveil.errors import BudgetSpentError, WireError

PEOPLE = 200
bodies: list[bytes] = []


class Collector(BaseHTTPRequestHandler):
    """Keeps the body of every POST. A device sends its reports again until the answer accounts for all of them."""

    def do_POST(self) -> None:
        bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"accepted": len(arrived(bodies[-1])), "duplicate": 0, "rejected": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing: an access log would be metadata about people."""


with tempfile.TemporaryDirectory() as name, HTTPServer(("127.0.0.1", 0), Collector) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, folder = f"http://127.0.0.1:{server.server_port}{PATH}", Path(name)

    # Offline, once: volunteers, a task, a budget.
    rng = np.random.default_rng(1)
    volunteers = pd.DataFrame({"power": rng.gamma(2.0, 0.6, 500), "gas": rng.gamma(3.0, 0.3, 500)})
    veil = tv.design(volunteers, tv.LinearTask(np.diag([3.0, 1.0])), epsilon=2.0)
    veil.save(folder / "release")
    print("release", veil.release_id[:12])

    # On every device: numpy and the standard library. Each person has a ledger and a cap of three reports.
    reports = []
    for person, record in enumerate(volunteers.sample(PEOPLE, replace=True, random_state=2).to_dict("records")):
        with Client.load(folder / "release", ledger=folder / f"{person}.sqlite", cap=6.0) as client:
            reports.append(client.report(record, round="week 1"))
            if person == 0:
                again = client.report({"power": 99.0, "gas": 99.0}, round="week 1")
                print("a retry repeats the bytes:", bytes(again) == bytes(reports[0]))
                client.report(record, round="week 2")
                client.report(record, round="week 3")
                try:
                    client.report(record, round="week 4")
                except BudgetSpentError as error:
                    print("refused:", error)
    print(upload(reports, url), "reports sent,", len(bodies[0]), "bytes")
    server.shutdown()

    # On the server: bytes are checked before anything is decoded.
    ours = tv.Veil.load(folder / "release")
    received = ours.receive(bodies[0])
    print(len(received), "reports received,", len(received.refused), "refused")
    estimates = ours.decode(received)  # a table, as the volunteers' was
    measured, own = estimates["power"].mean(), volunteers["power"].mean()
    print(f"mean power {measured:.2f} from reports, {own:.2f} among the volunteers")
    forged = Report(release=bytes(32), id=bytes(16), payload=reports[0].payload)
    try:
        ours.receive(bytes(forged))
    except WireError as error:
        print("refused:", error)
