"""What anybody who may list a folder, and look into /proc, sees of a job while it runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from processes import below, command, state


def born(pid: int) -> int:
    """When a process began, in the system's ticks: with its number, what tells it from all others."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return -1


@dataclass(frozen=True)
class Process:
    """One that was there at some time."""

    pid: int
    born: int

    @property
    def runs(self) -> bool:
        """Whether it still does."""
        return state(self.pid) not in "ZX" and born(self.pid) == self.born


def processes_of(job: subprocess.Popen[bytes]) -> list[Process]:
    """All that descend from a job."""
    return [Process(pid, born(pid)) for pid in below(job.pid)]


def workers_of(job: subprocess.Popen[bytes], *, starting: bool = True) -> list[Process]:
    """Those that Ray runs tasks in, at work, idle, or still `starting`: of one that is lost before it has said who it
    is, Ray may not know for a minute."""
    found = []
    for process in processes_of(job):
        said = [*command(process.pid).split(), "", ""]
        works = said[0].startswith("ray::") and not said[0].endswith("Agent")  # a raylet ends with its agents
        if works or (starting and said[1].endswith("/default_worker.py")):
            found.append(process)
    return found


@dataclass(frozen=True)
class Seen:
    """A part as it was when it was first seen."""

    inode: int
    changed: int
    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Seen:
        """As it is now."""
        found = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return cls(inode=found.st_ino, changed=found.st_mtime_ns, size=found.st_size, sha256=digest)


@dataclass
class Watch:
    """Everything that was ever seen of a `target` folder: names, parts, and drafts, which only their writer's open
    files show."""

    target: Path
    names: set[str] = field(default_factory=set)
    parts: dict[str, Seen] = field(default_factory=dict)
    drafts: set[tuple[Process, int]] = field(default_factory=set)
    """By whose they are, and inode. A disk may use an inode again, so that there may have been more."""

    def look(self) -> list[str]:
        """Names of parts that were not there before."""
        try:
            names = set(os.listdir(self.target))
        except FileNotFoundError:
            return []
        self.names |= names
        fresh = sorted(name for name in names if name.startswith("part-") and name not in self.parts)
        for name in fresh:
            self.parts[name] = Seen.of(self.target / name)
        return fresh

    def at_work(self, workers: list[Process]) -> list[Process]:
        """Those of the workers that have a draft in the target open at this moment."""
        return [worker for worker in workers if self._drafts_of(worker) and worker.runs]

    def _drafts_of(self, worker: Process) -> int:
        found = 0
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{worker.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor).startswith(f"{self.target}/#"):
                        opened = descriptor.stat()
                        if not opened.st_nlink:
                            self.drafts.add((worker, opened.st_ino))
                            found += 1
        return found

    @property
    def lost(self) -> int:
        """Drafts that were seen and never became a part."""
        inodes = {inode for _, inode in self.drafts}
        return len(self.drafts) - sum(part.inode in inodes for part in self.parts.values())

    def changed(self) -> list[str]:
        """Parts that are no longer as they were when they were first seen."""
        return [
            f"{name} is not what it was"
            for name, seen in self.parts.items()
            if not (self.target / name).exists() or Seen.of(self.target / name) != seen
        ]
