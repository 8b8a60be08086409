"""Processes of this machine, as Linux shows them in /proc."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def below(pid: int) -> list[int]:
    """All processes that descend from one."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [found for child in children for found in (child, *below(child))]


def alive(pid: int) -> bool:
    """Whether it still runs: one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def resident(pid: int) -> int:
    """Bytes that it holds in memory."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def processor_seconds(pid: int) -> float:
    """That it has used so far, together with all that descend from it and still run."""
    total = 0
    for one in (pid, *below(pid)):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += int(words[11]) + int(words[12])
    return total / os.sysconf("SC_CLK_TCK")


def command(pid: int) -> str:
    """What it was started as."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""
