"""One run of an experiment: its rows, where and when they were measured, kept in a file and drawn from it."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from taskveil.errors import DataError
from taskveil.experiments.report import Row
from taskveil.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What one experiment gave, with as many seeds as were asked for."""

    name: str
    seeds: int
    seconds: float
    machine: str
    date: str
    rows: list[Row]

    @classmethod
    def by_running(
        cls, name: str, seeds: int, *, device: str = "cpu", progress: bool | Progress | None = False
    ) -> Finished:
        """Run the experiment now."""
        start = time.perf_counter()
        rows = _module(name).run(seeds, device=device, progress=progress)
        return cls(
            name=name,
            seeds=seeds,
            seconds=round(time.perf_counter() - start, 1),
            machine=machine(device),
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            rows=rows,
        )

    @classmethod
    def read(cls, folder: Path, name: str, seeds: int) -> Finished | None:
        """What an earlier run with as many seeds left, if it did."""
        path = folder / f"{name}.json"
        if not path.exists():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = cls(**{**content, "rows": [Row(**row) for row in content["rows"]]})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} keeps no finished experiment: {error}. Remove it, or resume elsewhere.") from error
        return found if found.seeds == seeds else None

    def write(self, folder: Path) -> None:
        """Keep it in the folder; a reader finds all of it or nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"{self.name}.json.part"
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        draft.replace(folder / f"{self.name}.json")

    def draw(self, folder: Path) -> Path:
        """The experiment's picture, from its rows."""
        path = folder / f"{self.name.replace('-', '_')}.png"
        _module(self.name).plot(self.rows, path)
        return path


def _module(name: str) -> Any:
    """Every experiment is a module with `run(seeds, device, progress)` and `plot(rows, path)`."""
    return import_module(f"taskveil.experiments.{name.replace('-', '_')}")


def machine(device: str) -> str:
    """What computes, in words: cores, Python, torch and, for a `device` that is one, the graphics card."""
    parts = [f"{os.cpu_count()} cores ({platform.machine()})", f"Python {platform.python_version()}"]
    if find_spec("torch"):
        import torch

        parts.append(f"torch {torch.__version__}")
        if device.startswith("cuda") and torch.cuda.is_available():
            parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)
