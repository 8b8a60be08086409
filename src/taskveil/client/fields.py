"""The fields of a record, as people have them: numbers, counts, categories, flags and dates, each possibly missing.

A field turns natural values into numbers by comparisons and whole-number arithmetic alone, so that a browser finds the
same bits. Every value is an input like any other: a value that is missing, unknown, out of range or of another type
becomes some number, and never an error. Bounds, categories and the fill of missing values are part of the release.

    number, count   the value within its bounds, and 1 where it is missing
    category        1 at the place of its value, no 1 for any other value, and 1 where it is missing
    flag            1 for true, 0 for false, and 1 where it is missing
    date            days since 1970 within its bounds, two numbers for each cycle, and 1 where it is missing
    words           two numbers that a hash of the text gives, both 0 where it is missing

The last column of all but `Words` exists only if values may be `missing`. Otherwise a missing value counts as the
`fill`, as the middle of the dates, or as a value that the category does not list.
In the other direction, a server finds the most probable value from columns that hold means.

A field answers every question about itself, also those of servers (`BaseField` lists them). A new kind is one class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.base_field import MOST_COLUMNS, BaseField, Coded, Kind, Natural, expand
from taskveil.client.networks import LEVELS
from taskveil.client.values import (
    CYCLES,
    DAY,
    LONGEST_TEXT,
    NO_VALUE,
    TRUTHS,
    Values,
    filled_in,
    is_prime,
    numbers_of,
    points_of,
    present,
    seconds_of,
    surer,
    text_of,
    waves,
    with_flag,
)
from taskveil.errors import DataError

_FAR_OUT = (1.5, 3.0, 10.0, 1e3, 1e6)  # ranges beyond the bounds that an audit tries


@dataclass(frozen=True)
class _Measured(BaseField):
    """What `Number` and `Count` have in common: bounds, a unit, and a fill for missing values."""

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
        """Finite bounds in their order, a fill between them, all of them doubles."""
        try:
            low, high, fill = float(self.low), float(self.high), float(self.fill)
        except (TypeError, ValueError, OverflowError):
            raise DataError("the bounds and the fill of a number must be numbers: Number(0, 200, unit='kW').") from None
        if not (math.isfinite(low) and math.isfinite(high) and low <= high and high - low < math.inf):
            raise DataError("the bounds of a number must be finite, the lower one first: Number(0, 200).")
        object.__setattr__(self, "stated", not math.isnan(fill))
        fill = float(self.rounded(np.array(low + (high - low) / 2))) if math.isnan(fill) else fill
        if not low <= fill <= high or type(self.missing) is not bool or not isinstance(self.unit, str):
            raise DataError("fill must be a number between the bounds, missing True or False, and unit a text.")
        for name, value in (("low", low), ("high", high), ("fill", fill)):
            object.__setattr__(self, name, value)

    def _names(self, name: str) -> tuple[str, ...]:
        return (name,)

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        return [self.low], [self.high]

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        numbers = numbers_of(values)
        lost = np.isnan(numbers)
        inside = self.rounded(np.clip(numbers, self.low, self.high))
        return with_flag([filled_in(inside, lost, self.fill)], lost, self.missing)

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:  # noqa: ARG002
        """The most probable values from `columns` (N, width) of numbers or means, NaN where none is; no `other`."""
        value, there = present(columns, self.fill, self.missing)
        value = np.clip(np.rint(value) if self.holds[0] == "whole" else value, self.low, self.high)
        return Natural(np.where(there < 0.5, np.nan, value), surer(there))

    def typical(self, count: int) -> Floats:
        """Numbers (count,) that are evenly spaced between the bounds."""
        return np.asarray(self.low + (np.arange(count) + 0.5) / count * (self.high - self.low))

    def samples(self) -> tuple[Any, ...]:
        """The bounds, the fill, and numbers far beyond the bounds."""
        span = (self.high - self.low) or 1.0
        beyond = [edge for times in _FAR_OUT for edge in (self.low - times * span, self.high + times * span)]
        return (self.low, self.fill, *beyond, self.high)

    def outside(self, values: Values | Coded) -> tuple[int, int]:
        """How many of the values (N,) are missing, and how many lie beyond the bounds."""
        numbers = expand(Number(), values)[:, 0]
        return int(np.isnan(numbers).sum()), int(((numbers < self.low) | (numbers > self.high)).sum())

    def within(self, low: str, high: str) -> Self:
        """The same field from `low` to `high`, as a person typed them."""
        try:
            first, last = float(low), float(high)
        except ValueError:
            raise DataError("bounds must be two numbers, low:high.") from None
        if not first <= last:
            raise DataError("the lower bound must come first, low:high.")
        return replace(self, low=first, high=last, fill=min(max(self.fill, first), last) if self.stated else math.nan)

    def measured_in(self, unit: str) -> Self:
        """The same field in a unit."""
        return replace(self, unit=unit, fill=self.fill if self.stated else math.nan)

    def filled(self, value: float) -> Self:
        """The same field with a value that stands in for missing ones."""
        return replace(self, fill=float(self.rounded(np.array(value))))


@dataclass(frozen=True)
class Number(_Measured):
    """A number from `low` to `high`, measured in `unit`. Numbers outside are clipped to the nearest bound.

    Without bounds, numbers are taken as they are, and the domain of the design bounds records as a whole. Such numbers
    are never missing, and no other kind of field stands beside them.

    Example:
        >>> import taskveil as tv
        >>> tv.Schema({"power": tv.Number(0, 250, "hp", missing=True)}).expand([{"power": 300}, {"power": 90}])[:, 0]
        array([250.,  90.])
    """

    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "number"
    holds: ClassVar[tuple[str, ...]] = ("number", "whole", "flag")
    types: ClassVar[tuple[str, str, str]] = ("float64", "Float64", "double")

    def __post_init__(self) -> None:
        if self.bounded:
            super().__post_init__()
        elif self.missing is not False or not isinstance(self.unit, str):
            raise DataError("a number without bounds is never missing: give its bounds, tv.Number(low, high).")
        else:
            object.__setattr__(self, "fill", 0.0)  # without missing values it is never used, and NaN equals nothing

    @property
    def bounded(self) -> bool:
        """Whether it has bounds."""
        return (self.low, self.high) != (-math.inf, math.inf)

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width); without bounds, a missing value stays NaN."""
        return super().expand(values) if self.bounded else numbers_of(values)[:, None]


