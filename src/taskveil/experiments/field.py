"""The comparison in the field: our designs beside what a user could write in five lines, on other people's data.

Every part is a table, a model and a random split: 60% of the records fit the model and are the volunteers with their
real labels, the others judge with theirs. All methods are judged on the same records by the expectation over their
noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from taskveil.arrays import Floats
from taskveil.designs.designing import design_many, designer_of
from taskveil.designs.problem import OnDevice, Problem
from taskveil.designs.selection import one_thread
from taskveil.errors import DataError
from taskveil.experiments import field_peers
from taskveil.experiments.field_data import Split, load, split
from taskveil.experiments.field_models import MODELS
from taskveil.progress import Progress
from taskveil.tasks import LossName, ModelTask

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SPLITS = 3

NAMED = (
    ("fair", "boosted"),
    ("fair", "linear"),
    ("anes96", "forest"),
    ("anes96", "linear"),
    ("star98", "forest"),
    ("star98", "linear"),
    ("seattle_weather", "boosted"),
    ("seattle_weather", "network"),
    ("cars", "forest"),
    ("cars", "earlier_network"),
    ("iris", "forest"),
    ("iris", "linear"),
    ("diabetes", "linear"),
    ("diabetes", "boosted"),
    ("breast_cancer", "forest"),
    ("breast_cancer", "network"),
)
"""Pairs of a table and a model that designs may have been looked at with."""

OTHERS = (
    ("wine", "forest"),
    ("digits", "linear"),
    ("clusters", "forest"),
    ("clusters", "neighbours"),
    ("friedman", "boosted"),
    ("friedman_ranges", "forest"),
    ("incomes", "boosted"),
    ("incomes", "earlier_network"),
)
"""Pairs that no goal was set for."""

HELD_BACK = (
    ("marriages", "boosted"),
    ("parties", "forest"),
    ("warmth", "boosted"),
    ("origins", "neighbours"),
    ("tomorrow", "linear"),
    ("poverty", "forest"),
    ("stores", "neighbours"),
    ("hastie", "boosted"),
    ("shells", "forest"),
    ("friedman_second", "linear"),
    ("moons", "network"),
    ("sparse", "linear"),
)
"""Pairs that are measured once, when nothing about designs is changed any more. Do not look at them before."""

SIMPLE: tuple[str, ...] = ("label_response", "binned_response", "prediction_laplace", "attribute_laplace")
OURS = {"auto": False, "auto_shared": True}
"""Our designs, and whether the model may be shipped, as all simple methods but the last do."""
FOR_ACCURACY = {"accurate": False, "accurate_shared": True}
"""The same for classifiers, designed for loss="zero_one"; their `loss` is the share of wrong answers."""

FITTED_BEFORE = ("earlier_network",)
"""Models that were fitted to other people than the volunteers: to one half of the records for design, of which the
other half volunteers. All others are fitted to the volunteers."""


class FieldPart(NamedTuple):
    """One table, one model, one split."""

    data: str
    model: str
    split: int

    @property
    def name(self) -> str:
        """What it is called in files and on the command line."""
        return f"{self.data}-{self.model}-{self.split}"

    @property
    def device(self) -> str:
        """Nothing here is learned on a graphics card."""
        return "cpu"

    @property
    def size(self) -> float:
        """Large tables take longest."""
        return float(load(self.data).X.size)

    @property
    def row_type(self) -> type[FieldRow]:
        """What it is made of."""
        return FieldRow

    def rows(self, _progress: bool | Progress | None = False) -> list[FieldRow]:
        """Every method at every budget, on one split."""
        return part_rows(self)


@dataclass(frozen=True, kw_only=True)
class FieldRow:
    """The expected test loss of one method at one budget; classifiers also have an expected accuracy."""

    experiment: str = "field"
    data: str
    model: str
    split: int
    epsilon: float
    design: str
    loss: float
    accuracy: float | None
    commit: str | None = None
    """Which version was measured."""


def parts(splits: int = SPLITS, only: Sequence[str] = (), *, held_back: bool = False) -> list[FieldPart]:
    """All parts with the first so many splits, or those of them whose name begins with one of `only`.

    Args:
        splits: how many.
        only: beginnings of names; none for all.
        held_back: the pairs that are measured once are among them. No name selects them without it.
    """
    pairs = (*NAMED, *OTHERS, *(HELD_BACK if held_back else ()))
    every = [FieldPart(data, model, number) for data, model in pairs for number in range(splits)]
    chosen = [part for part in every if not only or part.name.startswith(tuple(only))]
    if not chosen:
        names = sorted({f"{data}-{model}" for data, model, _ in every})
        raise DataError(f"no part of the comparison is named so: choose among {', '.join(names)}.")
    return chosen


def write_rows(path: Path, rows: Sequence[FieldRow]) -> None:
    """All rows, for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


