"""Python programs whose stderr is a terminal, a pipe, or both in turn."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
from typing import NamedTuple

import pytest


class Shown(NamedTuple):
    """What a program wrote on stdout, and what the terminal or the pipe behind stderr received."""

    out: str
    err: str
    code: int


def run(program: str, *, terminal: bool, **variables: str) -> Shown:
    """Run a program with its stderr on a pseudo-terminal of 200 columns, or in a pipe; stdout is a pipe."""
    hidden = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    environment = {**kept, "TERM": "xterm", "COLUMNS": "200", **variables}
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    )
    os.close(theirs)
    received = b""
    try:
        while chunk := os.read(ours, 65536):
            received += chunk
    except OSError as error:  # how Linux says that nobody holds the terminal any more
        if error.errno != errno.EIO:
            raise
    finally:
        os.close(ours)
    out, _ = process.communicate(timeout=60)
    return Shown(out, received.decode(), process.returncode)


def screen(received: str, *, columns: int = 200) -> str:
    """What stays on the screen of a terminal: the few codes that rich sends are obeyed, colours left out."""
    import re

    lines, row, column = [""], 0, 0
    for code, number, kind, text in re.findall(r"(\x1b\[\??([\d;]*)([A-Za-z]))|([^\x1b])", received):
        if text == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif text == "\r":
            column = 0
        elif text:
            lines[row] = lines[row].ljust(column)[:column] + text + lines[row][column + 1 :]
            column += 1
            assert column <= columns
        elif kind == "K" and number == "2":
            lines[row] = ""
        elif kind == "A":
            row = max(0, row - int(number or 1))
        elif kind not in "mhlK":
            pytest.fail(f"an unknown code {code!r}")
    return "\n".join(line.rstrip() for line in lines).strip("\n")
