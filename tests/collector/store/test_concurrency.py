"""Several writers, readers and sorters at once, in threads and with several stores on one database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest

from databases import RELEASE, Server, opened, options, submission
from taskveil.collector.store import Fate, StoreUnavailableError, Submission, open_store, postgres


def together(*works: Callable[[], Any]) -> list[Any]:
    """Run all at once, each in its thread, and give what they return."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_writers_of_the_same_ids_store_each_once(store: Any, store_url: str) -> None:
    """In different orders, few and many at a time, of two stores: nobody waits in a circle, nothing is doubled."""
    other: Any = open_store(store_url, **options(store_url))
    one = submission(opened(store), 600, np.random.default_rng(1))

    def write(seed: int) -> int:
        order = np.random.default_rng(seed).permutation(len(one.ids))
        accepted = 0
        for part in np.array_split(order, (4, 40)[seed % 2]):
            given = replace(one, ids=one.ids[part], payloads=one.payloads[part])
            (fates,) = (store, other)[seed // 2 % 2].ingest([given])
            assert set(fates) <= {Fate.ACCEPTED, Fate.DUPLICATE}
            accepted += int((fates == Fate.ACCEPTED).sum())
        return accepted

    assert sum(together(*(lambda seed=seed: write(seed) for seed in range(6)))) == 600
    assert store.releases()[0].rounds[0].reports == 600
    assert other.check() == []
    other.close()


def test_nothing_is_accepted_after_a_round_was_closed(store: Any, store_url: str) -> None:
    other = open_store(store_url, **options(store_url))
    number = opened(store)
    closed = threading.Event()

    def write(seed: int) -> int:
        rng, accepted = np.random.default_rng(seed), 0
        while True:
            after = closed.is_set()
            (fates,) = other.ingest([submission(number, 5, rng)])
            assert set(fates) in ({Fate.ACCEPTED}, {Fate.CLOSED})
            if fates[0] == Fate.CLOSED:
                return accepted
            assert not after
            accepted += 5

    def close() -> None:
        while store.releases()[0].rounds[0].reports < 50:
            pass
        store.close_round(RELEASE, "week 1")
        closed.set()

    accepted = sum(filter(None, together(close, *(lambda seed=seed: write(seed) for seed in range(3)))))
    assert store.releases()[0].rounds[0].reports == accepted
    assert store.check() == []
    other.close()


def numbered(number: int, values: range, rng: np.random.Generator) -> Submission:
    """Reports whose payloads are different numbers."""
    one = submission(number, len(values), rng)
    return replace(one, payloads=np.array(values, dtype=">u4").view(np.uint8).reshape(-1, 4))


def test_readers_meet_every_report_once_while_others_write_and_rewrite(
    store: Any, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskveil.collector.store import base

    monkeypatch.setattr(base, "PAGE", 100)
    store.add_release("cd" * 32, name="other", counted=True, files={}, round="closed again and again")
    other = open_store(store_url, **options(store_url))
    number = opened(store, counted=False)
    stored, reads, rewrites = [0], [0], [0]
    failed = threading.Event()

    def done() -> bool:
        return failed.is_set() or (stored[0] >= 1500 and min(reads[0], rewrites[0]) >= 3)

    def write() -> None:
        rng = np.random.default_rng(1)
        while not done():
            values = range(stored[0], stored[0] + 150)
            assert set(other.ingest([numbered(number, values, rng)])[0]) == {Fate.ACCEPTED}
            stored[0] += 150

    def read() -> None:
        while not done():
            before = stored[0]
            pages = [page for _, page in store.payloads(RELEASE)]
            found = np.vstack(pages).view(">u4").ravel() if pages else np.zeros(0)
            assert len(np.unique(found)) == len(found)
            assert set(range(before)) <= set(found.tolist())
            reads[0] += 1

    def rewrite() -> None:
        while not done():
            store.close_round("cd" * 32, "closed again and again")
            rewrites[0] += 1
            time.sleep(0.02)  # SQLite's waiting is not fair: let others have their turn

    def honestly(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            failed.set()  # or the others would go on for ever
            raise

    together(*(lambda work=work: honestly(work) for work in (write, read, rewrite)))
    assert store.check() == []
    other.close()


def test_a_sort_that_was_killed_is_finished_by_the_next(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    with postgres_server.database() as url:
        store: Any = open_store(url, allow_unsafe=True)
        first, second = (opened(store, round=name) for name in ("r1", "r2"))
        one, two = submission(first, 200, rng), submission(second, 200, rng)
        store.ingest([one])
        with monkeypatch.context() as broken:
            broken.setattr(postgres, "_merge", killed)
            with pytest.raises(KilledError):
                store.close_round(RELEASE, "r1")
        with store.reading() as execute:
            assert list(execute("SELECT count(*) FROM sorting")) == [(200,)]
        assert set(store.ingest([replace(one, round=second)])[0]) == {Fate.DUPLICATE}, "what is being sorted is there"
        assert sum(len(page) for _, page in store.payloads(RELEASE)) == 200
        store.ingest([two])
        assert store.check() == []
        assert store.forget_round(RELEASE, "r2") == 200
        with store.reading() as execute:
            names = ("arrivals", "sorting", "reports")
            assert [next(iter(execute(f"SELECT count(*) FROM {name}")))[0] for name in names] == [0, 0, 200]
        assert store.check() == []
        store.close()


class KilledError(Exception):
    pass


def killed(*_: Any) -> None:
    raise KilledError


def test_a_long_reader_keeps_postgres_from_sorting_but_not_from_storing(postgres_server: Server) -> None:
    """A backup locks all tables for as long as it runs."""
    rng = np.random.default_rng(4)
    with postgres_server.database() as url:
        store: Any = open_store(url, allow_unsafe=True, sort_seconds=0.1)
        number = opened(store)
        store.ingest([submission(number, 10, rng)])
        with psycopg.connect(url) as backup:
            backup.execute("SELECT count(*) FROM taskveil.reports, taskveil.arrivals")
            store.open_round(RELEASE, "other")
            with pytest.raises(StoreUnavailableError, match="backup"):
                store.close_round(RELEASE, "other")
            assert set(store.ingest([submission(number, 10, rng)])[0]) == {Fate.ACCEPTED}
        store.close_round(RELEASE, "other")
        assert store.check() == []
        store.close()
