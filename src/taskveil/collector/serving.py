"""The collector as processes: one worker, or several workers on one socket with a supervisor.

With several workers, the supervisor starts each as a process of its own. A worker inherits the socket and one end of a
pipe. If the supervisor is killed, the pipe breaks and the worker stops.

uvicorn has a supervisor too. This one is needed because there the workers of a killed supervisor keep running and keep
the port, a stop has no deadline, and a dead worker's waiting reports stay in the metrics.
"""

from __future__ import annotations

import contextlib
import json
import logging.config
import math
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.main import STARTUP_FAILURE  # type: ignore[attr-defined]

from taskveil.collector.api import create_app
from taskveil.collector.connections import CollectorConfig
from taskveil.collector.journal import CONFIGURATION, journal
from taskveil.collector.metrics import prepare, worker_ended
from taskveil.collector.settings import RETRY_SECONDS, Settings
from taskveil.errors import DataError

if sys.platform != "win32":
    import resource

SETTINGS, SOCKET, PIPE = "TASKVEIL_COLLECTOR", "TASKVEIL_SOCKET", "TASKVEIL_PIPE"
"""Environment variables of a worker: its settings (everybody can read a command line), and two file descriptors."""

BIND_SECONDS = 5.0
"""How long a start waits until the workers of a killed collector have left the port."""

CHECK_WORKERS_SECONDS = 0.1


