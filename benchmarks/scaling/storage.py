"""A collector with a real PostgreSQL: what it can take, what reports take there, how long a round takes to end."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import psycopg
from benchmarks import collector

import databases
from faults.stored import PostgresDatabase
from taskveil.collector.store import open_store

BATCH = 20_000
SENDERS = {"batches": {"reports": 500, "connections": 8}, "singles": {"reports": 1, "connections": 64}}
SIZE = "SELECT sum(pg_relation_size(oid)), sum(pg_indexes_size(oid)) FROM (VALUES {}) AS tables (oid)".format(
    ", ".join(f"('taskveil.{table}'::regclass)" for table in ("arrivals", "sorting", "reports"))
)


def measured(folder: Path, reports: int) -> dict[str, float]:
    """Of reports of 1 byte with random ids, stored with fsync in batches of 20,000 by one writer, whose round then
    ends; bytes are of rows and of their index."""
    folder.chmod(0o755)  # PostgreSQL runs as somebody else when we are root
    home, batches = folder / "postgres", -(-reports // BATCH)
    shutil.rmtree(home, ignore_errors=True)
    server = databases.start(home)
    try:
        url = PostgresDatabase(server).url
        store = open_store(url)
        number, rng = databases.opened(store), np.random.default_rng(0)
        began = time.monotonic()
        for _ in range(batches):
            store.ingest([databases.submission(number, BATCH, rng, values=48)])
        stored = time.monotonic()
        store.close_round(databases.RELEASE, "week 1")
        ended = time.monotonic()
        count = sum(len(payloads) for _, payloads in store.payloads(databases.RELEASE))
        read = time.monotonic()
        store.close()
        with psycopg.connect(url) as connection:
            rows, index = connection.execute(SIZE).fetchone() or (0, 0)
        taken = {kind: _taken(folder / f"collector-{kind}", PostgresDatabase(server), kind) for kind in SENDERS}
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
    assert count == batches * BATCH
    return {
        "reports": count,
        "stored_a_second": round(count / (stored - began)),
        "ended_a_second": round(count / (ended - stored)),
        "read_a_second": round(count / (read - ended)),
        "row_bytes": round(float(rows) / count, 1),
        "index_bytes": round(float(index) / count, 1),
        **{f"{kind}_a_second_of_processor": rate for kind, rate in taken.items()},
    }


def _taken(folder: Path, database: PostgresDatabase, kind: str, seconds: float = 15.0) -> int:
    """Reports for every second of processor time of collector and database, over HTTP; senders not counted."""
    shutil.rmtree(folder, ignore_errors=True)
    with collector.collecting(folder, database) as (running, token):
        found = collector.measured(running, token, kind="closed", seconds=seconds, **SENDERS[kind])
    return round(sum(found["accepted"]) / found["processor"])
