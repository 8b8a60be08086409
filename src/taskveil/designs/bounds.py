"""Robust bounds: how a design treats a few outliers if the caller gave no domain.

One cell in the wrong unit among hundreds of records can carry all of an attribute's variance. Means, principal
directions and noise would follow it. The sample cannot prove that the cell is wrong, so two questions are asked.

**Is it out of line with the others?** `taskveil.records.inference` finds such cells, and how far the others may
plausibly reach. Cells beyond are clipped there if they make the variance that the task sees a fifth larger.

**Does clipping help others?** A small codebook is fitted to some volunteers, clipped or not, and evaluated on held-out
volunteers as they are. Records that lie so far away that no design could serve them are left out of the comparison. So
a small group of people far from the others keeps its place if a design can serve it. Cells are clipped if the held-out
losses are then lower at the 5% level (`selection.beats`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.codebooks.codes import REACH, ListedChoice
from taskveil.designs.codebooks.linear import FEW, CodePlan, Latents
from taskveil.designs.crossfit import FOLDS
from taskveil.designs.domain import Box, Points
from taskveil.designs.moments import LinearProblem
from taskveil.designs.selection import beats, folds_of, one_thread
from taskveil.errors import DataError, WildRecordWarning
from taskveil.records.inference import FEWEST_VALUES, INFLATION, WILD_SHARE, plausible_range
from taskveil.tasks import LinearTask, MeanTask, MultiTask, SurveyTask, Task, as_linear
from taskveil.tasks.costs import SquaredError
from taskveil.tasks.costs.named import squared_distances

UNFORESEEN = 10.0  # times as far as all others: no design can serve a record that lies so far away
GROUP_SHARE = 0.2  # the largest share of the records that counts as a group of outliers

_EPSILON = 5.0  # of the small codebook that judges
_JUDGED = 200_000  # cells that judge, of 300 to 2000 records


class WildCell(NamedTuple):
    """A cell of the volunteers' table, and the share of its column's variance that it carries."""

    row: int
    column: int
    share: float


def resistant(X: Floats, task: Task) -> tuple[Floats, list[WildCell]]:
    """Records (N, n) with suspicious cells clipped where that helps held-out records, and the clipped cells. Without
    such cells the records are returned as they are.

    Args:
        X: the volunteers' records.
        task: a linear task says how much each attribute matters. For a model, all attributes that vary matter alike,
            each in units of its usual deviation.
    """
    if len(X) < 2 * FEWEST_VALUES:
        return X, []
    inner = plausible_box(X)
    usual = _deviations(inner.project(X))
    # An attribute in which hardly any record differs from the others has no scale.
    moves = (np.median(X, axis=0) != X).sum(axis=0) > FEWEST_VALUES + WILD_SHARE * len(X)
    linear = as_linear(task)
    weights = (
        np.diag(np.divide(moves, usual, out=np.zeros_like(usual), where=usual > 0)) if linear is None else linear.K
    )
    # Standard deviations, not variances: squares of wild values overflow.
    matters = np.linalg.norm(weights, axis=0)
    seen, bounded = matters * _deviations(X), (matters * usual) ** 2
    inflated = bounded + INFLATION * np.maximum(bounded, bounded.mean() / 4)
    harmful = seen > np.sqrt(np.where(moves, inflated, bounded.sum()))
    box = Box(np.where(harmful, inner.low, X.min(axis=0)), np.where(harmful, inner.high, X.max(axis=0)))
    cells = outside(X, box)
    if not cells or not _helps(X, LinearTask(weights), box, rows=np.unique([cell.row for cell in cells])):
        return X, []
    return box.project(X), cells


def resistant_labels(task: Task, y: Any, count: int) -> tuple[Any, list[WildCell]]:
    """Labels y of `count` records, clipped in the same way if their loss is the squared error, and the clipped ones;
    other labels stay as they are."""
    if y is None or isinstance(task, LinearTask | MeanTask | SurveyTask):
        return y, []
    if isinstance(task, MultiTask):
        parts = [resistant_labels(part, values, count) for part, _, values in task.parted(y)]
        return tuple(values for values, _ in parts), [cell for _, cells in parts for cell in cells]
    if not isinstance(task.cost, SquaredError):
        return y, []
    values = task.truth(np.empty((count, 0)), y)
    bounded, cells = resistant(values, LinearTask(np.eye(values.shape[1])))
    return (bounded.reshape(np.shape(y)), cells) if cells else (y, [])


def plausible_box(X: Floats) -> Box:
    """The range of records X (N, n), without the few cells that are out of line with the others."""
    low, high = zip(*(plausible_range(values) for values in X.T), strict=True)
    return Box(low, high)


def outside(X: Floats, box: Box) -> list[WildCell]:
    """The cells of X (N, n) outside the box, the largest share of an attribute's variance first."""
    shares = _variance_shares(X)
    found = np.argwhere((box.low > X) | (box.high < X))
    return sorted((WildCell(int(r), int(c), float(shares[r, c])) for r, c in found), key=lambda cell: -cell.share)