def serve(settings: Settings, *, demo: Path | None = None, bound: Callable[[str], None] | None = None) -> int:
    """Serve until a signal. Returns the exit code: 0 after a requested stop.

    The first SIGTERM or SIGINT lets running requests finish, for at most `stop_seconds`. The second stops at once. In
    both cases all acknowledged reports are in the database.

    Args:
        settings: of the collector.
        demo: a folder of pages that are served under /demo/.
        bound: called with the address when connections are accepted.
    """
    _check_certificate(settings)
    with _listening(settings) as listener, prepare(settings.workers):
        logging.config.dictConfig(CONFIGURATION)
        host, port = listener.getsockname()[:2]
        if bound is not None:
            scheme = "http" if settings.certificate is None else "https"
            bound(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        if settings.workers == 1:
            return work(settings, demo, listener)
        given = json.dumps({"settings": settings.model_dump(mode="json"), "demo": None if demo is None else str(demo)})
        command = [sys.executable, "-m", "taskveil.collector.serving"]
        return Supervisor(command, {SETTINGS: given}, listener, settings.stop_seconds).run(settings.workers)


def work(settings: Settings, demo: Path | None, listener: socket.socket) -> int:
    """Serve in this process. Returns the exit code."""
    _allow_files(settings.most_connections)
    # Requests and the thread that commits them share an interpreter. By default each waits 5 ms for the other, several
    # times in a commit.
    sys.setswitchinterval(0.0005)
    config = CollectorConfig(
        partial(create_app, settings, demo=demo),
        settings,
        factory=True,
        lifespan="on",
        ws="none",
        log_config=CONFIGURATION,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=math.ceil(0.75 * settings.stop_seconds),  # the rest is for the last commit
    )
    worker = Worker(config)
    with contextlib.suppress(KeyboardInterrupt):
        worker.run(sockets=[listener])
    return 0 if worker.started else STARTUP_FAILURE


class Worker(uvicorn.Server):
    """uvicorn's server. It ends with 0 after a requested stop, at once after a second signal, and always in time."""

    config: CollectorConfig

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's arguments
        """Stop. The second signal ends the process: no report was acknowledged that is not stored."""
        if self.should_exit:
            os._exit(1)
        self.should_exit = True
        late = threading.Timer(self.config.settings.stop_seconds, os._exit, (1,))  # if the database hangs
        late.daemon = True
        late.start()


class Supervisor:
    """Starts workers, replaces those that die, and stops all after a signal."""

    def __init__(
        self, command: list[str], environment: dict[str, str], listener: socket.socket, stop_seconds: float
    ) -> None:
        """Args:
        command: runs a worker.
        environment: the worker's, beside our own.
        listener: the socket that all workers accept from.
        stop_seconds: for running requests, after a signal.
        """
        self._command, self._listener, self._stop_seconds = command, listener, stop_seconds
        self._ours, self._theirs = os.pipe()[::-1]
        self._environment = {
            # One thread each: several workers with several threads each are slower than one.
            "OMP_NUM_THREADS": "1",
            **os.environ,
            **environment,
            SOCKET: str(listener.fileno()),
            PIPE: str(self._theirs),
        }
        self._workers: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        """By number: the process, and when it was started."""
        self._signals = 0

    def run(self, workers: int) -> int:
        """Run until a signal. Returns the exit code."""
        before = {sig: signal.signal(sig, self._signalled) for sig in (signal.SIGTERM, signal.SIGINT)}
        try:
            for number in range(workers):
                self._start(number)
            while not self._signals:
                time.sleep(CHECK_WORKERS_SECONDS)
                if self._replace() == STARTUP_FAILURE:
                    self._stop()
                    return STARTUP_FAILURE
            return self._stop()
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
            os.close(self._ours)
            os.close(self._theirs)

    def _signalled(self, _sig: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _start(self, number: int) -> None:
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            self._command, env=self._environment, pass_fds=(self._listener.fileno(), self._theirs)
        )
        self._workers[number] = (process, time.monotonic())

    def _replace(self) -> int | None:
        """Replace the workers that have ended. Returns `STARTUP_FAILURE` if one could not start at all."""
        for number, (process, started) in self._workers.items():
            code = process.poll()
            if code == STARTUP_FAILURE:
                return code
            if code is not None and time.monotonic() - started >= RETRY_SECONDS:
                journal.warning("A worker ended unexpectedly (%d); another takes its place.", code)
                worker_ended(process.pid)
                self._start(number)
        return None

    def _stop(self) -> int:
        """Stop all workers and wait. They are killed when the time is over, or after another signal."""
        signals, last = self._signals, time.monotonic() + self._stop_seconds + 1.0
        processes = [process for process, _ in self._workers.values()]
        for process in processes:
            if process.poll() is None:
                process.terminate()
        while any(process.poll() is None for process in processes):
            if self._signals > signals or time.monotonic() > last:
                for process in processes:
                    process.kill()
                    process.wait()
                return 1
            time.sleep(CHECK_WORKERS_SECONDS)
        # A worker that was just starting has no signal handler yet, and no report that could be lost.
        return 0 if all(process.returncode in (0, -signal.SIGTERM) for process in processes) else 1


def _listening(settings: Settings) -> socket.socket:
    """The socket that all workers accept from."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    last = time.monotonic() + BIND_SECONDS
    while True:
        try:
            return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
        except OSError as error:
            if time.monotonic() > last or not settings.port:
                raise DataError(
                    f"the collector cannot listen on {settings.host}, port {settings.port}: {error.strerror}. Is "
                    "another one running? Name another port with --port."
                ) from None
            time.sleep(0.1)


def _check_certificate(settings: Settings) -> None:
    if (settings.certificate is None) != (settings.key is None):
        raise DataError("a certificate needs its key, and a key its certificate: name both, or none.")
    if settings.certificate is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certificate, settings.key)
        except OSError as error:  # ssl.SSLError is one
            raise DataError(
                f"certificate and key cannot be used: {error.strerror or type(error).__name__}. Both are PEM files, "
                "the key without a password."
            ) from None


def _allow_files(connections: int) -> None:
    """Raise the limit of open files to what connections and a database need, as far as the system allows."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * connections + 256
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted if hard < 0 else min(wanted, hard)), hard))


def _inherited() -> int:
    """Run as a worker of a `Supervisor`, until a signal or until the supervisor is gone. Returns the exit code."""
    given = json.loads(os.environ.pop(SETTINGS))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the supervisor stops us
    pipe, listener = int(os.environ.pop(PIPE)), socket.socket(fileno=int(os.environ.pop(SOCKET)))

    def watch() -> None:
        os.read(pipe, 1)  # returns when nobody can write to it any more
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    logging.config.dictConfig(CONFIGURATION)
    demo = None if given["demo"] is None else Path(given["demo"])
    return work(Settings(**given["settings"]), demo, listener)


if __name__ == "__main__":
    sys.exit(_inherited())
