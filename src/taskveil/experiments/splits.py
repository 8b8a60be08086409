"""The honest rows on other splits than the paper's easy ones: records mixed at random, networks trained anew.

A split's rows are kept in a file as soon as they are there, so that an interrupted run goes on with the next split.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
from rich.table import Table

from taskveil.errors import DataError
from taskveil.experiments.report import Row
from taskveil.progress import Progress

WITHOUT = ("theory",)
"""Experiments whose records are drawn from a formula: every one of them is a random split already."""


@dataclass(frozen=True, kw_only=True)
class OverSplits:
    """A design at one budget: mean and standard deviation of its loss over the splits.

    The deviation says how far a single split's figure lies from another's. Splits share most of their records, so it is
    not to be divided by the root of their number.
    """

    design: str
    epsilon: float
    mean: float
    deviation: float

    @classmethod
    def of(cls, splits: Sequence[Sequence[Row]]) -> list[OverSplits]:
        """One for every design and budget, in the order of the first split's rows."""
        losses: dict[tuple[str, float], list[float]] = {}
        for rows in splits:
            for row in rows:
                losses.setdefault((row.design, row.epsilon), []).append(row.loss)
        return [
            cls(design=design, epsilon=epsilon, mean=float(np.mean(found)), deviation=float(np.std(found, ddof=1)))
            for (design, epsilon), found in losses.items()
            if len(found) == len(splits) > 1
        ]


def table(title: str, splits: Sequence[Sequence[Row]]) -> Table:
    """Designs down, budgets across, mean ± deviation in every cell."""
    points = {(point.design, point.epsilon): point for point in OverSplits.of(splits)}
    view = Table(title=f"{title}: mean ± standard deviation over {len(splits)} random splits", title_justify="left")
    view.add_column("design")
    budgets = sorted({epsilon for _, epsilon in points})
    for epsilon in budgets:
        view.add_column(f"ε = {epsilon:g}", justify="right")
    for design in dict.fromkeys(design for design, _ in points):
        found = (points.get((design, epsilon)) for epsilon in budgets)
        view.add_row(design.replace("_", " "), *(f"{p.mean:.4f} ± {p.deviation:.4f}" if p else "" for p in found))
    return view


def rows_of_splits(
    name: str, count: int, *, folder: Path | None = None, device: str = "cpu", progress: bool | Progress | None = False
) -> list[list[Row]]:
    """The rows of the first `count` splits of an experiment, one list per split; none where there is nothing to split.

    Args:
        name: the experiment.
        count: how many splits.
        folder: where finished splits are kept, and found again.
        device: where torch computes.
        progress: show how far it is.
    """
    if name in WITHOUT:
        return []
    module = import_module(f"taskveil.experiments.{name.replace('-', '_')}")
    found = []
    for split in range(count):
        path = folder / f"{name}-split-{split}.json" if folder else None
        if path and path.exists():
            rows = _read(path)
        else:
            rows = module.split_rows(split, device=device, progress=progress)
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps([asdict(row) for row in rows]) + "\n", encoding="utf-8")
        found.append(rows)
    return found


def _read(path: Path) -> list[Row]:
    try:
        return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} keeps no finished split: {error}. Remove it, or resume elsewhere.") from error
