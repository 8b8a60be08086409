"""Pages whose code is run: Python here, shell lines in bash, a collector where a page starts one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ADDRESSES = ("https://collector.example", "http://127.0.0.1:8000")
"""Where pages say that the collector is."""


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced code blocks of a page in order: language and code."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def run_code(page: Path) -> dict[str, Any]:
    """Run a page's Python blocks from top to bottom, in one namespace, which is returned."""
    names: dict[str, Any] = {}
    code = [block for language, block in blocks(page.read_text(encoding="utf-8")) if language == "python"]
    for place, block in enumerate(code):
        exec(compile(block, f"{page.name}, block {place + 1}", "exec"), names)
    return names


class Shell:
    """A terminal in a folder: variables last from block to block, `taskveil` is these sources, and `taskveil serve`
    runs in the background, on a port of its own, until `stop`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables: dict[str, str] = {}
        self.port = _free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._server: subprocess.Popen[bytes] | None = None
        command = folder / "bin/taskveil"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m taskveil "$@"\n')
        command.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            **{"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8", "COLUMNS": "120"},
            **self.variables,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def here(self, code: str) -> str:
        """The same with the address of this collector."""
        for address in ADDRESSES:
            code = code.replace(address, self.address)
        return code

    def type(self, block: str) -> str:
        """Run a block and return what it printed on both streams; a line that fails fails the test."""
        said = ""
        for lines in re.split(r"^(taskveil serve\b.*)$", self.here(block), flags=re.MULTILINE):
            if lines.startswith("taskveil serve"):
                self._serve(lines)
            elif lines.strip():
                said += self._run(lines)
        return said

    def _run(self, lines: str) -> str:
        kept = self.folder / "bin/variables"
        script = f"set -eo pipefail\nset -a\n{lines}\nenv -0 > {kept}\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (lines, done.stdout, done.stderr)
        now = dict(entry.partition("=")[::2] for entry in kept.read_text().split("\0") if entry)
        self.variables |= {name: now[name] for name in now if now[name] != self.environment.get(name)}
        return done.stdout + done.stderr

    def _serve(self, line: str) -> None:
        with open(self.folder / "bin/log", "ab") as log:
            self._server = subprocess.Popen(
                ["bash", "-c", f"exec {line.partition('#')[0]} --port {self.port}"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + 30
        while not self.answers("/readyz"):
            assert self._server.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.05)

    def answers(self, path: str) -> bool:
        """Whether the collector says 200."""
        try:
            with self.ask(path):
                return True
        except OSError:
            return False

    def ask(self, path: str, **headers: str) -> Any:
        """The collector's answer, past any proxy."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(urllib.request.Request(self.address + path, headers=headers), timeout=10)

    @property
    def log(self) -> str:
        return (self.folder / "bin/log").read_text()

    def stop(self) -> int:
        """End the collector as systemd and Docker do, and return its exit code."""
        assert self._server is not None
        self._server.send_signal(signal.SIGTERM)
        try:
            return self._server.wait(30)
        except subprocess.TimeoutExpired:
            self._server.kill()
            raise


@contextlib.contextmanager
def terminal(folder: Path) -> Iterator[Shell]:
    """A shell whose collector, if one was started, ends with the test."""
    shell = Shell(folder)
    try:
        yield shell
    finally:
        if shell._server is not None and shell._server.poll() is None:
            shell.stop()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
