"""Where a cluster of our own lives on the disk: in a folder that is only ours, and nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

from taskveil.client.locking import alone
from taskveil.errors import LedgerError

_SHORT = 21  # letters of the folder for temporary ones: sockets lie 82 below, and their names may have 103
_PREFIX, _LOCK = "tv-ray-", "lock"
_YOUNG = 45.0  # seconds in which what a killed driver left is not touched: its cluster may still be ending


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
    """Where a cluster of our own keeps its logs, its sockets, and what does not fit into memory: volunteers' records,
    for example. Ray makes its folders such that everybody may write there, so they lie in one that is only ours."""
    within = tempfile.gettempdir() if len(tempfile.gettempdir()) < _SHORT or os.name != "posix" else "/tmp"  # noqa: S108
    _forget_clusters(Path(within))
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=within, ignore_cleanup_errors=True) as folder,
        alone(Path(folder) / _LOCK),
    ):
        yield folder


def _forget_clusters(within: Path) -> None:
    """Delete what clusters of ours left whose driver was killed, which then holds its lock no more."""
    for folder in within.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, LedgerError):
            if time.time() - folder.lstat().st_mtime > _YOUNG and (folder / _LOCK).exists():
                with alone(folder / _LOCK, patience=0.0):
                    rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def temporary_in(folder: str | None) -> Iterator[None]:
    """Processes that are started inside have their temporary files in a folder, if one is given: a worker that is
    killed while it opens a release leaves that, too, where it is deleted with all else."""
    before = os.environ.get("TMPDIR")
    os.environ |= {} if folder is None else {"TMPDIR": folder}
    try:
        yield
    finally:
        os.environ.pop("TMPDIR", None)
        os.environ |= {} if before is None else {"TMPDIR": before}
