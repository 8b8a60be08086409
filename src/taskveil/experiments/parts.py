"""Parts of experiments: each is computed in a process of its own, kept in a file once it is finished, and found again.

The comparison in the field and the paper's figures are both lists of such parts.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from taskveil.errors import DataError
from taskveil.progress import Progress

R = TypeVar("R")


class Part(Protocol[R]):
    """What can be computed by itself. It is sent to other processes, so it must be picklable."""

    @property
    def name(self) -> str:
        """What it is called in files and on the command line: everything its rows depend on but the device."""
        ...

    @property
    def device(self) -> str:
        """Where torch computes."""
        ...

    @property
    def size(self) -> float:
        """How long it takes, in any unit: the longest parts are begun first."""
        ...

    @property
    def row_type(self) -> type[R]:
        """A dataclass of numbers and strings."""
        ...

    def rows(self, progress: bool | Progress | None) -> list[R]:
        """Compute it, with one thread."""
        ...


@dataclass(frozen=True, kw_only=True)
class Finished(Generic[R]):
    """The rows of a part, and where, when and with which version they were measured."""

    name: str
    seconds: float
    machine: str
    date: str
    commit: str | None
    rows: list[R]

    @classmethod
    def by_running(
        cls, part: Part[R], *, commit: str | None, folder: Path | None = None, progress: bool | Progress | None = False
    ) -> Finished[R]:
        """Compute the part now, and keep it in the folder before it is returned."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what designs warn of is seen in the losses
            rows = part.rows(progress)
        made = cls(
            name=part.name,
            seconds=round(time.perf_counter() - start, 1),
            machine=machine(part.device),
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            commit=commit,
            rows=rows,
        )
        if folder is not None:
            made._write(folder)
        return made

    @classmethod
    def read(cls, folder: Path, part: Part[R]) -> Finished[R] | None:
        """What an earlier run left of the part, if it did."""
        path = folder / f"{part.name}.json"
        if not path.exists():
            return None
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**content, "rows": [part.row_type(**row) for row in content["rows"]]})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} keeps no finished part: {error}. Remove it, or resume elsewhere.") from error

    def _write(self, folder: Path) -> None:
        """A reader finds all of it or nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"{self.name}.json.part"
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        draft.replace(folder / f"{self.name}.json")


def finished_parts(
    chosen: Sequence[Part[R]], *, folder: Path | None = None, jobs: int = 1, commit: str | None = None
) -> Iterator[Finished[R]]:
    """Every part with its rows, as soon as they are there.

    Args:
        chosen: which.
        folder: where finished parts are kept, and found again.
        jobs: how many parts are computed at a time, each in a process of its own with one thread.
        commit: which version is measured; by default what git says about this package.
    """
    missing = []
    for part in chosen:
        found = None if folder is None else Finished.read(folder, part)
        if found is None:
            missing.append(part)
        else:
            yield found
    commit = commit or current_commit()
    if jobs == 1:
        for part in missing:
            yield Finished.by_running(part, commit=commit, folder=folder, progress=None)
        return
    # So that no long one is left alone at the end.
    missing.sort(key=lambda part: -part.size)
    # Fresh processes: a fork would copy the locks of threads that are running here.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        waiting = [pool.submit(Finished.by_running, part, commit=commit, folder=folder) for part in missing]
        failed = []
        for done in as_completed(waiting):
            if error := done.exception():
                failed.append(error)  # the others go on: what is finished is kept
            else:
                yield done.result()
        if failed:
            raise failed[0]
    finally:
        pool.shutdown(cancel_futures=True)


def machine(device: str) -> str:
    """What computes, in words: cores, Python, torch and, for a `device` that is one, the graphics card."""
    words = [f"{os.cpu_count()} cores ({platform.machine()})", f"Python {platform.python_version()}"]
    if find_spec("torch"):
        import torch

        words.append(f"torch {torch.__version__}")
        if device.startswith("cuda") and torch.cuda.is_available():
            words.append(torch.cuda.get_device_name())
    return ", ".join(words)


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
