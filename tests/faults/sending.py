"""Devices, many and careful: they speak HTTP by themselves and keep a diary of what was sent and acknowledged."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import taskveil as tv
from taskveil.client import wire
from taskveil.client.wire import PROBLEM, Report

Address = tuple[str, int]

MARK = "fault-probe-7d1f"
"""In every header that a device might send: it must be found nowhere afterwards."""
FORWARDED = "203.0.113.86"
SOURCE = "127.83.21.47"
"""The loopback address that devices come from: another one than the collector's own (Linux answers on all of them)."""
MARKS = {"User_Agent": f"{MARK}/1.0", "X_Forwarded_For": FORWARDED, "Cookie": f"session={MARK}"}
PORTS: set[int] = set()
"""All that devices came from."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class BrokenOffError(ConnectionError):
    """The connection ended before the answer did."""


@dataclass(frozen=True)
class Answer:
    """What came back; names of headers are in lower case."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        """One header's value."""
        found = re.search(rb"\r\n" + name.encode() + rb": *([^\r]*)", self.head, re.IGNORECASE)
        return None if found is None else found[1].decode("latin-1")

    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection that is kept alive: one request after the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = b""
        self._waiting: asyncio.Future[Answer] | None = None

    @classmethod
    async def open(cls, address: Address) -> Connection:
        """Connected."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(cls, *address, local_addr=(SOURCE, 0))
        return protocol

    @property
    def closed(self) -> bool:
        """By either side."""
        return self.transport is None or self.transport.is_closing()

    async def ask(self, request: bytes, *, seconds: float = 60.0) -> Answer:
        """The answer to a request that is sent as it is. BrokenOffError if the connection ends first."""
        if self.closed or self.transport is None:
            raise BrokenOffError
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 forgets that it was cancelled
            return await self._waiting

    def close(self) -> None:
        """At once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        PORTS.add(transport.get_extra_info("sockname")[1])

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, end)
        whole = end + 4 + (0 if length is None else int(length[1]))
        if len(self._buffer) >= whole and self._waiting is not None and not self._waiting.done():
            head, body = self._buffer[:end], self._buffer[end + 4 : whole]
            self._buffer = self._buffer[whole:]
            self._waiting.set_result(Answer(int(head[9:12]), head, body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(BrokenOffError())


def request(
    method: str, path: str, *, token: str | None = None, body: bytes = b"", type: str = wire.BINARY, **headers: str
) -> bytes:
    """A whole request, ready to be sent. Headers of one's own are named with underscores."""
    lines = [f"{method} {path} HTTP/1.1", "Host: collector", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {type}"] if body else []
    lines += [f"Authorization: Bearer {token}"] if token is not None else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in (MARKS | headers).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def ask_once(address: Address, raw: bytes, *, seconds: float = 60.0) -> Answer:
    """One request on a connection of its own."""
    connection = await Connection.open(address)
    try:
        return await connection.ask(raw, seconds=seconds)
    finally:
        connection.close()


class Maker:
    """Reports of one release, made by its own mechanism; only the draw among them is ours."""

    def __init__(self, veil: tv.Veil, *, pool: int = 2000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        layout = veil.mechanism.layout
        reports = veil.privatize(rng.normal(size=(pool, veil.device.attributes)))
        self.release = bytes.fromhex(veil.release_id)
        self.payloads = [layout.pack(numbers) for numbers in reports.tolist()]
        self.other = {payload: next(p for p in self.payloads if p != payload) for payload in set(self.payloads)}
        """For every payload a different one, for reports that contradict themselves."""

    def reports(self, count: int) -> list[Report]:
        """New ones."""
        return [
            Report(release=self.release, id=os.urandom(16), payload=random.choice(self.payloads)) for _ in range(count)
        ]


def body_of(reports: Sequence[Report], *, json: bool = False) -> bytes:
    """What a device sends: one report by itself, several as a batch."""
    if json:
        return wire.to_json(reports)
    return reports[0].to_bytes() if len(reports) == 1 else wire.pack_batch(reports)


@dataclass
class Diary:
    """What was sent and what the collector said of it."""

    sent: dict[bytes, bytes] = field(default_factory=dict)
    """Payloads by id, in the order of sending."""
    acknowledged: set[bytes] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    """By status; 0 where the connection broke off or nothing came in time."""
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    complaints: list[str] = field(default_factory=list)
    """What no collector should answer."""

    def note(self, reports: Sequence[Report], answer: Answer | None) -> bool:
        """Whether the answer settles these reports; without it they are to be sent again."""
        self.answers[0 if answer is None else answer.status] += 1
        if answer is None:
            return False
        if answer.status == 200:
            said = answer.json()
            self.accepted += said["accepted"]
            self.duplicate += said["duplicate"]
            self.rejected += len(said["rejected"])
            if said["accepted"] + said["duplicate"] + len(said["rejected"]) != len(reports):
                self.complaints.append(f"an answer speaks of another number of reports than the {len(reports)} sent")
            refused = {one["place"] for one in said["rejected"]}
            self.acknowledged |= {report.id for place, report in enumerate(reports) if place not in refused}
            return True
        if answer.status in (429, 503):
            if not (answer.header("retry-after") or "").isdecimal():
                self.complaints.append(f"{answer.status} without Retry-After in whole seconds")
        else:
            self.complaints.append(f"{answer.status} for honest reports: {answer.body[:200].decode(errors='replace')}")
        if answer.header("content-type") != PROBLEM:
            self.complaints.append(f"{answer.status} is no problem document but {answer.header('content-type')}")
        return False


class Writer:
    """One device, or a proxy of many: sends again until it is acknowledged, like a real one."""

    def __init__(self, address: Address, token: str | None, diary: Diary, *, patience: float = 30.0) -> None:
        self.address, self.token, self.diary, self.patience = address, token, diary, patience
        self.settled = 0
        """Batches that were acknowledged."""
        self._connection: Connection | None = None

    async def send(self, reports: Sequence[Report], *, json: bool = False, again: float = 0.1) -> None:
        """Returns when they are acknowledged; tries again after so many seconds."""
        self.diary.sent.update((report.id, report.payload) for report in reports if report.id not in self.diary.sent)
        while not await self.try_once(reports, json=json):
            await asyncio.sleep(again * random.uniform(0.5, 1.5))
        self.settled += 1

    async def try_once(self, reports: Sequence[Report], *, json: bool = False) -> bool:
        """Whether the collector acknowledged them (or refused some of them by name)."""
        raw = request(
            "POST",
            wire.PATH,
            token=self.token,
            body=body_of(reports, json=json),
            type=wire.JSON if json else wire.BINARY,
        )
        answer = None
        try:
            if self._connection is None:
                self._connection = await Connection.open(self.address)
            answer = await self._connection.ask(raw, seconds=self.patience)
        except (OSError, TimeoutError):
            self.close()
        if answer is not None and answer.header("connection") == "close":
            self.close()
        return self.diary.note(reports, answer)

    async def keep_sending(self, maker: Maker, *, most: int = 40, pause: float = 0.0, json: float = 0.2) -> None:
        """Until cancelled: batches of 1 to `most` reports, a share of them as JSON."""
        try:
            while True:
                await self.send(maker.reports(random.randint(1, most)), json=random.random() < json)
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        finally:
            self.close()

    def close(self) -> None:
        """A new connection is opened when there is something to send."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


async def all_settled(writers: Sequence[Writer], seconds: float, *, batches: int = 3) -> float | None:
    """Seconds until every single writer had so many more batches acknowledged; None if that takes too long."""
    began, before = time.monotonic(), [writer.settled for writer in writers]
    while time.monotonic() - began < seconds:
        if all(writer.settled >= count + batches for writer, count in zip(writers, before, strict=True)):
            return time.monotonic() - began
        await asyncio.sleep(0.05)
    return None
