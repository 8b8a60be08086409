"""Several workers on one socket, and who watches them: one that dies is replaced, all stop together.

A worker is a process of its own (`command`), which inherits the socket and one end of a pipe: when the pipe breaks, the
supervisor was killed, and the worker stops by itself.

uvicorn has a supervisor, and this one does what that does not: workers of one that was killed do not live on and keep
the port; a stop has a deadline, and a second signal ends it; what a dead worker had waiting leaves the metrics; and the
configuration, with the database's address, travels as JSON in the environment.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from types import FrameType

from taskveil.collector.journal import journal
from taskveil.collector.metrics import worker_ended

SOCKET, PIPE = "TASKVEIL_SOCKET", "TASKVEIL_PIPE"
"""The environment variables that name the file descriptors which a worker inherits."""

LOOK_SECONDS = 0.1
"""Between two looks at the workers."""
AGAIN_SECONDS = 1.0
"""Between the starts of a worker and of the one that replaces it, at least."""


class Supervisor:
    """Starts workers, replaces those that die, and stops all when it is told to."""

    def __init__(
        self, command: list[str], told: dict[str, str], listener: socket.socket, *, stop_seconds: float, failed: int
    ) -> None:
        """A worker is `command` in an environment with what it is `told`; it ends with `failed` if no other could
        start either."""
        self._command, self._listener, self._stop_seconds, self._failed = command, listener, stop_seconds, failed
        self._ours, self._theirs = os.pipe()[::-1]
        self._environment = {
            # One thread each: several workers with several threads each are slower than one.
            "OMP_NUM_THREADS": "1",
            **os.environ,
            **told,
            SOCKET: str(listener.fileno()),
            PIPE: str(self._theirs),
        }
        self._workers: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        """By place: the process, and when it was started."""
        self._signals = 0

    def run(self, workers: int) -> int:
        """Until a signal; returns what to end with."""
        before = {sig: signal.signal(sig, self._signalled) for sig in (signal.SIGTERM, signal.SIGINT)}
        try:
            for place in range(workers):
                self._start(place)
            while not self._signals:
                time.sleep(LOOK_SECONDS)
                if self._replace() == self._failed:
                    self._stop()
                    return self._failed
            return self._stop()
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
            os.close(self._ours)
            os.close(self._theirs)

    def _signalled(self, _sig: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _start(self, place: int) -> None:
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            self._command, env=self._environment, pass_fds=(self._listener.fileno(), self._theirs)
        )
        self._workers[place] = (process, time.monotonic())

    def _replace(self) -> int | None:
        """Start anew those that have ended; returns `failed` if one could not start at all."""
        for place, (process, started) in self._workers.items():
            code = process.poll()
            if code == self._failed:
                return code
            if code is not None and time.monotonic() - started >= AGAIN_SECONDS:
                journal.warning("A worker ended unexpectedly (%d); another takes its place.", code)
                worker_ended(process.pid)
                self._start(place)
        return None

    def _stop(self) -> int:
        """Tell all workers to stop and wait for them; those that do not, or all when told again, are killed."""
        told, last = self._signals, time.monotonic() + self._stop_seconds + 1.0
        processes = [process for process, _ in self._workers.values()]
        for process in processes:
            if process.poll() is None:
                process.terminate()
        while any(process.poll() is None for process in processes):
            if self._signals > told or time.monotonic() > last:
                for process in processes:
                    process.kill()
                    process.wait()
                return 1
            time.sleep(LOOK_SECONDS)
        # A worker that was only just starting has no handler yet, and nothing that could be lost.
        return 0 if all(process.returncode in (0, -signal.SIGTERM) for process in processes) else 1
