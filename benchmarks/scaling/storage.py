"""What reports take in a real PostgreSQL, how fast they go in, and how long it takes to end a round and to read it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import psycopg

import databases
from faults.stored import PostgresDatabase
from taskveil.server.collector.store.opening import open_store

BATCH = 20_000
SIZE = "SELECT sum(pg_relation_size(at)), sum(pg_indexes_size(at)) FROM (VALUES {}) AS some (at)".format(
    ", ".join(f"('taskveil.{table}'::regclass)" for table in ("arrivals", "settling", "reports"))
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
    }
