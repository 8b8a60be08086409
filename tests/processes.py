"""Processes of this machine, as Linux shows them in /proc; and how those that tests start end with the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path


def below(pid: int) -> list[int]:
    """All processes that descend from one."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [found for child in children for found in (child, *below(child))]


def state(pid: int) -> str:
    """The letter that Linux has for what it does: R and S while it runs, T where it was stopped; Z if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a process and all that descend from it, whatever group they are in; returns when none is left."""
    process.send_signal(signal.SIGSTOP)
    while process.poll() is None and state(process.pid) != "T":  # from here on it makes no new ones
        time.sleep(0.001)
    everyone = [process.pid, *below(process.pid)]
    for pid in everyone:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    while any(state(pid) != "Z" for pid in everyone):
        time.sleep(0.001)


def end_with_us(
    process: subprocess.Popen[bytes], number: signal.Signals, *, group: bool = False, user: str | None = None
) -> None:
    """Have a process (with `group`, all of its group) signalled when this one is gone, even if it was killed.

    A third process waits at the end of a pipe that closes by itself when we end. (The system's own way,
    PR_SET_PDEATHSIG, is about the thread that started a process, and threads come and go.)
    """
    target = f"-{process.pid}" if group else str(process.pid)
    watcher = subprocess.Popen(
        ["sh", "-c", 'read -r _ || kill -s "$1" -- "$2"', "sh", number.name.removeprefix("SIG"), target],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        user=user,
    )

    def dismiss() -> None:
        while process.poll() is None:
            time.sleep(0.2)
        watcher.kill()
        watcher.communicate()

    threading.Thread(target=dismiss, daemon=True).start()


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