def heaviest(X: Floats) -> list[WildCell]:
    """Cells of X (N, n) that carry most of their attribute's variance, alone or as a group that lies ten times as far
    out as all others, as grams do among kilograms; rare values of sparse attributes do not count."""
    if len(X) < 2 * FEWEST_VALUES:
        return []
    shares, distance = _variance_shares(X), np.abs(X - np.median(X, axis=0))
    shares[:, np.median(distance, axis=0) == 0] = 0.0
    ordered = np.sort(distance, axis=0)[::-1][: int(GROUP_SHARE * len(X)) + 1]
    with np.errstate(over="ignore"):
        gap = ordered[:-1] >= UNFORESEEN * ordered[1:]
    nearest = np.where(gap, ordered[:-1], np.inf).min(axis=0)  # the distance of a group's nearest member
    group = distance >= nearest
    together = group & ((shares * group).sum(axis=0) > 0.5)
    found = np.argwhere((shares > 0.5) | together)
    return [WildCell(int(r), int(c), float(shares[r, c])) for r, c in found]


def warn_of(
    cells: Sequence[WildCell],
    labels: Sequence[WildCell] = (),
    *,
    bounded: bool,
    columns: tuple[str, ...] | None = None,
    rows: Integers | None = None,
    whose: str = "volunteers'",
    stacklevel: int,
) -> None:
    """One warning that names rows and columns, and no value; none without cells.

    Args:
        cells: of the records.
        labels: of the labels.
        bounded: whether they were brought to where the others lie.
        columns: the columns' names, where there are some.
        rows: the numbers by which the caller knows the rows, where they are others.
        whose: the values are.
        stacklevel: whose line is shown, as in `warnings.warn`: 2 is the caller's.
    """
    if not cells and not labels:
        return
    number = {cell.row: cell.row if rows is None else int(rows[cell.row]) for cell in (*cells, *labels)}
    named = [
        f"row {number[cell.row]}, column {cell.column if columns is None else repr(columns[cell.column])} "
        f"({cell.share:.0%} of its variance)"
        for cell in cells
    ]
    named += [f"the label of row {number[cell.row]} ({cell.share:.0%} of the labels' variance)" for cell in labels]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    said, done = (
        ("are out of line with all others", "Such values were brought to where the others' tail might reach, which "
         "serves held-out volunteers better.")
        if bounded
        else ("carry most of a column's variance", "They were kept.")
    )  # fmt: skip
    warnings.warn(
        f"a few of the {whose} values {said}: {'; '.join(named[:3])}{more}. {done} Check their units; domain=... says "
        "where records may lie.",
        WildRecordWarning,
        stacklevel=stacklevel,
    )


def _deviations(X: Floats) -> Floats:
    """(n,): standard deviations that do not overflow."""
    unit = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    return np.asarray(unit * (X / unit).std(axis=0))


def _variance_shares(X: Floats) -> Floats:
    """(N, n): the share of its attribute's variance that each cell carries."""
    scaled = X / np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    squares = (scaled - scaled.mean(axis=0)) ** 2
    return np.asarray(squares / np.maximum(squares.sum(axis=0), np.finfo(float).tiny))


@one_thread()
def _helps(X: Floats, task: LinearTask, box: Box, rows: Integers) -> bool:
    """Whether bounding the records that a code is fitted to helps held-out ones at the 5% level; records that no design
    could serve are left out."""
    rng = np.random.default_rng(0)
    picked = np.union1d(rows, rng.permutation(len(X))[: int(np.clip(_JUDGED // X.shape[1], 300, 2000))])
    X = X[picked]
    person = np.arange(len(X))
    fold = folds_of(person, min(FOLDS, len(X)), rng)
    far = UNFORESEEN * (box.high - box.low)
    foreseeable = ((box.low - far <= X) & (box.high + far >= X)).all(axis=1)
    bounded, as_it_is = np.empty(len(X)), np.empty(len(X))
    for part in range(int(fold.max()) + 1):
        held = fold == part
        bounded[held] = _held_out_losses(box.project(X[~held]), X[held], task)
        as_it_is[held] = _held_out_losses(X[~held], X[held], task)
    if not np.isfinite(as_it_is[foreseeable]).all():
        return True
    unit = max(float(as_it_is[foreseeable].max(initial=0.0)), np.finfo(float).tiny)  # squares of losses may overflow
    return beats(bounded[foreseeable] / unit, as_it_is[foreseeable] / unit, person[foreseeable])


def _held_out_losses(others: Floats, held: Floats, task: LinearTask) -> Floats:
    """The expected losses of records `held` (N, n) by a small codebook for the others; infinite where there is none."""
    with np.errstate(all="ignore"):  # what is out of line may have no square
        try:
            latents = Latents.of(LinearProblem(X=others, task=task, domain=Points(others)))
        except DataError:
            return np.full(len(held), np.inf)
        seen, plan = latents(others), CodePlan.of(latents.variances, _EPSILON)
        size = int(np.clip(round(np.exp(plan.nats)), 2, FEW))
        choice = ListedChoice(size=size, favoured=1, dim=min(plan.active, size - 1))
        code = choice.fit(seen, _EPSILON, np.random.default_rng(0))
        reach = REACH * np.abs(seen).max(axis=0)
        inside = np.clip(latents(np.clip(held, others.min(axis=0), others.max(axis=0))), -reach, reach)
        nearest = squared_distances(inside[:, : choice.dim], code.codewords).argmin(axis=1)
        losses = task.pairwise_losses(code.codewords @ latents.back[:, : choice.dim].T + latents.mean, held)
        favoured = np.take_along_axis(losses, nearest[:, None], axis=1)[:, 0]
        total = code.response.extra * favoured + code.response.base * losses.sum(axis=1)
        return np.where(np.isfinite(total), total, np.inf)
