"""The paper's figures as parts: what of every experiment can be computed by itself, and what all parts give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from taskveil.designs.selection import one_thread
from taskveil.errors import DataError
from taskveil.experiments.parts import Finished
from taskveil.experiments.report import ResultRow, averaged
from taskveil.progress import Progress


class Way(NamedTuple):
    """One of the ways in which an experiment makes rows, with the seeds that are designed together.

    `size` is about the seconds that it takes on one core, or on a graphics card where one is used.
    """

    name: str
    seeds: tuple[int, ...] = ()
    size: float = 1.0

    @classmethod
    def apart(cls, name: str, seeds: int, size: float) -> list[Way]:
        """Every seed by itself; `size` is that of one."""
        return [cls(name, (seed,), size) for seed in range(seeds)]


class FigurePart(NamedTuple):
    """One way of one experiment, on the paper's split or on the random one of that number."""

    experiment: str
    way: Way
    split: int | None
    device: str = "cpu"

    @property
    def name(self) -> str:
        """What it is called in files and on the command line."""
        place = "" if self.split is None else f"-split-{self.split}"
        seeds = self.way.seeds
        which = "" if not seeds else f"-seed-{seeds[0]}" if len(seeds) == 1 else f"-seeds-{seeds[0]}-{seeds[-1]}"
        return f"{self.experiment}{place}-{self.way.name}{which}"

    @property
    def size(self) -> float:
        """About how many seconds it takes."""
        return self.way.size

    @property
    def row_type(self) -> type[ResultRow]:
        """What it is made of."""
        return ResultRow

    def rows(self, progress: bool | Progress | None = False) -> list[ResultRow]:
        """Compute it."""
        experiment = module(self.experiment)  # and torch with it, before its threads are limited
        with one_thread():
            found: list[ResultRow] = experiment.rows(
                self.way.name, self.way.seeds, self.split, device=self.device, progress=progress
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the parts of one experiment gave: rows on the paper's split, and the rows of every random split."""

    name: str
    seeds: int
    parts: list[Finished[ResultRow]]
    rows: list[ResultRow]
    splits: list[list[ResultRow]]

    @classmethod
    def of(cls, name: str, seeds: int, chosen: Iterable[FigurePart], found: Iterable[Finished[ResultRow]]) -> Run:
        """Put together in the order of `chosen`, whichever part was finished first."""
        by_name = {finished.name: finished for finished in found}
        mine = [part for part in chosen if part.experiment == name]
        together: dict[int | None, list[ResultRow]] = {}
        for part in mine:
            together.setdefault(part.split, []).extend(by_name[part.name].rows)
        block = getattr(module(name), "BLOCK", 1)
        rows = {split: averaged(rows, block=block) for split, rows in together.items()}
        return cls(
            name=name,
            seeds=seeds,
            parts=[by_name[part.name] for part in mine],
            rows=rows.get(None, []),
            splits=[found for split, found in rows.items() if split is not None],
        )

    def draw(self, folder: Path) -> Path:
        """The experiment's picture, from its rows."""
        path = folder / f"{self.name.replace('-', '_')}.png"
        module(self.name).plot(self.rows, path)
        return path


def parts(
    names: Sequence[str], *, seeds: int, splits: int = 0, device: str = "cpu", only: Sequence[str] = ()
) -> list[FigurePart]:
    """All parts of the experiments, or those of them whose name begins with one of `only`.

    Args:
        names: the experiments.
        seeds: for designs that depend on one.
        splits: how many random splits beside the paper's own.
        device: where torch computes, for experiments that use it (`ACCELERATED`).
        only: beginnings of names; none for all.
    """
    every = [
        FigurePart(name, way, split, device if module(name).ACCELERATED else "cpu")
        for name in names
        for split in (None, *range(splits))
        for way in module(name).ways(seeds, split, device)
    ]
    chosen = [part for part in every if not only or part.name.startswith(tuple(only))]
    if not chosen:
        known = dict.fromkeys(part.name for part in every if part.split is None)
        raise DataError(f"no part is named so: choose among {', '.join(known)}.")
    return chosen


def module(name: str) -> Any:
    """Every experiment is a module with `ACCELERATED` (whether it uses a graphics card), `ways(seeds, split, device)`,
    `rows(way, seeds, split, device, progress)` and `plot(rows, path)`."""
    return import_module(f"taskveil.experiments.{name.replace('-', '_')}")
