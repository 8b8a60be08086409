"""A real collector as a process of its own: started, watched, killed and started again; and the rows of the table."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import taskveil as tv
from faults.sending import Address, Answer, ask_once, request
from faults.stored import Database
from processes import below, end_with_us, resident
from taskveil.collector.releases import register
from taskveil.collector.store import open_store
from taskveil.collector.tokens import Scope, new_token

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
"""After which a collector that does not answer is given up."""


LISTENED: set[int] = set()
"""Ports of collectors."""
SECRETS: list[str] = []
"""The text of every token that was made: none may be found anywhere."""


@dataclass
class Row:
    """One line of the table: what was done, what was counted, and what was wrong."""

    name: str
    done: str
    counts: dict[str, Any]
    complaints: list[str] = field(default_factory=list)
    load: float = 0.0
    """Of the machine, when it was done: processes that wanted to run in the last minute, on average."""

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.complaints

    def counted(self) -> str:
        """All counts on one line."""
        shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in self.counts.items()}
        return ", ".join(f"{name} {value}" for name, value in shown.items())

    def __str__(self) -> str:
        lines = [f"{'ok  ' if self.passed else 'FAIL'} {self.name}: {self.done}", self.counted(), *self.complaints]
        return "\n    ".join(lines)


@cache
def small_veil(method: str = "codebook", *, seed: int = 0) -> tv.Veil:
    """A release that can be estimated, designed in a second: 4 attributes, 2 answers."""
    rng = np.random.default_rng(seed)
    volunteers = rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4))
    return tv.design(volunteers, tv.LinearTask(np.eye(4)[:2]), epsilon=5.0, method=method, seed=seed)


class Release:
    """A veil in a folder."""

    def __init__(self, folder: Path, method: str = "codebook", *, seed: int = 0) -> None:
        self.veil, self.folder = small_veil(method, seed=seed), folder
        self.veil.save(folder)

    @property
    def id(self) -> str:
        return self.veil.release_id


def add_token(database: Database, scope: Scope, *, release: str | None = None, days: float | None = None) -> str:
    """The text of a token that the database now knows."""
    text, kept = new_token(scope, f"{scope} {os.urandom(4).hex()}", release=release, days=days)
    SECRETS.append(text)
    store = open_store(database.url)
    try:
        store.add_token(kept)
    finally:
        store.close()
    return text


class Collector:
    """`taskveil serve` on a free port of the loopback, in a process group of its own.

    Its database, port and settings stay the same over any number of kills and starts. Everything it prints lies in
    `log`. It always gets its address in the configuration file, so that nothing of it is seen on the command line.
    """

    def __init__(self, folder: Path, database: Database, releases: list[Release], **settings: Any) -> None:
        self.folder, self.database, self.releases = folder, database, releases
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "collector.log"
        self.port = free_port()
        LISTENED.add(self.port)
        self.process: subprocess.Popen[bytes] | None = None
        self.environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        settings = {"db": database.url, "host": "127.0.0.1", "port": self.port, "rate": math.inf} | settings
        config = folder / "collector.toml"
        config.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in settings.items()))
        folders = [str(release.folder) for release in releases]
        self.command = [sys.executable, "-m", "taskveil", "serve", *folders, "--config", str(config)]

    @property
    def address(self) -> Address:
        return "127.0.0.1", self.port

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def register(self, round: str = "first") -> None:
        """The releases into the database, before the collector runs: tokens of a release need it."""
        store = open_store(self.database.url)
        try:
            for release in self.releases:
                register(store, release.folder, round=round)
        finally:
            store.close()

    def start(self, *, wait: bool = True) -> float:
        """Seconds until it is ready. It must not be running."""
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd="/",
                env=self.environment,
                start_new_session=True,
            )
        end_with_us(self.process, signal.SIGKILL, group=True)
        if wait:
            self.wait_until_ready()
        return time.monotonic() - began

    def wait_until_ready(self, seconds: float = START_SECONDS) -> float:
        """Seconds that went by; a RuntimeError with the end of the log if it ends or never answers."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if self.process is None or self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, TimeoutError):
                if self.ask("GET", "/readyz", seconds=5).status == 200:
                    return time.monotonic() - began
            time.sleep(0.02)
        raise RuntimeError(f"the collector does not answer. The end of its log:\n{self.log.read_text()[-2000:]}")

    def ask(self, method: str, path: str, *, seconds: float = 60.0, **options: Any) -> Answer:
        """One request on a connection of its own."""
        return asyncio.run(ask_once(self.address, request(method, path, **options), seconds=seconds))

    def kill(self) -> None:
        """kill −9 of all its processes at once."""
        self._signal(signal.SIGKILL)

    def stop(self, seconds: float = 40.0) -> int:
        """As an administrator does; its exit code."""
        self._signal(signal.SIGTERM, only_first=True, seconds=seconds)
        assert self.process is not None
        return self.process.returncode

    def _signal(self, number: signal.Signals, *, only_first: bool = False, seconds: float = 10.0) -> None:
        process = self.process
        if process is None or process.poll() is not None:
            return
        if only_first:
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)  # it leads its group
        process.wait(seconds)

    def worker_ids(self) -> list[int]:
        """Processes below the one that was started, by id."""
        assert self.process is not None
        return below(self.process.pid)

    def memory(self) -> int:
        """Bytes that all its processes hold in memory (resident; what they share counts once for each)."""
        assert self.process is not None
        pids = [self.process.pid, *self.worker_ids()]
        return sum(resident(pid) for pid in pids)

    @contextlib.contextmanager
    def running(self) -> Iterator[Collector]:
        """Started, and killed whatever happens."""
        try:
            self.start()
            yield self
        finally:
            self.kill()


def collector_for(folder: Path, database: Database, *, method: str = "codebook", **settings: Any) -> Collector:
    """A collector with one release, registered; not running yet."""
    collector = Collector(folder, database, [Release(folder / "release", method)], **settings)
    collector.register()
    return collector


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else '"' + str(value) + '"'
