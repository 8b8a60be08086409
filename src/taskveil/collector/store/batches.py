"""What both stores compute of submissions without a database: the order of rows, fates, what counts grow by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from taskveil.arrays import Bools, Bytes, Floats, Integers
from taskveil.collector.store import Fate, Submission

Key = tuple[int, bytes]
"""A release's number and a report's id: what is unique."""


@dataclass(frozen=True, kw_only=True)
class OpenRound:
    """What an ingest must know of a round that takes reports."""

    release: int
    counted: bool


@dataclass(kw_only=True)
class Growth:
    """What a round gained: new reports, how many of each payload (of a counted release), and the sum of moments."""

    reports: int = 0
    counts: Counter[bytes] = field(default_factory=Counter)
    moments: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The reports of several submissions to open rounds: n in all, in the order in which they were given."""

    submissions: Sequence[Submission]
    rounds: Mapping[int, OpenRound]
    places: Sequence[int]
    """Of the submissions that are in the batch: the others' rounds are closed."""
    releases: Integers
    numbers: Integers
    order: Integers
    """Of the different ones, ascending by release and id: what is written, so that rows that came together lie in the
    order of ids, and so that writers who meet take locks in one order."""
    first: Integers
    """(n,): where each key appeared first."""

    @classmethod
    def of(cls, submissions: Sequence[Submission], rounds: Mapping[int, OpenRound]) -> Batch:
        """Of the submissions whose round is among the open `rounds`."""
        places = [place for place, one in enumerate(submissions) if one.round in rounds and len(one.ids)]
        inside = [submissions[place] for place in places]
        lengths = [len(one.ids) for one in inside]
        numbers = np.repeat(np.array([one.round for one in inside], dtype=np.int64), lengths)
        releases = np.repeat(np.array([rounds[one.round].release for one in inside], dtype=np.int64), lengths)
        raw = b"".join([one.ids.tobytes() for one in inside])
        ids = np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2)  # ordered as the bytes are
        order = np.lexsort((ids[:, 1], ids[:, 0], releases))
        fresh = np.ones(len(order), dtype=bool)
        ordered, owner = ids[order], releases[order]
        fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1) | (owner[1:] != owner[:-1])
        first = np.empty(len(order), dtype=np.int64)
        first[order] = order[fresh][np.cumsum(fresh) - 1]
        return cls(
            submissions=submissions,
            rounds=rounds,
            places=places,
            releases=releases,
            numbers=numbers,
            order=order[fresh],
            first=first,
        )

    @property
    def winners(self) -> Bools:
        """(n,): which are the first under their key."""
        found: Bools = self.first == np.arange(len(self.first))
        return found

    def rows(self) -> list[tuple[int, bytes, int, bytes]]:
        """Release, id, round and payload of every report, in the order in which they were given."""
        ids: list[bytes] = []
        payloads: list[bytes] = []
        for place in self.places:
            one = self.submissions[place]
            ids += cells(one.ids)
            payloads += cells(one.payloads)
        return list(zip(self.releases.tolist(), ids, self.numbers.tolist(), payloads, strict=True))

    def fates(self, stored: Mapping[Key, bytes]) -> list[Integers]:
        """Of every report of each submission, given what was `stored` already under the keys of this batch."""
        flat = np.full(len(self.first), Fate.ACCEPTED, dtype=np.int64)
        repeated = ~self.winners
        if stored or repeated.any():
            rows = self.rows()
            for place, (release, id, _, payload) in enumerate(rows):
                there = stored.get((release, id), rows[self.first[place]][3] if repeated[place] else None)
                if there is not None:
                    flat[place] = Fate.DUPLICATE if there == payload else Fate.CONFLICT
        found = [np.full(len(one.ids), Fate.CLOSED, dtype=np.int64) for one in self.submissions]
        at = 0
        for place in self.places:
            found[place] = flat[at : at + len(found[place])]
            at += len(found[place])
        return found

    def growth(self, fates: Sequence[Integers]) -> dict[int, Growth]:
        """What every round gains, in the order of their numbers (one order for all writers)."""
        grown: dict[int, Growth] = {
            number: Growth() for number in sorted({self.submissions[p].round for p in self.places})
        }
        for place in self.places:
            one = self.submissions[place]
            new: Bools = fates[place] == Fate.ACCEPTED
            if not new.any():
                continue
            total = grown[one.round]
            total.reports += int(new.sum())
            if self.rounds[one.round].counted:
                total.counts.update(cells(one.payloads[new]))
            if one.moments is not None:
                added = np.asarray(one.moments(new), dtype=np.float64)
                total.moments = added + total.moments if total.moments.size else added
        return {number: total for number, total in grown.items() if total.reports}


def cells(table: Bytes) -> list[bytes]:
    """The rows of an array of bytes (N, size), each as bytes."""
    table = np.ascontiguousarray(table, dtype=np.uint8)
    if table.shape[1] == 0:
        return [b""] * len(table)
    found: list[bytes] = table.view(f"V{table.shape[1]}").ravel().tolist()
    return found
