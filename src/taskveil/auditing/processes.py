"""What is asked of other processes: reports under failing entropy, and digests of what each made and drew.

Nothing here touches the entropy of this process. Whatever is replaced is replaced in a child, so that other threads
of the caller keep their randomness. A child forked from a process with threads may find a lock held by a thread that
it does not have; it then gives no answer, is ended after a while, and its question stays unanswered.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Array
from taskveil.client import entropy
from taskveil.client.encoders import NamedEncoder
from taskveil.errors import TaskveilError
from taskveil.veil import Veil

Bytes = Callable[[int], bytes]

PATIENCE = 60.0
"""Seconds until a child that gives no answer is ended."""

# Self-contained, so that a fresh process loads what a device would load and no more.
_FRESH = """
import hashlib, sys
from pathlib import Path
import numpy as np
from taskveil.client import entropy
from taskveil.client.reading import client_files, read_device
source, drawn = entropy.system_bytes, []
entropy.system_bytes = lambda count: drawn.append(source(count)) or drawn[-1]
device, _ = read_device(client_files(Path(sys.argv[1])))
reports = device.privatize(np.load(sys.argv[2]))
print(hashlib.sha256(reports.tobytes()).hexdigest(), hashlib.sha256(b"".join(drawn)).hexdigest(), sep=",")
"""

Digest = tuple[str, str]
"""(of the reports, of the random bytes drawn for them; empty if none were seen)"""


def in_child(ask: Callable[[], Any], *, patience: float = PATIENCE) -> Any:
    """What `ask` returns (plain JSON) in a forked child; None if the system cannot fork or no answer came in time.

    An error in the child is no answer either: `ask` catches those that it expects.
    """
    if not hasattr(os, "fork"):
        return None
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks beside threads; what may happen then is what the time-out is for.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        # Straight out, whatever happens: a forked child must not run its parent's exit handlers.
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as answer:
                answer.write(json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    raw = None
    try:
        raw = _read(reader, time.monotonic() + patience)
    finally:
        if raw is None:
            os.kill(child, signal.SIGKILL)
        os.close(reader)
        os.waitpid(child, 0)
    return json.loads(raw) if raw else None


def _read(reader: int, deadline: float) -> bytes | None:
    """All that is written until the other end closes; None if that takes longer than the deadline."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def replace_entropy(source: Bytes, door: Bytes | None = None) -> None:
    """From now on this process draws from `source`. Only ever called in a child, which has no way back.

    Replaced are `os.urandom` under every name a loaded module knows it by (`random.SystemRandom` and so `secrets` have
    their own) and taskveil's own door, by `door` where it differs. Code outside Python asks the system itself.
    """
    for module, name in _names_of_urandom(len(sys.modules)):
        setattr(module, name, source)
    entropy.system_bytes = door or source


@lru_cache(maxsize=1)
def _names_of_urandom(_modules: int) -> list[tuple[ModuleType, str]]:
    """Where this process keeps `os.urandom`. Looked up once, so that not every child has to (see `fork_digests`)."""
    return [
        (module, name)
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
        for name, value in list(vars(module).items())
        if value is os.urandom
    ]


def digest(make: Callable[[], Array]) -> Digest:
    """Make the reports once, looking over the shoulder of the entropy source. Only ever called in a child."""
    system, seen = os.urandom, hashlib.sha256()
    drawn = 0

    def watched(count: int) -> bytes:
        nonlocal drawn
        raw = system(count)
        drawn += len(raw)
        seen.update(raw)
        return raw

    replace_entropy(watched)
    reports = make()
    return hashlib.sha256(np.ascontiguousarray(reports).tobytes()).hexdigest(), seen.hexdigest() if drawn else ""


def fork_digests(make: Callable[[], Array], count: int) -> list[Digest]:
    """From `count` children forked here, one after the other; those that gave no answer are missing."""
    digests: list[Digest] = []
    _names_of_urandom(len(sys.modules))  # children inherit what was looked up
    for _ in range(count):
        answer = in_child(lambda: digest(make))
        if answer is None:
            return digests  # the next one would not answer either, and would take as long not to
        digests.append((answer[0], answer[1]))
    return digests


def spawn_digests(veil: Veil | None, batch: NDArray[np.float64], count: int) -> list[Digest]:
    """From `count` fresh interpreters that load the veil's release; [] for what cannot be released, and for a release
    that names a model, which they do not have."""
    if veil is None or isinstance(veil.encoder, NamedEncoder):
        return []
    with tempfile.TemporaryDirectory() as place:
        folder, file = Path(place) / "release", Path(place) / "batch.npy"
        try:
            veil.save(folder, volunteers=False)
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
