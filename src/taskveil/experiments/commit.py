"""Which version of this package is running."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
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


def measured_at(commits: Iterable[str | None]) -> tuple[str, str]:
    """("at commit …", a sentence on the names or "") for what was measured at these: finished parts may have been kept
    from an earlier one. ("", "") where none is known."""
    found = set(commits)
    known = sorted(name for name in found if name is not None)
    if not known:
        return "", ""
    some = " (and parts of which no commit is known)" if None in found else ""
    words = f"at commit{'s' if len(known) > 1 else ''} {', '.join(known)}{some}"
    return words, " A + stands for changes that were not committed." if any("+" in name for name in known) else ""
