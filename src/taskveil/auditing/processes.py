"""The same reports asked of many processes: what each made and what it drew, as digests."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Array
from taskveil.client import entropy
from taskveil.errors import TaskveilError
from taskveil.veil import Veil

Digest = tuple[str, str]
"""(of the reports, of the random bytes drawn for them; empty if none were seen)"""

# Self-contained, so that a fresh process loads what a device would load and no more.
_FRESH = """
import hashlib, sys
import numpy as np
from taskveil.client import entropy
from taskveil.veil import Veil
source, drawn = entropy.system_bytes, []
entropy.system_bytes = lambda count: drawn.append(source(count)) or drawn[-1]
reports = Veil.load(sys.argv[1]).privatize(np.load(sys.argv[2]))
print(hashlib.sha256(reports.tobytes()).hexdigest(), hashlib.sha256(b"".join(drawn)).hexdigest(), sep=",")
"""


def digest(make: Callable[[], Array]) -> Digest:
    """Make the reports once, looking over the shoulder of the entropy source."""
    source, seen = entropy.system_bytes, hashlib.sha256()
    drawn = 0

    def watched(count: int) -> bytes:
        nonlocal drawn
        raw = source(count)
        drawn += len(raw)
        seen.update(raw)
        return raw

    entropy.system_bytes = watched
    try:
        reports = make()
    finally:
        entropy.system_bytes = source
    return hashlib.sha256(np.ascontiguousarray(reports).tobytes()).hexdigest(), seen.hexdigest() if drawn else ""


def fork_digests(make: Callable[[], Array], count: int) -> list[Digest]:
    """From `count` children forked here, one after the other; [] where the system cannot fork."""
    if not hasattr(os, "fork"):
        return []
    digests = []
    for _ in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            # Straight out, whatever happens: a forked child must not run its parent's exit handlers.
            try:
                os.write(writer, ",".join(digest(make)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answers:
            answer = answers.read().decode()
        os.waitpid(child, 0)
        if answer:
            made, _, drawn = answer.partition(",")
            digests.append((made, drawn))
    return digests


def spawn_digests(veil: Veil | None, batch: NDArray[np.float64], count: int) -> list[Digest]:
    """From `count` fresh interpreters that load the veil's release; [] for what cannot be released."""
    if veil is None:
        return []
    with tempfile.TemporaryDirectory() as place:
        folder, file = Path(place) / "release", Path(place) / "batch.npy"
        try:
            veil.save(folder)
        except (KeyError, TaskveilError):
            return []
        np.save(file, batch)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-c", _FRESH, str(folder), str(file)]
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)  # noqa: S603
            for _ in range(count)
        ]
        answers = [process.communicate()[0].strip() for process in running]
    return [(made, drawn) for made, _, drawn in (answer.partition(",") for answer in answers) if made]
