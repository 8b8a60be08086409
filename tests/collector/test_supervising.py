"""Workers that die, that cannot start, that do not stop."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from taskveil.collector import serving
from taskveil.collector.serving import STARTUP_FAILURE, Supervisor

WORKER = """
import os, signal, sys, time
def note(text):
    with open(os.environ["NOTES"], "a") as file:
        file.write(text + "\\n")
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(serving, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(serving, "CHECK_WORKERS_SECONDS", 0.01)
    (tmp_path / "notes").touch()
    return tmp_path / "notes"


def run(notes: Path, code: str, workers: int = 2, stop_seconds: float = 5.0) -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-S", "-c", WORKER + code]
        supervisor = Supervisor(command, {"NOTES": str(notes)}, listener, stop_seconds)
        return supervisor.run(workers)


def signal_after(notes: Path, lines: int, times: int = 1) -> threading.Thread:
    """Signals to ourselves as soon as workers have noted so much."""

    def wait() -> None:
        end = time.monotonic() + 20
        while len(notes.read_text().splitlines()) < lines and time.monotonic() < end:
            time.sleep(0.01)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.3)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_all_stop_when_it_is_told(notes: Path) -> None:
    thread = signal_after(notes, 2)
    stopping = "signal.signal(signal.SIGTERM, lambda *_: (note('end'), sys.exit(0))); note('start'); time.sleep(60)"
    assert run(notes, stopping) == 0
    thread.join()
    assert sorted(notes.read_text().split()) == ["end", "end", "start", "start"]


def test_those_that_die_are_replaced(notes: Path) -> None:
    thread = signal_after(notes, 4)
    assert run(notes, "note('start'); time.sleep(0.1); os.kill(os.getpid(), signal.SIGKILL)", workers=1) == 0
    thread.join()
    assert len(notes.read_text().split()) >= 4


def test_what_cannot_start_is_not_started_again(notes: Path) -> None:
    assert run(notes, f"note('start'); sys.exit({STARTUP_FAILURE})", workers=1) == STARTUP_FAILURE
    assert notes.read_text().split() == ["start"]


@pytest.mark.parametrize(("times", "stop_seconds"), [(2, 60.0), (1, -0.5)], ids=["told again", "too late"])
def test_those_that_do_not_stop_are_killed(notes: Path, times: int, stop_seconds: float) -> None:
    thread = signal_after(notes, 2, times)
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); note('start'); time.sleep(60)"
    start = time.monotonic()
    assert run(notes, deaf, stop_seconds=stop_seconds) == 1
    assert time.monotonic() - start < 10
    thread.join()
