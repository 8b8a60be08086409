"""A store in memory, which can be told to be slow, to fail or to hang: for tests of what stands before a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from taskveil.arrays import Bytes, Floats, Integers
from taskveil.collector.store import Fate, StoredRelease, StoredRound, StoredToken, Submission


class MemoryStore:
    """What `Store` promises, but for durability."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._version, self._number = 0, 0
        self._releases: dict[str, StoredRelease] = {}
        self._files: dict[str, dict[str, bytes]] = {}
        self._tokens: dict[str, StoredToken] = {}
        self.reports: dict[tuple[str, bytes], tuple[int, bytes]] = {}
        """By release and id: the round's number and the payload."""
        self.sums: dict[str, Floats] = {}
        self.groups: list[int] = []
        """How many requests every commit held."""
        self.seconds = 0.0
        """That every commit takes."""
        self.failure: Exception | None = None
        """Raised by every commit, by `ping` and by `version`."""
        self.asked = 0
        """How often `version` was called."""
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def size(self) -> tuple[int, int | None]:
        return 0, None

    def ping(self) -> None:
        if self.failure is not None:
            raise self.failure

    def version(self) -> int:
        self.asked += 1
        self.ping()
        return self._version

    def add_release(self, id: str, *, name: str, counted: bool, files: Mapping[str, bytes], round: str) -> None:
        with self._lock:
            known = self._releases.get(id)
            self._releases[id] = StoredRelease(
                id=id,
                name=name,
                open=True,
                counted=counted,
                current=round,
                rounds=() if known is None else known.rounds,
            )
            self._files[id] = dict(files)
            self.open_round(id, round)

    def releases(self) -> tuple[StoredRelease, ...]:
        return tuple(self._releases.values())

    def files(self, release: str) -> dict[str, bytes]:
        return dict(self._files[release])

    def set_open(self, release: str, *, open: bool) -> None:
        self._releases[release] = replace(self._releases[release], open=open)
        self._version += 1

    def plan(self, release: str, rounds: int) -> None:
        self._releases[release] = replace(self._releases[release], planned=rounds)
        self._version += 1

    def open_round(self, release: str, name: str) -> None:
        with self._lock:
            found = self._releases[release]
            rounds = {one.name: one for one in found.rounds}
            if name in rounds:
                rounds[name] = replace(rounds[name], open=True)
            else:
                self._number += 1
                rounds[name] = StoredRound(number=self._number, name=name, open=True, reports=0)
            self._releases[release] = replace(found, current=name, rounds=tuple(rounds.values()))
            self._version += 1

    def close_round(self, release: str, name: str) -> None:
        found = self._releases[release]
        rounds = tuple(replace(one, open=False) if one.name == name else one for one in found.rounds)
        self._releases[release] = replace(found, rounds=rounds)
        self._version += 1

    def forget_round(self, release: str, name: str) -> int:
        raise NotImplementedError

    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        if self.failure is not None:
            raise self.failure
        if self.seconds:
            time.sleep(self.seconds)
        with self._lock:
            self.groups.append(len(submissions))
            return [self._ingest(one) for one in submissions]

    def _ingest(self, one: Submission) -> Integers:
        release = next(r for r in self._releases.values() if any(o.number == one.round for o in r.rounds))
        taking = release.open and next(o.open for o in release.rounds if o.number == one.round)
        fates = []
        for id, payload in zip(one.ids, one.payloads, strict=True):
            key, value = (release.id, id.tobytes()), (one.round, payload.tobytes())
            if not taking:
                fates.append(Fate.CLOSED)
            elif key not in self.reports:
                self.reports[key] = value
                fates.append(Fate.ACCEPTED)
            else:
                fates.append(Fate.DUPLICATE if self.reports[key] == value else Fate.CONFLICT)
        found = np.array(fates, dtype=np.int64)
        if one.moments is not None:
            self.sums[release.id] = self.sums.get(release.id, 0.0) + one.moments(found == Fate.ACCEPTED)
        return found

    def counts(self, release: str, round: str | None = None) -> tuple[Bytes, Integers]:
        raise NotImplementedError

    def moments(self, release: str, round: str | None = None) -> tuple[int, Floats]:
        raise NotImplementedError

    def payloads(self, release: str, round: str | None = None) -> Iterator[tuple[list[str], Bytes]]:
        raise NotImplementedError

    def add_token(self, token: StoredToken) -> None:
        self._tokens[token.name] = token
        self._version += 1

    def tokens(self) -> tuple[StoredToken, ...]:
        return tuple(self._tokens.values())

    def revoke_token(self, name: str) -> None:
        del self._tokens[name]
        self._version += 1
