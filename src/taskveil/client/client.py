"""The client: it makes a private report of a record, and records the report before it returns it."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from taskveil.arrays import Floats
from taskveil.client import entropy
from taskveil.client.device import Device
from taskveil.client.families import DeviceFamily, draw, family_statement, load_family, single
from taskveil.client.latent_encoders import Function
from taskveil.client.ledger import RESTORE, Ledger, default_path
from taskveil.client.panels import Panel, times_cost, together_cost
from taskveil.client.promise import rounded_up, together
from taskveil.client.signatures import read_key
from taskveil.client.values import LONGEST_TEXT
from taskveil.client.wire import Report
from taskveil.errors import BudgetError, DataError, LedgerError, WireError


class Spent(float):
    """The ε that all recorded reports cost, as a number: six digits, rounded up.

    `planned` is what all reports of this release cost, those so far and those to come. `lifetime` is the most that all
    reports in the ledger may cost: the cap.
    """

    planned: float
    lifetime: float

    def __new__(cls, so_far: float, planned: float, lifetime: float) -> Spent:
        """Make it from exact sums, which are rounded up."""
        made = super().__new__(cls, rounded_up(so_far))
        made.planned, made.lifetime = float(rounded_up(planned)), float(rounded_up(lifetime))
        return made

    @property
    def so_far(self) -> float:
        """What all recorded reports cost."""
        return float(self)


class Client:
    """Makes the reports of one person for one release or family. All numbers of a report come from the mechanism.

    `Client.load` refuses releases that are altered, malformed, newer or (with a key) not the publisher's. `report`
    spends the release's ε once a round, and never more than `cap` in all releases that share the ledger.

    Of a family (`taskveil.client.families`), `device` is the member that was chosen, or the first one if the device
    draws in every round; all members take the same record. `release` is the family's id, and `epsilon` what a report
    costs: that of the chosen member, or the largest of all if the device draws. `delta` is the probability with which
    one report may reveal more, likewise. The cap counts ε; the δ of all reports add up beside it.

    Of a release over time (`tv.OverTime`), the device draws its rounds when it joins: with its first report, or with
    `enrol`. In all other rounds `report` returns None.

    Close it, or use it as `with Client.load(...) as client:`. Its ledger is closed with it.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.sin(np.arange(100.0)).reshape(50, 2)
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     veil.save(f"{folder}/release")
        ...     with tv.Client.load(f"{folder}/release", ledger=f"{folder}/ledger", cap=4.0) as client:
        ...         first = client.report([0.5, None], round=1)
        ...         print(client.spent(), first == client.report([9.0, 9.0], round=1))  # a round has one report
        2.0 True
    """

    def __init__(
        self,
        *,
        device: Device,
        release: bytes,
        ledger: Ledger,
        cap: float | None,
        family: DeviceFamily | None = None,
        epsilon: float | None = None,
    ) -> None:
        """Make a client from its parts; `Client.load` reads them from files.

        Args:
            device: encoder and mechanism.
            release: the 32 bytes that identify them.
            ledger: records the reports; closed with the client.
            cap: the ε that all reports in the ledger together may cost; by default the cost of one report, or of all
                reports of a release over time.
            family: the family that the device belongs to; by default the release is on its own.
            epsilon: the choice, in a family from which people choose.
        """
        self._family = family or single(device, release)
        self._offered = self._family.offered(epsilon)
        self.device = self._offered[0].device
        self.release = self._family.release
        self.ledger = ledger
        self.epsilon = max(member.epsilon for member in self._offered)
        self.delta = max(member.delta for member in self._offered)
        self.panel = self._family.panel
        lifetime = self.epsilon if self.panel is None else times_cost(self.epsilon, self.panel.reports)
        self.cap = lifetime if cap is None else _as_cap(cap)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        ledger: str | Path | None = None,
        cap: float | None = None,
        verify_key: str | Path | bytes | None = None,
        encoder: Function | None = None,
        epsilon: float | None = None,
    ) -> Client:
        """Read and check a release or a family.

        Args:
            folder: the release, the `client` folder in it, or the family.
            ledger: the file that records the spent budget, by default one per user of the machine.
            cap: the most a person spends in all rounds and releases; by default this release's ε, one report, or the
                lifetime of a release over time.
            verify_key: PEM file or its bytes, or 32 raw bytes (Ed25519); only releases signed by it are accepted.
            encoder: the model of a release that names one and does not contain it: records (N, n) → latents.
            epsilon: the choice, in a family from which people choose (`Family.of_budgets`). The choice is visible to
                the collector, and must not depend on the record.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.sin(np.arange(100.0)).reshape(50, 2)
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     veil.save(f"{folder}/release")
            ...     with tv.Client.load(f"{folder}/release", ledger=f"{folder}/ledger") as client:
            ...         print(client.epsilon)
            2.0
        """
        family = load_family(Path(folder), read_key(verify_key), encoder)
        first = family.offered(epsilon)[0]
        opened = Ledger(default_path() if ledger is None else ledger)
        try:
            return cls(
                device=first.device, release=first.release, ledger=opened, cap=cap, family=family, epsilon=epsilon
            )
        except BaseException:
            opened.close()
            raise

    @property
    def statement(self) -> str:
        """The promise in words, for the person to read: what one report means, and what all reports in the ledger mean
        together, those so far and those that the cap allows.

        It comes from the mechanism and the ledger, not from the release's text.
        """
        delta = self._largest_delta()
        words = [family_statement(self._family, self._offered), together(self.ledger.spent, self.cap, delta)]
        if self.panel is not None:
            places = self._drawn()
            joined = None if places is None else len(places)
            words.insert(1, self.panel.statement(self.epsilon, joined, self._others(), delta))
        return " ".join(words)

    def enrol(self, round: str | int) -> None:
        """Join a release over time: the device draws the rounds in which it will report, and stores them.

        The first `report` does the same. A device that joins in the middle of a block of rounds begins with the next
        block. When a device joins must not depend on its records.

        Args:
            round: the round that takes place now.
        """
        if self.panel is None:
            raise DataError("the rounds of this release are not planned: there is nothing to join.")
        self._join(self.panel, self.panel.place(_as_round(round)))

    def report(self, x: Any, *, round: str | int = "0") -> Report | None:
        """The report of this round: a new one from the record x, or the one that was made before, byte for byte.

        Of a release over time, it is None if it is not this device's turn.

        Args:
            x: a mapping of the release's column names to values, or the values in the release's order. Values are
                numbers; where the release has fields, also text, dates, true and false. Missing (None, NaN), unknown
                and out-of-range values are accepted and reported like all others.
            round: text or a whole number; every round gets one report.

        Raises:
            BudgetSpentError: the cap does not allow a new report.
            LedgerError: the report could not be recorded, so none was made.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.sin(np.arange(100.0)).reshape(50, 2)
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     veil.save(f"{folder}/release")
            ...     with tv.Client.load(f"{folder}/release", ledger=f"{folder}/ledger") as client:
            ...         report = client.report([0.5, -1.0])
            >>> report.release.hex() == veil.release_id
            True
        """
        # All members read the record first, so that what is wrong with its form is an error whatever will be drawn.
        records, name = [member.device.record(x) for member in self._offered], _as_round(round)
        block: tuple[str, ...] = ()
        if self.panel is not None:
            place = self.panel.place(name)
            turns = {self.panel.block(drawn): drawn for drawn in self._join(self.panel, place)}
            if place < turns.get(self.panel.block(place), len(self.panel.rounds)):
                return None
            block = self.panel.block_rounds(self.panel.block(place))
        raw = self.ledger.once(
            self.release, name, self.epsilon, self.cap, lambda: self._make(*records).to_bytes(), block
        )
        return None if raw is None else self._checked(raw, name)

    def recorded(self, round: str | int = "0") -> Report | None:
        """The report that was made in this round, for sending it again without the record; None if there is none.

        Args:
            round: as in `report`.
        """
        name = _as_round(round)
        raw = self.ledger.recorded(self.release, name)
        return None if raw is None else self._checked(raw, name)

    def spent(self) -> Spent:
        """The ε that all recorded reports cost, in all releases that share the ledger: six digits, rounded up.

        Its `planned` is what the reports of this release cost, those to come included; its `lifetime` is the cap.
        """
        count = 1 if self.panel is None else self.panel.reports
        places = None if self.panel is None else self._drawn()
        planned = together_cost(self.epsilon, count if places is None else len(places), self._others())
        return Spent(self.ledger.spent, planned, self.cap)

    def _largest_delta(self) -> float:
        """The largest δ of a report: of those to come and, if people choose, of those made with another choice."""
        if len(self._offered) == len(self._family.members):
            return self.delta
        costs = self._costs()
        made = (member for member in self._family.members if member.epsilon in costs)
        return max([self.delta, *(member.device.mechanism.delta for member in made)])

    def _others(self) -> list[float]:
        """What the reports of planned rounds cost that were made with another ε, if people choose it."""
        if self.panel is None:
            return []
        return [cost for cost in self._costs() if cost != self.epsilon]

    def _costs(self) -> list[float]:
        """What each report of this release cost; also lost ones, of planned rounds."""
        rounds = () if self.panel is None else self.panel.rounds
        known = [member.epsilon for member in self._family.members]

        def exactly(cost: float) -> float:
            # The ledger knows the cost of a lost report as a difference of sums, which is not quite that of a member.
            nearest = min(known, key=lambda epsilon: abs(epsilon - cost))
            return nearest if math.isclose(nearest, cost, rel_tol=1e-9) else cost

        return [exactly(cost) for cost in self.ledger.costs(self.release, rounds)]

    def _join(self, panel: Panel, place: int) -> tuple[int, ...]:
        """The rounds that were drawn when this device joined; if it has not, it joins in the round at `place`."""
        return self._drawn(lambda: panel.written(panel.draw_places(place))) or ()

    def _drawn(self, draw: Callable[[], bytes] | None = None) -> tuple[int, ...] | None:
        """The rounds that were drawn when this device joined the release over time, drawn now if there are none; None
        if it has not joined."""
        raw = self.ledger.drawn(self.release, draw)
        return None if raw is None or self.panel is None else self.panel.read(raw)

    def _checked(self, raw: bytes, name: str) -> Report:
        """The report in the ledger's bytes, or a LedgerError if they were altered."""
        try:
            report = Report.from_bytes(raw)
            member = self._family.of(report.release)
            if member is None:
                raise WireError("it is of another release.")
            member.device.mechanism.layout.unpack(report.payload)
        except WireError as error:
            raise LedgerError(
                f"the ledger {self.ledger.path} was altered: the report of round {name!r} is none ({error}). {RESTORE}"
            ) from error
        return report

    def close(self) -> None:
        """Close the ledger. Its reports stay, and a client that is loaded later returns them again."""
        self.ledger.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, *records: Floats) -> Report:
        """A fresh report of one of the `records`, which are the same record as each offered member reads it. Only the
        ledger calls this. The member is drawn first, and from nothing but entropy."""
        place = draw([member.weight for member in self._offered])
        member = self._offered[place]
        name = entropy.random_words(2).tobytes()
        drawn = member.device.privatize(records[place])[0]
        payload = member.device.mechanism.layout.pack(drawn.tolist())
        return Report(release=member.release, id=name, payload=payload)


def _as_cap(cap: Any) -> float:
    """The cap as a finite number above zero. Text, true and false are refused."""
    try:
        value = float(cap) if isinstance(cap, Real) and not isinstance(cap, bool) else math.nan
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value > 0):
        raise BudgetError(f"the cap must be a finite number above zero, got a {type(cap).__name__} that is none.")
    return value


def _as_round(round: Any) -> str:
    """The name of a round; 3 and "3" are the same round."""
    try:
        name = str(int(round)) if isinstance(round, Integral) and not isinstance(round, bool) else round
        if isinstance(name, str) and 0 < len(name.encode()) <= LONGEST_TEXT:
            return name
    except ValueError:  # thousands of digits, or halves of characters
        pass
    raise DataError(f"a round is text or a whole number of at most {LONGEST_TEXT} characters. No report was made.")
