"""Nobody who reads the database, or its files, learns in which order reports came, or finds what was forgotten."""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from scipy.stats import spearmanr

from databases import RELEASE, Server, opened, submission
from taskveil.collector.journal import journal
from taskveil.collector.store import StoreUnavailableError, Submission, open_store, postgres

COUNT = 1000
BOUND = 0.15
"""Five standard deviations of the rank correlation of so many reports; of those that lie as they came it is near 1."""


def marked(number: int, count: int, mark: bytes) -> Submission:
    """Reports whose ids begin alike, to be found in files."""
    one = submission(number, count, np.random.default_rng(11), size=3, values=250)
    one.ids[:, : len(mark)] = np.frombuffer(mark, dtype=np.uint8)
    return one


def one_by_one(store: Any, number: int, each: int = 1) -> list[bytes]:
    """Store reports in separate commits; returns their ids as they came."""
    given = marked(number, COUNT, b"marked")
    for place in range(0, COUNT, each):
        here = slice(place, place + each)
        store.ingest([Submission(round=number, ids=given.ids[here], payloads=given.payloads[here], moments=None)])
    return [bytes(one) for one in given.ids]


def correlation(first: Sequence[int], second: Sequence[int]) -> float:
    return float(spearmanr(first, second).statistic)


def within_pages(files: Sequence[Path], ids: Sequence[bytes], page: int) -> float:
    """The size of the rank correlation of arrival with the place in a page: the mean over all well filled pages."""
    arrival = {id: place for place, id in enumerate(ids)}
    pages: dict[tuple[Path, int], list[tuple[int, int]]] = {}
    for file in files:
        content = file.read_bytes()
        for found in re.finditer(b"marked.{10}", content, re.DOTALL):
            if found[0] in arrival:
                pages.setdefault((file, found.start() // page), []).append((arrival[found[0]], found.start()))
    sizes = [abs(correlation(*zip(*each, strict=True))) for each in pages.values() if len(each) > 50]
    assert len(sizes) >= 5, "the reports are not in these files"
    return float(np.mean(sizes))


def test_sqlite_files_tell_no_order_once_a_round_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "collector.db"
    store = open_store(f"sqlite:///{file}")
    with store._pool.lend() as connection:  # type: ignore[attr-defined]
        connection.execute("PRAGMA synchronous = OFF")  # quicker; where bytes lie does not depend on it
    ids = one_by_one(store, opened(store))
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA wal_checkpoint")
    assert within_pages([file], ids, 4096) > BOUND, "while a round is open, cells lie much as they came"
    store.close_round(RELEASE, "week 1")
    assert within_pages([file], ids, 4096) < BOUND
    content = file.read_bytes()
    assert abs(correlation(range(COUNT), [content.find(one) for one in ids])) < BOUND
    assert Path(f"{file}-wal").stat().st_size == 0
    with closing(sqlite3.connect(file)) as other:
        assert [row[0] for row in other.execute("SELECT id FROM reports")] == sorted(ids)
        with pytest.raises(sqlite3.OperationalError, match="rowid"):
            other.execute("SELECT rowid FROM reports")
    store.close()


def test_the_measure_sees_a_table_with_row_ids(tmp_path: Path) -> None:
    """What a plain table would tell, even after VACUUM: the test above can fail."""
    file = tmp_path / "plain.db"
    ids = [bytes(one) for one in marked(1, COUNT, b"marked").ids]
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("CREATE TABLE reports (id BLOB PRIMARY KEY, payload BLOB)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO reports VALUES (?, x'00')", [(one,) for one in ids])
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.close()
    assert within_pages([file], ids, 4096) > BOUND


def test_postgres_tells_no_order_once_a_round_is_closed(postgres_server: Server) -> None:
    with postgres_server.database() as url, psycopg.connect(url, autocommit=True) as reader:
        store = open_store(url, allow_unsafe=True)
        ids = one_by_one(store, opened(store))
        arrival = {id: place for place, id in enumerate(ids)}

        def lying(table: str) -> list[int]:
            return [arrival[row[0]] for row in reader.execute(f"SELECT id FROM taskveil.{table} ORDER BY ctid")]

        def transactions(table: str) -> int:
            found = reader.execute(f"SELECT count(DISTINCT xmin::text) FROM taskveil.{table}").fetchone()
            assert found is not None
            return int(found[0])

        assert correlation(range(COUNT), lying("arrivals")) > 0.99, "a plain heap lies as it was filled"
        assert transactions("arrivals") == COUNT
        reader.execute("CHECKPOINT")
        assert within_pages(data_files(postgres_server), ids, 8192) > BOUND, "and so do its pages"

        store.close_round(RELEASE, "week 1")
        assert lying("arrivals") == lying("sorting") == []
        assert abs(correlation(range(COUNT), lying("reports"))) < BOUND
        assert [ids[place] for place in lying("reports")] == sorted(ids)
        assert [transactions(table) for table in ("reports", "counts", "totals")] == [1, 1, 1]
        assert within_pages(data_files(postgres_server), ids, 8192) < BOUND
        assert store.check() == []  # type: ignore[attr-defined]
        store.close()


def data_files(server: Server, folder: str = "base") -> list[Path]:
    return [path for path in (server.folder / "data" / folder).rglob("*") if path.is_file() and path.stat().st_size]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_forgotten_round_is_in_no_file(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        forget(f"sqlite:///{tmp_path / 'collector.db'}", lambda: list(tmp_path.iterdir()))
    else:
        server: Server = request.getfixturevalue("postgres_server")
        with server.database() as url:
            # The server's log too: it runs with wal_recycle off.
            forget(url, lambda: data_files(server) + data_files(server, "pg_wal"), allow_unsafe=True)


def forget(url: str, files: Callable[[], list[Path]], **options: Any) -> None:
    store = open_store(url, **options)
    store.ingest([marked(opened(store, round="kept"), COUNT, b"remain")])
    one_by_one(store, opened(store, round="gone"), each=50)

    def found(mark: bytes) -> list[Path]:
        return [path for path in files() if mark in path.read_bytes()]

    if options:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(
                "ANALYZE taskveil.arrivals, taskveil.counts"
            )  # as an operator may: it samples tables into others
    assert found(b"marked"), "the search would find them"
    assert store.forget_round(RELEASE, "gone") == COUNT
    assert found(b"marked") == []
    assert found(b"remain")
    store.close()


def test_arrivals_are_sorted_while_a_round_is_open(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "REPORTS_BETWEEN_CHECKS", 500)
    rng = np.random.default_rng(2)
    with postgres_server.database() as url, psycopg.connect(url, autocommit=True) as reader:
        store = open_store(url, allow_unsafe=True)
        number = opened(store)
        for _ in range(30):
            store.ingest([submission(number, 200, rng)])

        def rows(table: str) -> int:
            found = reader.execute(f"SELECT count(*) FROM taskveil.{table}").fetchone()
            assert found is not None
            return int(found[0])

        until = time.monotonic() + 20
        while rows("reports") == 0:  # it goes on in a thread
            assert time.monotonic() < until
            time.sleep(0.01)
        store.close()  # and what is under way is broken off here
        assert rows("arrivals") + rows("sorting") + rows("reports") == 6000
        again = open_store(url, allow_unsafe=True)
        assert again.check() == []  # type: ignore[attr-defined]
        again.close()


@pytest.mark.parametrize("error", [StoreUnavailableError("it is busy."), ValueError("Key (id)=(5e) exists")])
def test_a_sort_that_fails_is_noted_without_what_it_was_about(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fails(*_: Any, **__: Any) -> bool:
        raise error

    monkeypatch.setattr(postgres, "REPORTS_BETWEEN_CHECKS", 1)
    monkeypatch.setattr(postgres, "sort_due", fails)
    monkeypatch.setattr(journal, "propagate", True)
    with postgres_server.database() as url, caplog.at_level(logging.WARNING, logger=journal.name):
        store: Any = open_store(url, allow_unsafe=True)
        store.ingest([submission(opened(store), 5, np.random.default_rng(3))])
        store._sort_thread.join()
        store.close()
    (said,) = (record for record in caplog.records if record.name == journal.name)
    assert "sorted by id" in said.getMessage()
    assert "Key" not in caplog.text


def test_arrivals_are_sorted_among_commits_that_are_long(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A swap waits for the commit that is under way, however long commits are: else arrivals would grow for ever."""
    monkeypatch.setattr(postgres, "REPORTS_BETWEEN_CHECKS", 500)
    monkeypatch.setattr(postgres, "SWAP_WAIT_SECONDS", 0.05)
    insert = postgres._insert

    def slowly(connection: Any, batch: Any) -> Any:
        time.sleep(0.25)
        return insert(connection, batch)

    monkeypatch.setattr(postgres, "_insert", slowly)
    rng = np.random.default_rng(3)
    with postgres_server.database() as url, psycopg.connect(url, autocommit=True) as reader:
        store = open_store(url, allow_unsafe=True)
        number = opened(store)
        for _ in range(20):
            store.ingest([submission(number, 500, rng)])
            if reader.execute("SELECT 1 FROM taskveil.reports LIMIT 1").fetchone():
                break
        else:
            pytest.fail("no report was sorted")
        store.close()
