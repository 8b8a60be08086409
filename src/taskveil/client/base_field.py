"""What every kind of field answers. `fields.py` has the kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.client.values import Values
from taskveil.errors import DataError

MOST_COLUMNS = 1 << 16
"""Numbers that a record may become."""


class Natural(NamedTuple):
    """The most probable values (N,) of a field, and their probability (N,); for numbers, that there is a value."""

    values: Array
    chance: Floats


Kind = Literal["number", "share", "date", "wave"]
"""How the mean of a column reads: "share" is a share of people, "wave" a place in a year or week."""


class Coded(NamedTuple):
    """A column whose values repeat: the numbers (N,) of its `values`, −1 where a value is missing."""

    codes: Integers
    values: Sequence[Any]


class BaseField:
    """The questions that every kind of field answers; a new kind is a subclass, a frozen dataclass.

    A subclass defines the class attributes without a value, `_names`, `_bounds`, `expand`, `collapse` and `samples`.
    The others have answers that most kinds share.
    """

    kind: ClassVar[str]
    """Its name in releases and in JSON."""
    plain_kind: ClassVar[str] = ""
    """The same for people, if `kind` does not explain itself."""
    reads_as: ClassVar[tuple[Kind, Kind]]
    """How means of the first column read, and those of the others; a column for missing values is a share."""
    holds: ClassVar[tuple[str, ...]]
    """What a table's columns of such values may hold (`records.tables.Kind`); by nature, the first."""
    types: ClassVar[tuple[str, str, str]]
    """The natural types of its columns in pandas, polars and Arrow."""
    exclusive: ClassVar[bool] = False
    """Whether its columns are the chances of values of which a record has one at most; missing is one of them."""

    missing: bool
    unit: str = ""
    stated: bool = True
    """Whether the fill of missing values was given; if not, the design chooses it."""

    @property
    def bounded(self) -> bool:
        """Whether it brings its values between bounds of its own; only a `Number` can do without."""
        return True

    @property
    def side(self) -> int | None:
        """Of an open vocabulary, whose values become points of a plane: how many numbers a side has. None of others."""
        return None

    @property
    def words(self) -> Sequence[str]:
        """Texts that are values, even if they look like a number or a missing value (NA for a region)."""
        return ()

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of its columns, for a field of this name."""
        names = self._names(name)
        return (*names, f"{name} is missing") if self.missing else names

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The least and the largest numbers in its columns."""
        low, high = self._bounds
        return ([*low, 0.0], [*high, 1.0]) if self.missing else (low, high)

    @property
    def flagged(self) -> bool:
        """Whether its last column says that the value of the others is missing."""
        return self.missing and not self.exclusive

    @property
    def weighed(self) -> int:
        """How many of its columns a weight is about: the chances of a category's values, else the value alone."""
        return len(self.box[0]) if self.exclusive else 1

    def _names(self, name: str) -> tuple[str, ...]:
        """The names of its columns without the one for missing values."""
        raise NotImplementedError

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        """The least and the largest numbers in these columns."""
        raise NotImplementedError

    def expand(self, values: Values) -> Floats:
        """Natural values (N,) → columns (N, width)."""
        raise NotImplementedError

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:
        """The most probable values: NaN, NaT or None where a value is most probably missing.

        Args:
            columns: (N, width), numbers or means of them.
            other: the value that stands for all values that a category does not list.
        """
        raise NotImplementedError

    def rounded(self, columns: Floats) -> Floats:
        """Numbers (N, width) inside the box, brought to numbers that values of this field become."""
        return columns

    def samples(self) -> tuple[Any, ...]:
        """Natural values inside the bounds and beyond them, the least and the largest at the ends."""
        raise NotImplementedError

    def typical(self, count: int) -> Values:
        """Natural values (count,) inside the bounds, of every kind that is not missing."""
        samples = self.samples()
        return [samples[place % len(samples)] for place in range(count)]

    def outside(self, values: Values | Coded) -> tuple[int, int]:
        """How many of the values (N,) are missing, and how many are neither missing nor within the bounds."""
        if self.side is not None:
            return 0, 0  # an open vocabulary: every value is one
        rows = expand(replace(self, missing=True), values)  # type: ignore[type-var]
        return int(rows[:, -1].sum()), int((rows.sum(axis=1) == 0).sum()) if self.exclusive else 0

    def within(self, low: str, high: str) -> Self:  # noqa: ARG002 - most kinds have no bounds
        """The same field from `low` to `high`, as a person typed them."""
        raise DataError(f"a {self.kind} has no bounds: leave them out.")

    def measured_in(self, unit: str) -> Self:  # noqa: ARG002 - most kinds have no unit
        """The same field in a unit."""
        raise DataError(f"a {self.kind} has no unit: leave it out.")

    def filled(self, value: float) -> Self:  # noqa: ARG002 - most kinds need none
        """The same field with a value that stands in for missing ones."""
        return self


def expand(field: BaseField, column: Values | Coded) -> Floats:
    """A column of natural values (N,) → columns (N, width); if its values repeat, each is read once."""
    if isinstance(column, Coded):
        return field.expand([*column.values, None])[column.codes]
    if isinstance(column, np.ma.MaskedArray):  # numpy would take what lies under the mask for values
        rows = field.expand(column.data)
        rows[np.ma.getmaskarray(column)] = field.expand([None])
        return rows
    return field.expand(column)
