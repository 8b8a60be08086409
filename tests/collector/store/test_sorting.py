"""Sorting on servers that are set up in other ways, and beside others who change the same round."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import psycopg
import pytest

from databases import RELEASE, Server, opened, options, submission
from taskveil.collector.store import Fate, StoreUnavailableError, open_store, postgres
from taskveil.collector.store.sqlite import SqliteStore


def test_another_default_isolation_loses_no_count(postgres_server: Server) -> None:
    """A merge whose every statement saw what its first one saw would drop what was counted meanwhile."""
    with postgres_server.database() as url:
        with psycopg.connect(url, autocommit=True) as admin:
            name = admin.info.dbname
            admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
        store: Any = open_store(url, allow_unsafe=True)
        number, rng = opened(store), np.random.default_rng(1)
        store.ingest([submission(number, 20_000, rng)])
        sorted_ = threading.Event()

        def write() -> None:
            mine = np.random.default_rng(2)
            while not sorted_.is_set():
                store.ingest([submission(number, 50, mine)])

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(3):
            store._sort(None)
        sorted_.set()
        writer.join()
        assert store.check() == []
        store.close()
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {name} RESET ALL")


def test_a_round_that_somebody_else_ends_leaves_the_tables_to_their_owner(postgres_server: Server) -> None:
    with postgres_server.database() as url, psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CREATE ROLE runner LOGIN")
        admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO runner")
        try:
            rng = np.random.default_rng(1)
            store: Any = open_store(url.replace("tester", "runner"), allow_unsafe=True)
            store.ingest([submission(opened(store), 10, rng)])
            superuser: Any = open_store(url, allow_unsafe=True)
            superuser.close_round(RELEASE, "week 1")
            superuser.close()
            assert set(store.ingest([submission(opened(store), 10, rng)])[0]) == {Fate.ACCEPTED}
            store.close_round(RELEASE, "week 1")
            assert store.check() == []
            store.close()
        finally:
            admin.execute("DROP OWNED BY runner CASCADE; DROP ROLE runner")


def test_a_round_that_is_opened_while_it_is_forgotten_keeps_what_came(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = open_store(store_url, **options(store_url))
    other: Any = open_store(store_url, **options(store_url))
    number, rng = opened(store), np.random.default_rng(1)
    store.ingest([submission(number, 100, rng)])
    late, opening = submission(number, 50, rng), [other]

    def meanwhile() -> None:
        if opening:
            opening.pop().open_round(RELEASE, "week 1")
            assert set(other.ingest([late])[0]) == {Fate.ACCEPTED}

    rewrite, merge = SqliteStore._rewrite, postgres._merge

    def rewriting(self: SqliteStore) -> None:
        meanwhile()
        rewrite(self)

    def merging(*how: Any) -> None:
        meanwhile()
        merge(*how)

    monkeypatch.setattr(SqliteStore, "_rewrite", rewriting)
    monkeypatch.setattr(postgres, "_merge", merging)
    with pytest.raises(StoreUnavailableError, match="opened again"):
        store.forget_round(RELEASE, "week 1")
    assert not opening
    assert store.check() == []
    assert set(other.ingest([late])[0]) == {Fate.DUPLICATE}, "what was acknowledged is there"
    store.close_round(RELEASE, "week 1")
    assert store.forget_round(RELEASE, "week 1") >= 50
    assert store.check() == []
    store.close()
    other.close()


def test_a_server_that_vanishes_is_missed_soon(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a network, where no packet tells that a machine lost its power."""
    asked: dict[str, Any] = {}
    connect = psycopg.connect
    monkeypatch.setattr(psycopg, "connect", lambda *args, **more: asked.update(more) or connect(*args, **more))
    with postgres_server.database() as url:
        open_store(url, allow_unsafe=True, busy_seconds=3.0).close()
    assert asked["keepalives_idle"] + asked["keepalives_interval"] * asked["keepalives_count"] <= 10


def test_samples_for_the_planner_hold_no_sums(postgres_server: Server) -> None:
    """ANALYZE, which the server runs by itself, copies values of columns to where they outlive a round."""
    with postgres_server.database() as url, psycopg.connect(url, autocommit=True) as admin:
        store: Any = open_store(url, allow_unsafe=True)
        rng = np.random.default_rng(1)
        numbers = [opened(store, round=f"week {place}") for place in range(5)]
        store.ingest([submission(number, 10 + number, rng) for number in numbers])
        admin.execute("ANALYZE")
        found = admin.execute(
            "SELECT DISTINCT tablename, attname FROM pg_stats WHERE schemaname = 'taskveil' "
            "AND tablename IN ('arrivals', 'sorting', 'reports', 'counts', 'totals') AND n_distinct <> 0"
        ).fetchall()
        assert {column for _, column in found} <= {"release", "round", "slot"}
        assert found, "the rest is sampled"
        store.close()
