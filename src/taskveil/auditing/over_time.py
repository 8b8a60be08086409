"""The audit of reports over time: all that leaves a device in its planned rounds, silence included.

The guarantee of a panel (`taskveil.client.panels`) is about two *sequences* of records. Three checks try to disprove it
with real clients:

- With the same entropy, all sequences of records must get reports in the same rounds, and no block of rounds two. A
  schedule that looks at records fails this for some entropy, and so does a device that spends twice.
- With fresh entropy, what two sequences leave behind may differ by e^(rε) at most (exact binomial limits). Sequences
  are constant, alternate, or change at different times; rounds are asked in order, late in each block, and backwards.
- On a real ledger, a client that starts anew before every request must give the same bytes as one that never stops.

The first two use a ledger in memory, which makes thousands of devices quick. The third shows that the real one does the
same.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array, Bools, Floats
from taskveil.auditing.bound import epsilon_low, largest_provable
from taskveil.auditing.scores import Idea, choose_event, frequencies, whole_reports
from taskveil.auditing.target import ALPHA, Check
from taskveil.client import Client, Ledger, Report, entropy
from taskveil.client.device import Device
from taskveil.client.families import CHOSEN, DeviceFamily, choice_of
from taskveil.client.panels import Panel, times_cost
from taskveil.client.promise import rounded_up
from taskveil.errors import BudgetSpentError, DataError, WireError

NAMES = ("rounds drawn without the record", "sequences of records", "restarts on a real ledger")


def over_time_checks(family: DeviceFamily, records: tuple[Any, Any], trials: int) -> tuple[Check, ...]:
    """The three checks; none if rounds are not planned. A false alarm has probability 1e-9 at most in each.

    Args:
        family: what devices run: a family, or a release as a family of one.
        records: two records that are easy to distinguish, as a client takes them.
        trials: of the audit; there are fewer devices when it has few.
    """
    if family.panel is None:
        return ()
    people = _People(family=family, panel=family.panel, records=records)
    try:
        for sequence in people.sequences.values():
            people.answers(_Memory(), people.ways[0], sequence)
    except DataError as error:
        return tuple(Check.not_applicable(name, f"clients do not take these records: {error}") for name in NAMES)
    except Exception as error:  # whatever it is, there is an error in place of a report
        detail = f"A client failed ({type(error).__name__}), and an error reveals something about the record."
        return (Check.of(NAMES[0], detail, held=False),)
    return _same_rounds(people, trials), _sequences(people, trials), _restarts(people, trials)


class _Memory(Ledger):
    """The rules of a ledger without a file: one report for each round and block, and a cap."""

    def __init__(self) -> None:
        self._made: dict[tuple[bytes, str], tuple[float, bytes]] = {}
        self._places: dict[bytes, bytes] = {}
        self.path = Path("memory")

    def once(
        self,
        release: bytes,
        round: str,
        epsilon: float,
        cap: float,
        make: Callable[[], bytes],
        block: Sequence[str] = (),
    ) -> bytes | None:
        if (release, round) not in self._made:
            if any((release, other) in self._made for other in block):
                return None
            if self.spent + epsilon > cap:
                raise BudgetSpentError("the cap is spent.")
            self._made[release, round] = epsilon, make()
        return self._made[release, round][1]

    def drawn(self, release: bytes, draw: Callable[[], bytes] | None = None) -> bytes | None:
        if release not in self._places and draw is not None:
            self._places[release] = draw()
        return self._places.get(release)

    def recorded(self, release: bytes, round: str) -> bytes | None:
        return self._made.get((release, round), (0.0, None))[1]

    def costs(self, release: bytes, rounds: Sequence[str] = ()) -> list[float]:  # noqa: ARG002 - nothing is lost here
        return [cost for (own, _), (cost, _) in self._made.items() if own == release]

    @property
    def spent(self) -> float:
        return math.fsum(cost for cost, _ in self._made.values())

    def close(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class _Way:
    """How an application asks: for which rounds, in this order, and whether the device joins before the first."""

    name: str
    places: tuple[int, ...]
    enrols: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class _People:
    """Devices of one release over time, and two records. A sequence (T,) says in which rounds they have the first."""

    family: DeviceFamily
    panel: Panel
    records: tuple[Any, Any]

    @property
    def choice(self) -> float | None:
        """The smallest ε, if people choose."""
        chosen = self.family.kind == CHOSEN
        return min(choice_of(member.name) for member in self.family.members) if chosen else None

    @property
    def epsilon(self) -> float:
        """What a report costs."""
        return max(member.epsilon for member in self.family.offered(self.choice))

    @property
    def delta(self) -> float:
        """The probability with which that may fail."""
        return max(member.delta for member in self.family.offered(self.choice))

    def client(self, ledger: Ledger) -> Client:
        """A device whose cap is out of the way, so that nothing but the panel limits its reports."""
        first, family = self.family.members[0], self.family
        return Client(
            device=first.device, release=first.release, ledger=ledger, cap=1e300, family=family, epsilon=self.choice
        )

    def answers(self, ledger: Ledger, way: _Way, sequence: Bools) -> list[Report | None]:
        """What leaves a new device."""
        client, names = self.client(ledger), self.panel.rounds
        if way.enrols:
            client.enrol(names[0])
        return [client.report(self.records[1 - int(sequence[place])], round=names[place]) for place in way.places]

    @cached_property
    def ways(self) -> tuple[_Way, ...]:
        """In order; late in every block, and then what was missed; backwards and twice."""
        # Twelve blocks and sixty rounds are enough to tell sequences apart, and keep long plans quick.
        blocks = _spread(range(self.panel.reports), 12)
        inside = [range(self.panel.start(block), self.panel.start(block + 1)) for block in blocks]
        rounds = [place for places in inside for place in _spread(places, 60 // len(blocks))]
        middles = {place: (places[0] + places[-1]) / 2 for places in inside for place in places}
        late = sorted(rounds, key=lambda place: (place < middles[place], place))
        return (
            _Way(name="asked in order", places=tuple(rounds), enrols=False),
            _Way(name="asked late in each block and then for the rest", places=tuple(late), enrols=True),
            _Way(name="asked backwards and twice", places=tuple(2 * rounds[::-1]), enrols=True),
        )

    @cached_property
    def sequences(self) -> dict[str, Bools]:
        """Sequences by name."""
        place, count = np.arange(len(self.panel.rounds)), len(self.panel.rounds)
        return {
            "the first record in all rounds": place >= 0,
            "the second record in all rounds": place < 0,
            "the records in turn": place % 2 == 0,
            "a change after a third": 3 * place < count,
            "a change after two thirds": 3 * place < 2 * count,
            "records by chance": np.random.default_rng(23).random(count) < 0.5,
        }

    def transcripts(self, way: _Way, sequence: Bools, count: int) -> Floats:
        """What leaves `count` devices (count, 3 asks): whether there was a report, a hash of it, and how much likelier
        it is for the first record than for the second, as the release has it."""
        told, hashes, likely = np.zeros((3, count, len(way.places)))
        members: dict[bytes, tuple[list[tuple[int, int]], list[tuple[int, ...]]]] = {}
        for row in range(count):
            for column, report in enumerate(self.answers(_Memory(), way, sequence)):
                if report is not None:
                    cells, numbers = members.setdefault(report.release, ([], []))
                    cells.append((row, column))
                    numbers.append(self._device(report.release).mechanism.layout.unpack(report.payload))
        for release, (cells, numbers) in members.items():
            device, reports, (rows, columns) = self._device(release), np.array(numbers), np.array(cells).T
            latents = device.encoder(np.concatenate([device.record(record) for record in self.records]))
            told[rows, columns] = 1
            hashes[rows, columns] = whole_reports(reports)[:, 0] % (1 << 52)
            for part in np.array_split(np.arange(len(reports)), len(reports) // 4096 + 1):
                chances = device.mechanism.log_likelihood(reports[part], latents)
                likely[rows[part], columns[part]] = chances[:, 0] - chances[:, 1]
        return np.concatenate([told, hashes, likely], axis=1)

    def _device(self, release: bytes) -> Device:
        member = self.family.of(release)
        if member is None:
            raise WireError("a report of another release.")
        return member.device


def _spread(places: Sequence[int], most: int) -> list[int]:
    """At most so many of the places, the first and the last among them if there are two."""
    chosen = np.linspace(0, len(places) - 1, max(1, min(most, len(places)))).round().astype(int)
    return [places[place] for place in sorted({0, *chosen.tolist()} if most > 1 else chosen.tolist())]


def _same_rounds(people: _People, trials: int) -> Check:
    """Whether all sequences get reports in the same rounds if the entropy is the same, and one in a block at most."""
    name, seeds, panel = NAMES[0], int(np.clip(trials // 10_000, 20, 100)), people.panel
    real = entropy.system_bytes
    try:
        for seed, way in ((seed, way) for seed in range(seeds) for way in people.ways):
            seen = set()
            for sequence in people.sequences.values():
                entropy.system_bytes = np.random.default_rng([24, seed]).bytes
                answers = people.answers(_Memory(), way, sequence)
                made = [(place, one) for place, one in zip(way.places, answers, strict=True) if one is not None]
                blocks = [panel.block(place) for place, _ in {(place, one.to_bytes()) for place, one in made}]
                if len(set(blocks)) < len(blocks):
                    detail = f"A device that was {way.name} made {len(blocks)} reports in {len(set(blocks))} blocks."
                    return Check.of(name, detail, held=False)
                seen.add(tuple(place for place, _ in made))
            if len(seen) > 1:
                detail = "With the same entropy, different sequences of records get reports in different rounds."
                return Check.of(name, detail, held=False)
    finally:
        entropy.system_bytes = real
    detail = (
        f"{len(people.sequences)} sequences of records got reports in the same rounds, and one in a block at most, in "
        f"each of {seeds} draws with the same entropy, {' or '.join(way.name for way in people.ways)}."
    )
    return Check.of(name, detail, held=True)


def _sequences(people: _People, trials: int) -> Check:
    """Whether all that leaves a device in its rounds shows no more than the reports of its blocks cost together."""
    name, panel, pool = NAMES[1], people.panel, people.sequences
    first, second, turns, early, late, _ = pool
    blocks = len({panel.block(place) for place in people.ways[0].places})
    claim, delta = times_cost(people.epsilon, blocks), blocks * people.delta
    count = max(100, trials // 500)

    @cache
    def learned(way: _Way, sequence: str) -> Floats:
        return people.transcripts(way, pool[sequence], count // 2)

    @cache
    def counted(way: _Way, sequence: str) -> Floats:
        return people.transcripts(way, pool[sequence], count)

    in_order = people.ways[0]
    attacks = [(way, first, second) for way in people.ways] + [(in_order, first, turns), (in_order, early, late)]
    # One pair more: the best of all others, on the devices from which events are learned.
    alpha, best = ALPHA / (len(attacks) + 1), (-1.0, attacks[0])
    for one, other in combinations(pool, 2):
        if (in_order, one, other) not in attacks:
            samples = learned(in_order, one), learned(in_order, other)
            tried = _ideas(pool[one], pool[other], in_order)
            event = choose_event(tried, *samples, trials=count, alpha=alpha, delta=delta)
            seen = event.counted(*(event.score(sample) for sample in samples))
            hope = float(epsilon_low(*seen, count // 2, alpha=alpha, delta=delta))
            best = max(best, (hope, (in_order, one, other)), key=lambda found: found[0])
    worst, where = -1.0, ""
    for way, one, other in [*attacks, best[1]]:
        tried, samples = _ideas(pool[one], pool[other], way), (learned(way, one), learned(way, other))
        event = choose_event(tried, *samples, trials=count, alpha=alpha, delta=delta)
        scores = [event.score(counted(way, sequence)) for sequence in (one, other)]
        shown = float(epsilon_low(*event.counted(*scores), count, alpha=alpha, delta=delta))
        if shown > worst:
            worst, where = shown, f"{way.name}, “{one}” against “{other}”"
    together = f"the reports of all rounds together claim ε = {rounded_up(claim)}"
    if worst > claim:
        return Check.of(name, f"Devices show ε ≥ {worst:.3g} ({where}); {together}.", held=False)
    provable = largest_provable(count, alpha=alpha, delta=delta)
    return Check.of(
        name,
        f"{len(attacks) + 1} pairs of sequences, {count:,} devices each, show ε ≥ {max(worst, 0):.3g} (they can show "
        f"{provable:.3g} at most); {together}.",
        held=True,
    )


def _ideas(one: Bools, other: Bools, way: _Way) -> list[Idea]:
    """Ways to score transcripts (N, 3 asks) of two sequences of records (T,)."""
    asked, places = len(way.places), list(way.places)
    signs = one[places].astype(np.float64) - other[places]

    def told(seen: Array) -> Array:
        return seen[:, :asked]

    def hashes(seen: Array) -> Array:
        return seen[:, asked : 2 * asked]

    def likely(seen: Array) -> Floats:
        return np.asarray(seen[:, 2 * asked :] @ signs, dtype=np.float64)

    def numbers(seen: Array) -> Array:
        """How many reports, how many where the records differ, and how many that repeat one."""
        made = told(seen) > 0
        distinct = [len(set(row[there].tolist())) for row, there in zip(hashes(seen), made, strict=True)]
        return np.stack([made.sum(axis=1), made[:, signs != 0].sum(axis=1), made.sum(axis=1) - distinct], axis=1)

    return [
        Idea(name="the release's own likelihood", learn=lambda _a, _b: likely, robust=True),
        Idea(name="rounds with a report", learn=frequencies(told)),
        Idea(name="pattern of silence", learn=frequencies(lambda seen: whole_reports(told(seen)))),
        Idea(name="numbers of reports", learn=frequencies(numbers)),
        Idea(name="the report of every round", learn=frequencies(hashes)),
    ]


def _restarts(people: _People, trials: int) -> Check:
    """Whether a client that starts anew before each request, on a real ledger, gives the bytes of one in memory."""
    name, panel, asked = NAMES[2], people.panel, 0
    real, names = entropy.system_bytes, panel.rounds
    sequence = people.sequences["the records in turn"]
    try:
        for seed, way in ((seed, way) for seed in range(1 + trials // 500_000) for way in people.ways):
            entropy.system_bytes = np.random.default_rng([25, seed]).bytes
            expected = [one and one.to_bytes() for one in people.answers(_Memory(), way, sequence)]
            entropy.system_bytes = np.random.default_rng([25, seed]).bytes
            with _folder() as folder:
                found, spent = [], 0.0
                for turn, place in enumerate(way.places):
                    with people.client(Ledger(folder / "ledger.sqlite")) as client:
                        if way.enrols and turn == 0:
                            client.enrol(names[0])
                        one = client.report(people.records[1 - int(sequence[place])], round=names[place])
                        found.append(one and one.to_bytes())
                        spent = client.ledger.spent
            asked += len(found)
            if found != expected:
                turn = next(turn for turn in range(len(found)) if found[turn] != expected[turn])
                detail = (
                    f"{way.name.capitalize()}, a client that starts anew gives another answer in round "
                    f"{names[way.places[turn]]!r} than one that never stopped."
                )
                return Check.of(name, detail, held=False)
            due = len({place for place, one in zip(way.places, found, strict=True) if one}) * people.epsilon
            if spent < due * (1 - 1e-12):
                return Check.of(name, f"The ledger counts ε = {spent:.6g} for reports worth {due:.6g}.", held=False)
    finally:
        entropy.system_bytes = real
    return Check.of(name, f"{asked} requests, each after a restart, were answered as without restarts.", held=True)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for a ledger, in memory where there is such a thing: ledgers write through to the disk."""
    memory = "/dev/shm"  # noqa: S108 - a private folder is made in it
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
