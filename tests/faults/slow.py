"""Clients that take their time, by the hundred: closed by their deadline, while honest ones hardly notice."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import multiprocessing.connection
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np

from faults.harness import Collector, Row, add_token, collector_for
from faults.sending import Diary, Maker, Writer, body_of, request
from faults.stored import Database, compare
from taskveil.client import wire

Pipe = multiprocessing.connection.Connection

READERS = "readers who do not read"
HONEST_RATE = 100.0
"""Requests a second of honest traffic."""


def slow_clients(
    folder: Path,
    database: Database,
    *,
    clients: int,
    seconds: float = 10.0,
    deadline: float = 4.0,
    slack: float = 3.0,
    within: float | None = 2.0,
    collector: Collector | None = None,
) -> Row:
    """Honest traffic alone, then beside so many slow clients of each kind in turn, then alone again.

    Args:
        folder: for release, settings and log.
        database: empty.
        clients: at once; each comes back when it is closed.
        seconds: that honest traffic is watched for, three times.
        deadline: seconds that the collector is told to give a request; half of it to idle connections.
        slack: seconds after its deadline that a connection may be closed, on a busy machine.
        within: how many times its baseline honest traffic may take; None to leave that out, where `seconds` are so few
            that a tail is noise.
        collector: another one than ours, for the test of this test.
    """
    if collector is None:
        collector = collector_for(folder, database, request_seconds=deadline, idle_seconds=deadline / 2)
    token = add_token(database, "upload")
    with collector.running():
        return asyncio.run(_slow_clients(collector, token, clients, seconds, 1.5 * deadline + slack, within))


async def _slow_clients(
    collector: Collector, token: str, clients: int, seconds: float, longest_allowed: float, within: float | None
) -> Row:
    diary, maker = Diary(), Maker(collector.releases[0].veil)
    sending = request("POST", wire.PATH, token=token, body=body_of(maker.reports(500)))
    await _honest(collector, token, diary, maker, seconds / 4)  # to warm up
    alone = await _honest(collector, token, diary, maker, seconds)
    # In a process of their own: what hundreds of them cost the machine's Python is no matter of the collector's.
    ours, theirs = multiprocessing.Pipe()
    told = (theirs, collector.address, sending, clients, longest_allowed + 1)
    attackers = multiprocessing.get_context("spawn").Process(target=attack, args=told)
    attackers.start()
    await asyncio.to_thread(ours.recv)  # all have been there once
    beside = await _honest(collector, token, diary, maker, seconds)
    ours.send("over")  # no new ones; those that are there wait for their end
    lasted: dict[str, list[float]] = await asyncio.to_thread(ours.recv)
    attackers.join()
    again = await _honest(collector, token, diary, maker, seconds)
    rows = await asyncio.to_thread(collector.database.rows)
    complaints = compare(rows, diary) + diary.complaints
    longest = {kind: max(found) for kind, found in lasted.items()}
    for kind, found in longest.items():
        if found > longest_allowed:
            complaints.append(f"{kind}: a connection was open for {found:.1f} s")
    # The machine's own mood moves tails by more than slow clients do: the worse of before and after is the baseline.
    counts: dict[str, object] = {"connections closed": sum(map(len, lasted.values()))}
    for name, share in (("p50", 50), ("p99", 99)):
        baseline = max(np.percentile(alone, share), np.percentile(again, share))
        found = np.percentile(beside, share)
        counts[name] = f"{1e3 * found:.1f} ms (alone {1e3 * baseline:.1f})"
        if within is not None and found > within * baseline:
            complaints.append(f"honest {name}: {1e3 * found:.1f} ms, alone {1e3 * baseline:.1f} ms")
    return Row(
        name=f"slow clients, {collector.database.kind}",
        done=f"{clients} at once (slow headers, slow bodies, slow readers, idle), each coming back, beside "
        f"{HONEST_RATE:.0f} honest requests a second",
        counts=counts | {f"longest, {kind}": f"{found:.1f} s" for kind, found in longest.items()},
        complaints=complaints,
    )


async def _honest(collector: Collector, token: str, diary: Diary, maker: Maker, seconds: float) -> list[float]:
    """Seconds that requests of one report each took, from when each was due: a queue is not hidden."""
    took: list[float] = []
    idle: list[Writer] = []

    async def one() -> None:
        due = time.monotonic()
        writer = idle.pop() if idle else Writer(collector.address, token, diary)
        await writer.send(maker.reports(1))
        took.append(time.monotonic() - due)
        idle.append(writer)

    tasks, began = [], time.monotonic()
    for turn in range(int(seconds * HONEST_RATE)):
        await asyncio.sleep(began + turn / HONEST_RATE - time.monotonic())
        tasks.append(asyncio.create_task(one()))
    await asyncio.gather(*tasks)
    for writer in idle:
        writer.close()
    return took


async def _drip(raw: bytes, first: int, pause: float) -> AsyncIterator[bytes]:
    """The first bytes at once, then one after the other; nothing more at the end."""
    if first:
        yield raw[:first]
    for place in range(first, len(raw)):
        await asyncio.sleep(pause)
        yield raw[place : place + 1]


def attack(pipe: Pipe, address: tuple[str, int], sending: bytes, clients: int, patience: float) -> None:
    """So many slow clients of each kind in turn, until the pipe says it is over; then how long each connection lasted,
    by kind."""
    pipe.send(asyncio.run(_attackers(pipe, address, sending, clients, patience)))


async def _attackers(
    pipe: Pipe, address: tuple[str, int], sending: bytes, clients: int, patience: float
) -> dict[str, list[float]]:
    # As many as a connection may queue, half a megabyte of answers: more than the system keeps for a reader.
    asking = request("GET", "/openapi.json") * 8
    kinds: dict[str, Callable[[], AsyncIterator[bytes]]] = {
        "slow headers": lambda: _drip(sending, 0, 0.5),
        "slow bodies": lambda: _drip(sending, sending.index(b"\r\n\r\n") + 5, 0.5),
        READERS: lambda: _drip(asking, len(asking), 0.5),
        "idle": lambda: _drip(b"", 0, 0.5),
    }
    lasted: dict[str, list[float]] = {kind: [] for kind in kinds}
    over = asyncio.Event()
    attackers = [
        asyncio.create_task(_attack(address, kind, kinds[kind], lasted[kind], over, patience))
        for kind in itertools.islice(itertools.cycle(kinds), clients)
    ]
    await asyncio.sleep(0.5)
    pipe.send("there")
    await asyncio.to_thread(pipe.recv)
    over.set()
    await asyncio.gather(*attackers)
    return lasted


async def _attack(
    address: tuple[str, int],
    kind: str,
    drip: Callable[[], AsyncIterator[bytes]],
    lasted: list[float],
    over: asyncio.Event,
    patience: float,
) -> None:
    """Connect, be slow until the collector closes, and come again."""
    loop = asyncio.get_running_loop()
    while not over.is_set():
        await asyncio.sleep(random.uniform(0, 0.3))
        with socket.socket() as connection:
            connection.setblocking(False)
            if kind == READERS:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            began = time.monotonic()
            try:
                await loop.sock_connect(connection, address)
                writing = asyncio.create_task(_write(connection, drip))
                try:
                    async with asyncio.timeout(patience):
                        await (_let_go(connection) if kind == READERS else _closed(connection))
                finally:
                    writing.cancel()
                    await asyncio.gather(writing, return_exceptions=True)
            except (OSError, TimeoutError):
                pass
            lasted.append(time.monotonic() - began)


async def _write(connection: socket.socket, drip: Callable[[], AsyncIterator[bytes]]) -> None:
    loop = asyncio.get_running_loop()
    async for part in drip():
        await loop.sock_sendall(connection, part)


async def _closed(connection: socket.socket) -> None:
    """Returns when the other side has closed."""
    while await asyncio.get_running_loop().sock_recv(connection, 65536):
        pass


async def _let_go(connection: socket.socket) -> None:
    """Returns when no process holds the other side any more. Whoever does not read cannot see its end: it lies behind
    what was not read."""
    ours, theirs = connection.getsockname()[1], connection.getpeername()[1]
    await asyncio.sleep(0.5)  # until it was accepted
    while (theirs, ours) in _held():
        await asyncio.sleep(0.5)


def _held() -> set[tuple[int, int]]:
    """Ports (here, there) of the connections of this machine that some process has open."""
    now = time.monotonic()
    if now - _looked[0] > 0.2:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        _open.clear()
        _open.update(
            (int(row[1].rpartition(":")[2], 16), int(row[2].rpartition(":")[2], 16)) for row in rows if row[9] != "0"
        )
        _looked[0] = now
    return _open


_looked = [0.0]
_open: set[tuple[int, int]] = set()
