"""Both stores against a dictionary: whatever is done in whatever order, they say what it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from databases import Server
from taskveil.collector.store import Fate, Store, Submission, open_store

RELEASES = ["aa" * 32, "bb" * 32]
ROUNDS = ["r1", "r2", "r3"]
releases, rounds = st.sampled_from(RELEASES), st.sampled_from(ROUNDS)
reports = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=6, unique_by=lambda one: one[0])


class Model(RuleBasedStateMachine):
    """`stored`: of a release and an id, the round's number and the payload."""

    @initialize()
    def start(self) -> None:
        self.store: Any = self.fresh()
        self.stored: dict[tuple[str, int], tuple[int, int]] = {}
        self.open_releases: dict[str, bool] = {}
        self.rounds: dict[tuple[str, str], bool] = {}
        self.current: dict[str, str] = {}

    def fresh(self) -> Store:
        raise NotImplementedError

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    def number(self, release: str, round: str) -> int:
        for known in self.store.releases():
            for one in known.rounds:
                if (known.id, one.name) == (release, round):
                    return int(one.number)
        return 9999

    @rule(release=releases, round=rounds)
    def add_release(self, release: str, round: str) -> None:
        self.store.add_release(release, name="x", counted=True, files={}, round=round)
        self.open_releases[release] = self.rounds[release, round] = True
        self.current[release] = round

    @rule(release=releases, open=st.booleans())
    def set_open(self, release: str, open: bool) -> None:
        if release in self.open_releases:
            self.store.set_open(release, open=open)
            self.open_releases[release] = open

    @rule(release=releases, round=rounds)
    def open_round(self, release: str, round: str) -> None:
        if release in self.open_releases:
            self.store.open_round(release, round)
            self.rounds[release, round] = True
            self.current[release] = round

    @rule(release=releases, round=rounds)
    def close_round(self, release: str, round: str) -> None:
        if (release, round) in self.rounds:
            self.store.close_round(release, round)
            self.rounds[release, round] = False
        else:
            with pytest.raises(KeyError):
                self.store.close_round(release, round)

    @rule(release=releases, round=rounds)
    def forget_round(self, release: str, round: str) -> None:
        if (release, round) not in self.rounds:
            return
        number = self.number(release, round)
        gone = [key for key, (owner, _) in self.stored.items() if owner == number]
        assert self.store.forget_round(release, round) == len(gone)
        del self.rounds[release, round]
        if self.current[release] == round:
            self.current[release] = ""
        for key in gone:
            del self.stored[key]

    @rule(given=st.lists(st.tuples(releases, rounds, reports), min_size=1, max_size=3))
    def ingest(self, given: list[tuple[str, str, list[tuple[int, int]]]]) -> None:
        submissions, expected = [], []
        for release, round, rows in given:
            ids = np.array([[one] * 16 for one, _ in rows], dtype=np.uint8).reshape(-1, 16)
            payloads = np.array([[0, payload] for _, payload in rows], dtype=np.uint8).reshape(-1, 2)
            number = self.number(release, round)
            submissions.append(Submission(round=number, ids=ids, payloads=payloads, moments=None))
            fates = []
            for id, payload in rows:
                if not (self.open_releases.get(release) and self.rounds.get((release, round))):
                    fates.append(Fate.CLOSED)
                elif (release, id) not in self.stored:
                    self.stored[release, id] = number, payload
                    fates.append(Fate.ACCEPTED)
                else:
                    same = self.stored[release, id][1] == payload
                    fates.append(Fate.DUPLICATE if same else Fate.CONFLICT)
            expected.append(fates)
        assert [list(map(Fate, each)) for each in self.store.ingest(submissions)] == expected

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {one.id: (one.open, one.current) for one in self.store.releases()} == {
            id: (open, self.current[id]) for id, open in self.open_releases.items()
        }
        found = {(one.id, each.name): each.open for one in self.store.releases() for each in one.rounds}
        assert found == self.rounds
        for release in self.open_releases:
            rows = sorted((id, payload) for (owner, id), (_, payload) in self.stored.items() if owner == release)
            payloads, counts = self.store.counts(release)
            times = Counter(payload for _, payload in rows)
            assert dict(zip(payloads[:, 1:].ravel().tolist(), counts.tolist(), strict=True)) == times
            pages = [page for _, page in self.store.payloads(release)]
            assert sorted(np.vstack(pages)[:, 1].tolist() if pages else []) == sorted(one for _, one in rows)
        assert self.store.check() == []


QUICK = settings(max_examples=8, stateful_step_count=12, deadline=None)


def test_sqlite_agrees_with_a_dictionary() -> None:
    with TemporaryDirectory() as folder:

        class Sqlite(Model):
            def fresh(self) -> Store:
                store: Any = open_store(f"sqlite:///{Path(folder) / uuid4().hex}.db")
                with store._pool.lend() as connection:
                    connection.execute("PRAGMA synchronous = OFF")
                return store  # type: ignore[no-any-return]

        run_state_machine_as_test(Sqlite, settings=QUICK)


def test_postgres_agrees_with_a_dictionary(postgres_server: Server) -> None:
    with postgres_server.database() as url:

        class Postgres(Model):
            def fresh(self) -> Store:
                return open_store(url, allow_unsafe=True, schema=f"s{uuid4().hex}")

        run_state_machine_as_test(Postgres, settings=QUICK)