@one_thread()
def part_rows(part: FieldPart) -> list[FieldRow]:
    """Every method at every budget, on one split."""
    table = load(part.data)
    records = split(table, part.split)
    unseen, half = part.model in FITTED_BEFORE, len(records.X) // 2
    seen = slice(half) if unseen else slice(None)
    model = MODELS[part.model](records.X[seen], records.y[seen], table.loss, part.split)
    if unseen:
        records = replace(records, X=records.X[half:], y=records.y[half:])
    measured = list(_measured(records, model, table.loss, unseen=unseen))
    return [
        FieldRow(
            data=part.data,
            model=part.model,
            split=part.split,
            epsilon=epsilon,
            design=design,
            loss=loss,
            accuracy=accuracy,
        )
        for design, epsilon, loss, accuracy in measured
    ]


def _measured(
    records: Split, model: object, loss: LossName, *, unseen: bool
) -> Iterator[tuple[str, float, float, float | None]]:
    """(design, ε, expected test loss, expected accuracy) of every method.

    `unseen`: the model never saw the volunteers.
    """
    X, y, X_test, y_test = records.X, records.y, records.X_test, records.y_test
    task = ModelTask(model, loss)
    task.check_width(X.shape[1])
    references = {
        "no_privacy": task.predict(X_test),
        "constant": np.tile(_constant(task, X, y), (len(X_test), 1)),
    }
    for design, outputs in references.items():
        cost = float(task.output_losses(outputs, X_test, y_test).mean())
        accuracy = None if loss == "mse" else float((outputs.argmax(axis=1) == y_test).mean())
        yield from ((design, epsilon, cost, accuracy) for epsilon in EPSILONS)
    wanted: list[tuple[str, str, bool, ModelTask]] = [(name, name, False, task) for name in SIMPLE]
    wanted += [(name, "auto", shared, task) for name, shared in OURS.items()]
    if loss == "cross_entropy" and FOR_ACCURACY:
        judged = ModelTask(model, "zero_one")
        wanted += [(name, "auto", shared, judged) for name, shared in FOR_ACCURACY.items()]
    for name, method, shared, served in wanted:
        designer = designer_of(method)
        allowed = OnDevice(share_model=shared, volunteers_unseen=unseen)
        problem = Problem.of(X, served, y=y, on_device=allowed)
        if designer.why_not(served) is not None:
            continue
        for epsilon, _, veil in design_many(designer, problem, epsilons=EPSILONS, seeds=[0]):
            found = veil.loss(X_test, y_test)
            yield name, epsilon, found.mean, found.accuracy
    kept = Problem.of(X, task, y=y, on_device=OnDevice(volunteers_unseen=unseen))
    yield from field_peers.measured(kept, EPSILONS, X_test, y_test)


def _constant(task: ModelTask, X: Floats, y: Floats) -> Floats:
    """The outputs (m,) that are best for all volunteers."""
    return task.cost.best_constant(task.truth(X, y), lambda: task.predict(X))