@dataclass(frozen=True)
class Count(_Measured):
    """A whole number from `low` to `high`. Fractions are rounded down.

    Example:
        >>> import taskveil as tv
        >>> tv.Schema({"visits": tv.Count(0, 20)}).expand([{"visits": 3.9}, {"visits": 50}]).ravel()
        array([ 3., 20.])
    """

    kind: ClassVar[str] = "count"
    plain_kind: ClassVar[str] = "whole number"
    holds: ClassVar[tuple[str, ...]] = ("whole", "number", "flag")
    types: ClassVar[tuple[str, str, str]] = ("int64", "Int64", "int64")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low % 1 or self.high % 1 or max(abs(self.low), abs(self.high)) > 2**53:
            raise DataError("the bounds of a count must be whole numbers of at most 2^53.")

    def rounded(self, columns: Floats) -> Floats:
        """Numbers inside the box, rounded down."""
        return np.floor(columns)


@dataclass(frozen=True)
class Flag(BaseField):
    """True or false. The numbers 1 and 0 count too, and the words true, True, TRUE, false, False and FALSE.

    Example:
        >>> import taskveil as tv
        >>> tv.Schema({"active": tv.Flag()}).expand([{"active": True}, {"active": "false"}]).ravel()
        array([1., 0.])
    """

    missing: bool = False
    fill: bool = False
    """What a missing value counts as."""

    kind: ClassVar[str] = "flag"
    plain_kind: ClassVar[str] = "yes or no"
    reads_as: ClassVar[tuple[Kind, Kind]] = ("share", "share")
    holds: ClassVar[tuple[str, ...]] = ("flag", "number", "whole")
    types: ClassVar[tuple[str, str, str]] = ("bool", "Boolean", "bool")

    def __post_init__(self) -> None:
        if type(self.missing) is not bool or type(self.fill) is not bool:
            raise DataError("missing and fill of a flag must be True or False.")

    def _names(self, name: str) -> tuple[str, ...]:
        return (name,)

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        return [0.0], [1.0]

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        numbers = numbers_of(values, words=TRUTHS)
        lost = (numbers != 0) & (numbers != 1)
        return with_flag([filled_in(numbers, lost, float(self.fill))], lost, self.missing)

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:  # noqa: ARG002
        """1 or 0 from `columns` (N, width) of numbers or means, NaN where most probably none is; no `other`."""
        value, there = present(columns, float(self.fill), self.missing)
        chance = np.clip(value, 0.0, 1.0)
        values = np.where(there < 0.5, np.nan, (chance >= 0.5).astype(np.float64))
        return Natural(values, np.where(there < 0.5, 1.0 - there, there * surer(chance)))

    def rounded(self, columns: Floats) -> Floats:
        """Numbers inside the box, rounded to 0 or 1."""
        return np.rint(columns)

    def samples(self) -> tuple[Any, ...]:
        """Both values."""
        return (False, True)


