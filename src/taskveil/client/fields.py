"""What a record consists of, as people have it: numbers, counts, categories, flags and dates, each possibly missing.

Every field turns natural values into numbers by comparisons and whole-number arithmetic alone, so that a browser finds
the same bits, and every value is an input like any other: what is missing, unknown, out of range or of another type
becomes some number, and never an error. Bounds, categories and what stands in for a missing value are the release's.

    number, count   the value within its bounds, and 1 where it is missing
    category        1 at the place of its value, no 1 for anything else, and 1 where it is missing
    flag            1 for true, 0 for false, and 1 where it is missing
    date            days since 1970 within its bounds, two numbers for each cycle, and 1 where it is missing

The last column of each is only there for a field that may be `missing`; otherwise a missing value counts as `fill`, as
the middle of the dates, or as anything else than a category's values.
The other way, a server finds the most probable value of columns that hold means.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from taskveil.arrays import Array, Bools, Floats, Integers
from taskveil.client.values import CYCLES, DAY, NO_VALUE, TRUTHS, Values, numbers_of, seconds_of, text_of, waves
from taskveil.errors import DataError

MOST_VALUES = 4096
"""Of one category."""


class Natural(NamedTuple):
    """The most probable values (N,) of a field, and how probable that is (N,): of numbers, that there is one."""

    values: Array
    chance: Floats


Kind = Literal["number", "share", "date", "wave"]
"""How the mean of a column reads: "share" is a share of people, "wave" a place in a year or week."""


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`, measured in `unit`. What lies outside is brought to the nearest bound."""

    low: float
    high: float
    unit: str = ""
    missing: bool = False
    fill: float = math.nan
    """What stands in for a missing value. If it is not given, a design takes the volunteers' median; the middle is used
    until then, and `stated` is False."""
    stated: bool = field(init=False, repr=False, compare=False, default=True)
    reads_as: ClassVar[tuple[Kind, Kind]] = ("number", "share")
    """Of the first column, and of the others; a column for missing values is a share."""

    def __post_init__(self) -> None:
        _check_bounds(self)

    def labels(self, name: str) -> tuple[str, ...]:
        """What its columns are called, for a field of this name."""
        return _flagged((name,), name, self.missing)

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The least and the largest numbers in its columns."""
        return _boxed([self.low], [self.high], self.missing)

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        numbers = numbers_of(values)
        lost = np.isnan(numbers)
        return _with_flag([_filled(np.clip(numbers, self.low, self.high), lost, self.fill)], lost, self.missing)

    def collapse(self, columns: Floats) -> Natural:
        """Columns (N, width) of numbers or of their means → the most probable values, NaN where there is none."""
        value, there = _present(columns, self.fill, self.missing)
        return Natural(np.where(there < 0.5, np.nan, np.clip(value, self.low, self.high)), _surer(there))


@dataclass(frozen=True)
class Count:
    """A whole number from `low` to `high`. Fractions are rounded down."""

    low: float
    high: float
    unit: str = ""
    missing: bool = False
    fill: float = math.nan
    """What stands in for a missing value. If it is not given, a design takes the volunteers' median; the middle is used
    until then, and `stated` is False."""
    stated: bool = field(init=False, repr=False, compare=False, default=True)
    reads_as: ClassVar[tuple[Kind, Kind]] = ("number", "share")

    def __post_init__(self) -> None:
        _check_bounds(self)
        if self.low % 1 or self.high % 1 or max(abs(self.low), abs(self.high)) > 2**53:
            raise DataError("the bounds of a count are whole numbers of at most 2^53.")

    def labels(self, name: str) -> tuple[str, ...]:
        """What its columns are called, for a field of this name."""
        return _flagged((name,), name, self.missing)

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The least and the largest numbers in its columns."""
        return _boxed([self.low], [self.high], self.missing)

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        numbers = numbers_of(values)
        lost = np.isnan(numbers)
        whole = np.floor(np.clip(numbers, self.low, self.high))
        return _with_flag([_filled(whole, lost, self.fill)], lost, self.missing)

    def collapse(self, columns: Floats) -> Natural:
        """Columns (N, width) of numbers or of their means → whole numbers, NaN where there is most probably none."""
        value, there = _present(columns, self.fill, self.missing)
        return Natural(np.where(there < 0.5, np.nan, np.clip(np.rint(value), self.low, self.high)), _surer(there))


