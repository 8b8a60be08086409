"""What tests start does not outlive them, and what they kill is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from processes import below, kill_all, state

FAMILY = "sleep 60 & setsid sh -c 'echo $$; sleep 60; :' & wait"
"""A process with a child in its group and one in a group of its own, whose id it prints."""
PARENT = """
import signal, subprocess, sys, time
from processes import end_with_us
child = subprocess.Popen(["sh", "-c", "sleep 60 & echo $! $$; wait"], start_new_session=True, stdout=sys.stdout)
end_with_us(child, signal.SIGKILL, group=True)
time.sleep(60)
"""


def gone(pid: int, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while state(pid) != "Z" and time.monotonic() < until:
        time.sleep(0.01)
    return state(pid) == "Z"


def test_a_kill_leaves_nobody_in_whatever_group() -> None:
    process = subprocess.Popen(["sh", "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    stranger = int(process.stdout.readline())
    family = below(process.pid)
    assert stranger in family
    assert os.getpgid(stranger) != os.getpgid(process.pid)
    kill_all(process)
    assert [state(pid) for pid in (process.pid, *family)] == ["Z"] * (1 + len(family))
    process.stdout.close()


def test_processes_end_with_a_test_run_that_was_killed() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    started = [int(word) for word in parent.stdout.readline().split()]
    time.sleep(0.3)  # nothing ends as long as the run goes on
    assert "Z" not in [state(pid) for pid in started]
    parent.send_signal(signal.SIGKILL)
    assert parent.wait() == -signal.SIGKILL
    assert all(map(gone, started))
    parent.stdout.close()
