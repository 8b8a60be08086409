"""Inputs for clients that take natural values: ordinary and hostile ones.

An input is an array (n,) of Python objects, one for every name. Hostile values are missing, of another type, out of
bounds, unknown or far too long, in every field at once and in one field at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from taskveil.arrays import Array
from taskveil.client.fields import Coded, Number
from taskveil.errors import AuditError
from taskveil.records.inference import needs_schema
from taskveil.records.schema import Schema
from taskveil.records.tables import ColumnValues, column_names, read_column, select

_SAID = (
    ("None", None),
    ("NaN", math.nan),
    ("infinity", math.inf),
    ("minus infinity", -math.inf),
    ("1e308", 1e308),
    ("-1e308", -1e308),
    ("0", 0),
    ("-1", -1),
    ("a number of 400 digits", 10**400),
    ("true", True),
    ("false", False),
    ("no text", ""),
    ("a word", "anything else"),
    ("a long text", "a long text, " * 100),
    ("a NUL", "\0"),
    ("half a character", "\ud800"),
    ("a number as text", "17"),
    ("the first day", "0001-01-01"),
    ("the last second", "9999-12-31T23:59:59Z"),
    ("no such day", "2021-02-30"),
    ("a list", [1, 2, 3]),
    ("a dictionary", {"value": 1}),
)
"""Values that a message can hold."""

_HELD = (
    ("bytes", b"bytes"),
    ("a date", date(2021, 3, 4)),
    ("a time", datetime(9999, 12, 31, 23, 59, 59)),
    ("a complex number", 1j),
    ("a number that signals", Decimal("sNaN")),
    ("numpy's missing date", np.datetime64("NaT")),
    ("a masked value", np.ma.masked),
    ("an array", np.arange(3)),
    ("an object", object()),
)
"""Further values that a Python program can hold."""

_FEW = 6  # values of a field, and fields, that are tried by themselves


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedInputs:
    """Inputs by name: the `names`, `ordinary` values of each, `hostile` values, and some `records`."""

    names: tuple[str, ...]
    ordinary: tuple[tuple[Any, ...], ...]
    hostile: tuple[tuple[str, Any], ...]
    records: tuple[Array, ...]

    @classmethod
    def of_schema(cls, schema: Schema, records: Any) -> NamedInputs:
        """Inputs for a veil that takes natural values; `records` are a table or a list of mappings, or None."""
        ordinary = tuple(field.samples() for field in schema.fields.fields)
        known = () if records is None else _rows(records, schema.names)
        return cls(names=schema.names, ordinary=ordinary, hostile=(*_SAID, *_HELD), records=known)

    @classmethod
    def of_records(cls, records: Any) -> NamedInputs | None:
        """Inputs for another client that takes mappings like these records; None if they are numbers without names."""
        listed = isinstance(records, Sequence) and len(records) > 0 and all(isinstance(row, Mapping) for row in records)
        names = tuple(records[0]) if listed else column_names(records)
        if not listed and (names is None or not needs_schema(records)):
            return None
        rows = _rows(records, names or ())
        columns = zip(*rows, strict=True)
        return cls(names=names or (), ordinary=tuple(_seen(values) for values in columns), hostile=_SAID, records=rows)

    @property
    def middle(self) -> Array:
        """An input like any other (n,)."""
        return _row([values[0] for values in self.ordinary])

    def pool(self, rng: np.random.Generator) -> list[tuple[str, Array]]:
        """Inputs (n,) that may be easy to tell apart, with their names."""
        first, last = ([values[place] for values in self.ordinary] for place in (0, -1))
        rows = [("all first values", _row(first)), ("all last values", _row(last))]
        rows += [(f"all {name}", _row([value] * len(self.names))) for name, value in self.hostile]
        for place, (field, values) in enumerate(zip(self.names, self.ordinary, strict=True)):
            if place < _FEW:
                few = [*values[: _FEW // 2], *values[-_FEW // 2 :]] if len(values) > _FEW else values
                rows += [(f"value {i} of {field}", self._with(place, value)) for i, value in enumerate(few)]
        for turn, (name, value) in enumerate(self.hostile):
            place = turn % len(self.names)
            rows.append((f"{name} in {self.names[place]}", self._with(place, value)))
        rows += [(f"record {i}", self.records[i]) for i in rng.permutation(len(self.records))[:8].tolist()]
        return rows

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Records (count, n) that a broken form, another version of an app or an attacker may send."""
        made = np.empty((count, len(self.names)), dtype=object)
        anything = [value for _, value in self.hostile]
        for place, values in enumerate(self.ordinary):
            wild = rng.random(count) < 0.5
            chosen = rng.integers(2**31, size=count).tolist()
            for i, (hostile, choice) in enumerate(zip(wild.tolist(), chosen, strict=True)):
                pool = anything if hostile else values
                made[i, place] = pool[choice % len(pool)]
        return made

    def as_mappings(self, records: Array) -> list[dict[str, Any]]:
        """Inputs (N, n) by name."""
        return [dict(zip(self.names, row, strict=True)) for row in records]

    def _with(self, place: int, value: Any) -> Array:
        made = self.middle
        made[place] = value
        return made


def _seen(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values of a name in some records, and numbers far beyond: the least and the largest at the ends."""
    numbers = [v for v in values if isinstance(v, Real) and not isinstance(v, bool) and math.isfinite(v)]
    if len(numbers) > len(values) / 2:
        ends = np.clip([min(numbers), max(numbers)], -8e307, 8e307)  # a range that doubles can hold
        return Number(*ends.tolist()).samples()
    different: list[Any] = []
    for value in values:
        if not any(value is other or value == other for other in different):
            different.append(value)
    return tuple(different[:50])


def _rows(records: Any, names: tuple[str, ...]) -> tuple[Array, ...]:
    """Records of a table or a list of mappings as inputs (n,)."""
    if column_names(records) is not None:
        columns = [_listed(read_column(column)[1]) for column in select(records, names)]
        return tuple(_row(list(row)) for row in zip(*columns, strict=True))
    if not all(isinstance(row, Mapping) and set(row) >= set(names) for row in records):
        raise AuditError(f"records by name have the same names, all of them: {', '.join(map(str, names))}.")
    return tuple(_row([row[name] for name in names]) for row in records)


def _listed(column: ColumnValues) -> list[Any]:
    if isinstance(column, Coded):
        return [[*column.values, None][code] for code in column.codes.tolist()]
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _row(values: list[Any]) -> Array:
    """(n,): objects as they are, whatever they hold."""
    made = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        made[place] = value
    return made