@dataclass(frozen=True)
class Category(BaseField):
    """One of some `values`, or anything else. Values are text; whole numbers and truth values count as the text that
    writes them (4, true), and an empty text that is no value counts as missing.

    Example:
        >>> import taskveil as tv
        >>> schema = tv.Schema({"plan": tv.Category(["Basic", "Pro"])})
        >>> schema.columns
        ('plan=Basic', 'plan=Pro')
        >>> schema.expand([{"plan": "Pro"}, {"plan": "another"}])
        array([[0., 1.],
               [0., 0.]])
    """

    values: tuple[str, ...]
    missing: bool = False

    kind: ClassVar[str] = "category"
    plain_kind: ClassVar[str] = "one of some values"
    reads_as: ClassVar[tuple[Kind, Kind]] = ("share", "share")
    holds: ClassVar[tuple[str, ...]] = ("text", "category", "number", "whole")
    types: ClassVar[tuple[str, str, str]] = ("str", "String", "string")
    exclusive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Sequence):
            raise DataError('a category takes a list of its values: Category(["Europe", "Japan"]).')
        texts = tuple(text_of(value) for value in self.values)
        if not 1 <= len(texts) <= MOST_COLUMNS or len(set(texts)) < len(texts):
            raise DataError(f"a category has 1 to {MOST_COLUMNS} values, all different as text.")
        if None in texts or NO_VALUE in texts or type(self.missing) is not bool:
            raise DataError(
                f"the values of a category are texts of up to {LONGEST_TEXT} characters, whole numbers or truth values."
            )
        object.__setattr__(self, "values", tuple(text for text in texts if text is not None))

    @property
    def words(self) -> Sequence[str]:
        """Its values."""
        return self.values

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(f"{name}={value}" for value in self.values)

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * len(self.values), [1.0] * len(self.values)

    @cached_property
    def _columns(self) -> dict[str | None, int]:
        """From a text (None: missing) to its column; what has none comes after the last."""
        gone = len(self.values)
        return {"": gone, **{value: place for place, value in enumerate(self.values)}, None: gone}

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        width = len(self.values) + self.missing
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and len(values) > width + 1:
            distinct, inverse = np.unique(values, return_inverse=True)
            return self.expand(distinct.tolist())[inverse]
        columns, made = self._columns, np.zeros((len(values), width))
        places = np.array([columns.get(text_of(value), width) for value in values], dtype=np.int64)
        rows = np.flatnonzero(places < width)
        made[rows, places[rows]] = 1.0
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

    def samples(self) -> tuple[Any, ...]:
        """Its values."""
        return self.values


@dataclass(frozen=True)
class Date(BaseField):
    """A date or a time from `low` to `high`, as text: what lies outside is brought to the nearest bound.

    Its place in each of the `cycles` ("year", "week", "day") is that of the date itself, also outside the bounds: next
    year has the same seasons. For a missing date, the middle counts, and no place in any cycle.

    Example:
        >>> import taskveil as tv
        >>> schema = tv.Schema({"since": tv.Date("2020-01-01", "2024-12-31", cycles=[])})
        >>> schema.expand([{"since": "2020-01-02"}]) - schema.expand([{"since": "1999-05-05"}])  # in days
        array([[1.]])
    """

    low: str
    high: str
    missing: bool = False
    cycles: tuple[str, ...] = ("year", "week")

    kind: ClassVar[str] = "date"
    reads_as: ClassVar[tuple[Kind, Kind]] = ("date", "wave")
    holds: ClassVar[tuple[str, ...]] = ("date", "text")
    types: ClassVar[tuple[str, str, str]] = ("datetime64[s]", "Datetime", "timestamp[us]")

    def __post_init__(self) -> None:
        for name in ("low", "high"):  # dates and datetimes are as good as text
            value = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, str) else str(getattr(value, "isoformat", str)()))
        object.__setattr__(self, "cycles", tuple(self.cycles))
        ends, wrong = seconds_of([self.low, self.high])
        if wrong.any() or ends[0] > ends[1] or type(self.missing) is not bool:
            raise DataError('the bounds of a date must be dates, the earlier first: Date("2020-01-01", "2024-12-31").')
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

    def _names(self, name: str) -> tuple[str, ...]:
        parts = [f"{name} of the {cycle} ({wave})" for cycle in self.cycles for wave in ("cos", "sin")]
        return (f"{name} in days", *parts)

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        first, last = self._ends
        waving = 2 * len(self.cycles)
        return [first, *[-1.0] * waving], [last, *[1.0] * waving]

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        seconds, lost = seconds_of(values)
        columns = [filled_in(np.clip(seconds / DAY, *self._ends), lost, self._middle)]
        for cycle in self.cycles:
            columns += [filled_in(wave, lost, 0.0) for wave in waves(seconds, cycle).T]
        return with_flag(columns, lost, self.missing)

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:  # noqa: ARG002
        """Dates to the second from `columns` (N, width) of numbers or means, NaT where there is most probably none; no
        `other`."""
        days, there = present(columns, self._middle, self.missing)
        seconds = np.rint(np.clip(days, *self._ends) * DAY).astype("datetime64[s]")
        return Natural(np.where(there < 0.5, np.datetime64("NaT", "s"), seconds), surer(there))

    def typical(self, count: int) -> Values:
        """Both bounds in turn: they are dates of volunteers, and some models know no others."""
        return np.asarray(np.rint(np.resize(self._ends, count) * DAY).astype("datetime64[s]"))

    def samples(self) -> tuple[Any, ...]:
        """The bounds, and dates that lie beyond most bounds."""
        return (self.low, "1900-01-01", "2100-12-31", self.high)

    def outside(self, values: Values | Coded) -> tuple[int, int]:
        """How many of the values (N,) are missing, and how many lie beyond the bounds."""
        if isinstance(values, Coded):
            seconds, lost = (part[values.codes] for part in seconds_of([*values.values, None]))
        else:
            seconds, lost = seconds_of(values)
        low, high = seconds_of([self.low, self.high])[0]
        return int(lost.sum()), int((~lost & ((seconds < low) | (seconds > high))).sum())

    def within(self, low: str, high: str) -> Self:
        """The same field from `low` to `high`, as a person typed them."""
        return replace(self, low=low, high=high)


