"""Senders for benchmarks/collector.py, in a process of their own: it reads what to do from its input, as JSON.

    closed    so many connections, each sending its next body when the last was answered
    opened    so many requests a second, due at their times whatever became of those before (a queue is not hidden)

Payloads are drawn among real ones; every report has a new id. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from faults.sending import Answer, Connection, request
from taskveil.client import wire

HEAD = 42
"""Bytes of a batch before its reports."""


@dataclass(kw_only=True)
class Load:
    """What to send."""

    kind: str
    port: int
    token: str
    batch: str
    """A batch as `wire.pack_batch` wrote it, in hexadecimal: where payloads are drawn from."""
    reports: int
    """Of one body."""
    connections: int
    seconds: float
    rate: float = 0.0
    """Requests a second, of an open load."""


@dataclass
class Outcome:
    """What came of it."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: list[float] = field(default_factory=list)
    """Reports that were acknowledged, in each whole second."""
    took: list[float] = field(default_factory=list)
    """Seconds of every request, from when it was due."""
    wrong: Counter[str] = field(default_factory=Counter)


class Sender:
    """Bodies and the answers to them."""

    def __init__(self, load: Load) -> None:
        self.load, self.outcome = load, Outcome()
        raw = bytes.fromhex(load.batch)
        size = int.from_bytes(raw[36:38], "little")
        self._payloads = np.frombuffer(raw, np.uint8, offset=HEAD).reshape(-1, 16 + size)[:, 16:]
        self._one, self._many = raw[:3] + b"\1" + raw[4:36], raw[:38] + load.reports.to_bytes(4, "little")
        self.began = time.monotonic()

    def raw(self) -> bytes:
        """A request with new reports."""
        count = self.load.reports
        if count == 1:
            body = self._one + os.urandom(16) + self._payloads[random.randrange(len(self._payloads))].tobytes()
        else:
            ids = np.frombuffer(os.urandom(16 * count), np.uint8).reshape(count, 16)
            drawn = self._payloads[np.random.default_rng().integers(len(self._payloads), size=count)]
            body = self._many + np.hstack([ids, drawn]).tobytes()
        return request("POST", wire.PATH, token=self.load.token, body=body)

    def note(self, answer: Answer, due: float) -> None:
        """One answer."""
        now, outcome = time.monotonic(), self.outcome
        outcome.statuses[answer.status] += 1
        outcome.took.append(now - due)
        if answer.status == 200:
            second = int(now - self.began)
            outcome.accepted += [0] * (second + 1 - len(outcome.accepted))
            outcome.accepted[second] += answer.json()["accepted"]
        elif answer.status not in (429, 503):
            outcome.wrong[f"status {answer.status}"] += 1
        elif not (answer.header("retry-after") or "").isdecimal():
            outcome.wrong[f"{answer.status} without Retry-After"] += 1

    async def closed(self) -> None:
        """Everybody sends as fast as answers come, refused or not."""

        async def one() -> None:
            connection = None
            while (due := time.monotonic()) < self.began + self.load.seconds:
                try:
                    connection = connection or await Connection.open(("127.0.0.1", self.load.port))
                    answer = await connection.ask(self.raw())
                except (OSError, TimeoutError):
                    self.outcome.statuses[0] += 1
                    connection = None
                    await asyncio.sleep(0.1)
                    continue
                self.note(answer, due)
                if answer.header("connection") == "close":
                    connection = None

        await asyncio.gather(*(one() for _ in range(self.load.connections)))

    async def opened(self) -> None:
        """Requests at their times, on whichever connection is free; new ones are opened if none is."""
        idle: list[Connection] = [
            await Connection.open(("127.0.0.1", self.load.port)) for _ in range(self.load.connections)
        ]
        self.began, tasks = time.monotonic(), set()

        async def one(due: float) -> None:
            while idle and idle[-1].closed:  # it was not needed for seconds
                idle.pop()
            connection = idle.pop() if idle else await Connection.open(("127.0.0.1", self.load.port))
            try:
                self.note(await connection.ask(self.raw()), due)
                idle.append(connection)
            except (OSError, TimeoutError):
                self.outcome.statuses[0] += 1

        for turn in range(int(self.load.rate * self.load.seconds)):
            due = self.began + turn / self.load.rate
            await asyncio.sleep(due - time.monotonic())
            task = asyncio.create_task(one(due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)


def main() -> None:
    load = Load(**json.load(sys.stdin))
    sender = Sender(load)
    uvloop.run({"closed": sender.closed, "opened": sender.opened}[load.kind]())
    took = np.array(sender.outcome.took or [np.nan])
    found: dict[str, Any] = vars(sender.outcome) | {"took": None}
    found |= {"p50": float(np.percentile(took, 50)), "p99": float(np.percentile(took, 99)), "requests": len(took)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
