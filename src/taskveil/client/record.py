"""A record of natural values by name, as the numbers that encoders take.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taskveil.arrays import RAISED, Floats
from taskveil.client.fields import BaseField, Coded, Number, expand
from taskveil.client.values import Values
from taskveil.errors import DataError

MOST_COLUMNS = 1 << 16
"""Numbers that a record may become."""

_FEW = 20  # names in a message


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What a record consists of: `names` and `fields`, in this order. `expand` turns natural values into numbers.

    Only the names and the number of values are ever checked: an error that depends on a value would reveal it.
    """

    names: tuple[str, ...]
    fields: tuple[BaseField, ...]

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.fields) or len(set(self.names)) < len(self.names):
            raise DataError("a record has at least one field, and every field a name of its own.")
        if not all(isinstance(name, str) for name in self.names):
            raise DataError("the names of a record's fields are text.")
        if not all(isinstance(field, BaseField) for field in self.fields):
            raise DataError("a record consists of numbers, counts, categories, flags and dates.")
        if len({field.bounded for field in self.fields}) > 1:
            raise DataError("either every field has bounds, or a record is numbers without bounds and nothing else.")
        if self.width > MOST_COLUMNS:
            raise DataError(f"a record may become at most {MOST_COLUMNS} numbers; these fields make {self.width}.")

    @classmethod
    def numbers(cls, names: Sequence[str], units: Sequence[str] | None = None) -> Fields:
        """Numbers without bounds: records that are taken as they are."""
        return cls(names=tuple(names), fields=tuple(Number(unit=unit) for unit in units or ("",) * len(names)))

    @property
    def unbounded(self) -> bool:
        """Whether records are numbers without bounds."""
        return not self.fields[0].bounded

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """(n,) and (n,): the least and the largest numbers that a record can become."""
        low, high = zip(*(field.box for field in self.fields), strict=True)
        return np.concatenate(low), np.concatenate(high)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """The columns of each field."""
        ends = np.cumsum([len(field.box[0]) for field in self.fields]).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))

    @property
    def width(self) -> int:
        """How many numbers a record becomes."""
        return int(self.places[-1].stop)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of these numbers."""
        named = zip(self.names, self.fields, strict=True)
        return tuple(label for name, field in named for label in field.labels(name))

    @property
    def units(self) -> tuple[str, ...]:
        """What every field is measured in, empty where nobody said."""
        return tuple(field.unit for field in self.fields)

    @np.errstate(all="ignore")  # whatever the caller asked numpy to raise or to warn of, no value is an error here
    def expand(self, columns: Sequence[Values | Coded]) -> Floats:
        """Natural values of every field, in the fields' order, each (N,) → numbers (N, width)."""
        if len(columns) != len(self.fields):
            raise DataError(f"a record of this release has {len(self.fields)} values, got {len(columns)}.")
        parts = [expand(field, column) for field, column in zip(self.fields, columns, strict=True)]
        return np.hstack(parts)

    def expand_one(self, x: Any) -> Floats:
        """One record, by name or in the fields' order → numbers (1, width); DataError for other names or another number
        of values."""
        return self.expand_rows([x])

    def expand_rows(self, records: Iterable[Any], *, others: bool = False) -> Floats:
        """Records, each by name or in the fields' order → numbers (N, width); DataError for other names or another
        number of values.

        Args:
            records: N of them.
            others: whether they may have values of other names too, which nobody looks at.
        """
        rows = [self._row(x, others) for x in records]
        return self.expand([[row[place] for row in rows] for place in range(len(self.fields))])

    def _row(self, x: Any, others: bool) -> list[Any]:
        """The values of one record in the fields' order; one that the record does not hand out counts as missing."""
        try:
            if type(x) in (list, tuple) and len(x) == len(self.names):
                return list(x)
            named = hasattr(x, "keys")  # a mapping, or a pandas Series
            listed = list(x.keys()) if named else [None] * len(x)
            known = set(listed)
            sound = len(known) == len(listed) if named else len(listed) == len(self.names)  # no name twice
            sound &= hasattr(x, "__getitem__") and not isinstance(x, str | bytes)
            sound &= len(getattr(x, "shape", (1,))) == 1  # a table is no record
            missing = sorted(self._known - known) if named else []
            extra = sorted(map(str, known - self._known)) if named and not others else []
        except RAISED:  # a class of the caller's own that cannot be inspected
            sound = False
        if not sound:
            few = ", ".join(self.names[:_FEW]) + (", …" if len(self.names) > _FEW else "")
            raise DataError(f"a record of this release is {len(self.names)} values, by name or in its order: {few}.")
        if missing or extra:
            raise DataError(
                f"the record must have exactly the release's columns: {missing=}, {extra=}. Pass None for a value "
                "that is not there, and leave the others out."
            )
        return [_value(x, name if named else place) for place, name in enumerate(self.names)]


def is_row(x: Any) -> bool:
    """Whether something is a record by its form, rather than a value of one: its type says so, whatever it pretends."""
    try:
        kind = type(x)
        listed = issubclass(kind, list | tuple) or (issubclass(kind, np.ndarray) and x.ndim > 0)
        return listed or callable(getattr(kind, "keys", None))
    except RAISED:
        return False


def _value(x: Any, key: str | int) -> Any:
    try:
        return x[key]
    except RAISED:
        return None
