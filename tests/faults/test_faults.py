"""Every fault in small: what `make faults` does at full size, `docs/operate/reliability.md` has the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import databases
from faults import access, duplicates, fuzz, kills, outages, slow, traces
from faults.harness import Row, collector_for
from faults.sending import Diary
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


def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    fine(kills.kills(tmp_path, SqliteDatabase(tmp_path), times=1, longest=0.6))


def test_nothing_acknowledged_is_lost_by_kills_of_collector_and_database_server(
    tmp_path: Path, server: databases.Server
) -> None:
    fine(kills.kills(tmp_path, PostgresDatabase(server), times=2, longest=0.5, database_every=2))


def test_repeats_count_once_over_two_workers(tmp_path: Path, database: Database) -> None:
    fine(duplicates.duplicates(tmp_path, database, reports=200))


def test_fuzzed_bodies_are_refused(tmp_path: Path) -> None:
    fine(fuzz.fuzzed_bodies(tmp_path, SqliteDatabase(tmp_path), bodies=1000))


def test_fuzzed_requests_are_refused(tmp_path: Path) -> None:
    fine(fuzz.fuzzed_requests(tmp_path, SqliteDatabase(tmp_path), requests=50, deadline=1.0))


def test_slow_clients_are_closed(tmp_path: Path) -> None:
    fine(slow.slow_clients(tmp_path, SqliteDatabase(tmp_path), clients=24, seconds=0.5, deadline=0.8, within=None))


def test_wrong_tokens_open_nothing(tmp_path: Path) -> None:
    fine(access.access(tmp_path, SqliteDatabase(tmp_path), rounds=1))


def test_a_locked_file_and_a_disk_without_room_are_waited_for(tmp_path: Path) -> None:
    file, diary = SqliteDatabase(tmp_path), Diary()
    collector = collector_for(tmp_path, file, commit_seconds=0.5)
    brief = {"seconds": 1.2, "before": 0.5, "diary": diary}
    with collector.running():
        fine(outages.outage(collector, outages.busy(file), "locked", **brief))
        fine(outages.outage(collector, outages.file_size_limit(collector), "full", **brief))


def test_a_database_server_that_stops_is_waited_for(tmp_path: Path, server: databases.Server) -> None:
    database = PostgresDatabase(server)
    collector = collector_for(tmp_path, database, commit_seconds=0.5)
    fine(outages.outage(collector, outages.stopped(database), "stopped", seconds=1.2, before=0.5))


def test_nothing_of_senders_and_no_order_is_left_behind(tmp_path: Path, database: Database) -> None:
    fine(traces.order(tmp_path, database, reports=600))
    fine(traces.left_behind([tmp_path / "collector.log"], database.files()))
