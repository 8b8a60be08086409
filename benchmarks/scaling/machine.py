"""What a machine does while something is measured on it: memory of Ray's workers, work of others, reads from disk."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import threading
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

from processes import below, processor_seconds

_FIELDS = {"VmHWM": "most", "RssAnon": "own", "RssFile": "files", "RssShmem": "shared"}


class WorkerMemory:
    """The most memory, in MB, that any of Ray's workers below this process held inside a `with` block: `most`, and of
    what its `own`, mapped `files` and `shared` memory (the object store) came to when it was last looked at near there.

    Linux keeps the peak itself, from when it was told to begin anew, so none is missed between two looks.
    """

    def __init__(self) -> None:
        self.most = self.own = self.files = self.shared = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> WorkerMemory:
        for pid in _workers():
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def __str__(self) -> str:
        return f"{self.most} MB (its own {self.own}, files it maps {self.files}, shared with others {self.shared})"

    def _watch(self) -> None:
        while True:
            over = self._over.wait(0.05)
            for pid in _workers():
                now = _memory(pid)
                if now.get("most", 0) > self.most:
                    self.__dict__.update(now)
            if over:  # and looked once more
                return


def _workers() -> list[int]:
    """Processes in which Ray runs what it is given: they are called ray::… (so are two small ones of its own)."""
    found = []
    for pid in below(os.getpid()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
                found.append(pid)
    return found


def _memory(pid: int) -> dict[str, int]:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        told = dict(line.split(":", 1) for line in lines)
        return {
            name: int(told[field].split()[0]) * 1024 // 1_000_000 for field, name in _FIELDS.items() if field in told
        }
    return {}


class Watch:
    """What has happened since it was made: seconds of processor that `ours` took and `others` took, and bytes read from
    disks."""

    def __init__(self) -> None:
        self._busy, self._ours, self._read = _busy(), processor_seconds(os.getpid()), _read()

    @property
    def ours(self) -> float:
        return processor_seconds(os.getpid()) - self._ours

    @property
    def others(self) -> float:
        return max(0.0, _busy() - self._busy - self.ours)

    @property
    def disk(self) -> int:
        return _read() - self._read


def _busy() -> float:
    """Seconds for which all cores together have worked since the machine was started."""
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _read() -> int:
    line = next(line for line in Path("/proc/vmstat").read_text().splitlines() if line.startswith("pgpgin "))
    return int(line.split()[1]) * 1024


def stamp() -> dict[str, Any]:
    """When, where and with what something was measured."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit.stdout.strip() or "unknown",
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, Ray {version('ray')}, Arrow {version('pyarrow')}",
        "load": round(os.getloadavg()[0], 1),
    }