@dataclass(frozen=True)
class Words(BaseField):
    """A text of an open or huge vocabulary, as one of the `prime` × `prime` points (v₁, v₂) of a plane.

    A hash with the `salt` of the release chooses the point; 0, 0 is that of a missing or empty text. Nobody lists the
    values: a server hashes those that it asks about. Whole numbers and truth values count as the text that writes them.

    Example:
        >>> import taskveil as tv
        >>> schema = tv.Schema({"app": tv.Words(31, salt="2026")})
        >>> schema.expand([{"app": "maps"}]).shape  # a point of the plane
        (1, 2)
    """

    prime: int
    salt: str = ""

    kind: ClassVar[str] = "words"
    plain_kind: ClassVar[str] = "text"
    reads_as: ClassVar[tuple[Kind, Kind]] = ("number", "number")
    holds: ClassVar[tuple[str, ...]] = ("text", "category", "number", "whole")
    types: ClassVar[tuple[str, str, str]] = ("str", "String", "string")
    missing = False  # a missing text is a point, so that no column says it

    def __post_init__(self) -> None:
        if type(self.prime) is not int or not (2 <= self.prime <= LEVELS and is_prime(self.prime)):  # as encoders read
            raise DataError(f"the side of words is a prime number of at most {LEVELS}, such as Words(3001).")
        if not isinstance(self.salt, str) or text_of(self.salt) == NO_VALUE != self.salt:
            raise DataError(f"the salt of words is a text of up to {LONGEST_TEXT} characters.")

    @property
    def side(self) -> int:
        """The prime."""
        return self.prime

    def _names(self, name: str) -> tuple[str, ...]:
        return f"{name} (first number)", f"{name} (second number)"

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        return [0.0, 0.0], [self.prime - 1.0] * 2

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, 2)."""
        return points_of(values, self.salt, self.prime)

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:  # noqa: ARG002
        """None with a chance of 0 for each of `columns` (N, 2): no text can be found from its point; no `other`."""
        return Natural(np.full(len(columns), None, dtype=object), np.zeros(len(columns)))

    def rounded(self, columns: Floats) -> Floats:
        """Numbers inside the box, rounded to whole ones."""
        return np.rint(columns)

    def samples(self) -> tuple[Any, ...]:
        """A missing text and some others."""
        return ("", "a", "b", "c")

    def typical(self, count: int) -> Values:
        """Texts (count,) that differ."""
        return [str(place) for place in range(count)]

    def outside(self, values: Values | Coded) -> tuple[int, int]:
        """How many of the values (N,) are missing or empty; none lies beyond the bounds."""
        return int((expand(self, values) == 0).all(axis=1).sum()), 0


Field = Number | Count | Category | Flag | Date | Words
"""Every kind of field that a release may hold."""
