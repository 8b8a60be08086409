"""Which version of this package is running."""

from __future__ import annotations

import subprocess
from pathlib import Path


def current_commit() -> str | None:
    """The short name of the commit this package is at, with a "+" where its files differ from it; None where git does
    not know."""

    def git(*words: str) -> str:
        # The package's own folder: the command may be run anywhere.
        command = ["git", "-C", str(Path(__file__).parents[1]), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
