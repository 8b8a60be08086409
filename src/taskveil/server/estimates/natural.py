"""The numbers of a record, and means of them, as people read them.

- A category's value, a flag and a missing value are *shares* of people, between 0 and 1, said in percent.
- A *date* is a number of days since 1970 to compute with, and a date to read. Its place in the year or week is two
  *waves* per cycle, which describe people to the estimate and are not shown.
- A *number* is said with as many digits as its interval is worth, in its unit.
- Where a value may be missing, its mean is that over the people who have one: (E[v] − fill·P[missing])/P[not missing].
  What stands in for a missing value (`fill`) is a number of the release, and no word about people. (A `MeanTask` that
  does not ask how many are missing gives the mean with these numbers in it.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.dates import DAY
from taskveil.client.fields import Category, Date, Field, Flag
from taskveil.reference import Reference
from taskveil.schema import Schema
from taskveil.tasks.linear import MatrixTask
from taskveil.veil import Veil

Kind = Literal["number", "share", "date", "wave"]

SCARCE = 0.01
"""The least share of people with a value, for a mean over them."""


class Label(NamedTuple):
    """What a mean is of."""

    name: str
    kind: Kind = "number"
    unit: str = ""
    repeats: bool = False
    """Whether it is an attribute times its weight, and says nothing that the attribute does not."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Between which everybody's value lies, and hence the mean."""

    @property
    def shown(self) -> bool:
        """Whether people want to read it."""
        return self.kind != "wave" and not self.repeats

    @property
    def short(self) -> str:
        """The name; that a date is computed with in days, nobody has to know who reads one."""
        return self.name.removesuffix(" in days") if self.kind == "date" else self.name

    @property
    def title(self) -> str:
        """The name with its unit."""
        return f"{self.short} [{self.unit}]" if self.unit else self.short

    def interval(self, mean: float, low: float, high: float, *, change: bool = False) -> tuple[str, str]:
        """A mean and its limits as text; those of a `change` have their sign."""
        middle, least, most = (self.said(value, (high - low) / 2, change=change) for value in (mean, low, high))
        for unit in (" points", " days"):
            least = least.removesuffix(unit)  # once is enough
        return middle, f"{least} … {most}"

    def said(self, value: float, error: float, *, change: bool = False) -> str:
        """A value whose interval reaches `error` to either side, as text; a `change` has its sign."""
        sign = "+" if change else ""
        if not math.isfinite(value):
            return "unknown"
        if self.kind == "share":
            return f"{100 * value:{sign}.{_decimals(100 * error, 100 * value)}f}{' points' if change else '%'}"
        if self.kind == "date" and change:
            return f"{value:{sign}.{_decimals(error, value)}f} days"
        if self.kind == "date":
            return str(np.datetime64(round(value * DAY), "s").astype("datetime64[D]"))
        if value != 0 and not 1e-4 <= max(abs(value), error) < 1e9:
            return f"{value:{sign}.3g}"
        return f"{value:{sign},.{_decimals(error, value)}f}"


class Hole(NamedTuple):
    """A number (its place) that may be missing (the place of the flag); `fill` then stands in for it."""

    place: int
    flag: int
    fill: float


def labels_of(veil: Veil, reference: Reference) -> tuple[Label, ...]:
    """Of the numbers of a record, then of the answers."""
    K = veil.task.K if isinstance(veil.task, MatrixTask) else None
    answers = [
        Label(
            name,
            "share" if by_class else "number",
            repeats=K is not None and np.count_nonzero(K[place]) == 1,
            bounds=(0.0, 1.0) if by_class else (-math.inf, math.inf),
        )
        for place, (name, by_class) in enumerate(zip(reference.names, reference.shares.tolist(), strict=True))
    ]
    return (*_attributes(veil), *answers)


def _attributes(veil: Veil) -> Iterator[Label]:
    if veil.schema is None:
        names = veil.columns or tuple(f"x{place}" for place in range(veil.encoder.width))
        units = veil.units or ("",) * len(names)
        yield from (Label(name, unit=unit) for name, unit in zip(names, units, strict=True))
        return
    for name, field in zip(veil.schema.names, veil.schema.fields.fields, strict=True):
        names, kinds = field.labels(name), _kinds(field)
        units = (field.unit, *[""] * (len(names) - 1))
        for label in zip(names, kinds, units, zip(*field.box, strict=True), strict=True):
            yield Label(*label[:3], bounds=label[3])


def _kinds(field: Field) -> list[Kind]:
    """Of the columns that a field becomes."""
    count = len(field.box[0]) - field.missing
    first: Kind = "date" if isinstance(field, Date) else "share" if isinstance(field, Category | Flag) else "number"
    others: Kind = "wave" if isinstance(field, Date) else "share"
    flag: list[Kind] = ["share"] if field.missing else []
    return [first, *[others] * (count - 1), *flag]


def holes_in(schema: Schema | None) -> Iterator[Hole]:
    """The numbers of a record that may be missing; of a category, missing is one of its values."""
    if schema is not None:
        for field, place in zip(schema.fields.fields, schema.fields.places, strict=True):
            if field.missing and not isinstance(field, Category):
                fills = field.expand([None])[0].tolist()
                yield from (Hole(place.start + i, place.stop - 1, fill) for i, fill in enumerate(fills[:-1]))


def over_those_who_have_one(holes: Sequence[Hole], means: Floats) -> tuple[Floats, Floats]:
    """B (t, t) and c (t,), so that B t + c has the mean R = (E[v] − fill·P)/(1 − P) in place of E[v], P the share of
    people whose v is missing, and varies with people as R does (to first order) if theirs are the `means` (t,)."""
    B, c = np.eye(len(means)), np.zeros(len(means))
    for place, flag, fill in holes:
        there = 1.0 - means[flag]
        if there >= SCARCE:
            mean = (means[place] - fill * means[flag]) / there
            B[place, place], B[place, flag] = 1.0 / there, (mean - fill) / there
            c[place] = mean - mean / there
    return B, c


def with_holes(holes: Sequence[Hole], targets: Floats) -> Floats:
    """The volunteers' numbers (V, t), NaN where a value is missing."""
    found = targets.copy()
    for place, flag, _ in holes:
        found[targets[:, flag] >= 0.5, place] = np.nan
    return found


def _decimals(error: float, value: float) -> int:
    """So many that the interval's reach has two digits; for what is known exactly, the value four."""
    scale = error if error > 0 and math.isfinite(error) else abs(value) / 100
    return min(max(1 - math.floor(math.log10(scale)), 0), 8) if scale > 0 else 0
