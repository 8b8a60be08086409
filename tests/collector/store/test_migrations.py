"""The schema's steps: applied once, from every version on, whoever comes first."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from databases import RELEASE, opened, options, submission
from taskveil.collector.store import StoreError, base, open_store

NEXT = ("CREATE TABLE more (number INTEGER PRIMARY KEY)", "INSERT INTO more SELECT number FROM rounds")
"""A step that another version might add."""

STEPS = {"sqlite": "SQLITE_STEPS", "postgresql": "POSTGRES_STEPS"}


def steps(url: str) -> tuple[base.Step, ...]:
    found: tuple[base.Step, ...] = getattr(base, STEPS[url.partition(":")[0]])
    return found


def with_steps(monkeypatch: pytest.MonkeyPatch, *more: base.Step) -> None:
    for name in STEPS.values():
        monkeypatch.setattr(base, name, (*getattr(base, name), *more))


def schema(url: str, table: str = "collector") -> list[tuple[int, ...]]:
    store = open_store(url, **options(url))
    with store.reading() as execute:  # type: ignore[attr-defined]
        found = [tuple(row) for row in execute(f"SELECT * FROM {table}")]
    store.close()
    return found


@pytest.mark.parametrize("version", range(max(len(base.SQLITE_STEPS), len(base.POSTGRES_STEPS)) + 1))
def test_every_version_becomes_the_next_with_what_it_held(
    store_url: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Version 0 is an empty database."""
    if version:
        with monkeypatch.context() as earlier:
            for name in STEPS.values():
                earlier.setattr(base, name, getattr(base, name)[:version])
            store = open_store(store_url, **options(store_url))
            with store.writing() as execute:  # as every version wrote it
                execute("INSERT INTO releases (id, name, open, counted) VALUES (?, 'old', TRUE, TRUE)", (RELEASE,))
                execute("INSERT INTO rounds (release, name, open) SELECT number, 'r', TRUE FROM releases")
                ((number,),) = execute("SELECT number FROM rounds")
            store.close()
    with_steps(monkeypatch, NEXT)
    assert schema(store_url)[0][0] == len(steps(store_url))
    assert len(schema(store_url, "more")) == (1 if version else 0)
    store = open_store(store_url, **options(store_url))
    assert sum(len(known.rounds) for known in store.releases()) == (1 if version else 0)
    if version:
        store.ingest([submission(number, 10, np.random.default_rng(1))])
        assert store.check() == []
    store.close()


def test_a_newer_database_is_refused_and_left_alone(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        with_steps(later, NEXT)
        before = schema(store_url)
    with pytest.raises(StoreError, match="version"):
        schema(store_url)
    with_steps(monkeypatch, NEXT)
    assert schema(store_url) == before


def test_a_step_that_fails_leaves_the_database_as_it_was(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = schema(store_url)
    with monkeypatch.context() as broken:
        with_steps(broken, NEXT, ("CREATE TABLE releases (x INTEGER)",))
        with pytest.raises((sqlite3.OperationalError, psycopg.errors.DuplicateTable)):
            schema(store_url)
    assert schema(store_url) == before


def test_several_may_open_a_new_database_at_once(store_url: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: open_store(store_url, **options(store_url)), range(6)))
    opened(stores[0])
    assert {store.releases()[0].id for store in stores} == {RELEASE}
    for store in stores:
        store.close()
