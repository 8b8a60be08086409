"""Killed, full, busy, gone: nothing that was acknowledged is lost, nothing is doubled, and the store recovers."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from databases import RELEASE, Server, opened, options, submission
from taskveil.collector.store import Fate, StoreError, StoreUnavailableError, Submission, open_store

WRITER = """
import sys, numpy as np
from taskveil.collector.store import open_store
from databases import options, submission
url, number, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = open_store(url, **options(url))
rng = np.random.default_rng(seed)
while True:
    assert not store.ingest([submission(number, 120, rng)])[0].any()
    print("acknowledged", flush=True)
"""


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def accepted(store: Any, given: Submission) -> bool:
    return set(store.ingest([given])[0]) == {Fate.ACCEPTED}


def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged(store: Any, store_url: str) -> None:
    number = opened(store)
    for seed, after in ((1, 3), (2, 20)):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, store_url, str(number), str(seed)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert process.stdout is not None
        for _ in range(after):
            assert process.stdout.readline() == b"acknowledged\n"
        time.sleep(rng(seed).uniform(0, 0.01))
        process.send_signal(signal.SIGKILL)
        acknowledged = after + len(process.stdout.read().splitlines())
        process.wait()
        process.stdout.close()
        again = rng(seed)
        fates = np.concatenate([store.ingest([submission(number, 120, again)])[0] for _ in range(acknowledged + 1)])
        assert set(fates[: 120 * acknowledged]) == {Fate.DUPLICATE}
        assert len(set(fates[120 * acknowledged :])) == 1, "of the one that nobody heard of, all or nothing"
        assert store.check() == []


def test_a_server_that_crashes_loses_nothing_that_was_acknowledged(postgres_server: Server) -> None:
    with postgres_server.database() as url:
        store: Any = open_store(url, allow_unsafe=True)
        number = opened(store)
        acknowledged: list[Submission] = []
        begun = threading.Event()

        def write() -> None:
            fresh = rng()
            with suppress(StoreUnavailableError):
                while True:
                    one = submission(number, 120, fresh)
                    store.ingest([one])
                    acknowledged.append(one)
                    begun.set()

        writer = threading.Thread(target=write)
        writer.start()
        begun.wait(10)
        postgres_server.kill()
        writer.join()
        with pytest.raises(StoreUnavailableError):
            store.ping()
        postgres_server.restart()
        store.ping()
        assert all(set(fates) == {Fate.DUPLICATE} for fates in store.ingest(acknowledged))
        assert accepted(store, submission(number, 10, rng(2)))
        assert store.check() == []
        store.close()


def test_postgres_may_stop_and_come_back(postgres_server: Server) -> None:
    with postgres_server.database() as url:
        store: Any = open_store(url, allow_unsafe=True)
        number = opened(store)
        store.ingest([submission(number, 10, rng(2))])
        with psycopg.connect(url) as killer:
            killer.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'taskveil'")
        one = submission(number, 10, rng())
        with pytest.raises(StoreUnavailableError):
            store.ingest([one])
        assert accepted(store, one)
        postgres_server.stop()
        for call in (store.ping, store.version, store.releases, lambda: store.ingest([one])):
            with pytest.raises(StoreUnavailableError) as caught:
                call()
            assert str(postgres_server.folder) not in str(caught.value)
        with pytest.raises(StoreUnavailableError) as caught:
            open_store(url, allow_unsafe=True)
        assert str(postgres_server.folder) not in str(caught.value)
        postgres_server.restart()
        assert set(store.ingest([one])[0]) == {Fate.DUPLICATE}
        store.close()


def test_a_database_that_is_read_only_is_unavailable_for_writing(postgres_server: Server) -> None:
    with postgres_server.database() as url:
        store: Any = open_store(url, allow_unsafe=True)
        number = opened(store)
        with psycopg.connect(url, autocommit=True) as admin:
            name = admin.info.dbname
            admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            store._pool.drop_idle()
            for call in (store.ping, lambda: store.ingest([submission(number, 10, rng())])):
                with pytest.raises(StoreUnavailableError):
                    call()
            assert store.releases()[0].id == RELEASE
            admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off", prepare=False)
        store._pool.drop_idle()
        assert accepted(store, submission(number, 10, rng()))
        store.close()


def test_a_postgres_that_cannot_be_used_is_refused_without_naming_it(postgres_server: Server) -> None:
    wrong = postgres_server.url.replace("tester", "secret:secret")
    for url, message in [
        (wrong, "user"),
        (postgres_server.address("secret"), "database name"),
        ("postgresql://secret@/x?nonsense=secret", "address"),
        (postgres_server.url, "fsync"),
    ]:
        with pytest.raises(StoreError, match=message) as caught:
            open_store(url)
        assert not isinstance(caught.value, StoreUnavailableError)
        assert "secret" not in str(caught.value)


def test_a_commit_is_on_disk_whatever_the_database_was_told(tmp_path: Path, postgres_server: Server) -> None:
    """No kill shows it, since the system keeps what a process wrote: only a machine that loses power would."""
    file: Any = open_store(f"sqlite:///{tmp_path}/collector.db")
    with file._pool.lend() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()
    with postgres_server.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit TO off")
        store: Any = open_store(url, allow_unsafe=True)
        for pool in (store._pool, store._writers):
            with pool.lend() as connection:
                assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        store.close()


def test_too_many_connections_are_a_matter_of_time(postgres_server: Server) -> None:
    with postgres_server.database() as url:
        open_store(url, allow_unsafe=True).close()
        held = []
        try:
            with suppress(psycopg.OperationalError):
                while True:
                    held.append(psycopg.connect(url))
            with pytest.raises(StoreUnavailableError):
                open_store(url, allow_unsafe=True)
        finally:
            for connection in held:
                connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "collector.db"


def test_a_busy_sqlite_is_waited_for_and_then_unavailable(file: Path) -> None:
    store: Any = open_store(f"sqlite:///{file}", busy_seconds=0.1)
    one = submission(opened(store), 10, rng())
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for call in (store.ping, lambda: store.ingest([one]), lambda: store.close_round(RELEASE, "week 1")):
        with pytest.raises(StoreUnavailableError):
            call()
    assert store.releases()[0].rounds[0].reports == 0, "readers wait for nobody"
    other.execute("ROLLBACK")
    other.close()
    assert accepted(store, one)
    store.close()


def test_a_reader_who_keeps_sqlite_from_emptying_its_log_is_told_of(file: Path) -> None:
    store: Any = open_store(f"sqlite:///{file}", busy_seconds=0.1)
    store.ingest([submission(opened(store), 10, rng())])
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM reports").fetchall()
    with pytest.raises(StoreUnavailableError):
        store.forget_round(RELEASE, "week 1")
    assert [(one.open, one.reports) for one in store.releases()[0].rounds] == [(False, 0)], (
        "there, to be forgotten again"
    )
    reader.close()
    store.forget_round(RELEASE, "week 1")
    assert store.releases()[0].rounds == ()
    store.close()


def test_a_ping_writes(file: Path) -> None:
    """Down to the disk: without room for one more page it fails."""
    store = open_store(f"sqlite:///{file}")
    store.ping()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{file}-wal").stat().st_size, limits[1]))
    try:
        with pytest.raises(StoreUnavailableError):
            store.ping()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    store.ping()
    store.close()


def test_a_full_disk_stores_nothing_and_recovers(file: Path) -> None:
    """A limit on the size of files is what a full disk is to SQLite: a write that fails."""
    store: Any = open_store(f"sqlite:///{file}")
    number = opened(store)
    assert accepted(store, submission(number, 10, rng()))
    one = submission(number, 5000, rng(2))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in file.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 20_000, limits[1]))
    try:
        with pytest.raises(StoreUnavailableError):
            store.ingest([one])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.releases()[0].rounds[0].reports == 10
    with store._pool.lend() as connection:
        connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreUnavailableError, match="FULL"):
        store.ingest([one])
    assert accepted(store, one)
    assert store.check() == []
    store.close()


def test_a_file_that_vanished_is_missed_and_not_made_anew(file: Path) -> None:
    store: Any = open_store(f"sqlite:///{file}")
    number = opened(store)
    hidden = file.with_name("hidden.db")
    file.rename(hidden)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            store.ingest([submission(number, 10, rng())])
    assert not file.exists()
    hidden.rename(file)
    assert accepted(store, submission(number, 10, rng()))
    assert store.check() == []
    store.close()


def test_the_file_is_its_owners_alone_and_must_be_a_database(file: Path) -> None:
    store = open_store(f"sqlite:///{file}")
    opened(store)
    assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}
    store.close()
    file.write_bytes(b"no database at all, but long enough for a header" * 100)
    with pytest.raises(StoreError, match="not an SQLite database"):
        open_store(f"sqlite:///{file}")
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(f"sqlite:///{file.parent / 'nowhere' / 'x.db'}")


def test_options_are_those_of_the_kind(store_url: str) -> None:
    open_store(store_url, busy_seconds=1.0, **options(store_url)).close()
    with pytest.raises(TypeError):
        open_store(store_url, nonsense=1)
