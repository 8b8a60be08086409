"""The checks can fail: each objects to a collector that does the very thing wrong, and to none that does not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from faults import duplicates, fuzz, kills, slow, traces
from faults.broken import FAULTS
from faults.harness import Collector, Row, collector_for
from faults.sending import MARK, Diary
from faults.stored import SqliteDatabase, Stored, compare


def broken(folder: Path, fault: str) -> Collector:
    """A collector with one fault, not running, on a database with the real schema."""
    database = SqliteDatabase(folder)
    collector = collector_for(folder, database)
    collector.environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parents[1])
    collector.command = [sys.executable, "-m", "faults.broken", fault, str(database.file), str(collector.port)]
    return collector


CHECKS: dict[str, Callable[[Path, Collector], Row]] = {
    "kills": lambda at, it: kills.kills(at, it.database, times=1, longest=1.0, collector=it),
    "duplicates": lambda at, it: duplicates.duplicates(at, it.database, reports=100, collector=it),
    "bodies": lambda at, it: fuzz.fuzzed_bodies(at, it.database, bodies=100, collector=it),
    "slow": lambda at, it: slow.slow_clients(
        at, it.database, clients=4, seconds=0.2, deadline=0.2, slack=0.5, within=None, collector=it
    ),
    "order": lambda at, it: traces.order(at, it.database, reports=300, collector=it),
    "left": lambda at, it: traces.left_behind([it.log], it.database.files()),
}


@pytest.mark.parametrize(
    ("fault", "objections"),
    [
        ("early", {"kills": ["acknowledged and not stored"]}),
        ("doubles", {"duplicates": ["stored more than once"]}),
        ("miscounts", {"duplicates": ["counted and", "counts of values"]}),
        ("overwrites", {"duplicates": ["with other bytes than were sent", "were refused"]}),
        ("arrival", {"order": ["tells the order of arrival"]}),
        (
            "talks",
            {"order": ["a line for every request"], "left": ["addresses found", "headers found", "tokens found"]},
        ),
        ("anything", {"bodies": ["that no device can have made"]}),
        ("patient", {"slow": ["slow headers: a connection was open for", "idle: a connection was open for"]}),
        ("moody", {"duplicates": ["503 without Retry-After"]}),
    ],
)
def test_a_broken_collector_is_found_out(tmp_path: Path, fault: str, objections: dict[str, list[str]]) -> None:
    assert fault in FAULTS
    collector = broken(tmp_path, fault)
    for check, expected in objections.items():
        row = CHECKS[check](tmp_path, collector)
        assert not row.passed
        for words in expected:
            assert any(words in found for found in row.complaints), str(row)


def test_a_collector_with_no_fault_passes(tmp_path: Path) -> None:
    collector = broken(tmp_path, "nothing")
    for check in ("duplicates", "left"):
        row = CHECKS[check](tmp_path, collector)
        assert row.passed, str(row)


def test_rows_are_held_against_the_diary() -> None:
    one, two, three = (bytes([n]) * 16 for n in range(3))
    diary = Diary(sent={one: b"a", two: b"b"}, acknowledged={one})
    assert compare([Stored(one, b"a", 1)], diary) == []
    assert compare([Stored(one, b"a", 1), Stored(two, b"b", 1)], diary) == []  # stored, its answer was lost: no harm
    assert compare([Stored(two, b"b", 1)], diary) == ["1 reports acknowledged and not stored"]
    assert compare([Stored(one, b"a", 1)] * 2, diary) == ["1 reports stored more than once"]
    assert compare([Stored(one, b"b", 1)], diary) == ["1 reports stored with other bytes than were sent"]
    assert compare([Stored(one, b"a", 1), Stored(three, b"a", 1)], diary) == ["1 reports stored and never sent"]


@pytest.mark.parametrize(
    "order",
    [
        lambda n, rng: np.arange(n),
        lambda n, rng: np.arange(n)[::-1],
        lambda n, rng: np.argsort(np.arange(n) + rng.normal(size=n) * n / 4),  # hardly any order
        lambda n, rng: np.concatenate(rng.permutation(np.arange(n).reshape(-1, 5))),  # together, in a shuffled order
        lambda n, rng: np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]]),
    ],
)
def test_the_order_of_arrival_is_seen(order: Callable[[int, np.random.Generator], np.ndarray]) -> None:
    found = traces.order_left(order(2000, np.random.default_rng(0)).tolist())
    assert max(np.abs(found)) > traces.LIKELY


def test_a_random_order_is_none() -> None:
    """Over a thousand random orders the statistics are as wide as they say, so five deviations are rare."""
    rng = np.random.default_rng(0)
    found = np.array([traces.order_left(rng.permutation(500).tolist()) for _ in range(1000)])
    assert np.abs(found.mean(axis=0)).max() < 0.15
    assert (found.std(axis=0) < 1.1).all()
    assert (found.std(axis=0) > 0.8).all()


def test_ids_are_found_in_a_file_wherever_they_lie() -> None:
    ids = [os.urandom(16) for _ in range(50)]
    content = b"".join(os.urandom(place % 11) + id for place, id in enumerate(ids))
    assert traces.ids_in(content, set(ids)) == ids
    assert traces.ids_in(content[20:], set(ids)) == ids[2:] or traces.ids_in(content[20:], set(ids)) == ids[1:]


def test_what_devices_sent_along_is_found_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "some.db").write_bytes(os.urandom(1000) + f"agent {MARK}/1.0".encode() + os.urandom(1000))
    assert traces.found_in([tmp_path / "some.db"], traces.needles())["headers"] == 1
