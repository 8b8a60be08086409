"""SIGKILL at random points of a job on Ray: every row exactly one report, no part twice, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lost_workers import people
from lost_workers.memory import found_in
from lost_workers.watching import Process, Watch, processes_of, workers_of
from processes import end_with_us, kill_all
from taskveil.jobs.plans import MANIFEST

PATIENCE = 300.0
"""Seconds without a new part, or for what was killed to be gone, after which something is wrong."""
_TICK, _LOOK = 0.003, 0.05
_DESCRIPTION = b"PartWriter"  # the class of the work that Ray keeps: proves that we look in the right place


@dataclass
class Kills:
    """A job that is killed again and again, and run again until it ends by itself."""

    command: list[str]
    target: Path
    temporary: Path
    """What it has for a temporary folder."""
    wanted: int
    parts: int
    drivers: int = 0
    """How many of the kills are of the driver, which takes its cluster along."""
    longest: float = 0.5
    """Seconds that a writer may go on at most before it is killed: about what a part takes."""
    starting: bool = True
    """Whether workers are killed while they start, too."""
    seed: int | None = None
    watch: Watch = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    everyone: set[Process] = field(default_factory=set)
    workers: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = Watch(self.target)
        self.random = random.Random(self.seed)

    @property
    def killed(self) -> int:
        """How often SIGKILL was sent."""
        return self.counts["workers"] + self.counts["drivers"]

    def run(self) -> None:
        """Until the job has ended by itself."""
        while not self.complaints:
            complete = (self.target / MANIFEST).exists()  # if the driver was killed between the manifest and its end
            job = self._started()
            try:
                self._strike(job)
                if job.poll() is not None and job.returncode == 0:
                    break
                if complete and job.returncode == 2 and "Running again draws a second report" in self._said():
                    self.counts["complete before"] += 1  # refused, as it must be
                    break
                if job.returncode != -signal.SIGKILL:
                    self.complaints.append(f"the job ended with {job.returncode}: {self._said()}")
            finally:
                if job.poll() is None:
                    self._remember(job)
                    kill_all(job)
        self.watch.look()
        self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        """The job, once more; what is left of an earlier one may still run beside it."""
        environment = {**os.environ, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        with (self.temporary.parent / "said.txt").open("ab") as said:
            self.said_before = said.tell()
            job = subprocess.Popen(self.command, env=environment, stdout=said, stderr=said, start_new_session=True)
        end_with_us(job, signal.SIGKILL, group=True)
        self.counts["runs"] += 1
        return job

    def _strike(self, job: subprocess.Popen[bytes]) -> None:
        """Kill after kill until the driver is gone, by itself or by us."""
        while self.killed < self.wanted and job.poll() is None and not self.complaints:
            # So many kills for every part still to come, that none is left over for the last fifth; or all at once.
            ahead = max(0.0, 0.8 * self.parts - len(self.watch.parts))
            enough = len(self.watch.parts) + int(self.random.random() * 2 * ahead / (self.wanted - self.killed))
            self._wait(job, lambda enough=enough: len(self.watch.parts) >= enough)
            due = self.killed * self.drivers > self.counts["drivers"] * self.wanted
            if due and self.random.random() < 0.5:
                self._pause(1.0)
                self._kill_driver(job)
                return
            moment = self.random.choice(("drafting", "drafting", "appearing", "any", "all")) if ahead else "all"
            if self._wait(job, lambda moment=moment: self._is(moment)):
                if moment == "drafting":
                    self._pause(self.longest)
                self._kill_workers(job, moment)
        self._wait(job, lambda: False)

    def _is(self, moment: str) -> bool:
        """Whether this is the moment: a part has just appeared, or somebody is at work, or anything else."""
        if moment == "appearing":
            return bool(self.watch.look())
        if moment == "any":
            return self.random.random() < 0.01
        return bool(self.watch.at_work(self.workers))

    def _wait(self, job: subprocess.Popen[bytes], enough: Callable[[], bool]) -> bool:
        """Look on until it is enough, or False if the job ended before."""
        last = looked = -PATIENCE
        news = -1
        while job.poll() is None:
            now = time.monotonic()
            if now - looked > _LOOK:  # it takes a while
                self.workers, looked = workers_of(job, starting=self.starting), now
            self.watch.at_work(self.workers)
            if enough():
                return True
            self.watch.look()
            if len(self.watch.parts) > news:
                last, news = now, len(self.watch.parts)
                self._remember(job)
            if now - last > PATIENCE:
                self.complaints.append(f"no new part for {PATIENCE:.0f} s")
                return False
            time.sleep(_TICK)
        return False

    def _pause(self, longest: float) -> None:
        time.sleep(self.random.random() * longest)

    def _kill_workers(self, job: subprocess.Popen[bytes], moment: str) -> None:
        workers = workers_of(job, starting=self.starting)
        self._remember(job)
        busy = self.watch.at_work(workers)
        if moment != "all":
            workers = [self.random.choice(busy or workers)] if workers else []
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
                self.counts["workers"] += 1
                self.counts["at work"] += worker in busy
                self.counts[moment] += 1

    def _kill_driver(self, job: subprocess.Popen[bytes]) -> None:
        """The driver alone: its cluster is left to notice."""
        self._remember(job)
        job.kill()
        job.wait()
        self.counts["drivers"] += 1

    def _remember(self, job: subprocess.Popen[bytes]) -> None:
        """Who descends from the job; and that the memory which they share holds descriptions of parts only."""
        processes = processes_of(job)
        self.everyone |= {*processes}
        if not self.watch.parts or self.counts["searches"] > self.killed / 3:
            return
        traces = [trace for name in self.watch.parts for trace in people.traces(self.target / name)]
        size, found = found_in(processes, [_DESCRIPTION, *traces])
        self.counts["searches"] += 1
        self.counts["searched"] = max(self.counts["searched"], size)
        self.counts["descriptions"] += _DESCRIPTION in found
        if found - {_DESCRIPTION}:
            self.complaints.append("records or reports lie in Ray's object store")

    def _end(self) -> None:
        """Nobody who ever descended from a job is at work any more. (Ray's own may take a minute to notice that their
        driver is gone: they are not waited for.)"""
        until = time.monotonic() + PATIENCE
        while (busy := self.watch.at_work([*self.everyone])) and time.monotonic() < until:
            time.sleep(0.05)
        if busy:
            self.complaints.append(f"{len(busy)} workers did not end with their job")
        for process in self.everyone:
            if process.runs:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    def _said(self) -> str:
        """What the last run said."""
        said = (self.temporary.parent / "said.txt").read_bytes()[self.said_before :]
        return said.decode("utf-8", "replace")[-2000:]


def privatize(source: Path, target: Path, release: Path, *, workers: int = 2) -> list[str]:
    """The command of a job on a cluster of its own."""
    options = ["--release", str(release), "--engine", "ray", "--workers", str(workers)]
    return [sys.executable, "-m", "taskveil", "privatize", str(source), str(target), *options]
