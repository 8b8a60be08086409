"""The part of a veil that runs on the user's device: the fields of a record, the encoder and the mechanism.

`Fields` turns natural values by name into the numbers that encoders take. `Device` turns these into reports. The
`client/` half of a release holds both; `client.reading` reads it.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taskveil.arrays import NUMBERS_AT_A_TIME, Array, Floats, Integers, one_float, tolerant
from taskveil.client.base_field import MOST_COLUMNS, BaseField, Coded, expand
from taskveil.client.fields import Number
from taskveil.client.latent_encoders import Encoder
from taskveil.client.mechanisms import Mechanism
from taskveil.client.panels import Panel
from taskveil.client.values import Values
from taskveil.errors import DataError

_REPORTS_AT_A_TIME = 1 << 13  # reports randomised at a time, so that asking the operating system costs little


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
        rows = [_values(x, len(self.names), self.names, others=others) for x in records]
        return self.expand([[row[place] for row in rows] for place in range(len(self.fields))])


@dataclass(frozen=True, kw_only=True, eq=False)
class Device:
    """Record in, randomised report out. `columns` and `units` name the attributes in order.

    With `fields`, a record has natural values, which the fields turn into numbers. Without, it consists of numbers.
    With a `panel`, a person reports in some of the planned rounds.
    """

    encoder: Encoder
    mechanism: Mechanism
    columns: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    fields: Fields | None = None
    panel: Panel | None = None

    def __post_init__(self) -> None:
        if self.mechanism.latent_dim != self.encoder.latent_dim:
            raise DataError("encoder and mechanism of a veil must agree on the latents.")
        if self.fields is not None:
            if self.fields.width != self.encoder.width:
                raise DataError(f"the fields make {self.fields.width} numbers, the encoder takes {self.encoder.width}.")
            if (self.columns, self.units) != (self.fields.names, self.fields.units):
                raise DataError("columns and units must be those of the fields.")
        for what, names in (("column names", self.columns), ("units", self.units)):
            if names is not None and len(names) != self.attributes:
                raise DataError(f"{len(names)} {what} for {self.attributes} attributes.")
            if names is not None and not all(isinstance(name, str) for name in names):
                raise DataError(f"{what} must be text.")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise DataError("column names must differ from each other.")

    @property
    def attributes(self) -> int:
        """How many values a record has."""
        return self.encoder.width if self.fields is None else len(self.fields.names)

    @np.errstate(all="ignore")
    def record(self, x: Any) -> Floats:
        """One record, by name or in order → the numbers (1, n) that the encoder takes.

        A DataError says what is wrong with its form, or that a value is no number where the release has no fields. It
        never depends on a number: all numbers, missing ones too, are read one by one in the same way and time.
        """
        if self.fields is not None:
            return self.fields.expand_one(x)
        with tolerant:  # a class of the caller's own may be impossible to inspect
            # What has names, as tables do, is not taken in its order.
            if hasattr(x, "__array__") and not (hasattr(x, "keys") or hasattr(x, "columns")):
                x = x if isinstance(x, np.ndarray) else np.asarray(x)  # a tensor
                x = x.tolist() if x.dtype.kind in "biufO" else x  # what is masked becomes None
            if isinstance(x, list | tuple) and len(x) == 1 and is_row(x[0]):
                x = x[0]  # a table of one row
        values = _values(x, self.attributes, self.columns, "numbers")
        try:
            return np.array([[one_float(value) for value in values]])
        except DataError as error:
            raise DataError(f"a record of this release is {self.attributes} numbers. {error}") from None

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def privatize(self, X: Floats) -> Integers:
        """Records of any quality as numbers (N, n) → reports (N, width), each with fresh entropy."""
        return _in_pieces(lambda rows: self.mechanism(self._encode(rows)), X, _REPORTS_AT_A_TIME)

    def _encode(self, X: Floats) -> Floats:
        return _in_pieces(self.encoder, X, NUMBERS_AT_A_TIME // max(self.encoder.width, self.encoder.latent_dim))


def _in_pieces(work: Callable[[Floats], Array], X: Floats, rows: int) -> Array:
    """The results of `work` for at most `rows` records at a time, and at least one."""
    rows = max(rows, 1)
    if len(X) <= rows:
        return work(X)
    return np.concatenate([work(X[start : start + rows]) for start in range(0, len(X), rows)])


def is_row(x: Any) -> bool:
    """Whether something is a record by its form, rather than a value of one: its type says so, whatever it pretends."""
    with tolerant:
        kind = type(x)
        listed = issubclass(kind, list | tuple) or (issubclass(kind, np.ndarray) and x.ndim > 0)
        return listed or callable(getattr(kind, "keys", None))
    return False


def _values(
    x: Any, count: int, names: Sequence[str] | None, what: str = "values", *, others: bool = False
) -> list[Any]:
    """The values of one record in order; a value that the record does not hand out counts as missing.

    Args:
        x: a mapping of the names or a pandas Series, or the values in order.
        count: how many there must be.
        names: by which they are found; None if the release names no columns.
        what: what an error calls them.
        others: whether the record may have values of other names too.
    """
    with tolerant:  # most records; the others are looked at more closely
        if type(x) in (list, tuple) and len(x) == count:
            return list(x)
        if type(x) is dict and len(x) == count and names is not None:
            return [x[name] for name in names]
    sound, named = False, False
    missing: list[str] = []
    extra: list[str] = []
    with tolerant:  # a class of the caller's own may be impossible to inspect
        named = hasattr(x, "keys")  # a mapping, or a pandas Series
        listed = list(x.keys()) if named else [None] * len(x)
        known, wanted = set(listed), set(names or ())
        sound = len(known) == len(listed) if named else len(listed) == count  # no name twice
        sound &= hasattr(x, "__getitem__") and not isinstance(x, str | bytes)
        sound &= len(getattr(x, "shape", (1,))) == 1  # a table is no record
        missing = sorted(wanted - known) if named else []
        extra = sorted(map(str, known - wanted)) if named and not others else []
    if named and names is None:
        raise DataError(f"this release names no columns: pass {count} {what} in its order.")
    if not sound:
        order = "" if names is None else f": {', '.join(names)}"
        raise DataError(f"a record of this release is {count} {what}, by name or in its order{order}.")
    if missing or extra:
        raise DataError(
            f"the record must have exactly the release's columns: {missing=}, {extra=}. Pass None for a value that is "
            "not there, and leave the others out."
        )
    return [_value(x, name) for name in (names if named and names is not None else range(count))]


def _value(x: Any, key: str | int) -> Any:
    with tolerant:
        return x[key]
    return None
