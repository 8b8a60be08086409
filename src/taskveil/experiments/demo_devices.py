"""Devices that are not there: real clients with a ledger each on disk, which report to a collector as people's do.

Some send what they have sent already, some hang up before they hear the answer and try again, some are away for a while
and send later. Whatever they do, a collector must count every device once a round and release.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from taskveil.client import Client, upload
from taskveil.client.ledger import Ledger
from taskveil.client.wire import BINARY, Report
from taskveil.errors import UploadError

AWAY = 0.3
"""Of the time of a round: how long at most a device is away before it sends."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a crowd did in one round."""

    devices: int = 0
    """That made their reports and had them accepted."""
    repeated: int = 0
    """That sent them again, though they had been accepted."""
    unheard: int = 0
    """That hung up before they received the answer, and sent them again."""
    late: int = 0
    """That were away when they had made them."""
    failed: int = 0
    """Whose reports were not accepted in the end."""

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Devices that share releases and a collector. Device number i keeps its ledger in `ledgers`/i.sqlite: one for all
    releases, so that their budgets add up.

    The three shares are of devices whose way of sending is not the plain one; they are drawn anew for every round.
    """

    releases: tuple[Path, ...]
    url: str
    """…/v1/reports"""
    ledgers: Path
    token: str | None = None
    rounds: int = 1
    """That a device's cap allows for."""
    repeat: float = 0.1
    hang_up: float = 0.1
    away: float = 0.15
    threads: int = 16
    """Devices at once: most of the time each waits for its ledger, or the collector's, to be on disk."""
    seed: int = 0

    def report(
        self,
        records: Mapping[int, Any] | Sequence[Any],
        *,
        round: str,
        seconds: float = 0.0,
        stop: threading.Event | None = None,
    ) -> Outcome:
        """Every device reports its record once in this round, with every release.

        Args:
            records: a record for every device that takes part: by its number, or of the first ones.
            round: its name.
            seconds: over which the devices come, evenly but at random.
            stop: when it is set, devices that have not come yet stay away, and those that are away come back.
        """
        stop = threading.Event() if stop is None else stop
        named = records if isinstance(records, Mapping) else dict(enumerate(records))
        rng = np.random.default_rng([self.seed, len(named), *round.encode()])
        start = time.monotonic()
        times = np.sort(rng.uniform(0, seconds, len(named)))
        ways = rng.choice(4, len(named), p=self._shares()).tolist()
        pauses = rng.uniform(0, AWAY * seconds, len(named)).tolist()
        self.ledgers.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            clients = [Client.load(release, ledger=self.ledgers / "first.sqlite") for release in self.releases]
            first = tuple(stack.enter_context(client) for client in clients)
            with ThreadPoolExecutor(self.threads) as pool:
                visits = []
                for number, at, way, pause in zip(rng.permutation(list(named)), times, ways, pauses, strict=True):
                    if stop.wait(max(0.0, start + at - time.monotonic())):
                        break
                    visit = _Visit(crowd=self, first=first, number=int(number), round=round, stop=stop)
                    visits.append(pool.submit(visit.by, _WAYS[way], named[int(number)], pause))
            return sum((visit.result() for visit in visits), Outcome())

    def _shares(self) -> list[float]:
        return [1 - self.repeat - self.hang_up - self.away, self.repeat, self.hang_up, self.away]


@dataclass(frozen=True, kw_only=True)
class _Visit:
    """A device in a round."""

    crowd: Crowd
    first: tuple[Client, ...]
    number: int
    round: str
    stop: threading.Event

    def by(self, way: Callable[[_Visit, Any, float], Outcome], record: Any, pause: float) -> Outcome:
        """Unless it is too late."""
        return Outcome() if self.stop.is_set() else way(self, record, pause)

    def plainly(self, record: Any, _pause: float) -> Outcome:
        return self._sent(self._made(record))

    def twice(self, record: Any, _pause: float) -> Outcome:
        """As an app does that was closed before it stored the answer: the ledger has the same bytes."""
        return self._sent(self._made(record)) + self._sent(self._made(record), Outcome(repeated=1))

    def unheard(self, record: Any, _pause: float) -> Outcome:
        reports = self._made(record)
        target = urlsplit(self._url)
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        bearer = {} if self.crowd.token is None else {"Authorization": f"Bearer {self.crowd.token}"}
        for report in reports:
            connection = kind(str(target.hostname), target.port, timeout=10)
            try:
                path = f"{target.path}?{target.query}"
                connection.request("POST", path, report.to_bytes(), {"Content-Type": BINARY, **bearer})
            except OSError:
                pass  # it is sent again in any case
            finally:
                connection.close()
        return self._sent(reports, Outcome(devices=1, unheard=1))

    def later(self, record: Any, pause: float) -> Outcome:
        reports = self._made(record)
        self.stop.wait(pause)
        return self._sent(reports, Outcome(devices=1, late=1))

    @property
    def _url(self) -> str:
        return f"{self.crowd.url}?round={quote(self.round)}"

    def _made(self, record: Any) -> list[Report]:
        cap = self.crowd.rounds * sum(first.epsilon for first in self.first)
        with Ledger(self.crowd.ledgers / f"{self.number}.sqlite") as ledger:
            clients = [Client(device=one.device, release=one.release, ledger=ledger, cap=cap) for one in self.first]
            made = [client.report(record, round=self.round) for client in clients]
            return [report for report in made if report is not None]

    def _sent(self, reports: list[Report], outcome: Outcome = Outcome(devices=1)) -> Outcome:  # noqa: B008 - it is frozen
        try:
            upload(reports, self._url, token=self.crowd.token, pause=0.2)
        except UploadError:
            return Outcome(failed=1)
        return outcome


_WAYS = (_Visit.plainly, _Visit.twice, _Visit.unheard, _Visit.later)