@dataclass(frozen=True)
class Flag:
    """True or false. The numbers 1 and 0 say so too, and the words true, True, TRUE, false, False and FALSE."""

    missing: bool = False
    fill: bool = False
    """What a missing value counts as."""

    unit = ""
    reads_as: ClassVar[tuple[Kind, Kind]] = ("share", "share")

    def __post_init__(self) -> None:
        if type(self.missing) is not bool or type(self.fill) is not bool:
            raise DataError("a flag may be missing or not, and its fill is True or False.")

    def labels(self, name: str) -> tuple[str, ...]:
        """What its columns are called, for a field of this name."""
        return _flagged((name,), name, self.missing)

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The least and the largest numbers in its columns."""
        return _boxed([0.0], [1.0], self.missing)

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        numbers = numbers_of(values, words=TRUTHS)
        lost = (numbers != 0) & (numbers != 1)
        return _with_flag([_filled(numbers, lost, float(self.fill))], lost, self.missing)

    def collapse(self, columns: Floats) -> Natural:
        """Columns (N, width) of numbers or of their means → 1 or 0, NaN where there is most probably none."""
        value, there = _present(columns, float(self.fill), self.missing)
        chance = np.clip(value, 0.0, 1.0)
        values = np.where(there < 0.5, np.nan, (chance >= 0.5).astype(np.float64))
        return Natural(values, np.where(there < 0.5, 1.0 - there, there * _surer(chance)))


@dataclass(frozen=True)
class Category:
    """One of some `values`, or anything else. Values are text; whole numbers and truth values count as the text that
    writes them (4, true), and an empty text that is no value counts as missing."""

    values: tuple[str, ...]
    missing: bool = False

    unit = ""
    reads_as: ClassVar[tuple[Kind, Kind]] = ("share", "share")

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Sequence):
            raise DataError('a category takes a list of its values: Category(["Europe", "Japan"]).')
        texts = tuple(text_of(value) for value in self.values)
        if not 1 <= len(texts) <= MOST_VALUES or len(set(texts)) < len(texts):
            raise DataError(f"a category has 1 to {MOST_VALUES} values, all different as text.")
        if None in texts or NO_VALUE in texts or type(self.missing) is not bool:
            raise DataError("the values of a category are text, whole numbers or truth values.")
        object.__setattr__(self, "values", tuple(text for text in texts if text is not None))

    def labels(self, name: str) -> tuple[str, ...]:
        """What its columns are called, for a field of this name."""
        return _flagged(tuple(f"{name}={value}" for value in self.values), name, self.missing)

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The least and the largest numbers in its columns."""
        return _boxed([0.0] * len(self.values), [1.0] * len(self.values), self.missing)

    @cached_property
    def _columns(self) -> dict[str | None, int]:
        """From a text (None: missing) to its column; what has none comes after the last."""
        gone = len(self.values)
        return {"": gone, **{value: place for place, value in enumerate(self.values)}, None: gone}

    @cached_property
    def _longest(self) -> int:
        """Characters of its longest value: what is longer is none of them, however long it is."""
        return max(len(value) for value in self.values)

    @cached_property
    def _rows(self) -> Floats:
        """One row for each column, with a 1 in it, and rows of nothing for all else."""
        return np.eye(len(self.values) + 2, len(self.values) + self.missing)

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        width = len(self.values) + self.missing
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and len(values) > width + 1:
            distinct, inverse = np.unique(values, return_inverse=True)
            return self.expand(distinct.tolist())[inverse]
        columns, longest, nothing = self._columns, self._longest, len(self.values) + 1
        places = [columns.get(text_of(value, longest), nothing) for value in values]
        if len(places) > width:
            return np.asarray(self._rows[places])
        made = np.zeros((len(places), width))  # all rows would take more memory than these do
        for row, place in enumerate(places):
            made[row, place : min(place + 1, width)] = 1.0
        return made

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:
        """The most probable values, None where there is none. Of values that are equally likely, the first counts.

        Args:
            columns: (N, width), of numbers or of their means.
            other: what stands for anything else.
        """
        known = np.clip(columns, 0.0, 1.0)
        chances = np.column_stack([known, 1.0 - known.sum(axis=1)])
        names = np.array([*self.values, *[None] * self.missing, other], dtype=object)
        best = chances.argmax(axis=1)
        return Natural(names[best], np.asarray(np.take_along_axis(chances, best[:, None], axis=1)[:, 0]))


