"""A small release over time in exact fractions: every draw of a real `Client`, and every way of asking it.

The device has K = 2 codes and tells its bit with odds of 3 to 1, so that four equally likely draws decide a report.
`Kernel.of` runs a real client for every state, round, record and draw. A state is what the ledger holds, so the device
starts anew between any two requests.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from taskveil.client import Client, Ledger, entropy
from taskveil.client.device import Device
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.panels import Panel
from taskveil.client.regions import BoxRegion

RELEASE = b"r" * 32
ODDS = Fraction(3)

Places = tuple[int, ...]
Reports = tuple[tuple[int, int], ...]
"""(place, code) of every report, by place."""
State = tuple[Places | None, Reports]
"""The drawn rounds, and the reports that were made."""
Answer = int | None
"""What a request returns: a code, or nothing."""
Laws = dict[tuple[Answer, State], Fraction]
History = tuple[tuple[int, Answer], ...]
"""(place, answer) of every request so far."""
Asks = Callable[[Places | None, History], int | None]
"""The application: the drawn rounds and the requests so far → the next round to ask for, None at the end."""


def coin(panel: Panel | None = None) -> Device:
    """A device whose record is one bit; its report is the bit in three draws of four."""
    stage = Stage(
        vectors=np.array([[-1], [1]]),
        offsets=np.zeros(2, dtype=np.int64),
        shifts=np.zeros((2, 1), dtype=np.int64),
        response=Response(size=2, favoured=1, a=3, b=1),
    )
    low, high = np.array([0.0]), np.array([1.0])
    encoder = LinearEncoder.of(low=low, high=high, weights=np.array([[2.0]]), offset=np.array([-1.0]))
    region = BoxRegion(step=1.0, low=np.array([-1]), high=np.array([1]))
    return Device(encoder=encoder, mechanism=Codebook(region=region, stages=(stage,)), panel=panel)


def small_panel(reports: int = 2, rounds: int = 4) -> Panel:
    """So many rounds, named after their places."""
    return Panel(reports=reports, rounds=tuple(map(str, range(rounds))), days=0)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for ledgers, in memory where there is such a thing."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@dataclass
class Tape:
    """Answers requests for entropy with the first two bits of a word, all four in turn; ids of reports are zeros."""

    chosen: list[int] = field(default_factory=list)
    read: int = 0

    def __call__(self, count: int) -> bytes:
        if count == 16:
            return bytes(16)
        assert count == 8, count
        if self.read == len(self.chosen):
            self.chosen.append(0)
        self.read += 1
        return (self.chosen[self.read - 1] << 62).to_bytes(8, "little")

    def forward(self) -> bool:
        """Turn to the next answers that were not given yet; false at the end."""
        while self.chosen and self.chosen[-1] == 3:
            self.chosen.pop()
        if self.chosen:
            self.chosen[-1] += 1
        self.read = 0
        return bool(self.chosen)


def every_draw(run: Callable[[], None]) -> Iterator[Fraction]:
    """Calls `run` once for all draws that it can see, and gives the probability of each."""
    tape, real = Tape(), entropy.system_bytes
    try:
        while True:
            entropy.system_bytes = tape
            run()
            entropy.system_bytes = real
            yield Fraction(1, 4 ** len(tape.chosen))
            if not tape.forward():
                return
    finally:
        entropy.system_bytes = real


@dataclass(frozen=True)
class Kernel:
    """What a client does in every state: P[answer and next state | state, round, record]."""

    panel: Panel
    steps: dict[State, dict[tuple[int, int], Laws]]

    @classmethod
    def of(cls, panel: Panel, most: int = 1000) -> Kernel:
        """From real clients on real ledgers; the cap is large, so that nothing but the panel limits the reports.

        After the nearest `most` states the search ends, which is enough to find what is broken.
        """
        device, first = coin(panel), (None, ())
        known: dict[State, dict[str, bytes]] = {first: {}}
        steps: dict[State, dict[tuple[int, int], Laws]] = {}
        waiting = deque([first])
        with folder() as where:
            while waiting and len(steps) < most:
                state = waiting.popleft()
                steps[state] = {}
                for place, record in itertools.product(range(len(panel.rounds)), (0, 1)):
                    laws: Laws = {}
                    seen: list[tuple[Answer, State]] = []

                    def run(state: State = state, place: int = place, record: int = record, seen: list = seen) -> None:
                        for path in where.iterdir():
                            path.unlink()
                        for name, raw in known[state].items():
                            (where / name).write_bytes(raw)
                        with Client(device=device, release=RELEASE, ledger=Ledger(where / "l"), cap=100.0) as client:
                            answer = answered(client, place, record)
                            seen.append((answer, state_of(client)))
                        if seen[-1][1] not in known:
                            known[seen[-1][1]] = {path.name: path.read_bytes() for path in where.iterdir()}
                            waiting.append(seen[-1][1])

                    for chance in every_draw(run):
                        laws[seen[-1]] = laws.get(seen[-1], Fraction(0)) + chance
                    assert sum(laws.values()) == 1
                    steps[state][place, record] = laws
        return cls(panel=panel, steps=steps)

    def law(self, asks: Asks, records: Sequence[int]) -> dict[History, Fraction]:
        """P[all that leaves the device] for one sequence of records; the drawn rounds do not leave it."""
        ended: dict[History, Fraction] = {}
        waiting: list[tuple[State, History, Fraction]] = [((None, ()), (), Fraction(1))]
        while waiting:
            state, history, chance = waiting.pop()
            place = asks(state[0], history)
            if place is None:
                ended[history] = ended.get(history, Fraction(0)) + chance
                continue
            for (answer, after), part in self.steps[state][place, records[place]].items():
                waiting.append((after, (*history, (place, answer)), chance * part))
        return ended

    def worst(self, asks: Asks) -> Fraction | float:
        """The largest ratio of probabilities of one outcome, over all pairs of sequences of records."""
        laws = [self.law(asks, records) for records in self.sequences]
        return max(ratio(one, other) for one in laws for other in laws)

    def worst_of_all(self) -> Fraction | float:
        """The largest ratio over all pairs of sequences and all applications, which may look at the drawn rounds.

        An application chooses the next round in every state, so the largest ratio of a path is found backwards. Rounds
        may come in any order and several times. Sums of paths have no larger ratio than the worst path.
        """
        return max(self._worst_path(one, other) for one in self.sequences for other in self.sequences)

    def worst_of_requests(self) -> Fraction | float:
        """The same if every request may have other records, also of a round that was asked for before."""
        return self._worst(
            (place, record, against)
            for place in range(len(self.panel.rounds))
            for record in (0, 1)
            for against in (0, 1)
        )

    @property
    def sequences(self) -> list[tuple[int, ...]]:
        """All sequences of records."""
        return list(itertools.product((0, 1), repeat=len(self.panel.rounds)))

    def _worst_path(self, one: Sequence[int], other: Sequence[int]) -> Fraction | float:
        return self._worst((place, *pair) for place, pair in enumerate(zip(one, other, strict=True)))

    def _worst(self, requests: Iterable[tuple[int, int, int]]) -> Fraction | float:
        """The largest product of ratios along a path from the first state; infinite if it grows along a circle.

        Args:
            requests: (place, record, other record) of what may be asked in every state.
        """
        edges = []
        for place, record, against in requests:
            for state, laws in self.steps.items():
                others = laws[place, against]
                for end, chance in laws[place, record].items():
                    edges.append((state, end[1], chance / others[end] if end in others else float("inf")))
        beyond: dict[State, Fraction | float] = dict.fromkeys(self.steps, Fraction(1))
        for _ in self.steps:
            before = dict(beyond)
            for state, after, factor in edges:
                beyond[state] = max(beyond[state], factor * beyond.get(after, 1))
            if beyond == before:
                return beyond[None, ()]
        return float("inf")

    def faults(self) -> set[str]:
        """What a device does that no device may do, in some state that it reaches."""
        found, panel = set(), self.panel
        for state, requests in self.steps.items():
            drawn, reports = state
            blocks = [panel.block(place) for place, _ in reports]
            if len(set(blocks)) < len(blocks):
                found.add("two reports in a block")
            turns = {panel.block(place): place for place in drawn or ()}
            if any(place < turns.get(panel.block(place), len(panel.rounds)) for place, _ in reports):
                found.add("a report before its turn")
            for laws in requests.values():
                for _, (after, later) in laws:
                    if drawn is not None and after != drawn:
                        found.add("drawn again")
                    if not set(reports) <= set(later):
                        found.add("forgotten reports")
        limit, opposite = ODDS**panel.reports, zip(self.sequences, reversed(self.sequences), strict=True)
        told = any(self._worst_path(one, other) > limit for one, other in opposite)
        return found | ({f"more than {limit}"} if told else set())


def ratio(one: dict[History, Fraction], other: dict[History, Fraction]) -> Fraction | float:
    """The largest ratio of the probabilities of an outcome."""
    return max(chance / other[what] if other.get(what) else float("inf") for what, chance in one.items())


def answered(client: Client, place: int, record: int) -> Answer:
    """What a client says to a request, as a code."""
    report = client.report([float(record)], round=str(place))
    return None if report is None else int(client.device.mechanism.layout.unpack(report.payload)[0])


def state_of(client: Client) -> State:
    """What the ledger holds."""
    assert client.panel is not None
    reports = []
    for place, name in enumerate(client.panel.rounds):
        report = client.recorded(name)
        if report is not None:
            reports.append((place, int(client.device.mechanism.layout.unpack(report.payload)[0])))
    return client._drawn(), tuple(reports)


def in_order(places: Sequence[int]) -> Asks:
    """An application that asks for these rounds."""
    return lambda _drawn, history: places[len(history)] if len(history) < len(places) else None
