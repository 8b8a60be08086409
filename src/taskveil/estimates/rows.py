"""Rows of an estimate, and what they are called.

Where a value may be missing, its mean is that over the people who have one: (E[v] − fill·P[missing])/P[not missing].
What stands in for a missing value (`fill`) is a number of the release and does not describe people.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from taskveil.arrays import Bools, Floats
from taskveil.estimates.labels import Label
from taskveil.tasks.linear import MatrixTask
from taskveil.veil import Veil
from taskveil.veil.volunteers import Outputs

SCARCE = 0.01
"""The least share of people with a value, for a mean over them."""
FORGED = 0.01
"""The share of forged reports that tables mention."""
CONTRADICTED = "The reports contradict this: do not use these rows."
"""The end of an assumption that the reports do not agree with."""


class Interval(NamedTuple):
    """`mean`, and limits for it. `assumes` is the assumption they rest on, None for what reports measure.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> income = tv.estimate(veil, veil.privatize(X)).attributes[0]
        >>> income.low < income.mean < income.high, income.assumes
        (True, None)
    """

    name: str
    mean: float
    low: float
    high: float
    assumes: str | None = None


class Row(NamedTuple):
    """A row of an estimate. `volunteers` is the volunteers' own mean and `spread` their standard deviation, NaN where
    they are unknown; `forged` is the change by one forged report per report."""

    label: Label
    mean: float
    low: float
    high: float
    volunteers: float
    spread: float
    forged: float
    assumes: str | None = None
    ratio: bool = False
    """Whether it is about some people only: those who have a value, or are in a group."""

    @property
    def width(self) -> float:
        """The width of its interval."""
        return self.high - self.low

    @property
    def contradicted(self) -> bool:
        """Whether the reports contradict the assumption that the row rests on."""
        return self.assumes is not None and self.assumes.endswith(CONTRADICTED)

    def inside(self) -> Row:
        """The row with its mean and limits where a mean can lie."""
        mean, low, high = np.clip(self[1:4], *self.label.bounds).tolist()
        return self._replace(mean=mean, low=low, high=high)

    @property
    def interval(self) -> Interval:
        """With limits where a mean can lie. Means of shares stay as they are, and add up."""
        _, _, low, high, *_ = self.inside()
        return Interval(self.label.name, self.mean, low, high, self.assumes)

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Name, estimate, limits, the volunteers' mean, and the change by 1% of forged reports, as text.

        A printed share lies between 0 and 100%, as its limits do. `interval` has the unbiased one.
        """
        _, mean, low, high, _ = self.inside().interval
        said = self.label.said(self.volunteers, (high - low) / 2)
        return self.label.title, *self.label.interval(mean, low, high), said, self.label.reach(FORGED * self.forged)

    @property
    def content(self) -> dict[str, Any]:
        """For JSON. A date is a number of days since 1970 there; `spread` is a common scale for rows of different
        units, and `forged` is what 1% of forged reports could change. `of` names the fields and values of a survey's
        statistic."""
        others = {"volunteers": self.volunteers, "spread": self.spread, "forged": FORGED * self.forged}
        found = {**self.interval._asdict(), **others, "kind": self.label.kind, "unit": self.label.unit}
        if self.label.key:
            found["of"] = [str(one) if isinstance(one, Enum) else one for one in self.label.key[1:]]
        return finite(found)


def finite(content: dict[str, Any]) -> dict[str, Any]:
    """The content with None for numbers that JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in content.items()
    }


def rows_of(labels: Iterable[Label], *columns: Floats, assumes: str | None = None) -> tuple[Row, ...]:
    """Rows with these labels, of columns (t,) in the order of a `Row`."""
    numbers = np.array(columns).T.tolist()
    return tuple(Row._make((label, *row, assumes, False)) for label, row in zip(labels, numbers, strict=True))


def grouped(rows: Sequence[Row], **kinds: Bools) -> dict[str, tuple[Row, ...]]:
    """Rows by kind, from the marks (t,) of those that are of each; kinds without rows are left out."""
    return {kind: tuple(compress(rows, marks)) for kind, marks in kinds.items() if marks.any()}


def labels_of(veil: Veil) -> tuple[Label, ...]:
    """The labels of the numbers of a record, then those of the task's outputs."""
    K = veil.task.K if isinstance(veil.task, MatrixTask) else None
    names = tuple(f"answer {place + 1}" for place in range(0 if K is None else len(K)))
    outputs = veil.outputs or Outputs(names=names, shares=np.zeros(len(names), dtype=np.int8), labelled=False)
    answers = [
        Label(
            name,
            "share" if by_class else "number",
            repeats=K is not None and bool(np.count_nonzero(K[place]) <= 1),
            bounds=(0.0, 1.0) if by_class else (-math.inf, math.inf),
        )
        for place, (name, by_class) in enumerate(zip(outputs.names, outputs.shares.tolist(), strict=True))
    ]
    return (*attribute_labels(veil), *answers)


def attribute_labels(veil: Veil) -> Iterator[Label]:
    """The labels of the numbers of a record."""
    # Where fields have no bounds, the encoder does.
    box = (veil.encoder.low, veil.encoder.high) if veil.schema.unbounded else veil.schema.fields.box
    limits = list(zip(*(end.tolist() for end in box), strict=True))
    for name, field, place in zip(veil.schema, veil.schema.fields.fields, veil.schema.fields.places, strict=True):
        names, (first, others) = field.labels(name), field.reads_as
        flag = ("share",) if field.missing else ()
        kinds = (first, *[others] * (len(names) - 1 - len(flag)), *flag)
        units = (field.unit, *[""] * (len(names) - 1))
        for label in zip(names, kinds, units, limits[place], strict=True):
            yield Label(*label[:3], bounds=label[3])
