"""The honest rows on other splits than the paper's easy ones: records mixed at random, networks trained anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from taskveil.experiments.report import ResultRow


@dataclass(frozen=True, kw_only=True)
class OverSplits:
    """A design at one budget: mean and standard deviation of its loss over the splits.

    The deviation says how far a single split's figure lies from another's. Splits share most of their records, so it is
    not to be divided by the root of their number. `network`: at least one of the designs has a hidden layer on the
    device.
    """

    design: str
    epsilon: float
    mean: float
    deviation: float
    network: bool = False

    @classmethod
    def of(cls, splits: Sequence[Sequence[ResultRow]]) -> list[OverSplits]:
        """One for every design and budget, in the order of the first split's rows."""
        same: dict[tuple[str, float], list[ResultRow]] = {}
        for rows in splits:
            for row in rows:
                same.setdefault((row.design, row.epsilon), []).append(row)
        return [
            cls(
                design=design,
                epsilon=epsilon,
                mean=float(np.mean([row.loss for row in found])),
                deviation=float(np.std([row.loss for row in found], ddof=1)),
                network=any(row.network for row in found),
            )
            for (design, epsilon), found in same.items()
            if len(found) == len(splits) > 1
        ]


def table(title: str, splits: Sequence[Sequence[ResultRow]]) -> Table:
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
