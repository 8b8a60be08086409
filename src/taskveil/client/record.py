"""A record of natural values by name, as the numbers that encoders take.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.fields import Category, Coded, Count, Date, Field, Flag, Number, Values, expand
from taskveil.errors import DataError

MOST_COLUMNS = 1 << 16
"""Numbers that a record may become."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What a record consists of: `names` and `fields`, in this order. `expand` turns natural values into numbers.

    Only the names and the number of values are ever checked: a refusal that depends on a value would tell of it.
    """

    names: tuple[str, ...]
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.fields) or len(set(self.names)) < len(self.names):
            raise DataError("a record has at least one field, and every field a name of its own.")
        if not all(isinstance(name, str) for name in self.names):
            raise DataError("the names of a record's fields are text.")
        if not all(isinstance(field, Number | Count | Category | Flag | Date) for field in self.fields):
            raise DataError("a record consists of numbers, counts, categories, flags and dates.")
        if self.width > MOST_COLUMNS:
            raise DataError(f"a record may become at most {MOST_COLUMNS} numbers; these fields make {self.width}.")

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """(n,) and (n,): the least and the largest numbers that a record can become."""
        low, high = zip(*(field.box for field in self.fields), strict=True)
        return np.concatenate(low), np.concatenate(high)

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
        """What these numbers are called."""
        named = zip(self.names, self.fields, strict=True)
        return tuple(label for name, field in named for label in field.labels(name))

    @property
    def units(self) -> tuple[str, ...]:
        """What every field is measured in, empty where nobody said."""
        return tuple(field.unit for field in self.fields)

    def expand(self, columns: Sequence[Values | Coded]) -> Floats:
        """Natural values of every field, in the fields' order, each (N,) → numbers (N, width)."""
        if len(columns) != len(self.fields):
            raise DataError(f"a record of this release has {len(self.fields)} values, got {len(columns)}.")
        parts = [expand(field, column) for field, column in zip(self.fields, columns, strict=True)]
        return np.hstack(parts)

    def expand_one(self, x: Any) -> Floats:
        """One record, by name or in the fields' order → numbers (1, width); DataError for other names or another number
        of values."""
        if hasattr(x, "keys") and not isinstance(x, Mapping):
            x = dict(x.items())  # a pandas Series: its names count, not its order
        if isinstance(x, Mapping):
            if x.keys() != set(self.names):
                missing = sorted(set(self.names) - x.keys())
                extra = sorted(map(str, x.keys() - set(self.names)))
                raise DataError(f"the record must have exactly the release's columns: {missing=}, {extra=}.")
            x = [_value(x, name) for name in self.names]
        if isinstance(x, str | bytes) or not hasattr(x, "__len__") or len(x) != len(self.names):
            raise DataError(f"a record of this release is {len(self.names)} values, by name or in its order.")
        return self.expand([[value] for value in x])


def _value(x: Mapping[str, Any], name: str) -> Any:
    """What a mapping that computes its values does not tell is missing."""
    try:
        return x[name]
    except Exception:  # a class of the caller's own
        return None