@dataclass(frozen=True)
class Date:
    """A date or a time from `low` to `high`, as text: what lies outside is brought to the nearest bound.

    Its place in each of the `cycles` ("year", "week", "day") is that of the date itself, also outside the bounds: next
    year has the same seasons. For a missing date, the middle counts, and no place in any cycle.
    """

    low: str
    high: str
    missing: bool = False
    cycles: tuple[str, ...] = ("year", "week")

    unit = ""
    reads_as: ClassVar[tuple[Kind, Kind]] = ("date", "wave")

    def __post_init__(self) -> None:
        for name in ("low", "high"):  # dates and datetimes are as good as text
            value = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, str) else str(getattr(value, "isoformat", str)()))
        object.__setattr__(self, "cycles", tuple(self.cycles))
        ends, wrong = seconds_of([self.low, self.high])
        if wrong.any() or ends[0] > ends[1] or type(self.missing) is not bool:
            raise DataError('a date lies between two dates: Date("2020-01-01", "2024-12-31").')
        if not all(cycle in CYCLES for cycle in self.cycles) or len(set(self.cycles)) < len(self.cycles):
            raise DataError(f"the cycles of a date are among {', '.join(CYCLES)}, each once.")

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Days since the beginning of 1970."""
        first, last = (seconds_of([self.low, self.high])[0] / DAY).tolist()
        return first, last

    @property
    def _middle(self) -> float:
        first, last = self._ends
        return first + (last - first) / 2

    def labels(self, name: str) -> tuple[str, ...]:
        """What its columns are called, for a field of this name."""
        parts = [f"{name} of the {cycle} ({wave})" for cycle in self.cycles for wave in ("cos", "sin")]
        return _flagged((f"{name} in days", *parts), name, self.missing)

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The least and the largest numbers in its columns."""
        first, last = self._ends
        waving = 2 * len(self.cycles)
        return _boxed([first, *[-1.0] * waving], [last, *[1.0] * waving], self.missing)

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        seconds, lost = seconds_of(values)
        columns = [_filled(np.clip(seconds / DAY, *self._ends), lost, self._middle)]
        for cycle in self.cycles:
            columns += [_filled(wave, lost, 0.0) for wave in waves(seconds, cycle).T]
        return _with_flag(columns, lost, self.missing)

    def collapse(self, columns: Floats) -> Natural:
        """Columns (N, width) of numbers or of their means → dates to the second, NaT where there is most probably
        none."""
        days, there = _present(columns, self._middle, self.missing)
        seconds = np.rint(np.clip(days, *self._ends) * DAY).astype("datetime64[s]")
        return Natural(np.where(there < 0.5, np.datetime64("NaT", "s"), seconds), _surer(there))


Field = Number | Count | Category | Flag | Date


class Coded(NamedTuple):
    """A column that repeats itself: the numbers (N,) of its `values`, −1 where there is none."""

    codes: Integers
    values: Sequence[Any]


def expand(field: Field, column: Values | Coded) -> Floats:
    """A column of natural values (N,) → columns (N, width); of one that repeats itself, every value is read once."""
    if isinstance(column, Coded):
        return field.expand([*column.values, None])[column.codes]
    if isinstance(column, np.ma.MaskedArray):  # numpy would take what lies under the mask for values
        rows = field.expand(column.data)
        rows[np.ma.getmaskarray(column)] = field.expand([None])
        return rows
    return field.expand(column)


def _check_bounds(field: Number | Count) -> None:
    """Finite bounds in their order, a fill between them, both as doubles."""
    try:
        low, high, fill = float(field.low), float(field.high), float(field.fill)
    except (TypeError, ValueError, OverflowError):
        raise DataError("a number has bounds that are numbers: Number(0, 200, unit='kW').") from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high and high - low < math.inf):
        raise DataError("a number lies between two finite bounds, the lower one first.")
    object.__setattr__(field, "stated", not math.isnan(fill))
    if math.isnan(fill):
        fill = low + (high - low) / 2
        fill = float(math.floor(fill)) if isinstance(field, Count) else fill
    if not low <= fill <= high or type(field.missing) is not bool or not isinstance(field.unit, str):
        raise DataError("what stands in for a missing number lies between its bounds, and its unit is a text.")
    for name, value in (("low", low), ("high", high), ("fill", fill)):
        object.__setattr__(field, name, value)


def _filled(values: Floats, lost: Bools, fill: float) -> Floats:
    return np.where(lost, fill, values) + 0.0  # no −0, which processors disagree about when they compare


def _with_flag(columns: list[Floats], lost: Bools, missing: bool) -> Floats:
    """(N, width): the columns side by side, at last 1 where the value is missing."""
    return np.column_stack([*columns, lost.astype(np.float64)] if missing else columns)


def _flagged(labels: tuple[str, ...], name: str, missing: bool) -> tuple[str, ...]:
    return (*labels, f"{name} is missing") if missing else labels


def _boxed(low: list[float], high: list[float], missing: bool) -> tuple[list[float], list[float]]:
    return ([*low, 0.0], [*high, 1.0]) if missing else (low, high)


def _present(columns: Floats, fill: float, missing: bool) -> tuple[Floats, Floats]:
    """The first column's mean over those who have a value (N,), and the chance that there is one (N,)."""
    if not missing:
        return columns[:, 0], np.ones(len(columns))
    gone = np.clip(columns[:, -1], 0.0, 1.0)
    return (columns[:, 0] - gone * fill) / np.maximum(1.0 - gone, 1e-9), 1.0 - gone


def _surer(chance: Floats) -> Floats:
    return np.maximum(chance, 1.0 - chance)
