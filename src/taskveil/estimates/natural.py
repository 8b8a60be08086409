"""The numbers of a record, and means of them, as people read them.

- A category's value, a flag and a missing value are *shares* of people, between 0 and 1, written in percent.
- A *date* is a number of days since 1970 to compute with, and a date to read. Its place in the year or week is two
  *waves* per cycle, which are not shown.
- A *number* is written with as many digits as its interval supports, in its unit.
- Where a value may be missing, its mean is that over the people who have one: (E[v] − fill·P[missing])/P[not missing].
  What stands in for a missing value (`fill`) is a number of the release and does not describe people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.dates import DAY
from taskveil.client.fields import Category, Date, Field, Flag
from taskveil.tasks.linear import MatrixTask
from taskveil.veil import Veil
from taskveil.volunteers import Missing

Kind = Literal["number", "share", "date", "wave"]

SCARCE = 0.01
"""The least share of people with a value, for a mean over them."""


class Label(NamedTuple):
    """What a mean is of."""

    name: str
    kind: Kind = "number"
    unit: str = ""
    repeats: bool = False
    """Whether it is an attribute times its weight, which may be 0: it adds nothing to the attribute's own row."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Between which everybody's value lies, and hence the mean."""

    @property
    def shown(self) -> bool:
        """Whether tables show it."""
        return self.kind != "wave" and not self.repeats

    @property
    def short(self) -> str:
        """The name, without the unit that dates are computed in."""
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

    def reach(self, value: float) -> str:
        """A distance that a mean can move to either side, as text."""
        return f"±{self.said(value, value, change=True).removeprefix('+')}" if math.isfinite(value) else "no limit"

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


def labels_of(veil: Veil) -> tuple[Label, ...]:
    """Of the numbers of a record, then of the task's outputs."""
    K = veil.task.K if isinstance(veil.task, MatrixTask) else None
    outputs = veil.outputs
    if outputs is None:
        names, shares = [f"answer {place + 1}" for place in range(0 if K is None else len(K))], [0] * 2**16
    else:
        names, shares = list(outputs.names), outputs.shares.tolist()
    answers = [
        Label(
            name,
            "share" if by_class else "number",
            repeats=K is not None and bool(np.count_nonzero(K[place]) <= 1),
            bounds=(0.0, 1.0) if by_class else (-math.inf, math.inf),
        )
        for place, (name, by_class) in enumerate(zip(names, shares, strict=False))
    ]
    return (*attribute_labels(veil), *answers)


def attribute_labels(veil: Veil) -> Iterator[Label]:
    """Of the numbers of a record."""
    if veil.schema is None:
        names = veil.columns or tuple(f"x{place}" for place in range(veil.encoder.width))
        units = veil.units or ("",) * len(names)
        limits = zip(veil.encoder.low.tolist(), veil.encoder.high.tolist(), strict=True)
        for name, unit, bounds in zip(names, units, limits, strict=True):
            yield Label(name, unit=unit, bounds=bounds)
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


def among_present(
    means: Floats, variances: Floats, missing: Sequence[Missing], overall: Floats
) -> tuple[Floats, Floats]:
    """Means and variances by group (G, t), with v in place of every number that may be missing:

        v = R + (x − R)/(1 − P) where there is a value x, else R,      R = (E[x] − fill·P)/(1 − P),

    P being the share of people without a value. If `overall` (t,) are the people's means, then the mean of v is R, the
    mean over the people who have a value, and to first order it varies as R does. Where fewer than 1% have a value,
    there is no such mean, and it becomes NaN.
    """
    means, variances = means.copy(), variances.copy()
    for place, flag, fill in missing:
        there = 1.0 - overall[flag]
        if there < SCARCE:
            means[:, place] = np.nan
            continue
        R = (overall[place] - fill * overall[flag]) / there
        absent, squares = means[:, flag], variances[:, place] + means[:, place] ** 2
        first = means[:, place] - fill * absent - R * (1.0 - absent)
        second = squares - fill**2 * absent - 2.0 * R * (means[:, place] - fill * absent) + R**2 * (1.0 - absent)
        means[:, place] = R + first / there
        variances[:, place] = np.maximum(second - first**2, 0.0) / there**2
    return means, variances


def _decimals(error: float, value: float) -> int:
    """So many that the interval's reach has two digits; for what is known exactly, the value four."""
    scale = error if error > 0 and math.isfinite(error) else abs(value) / 100
    return min(max(1 - math.floor(math.log10(scale)), 0), 8) if scale > 0 else 0
