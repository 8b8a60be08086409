"""A collector that does one thing wrong, on purpose: `python -m faults.broken FAULT DATABASE PORT`.

It takes binary and JSON reports into the real schema in SQLite, slowly and simply. What the checks of this folder
object to in it is what they would object to in ours. FAULTS says what can be wrong; "nothing" is a control.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from taskveil.client import wire
from taskveil.client.wire import PROBLEM, Report, from_json, unpack_batch

FAULTS = {
    "nothing": "a control",
    "early": "acknowledges before it commits",
    "doubles": "stores a report again when it comes again",
    "miscounts": "counts a report again when it comes again",
    "overwrites": "lets other bytes replace what is stored",
    "arrival": "numbers its rows as they come",
    "talks": "logs who sent what",
    "anything": "stores whatever it is sent, and fails over what it cannot read",
    "anybody": "takes any token",
    "patient": "waits for ever for the rest of a request",
    "moody": "says 503 without saying when to come again",
}


class Store:
    """Rows, totals and counts in one file; one writer at a time."""

    def __init__(self, fault: str, file: str) -> None:
        self.fault, self.lock = fault, threading.Lock()
        self.db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=60)
        if fault in ("doubles", "arrival"):
            ((made,),) = self.db.execute("SELECT sql FROM sqlite_master WHERE name = 'reports'")
            if "WITHOUT ROWID" in made:
                self.db.execute("DROP TABLE reports")
                self.db.execute("CREATE TABLE reports (release, id, round, payload)")
                self.db.execute("CREATE INDEX by_id ON reports (id)")

    def ingest(self, reports: list[Report]) -> tuple[int, int, list[dict[str, Any]]]:
        """Accepted, duplicate and rejected."""
        with self.lock:
            self.db.execute("BEGIN IMMEDIATE")
            accepted, rejected = 0, []
            for place, report in enumerate(reports):
                there = self.db.execute("SELECT payload FROM reports WHERE id = ?", (report.id,)).fetchone()
                new = there is None or self.fault == "doubles"
                if there is not None and there[0] != report.payload and self.fault != "overwrites":
                    rejected.append({"place": place, "id": report.id.hex(), "reason": "other bytes are stored."})
                    continue
                if new or self.fault == "overwrites":
                    verb = "INSERT" if self.fault in ("doubles", "arrival") else "INSERT OR REPLACE"
                    self.db.execute(f"{verb} INTO reports VALUES (1, ?, 1, ?)", (report.id, report.payload))
                if new or self.fault == "miscounts":
                    self.db.execute(
                        "INSERT INTO totals VALUES (1, 0, 1, x'') ON CONFLICT DO UPDATE SET reports = reports + 1"
                    )
                    self.db.execute(
                        "INSERT INTO counts VALUES (1, 0, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
                        (report.payload,),
                    )
                accepted += new
            self.db.execute("COMMIT")
            return accepted, len(reports) - accepted - len(rejected), rejected


class Handler(BaseHTTPRequestHandler):
    """As little of the contract as the checks ask for."""

    protocol_version = "HTTP/1.1"
    store: Store
    token: str = ""

    def setup(self) -> None:
        self.timeout = 600 if self.store.fault == "patient" else 5
        super().setup()

    def do_GET(self) -> None:
        self._answer(200, {"status": "ok"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.path.startswith(wire.PATH):
            return self._answer(200, {})
        if self.store.fault != "anybody" and not (self.headers.get("Authorization") or "").startswith("Bearer tv_"):
            return self._answer(401, {"title": "no"})
        if self.store.fault == "moody" and random.random() < 0.2:
            return self._answer(503, {"title": "not now"})
        try:
            if self.store.fault == "anything":
                reports = [Report(release=bytes(32), id=(body + bytes(16))[:16], payload=body[16:60000] or b"x")]
            elif body[:4] == b"TV\x01\x01":
                reports = [Report.from_bytes(body)]
            else:
                reports = unpack_batch(body) if body[:2] == b"TV" else from_json(body)
        except ValueError:
            return self._answer(400, {"title": "no reports"})
        if self.store.fault == "early":
            threading.Timer(0.5, self.store.ingest, [reports]).start()
            return self._answer(200, {"accepted": len(reports), "duplicate": 0, "rejected": []})
        accepted, duplicate, rejected = self.store.ingest(reports)
        return self._answer(200, {"accepted": accepted, "duplicate": duplicate, "rejected": rejected})

    do_PUT = do_DELETE = do_POST

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        raw = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("Content-Type", wire.JSON if status < 400 else PROBLEM)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *arguments: Any) -> None:
        if self.store.fault == "talks":
            print(*self.client_address, *self.headers.values(), *arguments, file=sys.stderr, flush=True)


class Server(ThreadingHTTPServer):
    """Says nothing about connections that break."""

    daemon_threads = True
    request_queue_size = 1000

    def handle_error(self, request: Any, client_address: Any) -> None:
        return None


def main(fault: str, file: str, port: str) -> None:
    """Serve until killed."""
    Handler.store = Store(fault, file)
    Server(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
