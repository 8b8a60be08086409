"""Every fault in small: what `make faults` does at full size, `docs/reliability.md` has the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import databases
from faults import access, duplicates, fuzz, kills, outages, slow, traces
from faults.harness import Row, collector_for
from faults.stored import Database, PostgresDatabase, SqliteDatabase


@pytest.fixture(scope="module")
def server() -> Iterator[databases.Server]:
    with databases.running() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty one of each kind."""
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path)
    return PostgresDatabase(request.getfixturevalue("server"))


def fine(row: Row) -> None:
    assert row.passed, str(row)


def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path, database: Database) -> None:
    fine(kills.kills(tmp_path, database, times=2, longest=0.6))


def test_nothing_acknowledged_is_lost_when_the_database_server_is_killed(
    tmp_path: Path, server: databases.Server
) -> None:
    fine(kills.kills(tmp_path, PostgresDatabase(server), times=1, longest=0.5, database_every=1))


def test_repeats_count_once_over_two_workers(tmp_path: Path, database: Database) -> None:
    fine(duplicates.duplicates(tmp_path, database, reports=200))


def test_fuzzed_bodies_are_refused(tmp_path: Path) -> None:
    fine(fuzz.fuzzed_bodies(tmp_path, SqliteDatabase(tmp_path), bodies=2000))


def test_fuzzed_requests_are_refused(tmp_path: Path) -> None:
    fine(fuzz.fuzzed_requests(tmp_path, SqliteDatabase(tmp_path), requests=100, deadline=1.0))


def test_slow_clients_are_closed(tmp_path: Path) -> None:
    fine(slow.slow_clients(tmp_path, SqliteDatabase(tmp_path), clients=30, seconds=1.0, deadline=1.0, within=None))


def test_wrong_tokens_open_nothing(tmp_path: Path) -> None:
    fine(access.access(tmp_path, SqliteDatabase(tmp_path), rounds=1))


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    file = SqliteDatabase(tmp_path)
    collector = collector_for(tmp_path, file, commit_seconds=0.5)
    fine(outages.outage(collector, outages.busy(file), "locked", seconds=1.5, before=0.5))


def test_a_disk_without_room_is_waited_for(tmp_path: Path) -> None:
    collector = collector_for(tmp_path, SqliteDatabase(tmp_path), commit_seconds=0.5)
    fine(outages.outage(collector, outages.file_size_limit(collector), "full", seconds=1.5, before=0.5))


def test_a_database_server_that_stops_is_waited_for(tmp_path: Path, server: databases.Server) -> None:
    database = PostgresDatabase(server)
    collector = collector_for(tmp_path, database, commit_seconds=0.5)
    fine(outages.outage(collector, outages.stopped(database), "stopped", seconds=1.5, before=0.5))


def test_nothing_of_senders_and_no_order_is_left_behind(tmp_path: Path, database: Database) -> None:
    fine(traces.order(tmp_path, database, reports=1000))
    fine(traces.left_behind([tmp_path / "collector.log"], database.files()))
