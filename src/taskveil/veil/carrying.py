"""A release as bytes, for what has no folder to lie in: a database, a task on another machine.

The bytes are those of its files, and are checked like a folder by whoever opens them.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import rmtree

from taskveil.client.reading import CLIENT, MANIFEST, SIGNATURE, WEIGHTS
from taskveil.errors import ReleaseError
from taskveil.veil.release import SERVER

SIGNATURE_BYTES = 64
"""Of Ed25519."""

LEFT = 3600.0
"""Seconds after which nobody can still be opening the release of a temporary folder."""
_PREFIX = "taskveil-release-"


def carried(release: Path) -> dict[str, bytes]:
    """The files of both halves of a release: "client/manifest.json" …, or a ReleaseError if one is missing."""
    return {**carried_half(release / CLIENT, CLIENT), **carried_half(release / SERVER, SERVER)}


def carried_half(folder: Path, half: str) -> dict[str, bytes]:
    """The files in the `folder` of one half, named as parts of a release.

    These and no others: the client's may be public, and whatever else lies there (or is linked to) is for nobody.
    """
    try:
        files = {f"{half}/{name}": (folder / name).read_bytes() for name in (MANIFEST, WEIGHTS)}
        signature = folder / SIGNATURE
        if signature.is_file() and signature.stat().st_size == SIGNATURE_BYTES:
            files[f"{half}/{SIGNATURE}"] = signature.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{error.filename} cannot be read: {error.strerror}. Is this a release?") from error
    return files


@contextlib.contextmanager
def unpacked(files: Mapping[str, bytes]) -> Iterator[Path]:
    """The release in a folder that nobody else may read, and that is gone afterwards."""
    with passing_folder() as folder:
        for name, content in files.items():
            half, _, file = name.partition("/")
            if half in (CLIENT, SERVER) and file and Path(file).name == file:
                (folder / half).mkdir(exist_ok=True)
                (folder / half / file).write_bytes(content)
        yield folder


@contextlib.contextmanager
def passing_folder() -> Iterator[Path]:
    """A folder for a release that nobody else may read, and that is gone afterwards; soon after, if whoever has it is
    killed."""
    _tidy()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        yield Path(folder)


def _tidy() -> None:
    """Delete what was left by those who were killed while they opened a release: it holds volunteers' records."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.lstat().st_mtime > LEFT:
                rmtree(folder, ignore_errors=True)
