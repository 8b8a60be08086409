"""The mechanism under audit with its claim, inputs for it, and the result of a check.

A client that takes natural values gets ordinary and hostile ones. Such an input is an array (n,) of Python objects, one
for every name. Hostile values are missing, of another type, out of bounds, unknown or far too long, in every field at
once and in one field at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.client.base_field import Coded
from taskveil.client.fields import Number
from taskveil.errors import AuditError
from taskveil.records.inference import needs_schema
from taskveil.records.schema import Schema
from taskveil.records.tables import ColumnValues, as_records, column_names, read_column, select
from taskveil.veil import Veil
from taskveil.veil.veil import as_epsilon

Outcome = Literal["held", "broken", "not applicable"]

ALPHA = 1e-9
"""The chance of a false alarm in each check that compares samples, shared out (Bonferroni) among all it compares."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question, its answer, and a sentence about the evidence.

    'Held' means that the attack was carried out and failed, 'broken' that it succeeded, 'not applicable' that it could
    not be carried out: that speaks neither for the mechanism nor against it.
    """

    name: str
    outcome: Outcome
    detail: str

    @property
    def passed(self) -> bool:
        """Whether nothing was found against the mechanism: the check held or does not apply. `outcome` says which."""
        return self.outcome != "broken"

    @classmethod
    def of(cls, name: str, detail: str, *, held: bool) -> Check:
        """The answer of a check that was carried out."""
        return cls(name=name, outcome="held" if held else "broken", detail=detail)

    @classmethod
    def not_applicable(cls, name: str, why: str) -> Check:
        """The answer of a check that could not be carried out, and why."""
        return cls(name=name, outcome="not applicable", detail=f"Not applicable: {why}")


CHUNK = 1 << 16
"""Reports in one call: enough for every mechanism of this package to ask the system for entropy more than once."""

FEW = 6
"""Columns, fields and values that are tried by themselves, or each with each."""


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
            if place < FEW:
                few = [*values[: FEW // 2], *values[-FEW // 2 :]] if len(values) > FEW else values
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
        raise AuditError(f"every record must have all of these names: {', '.join(map(str, names))}.")
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """Records (N, n) → reports (N, width), the claim about it, and a box (low, high) the records usually lie in.

    With `natural`, records have names and natural values: inputs are arrays of objects. A veil takes their numbers too,
    so that both ways in are attacked; somebody else's client gets mappings and nothing else, and its box is empty.
    """

    call: Callable[[Any], Any]
    epsilon: float
    delta: float
    low: Floats
    high: Floats
    records: Floats
    veil: Veil | None
    natural: NamedInputs | None = None

    @classmethod
    def of(cls, what: Any, *, epsilon: float | None, delta: float, records: Any) -> Target:
        """The target for a veil, which brings its claim and box, or a callable with `epsilon` and some `records`."""
        veil = what if isinstance(what, Veil) else None
        if not 0 <= delta < 1:
            raise AuditError(f"delta must lie in [0, 1), got {delta}.")
        if veil is not None:
            box = veil.encoder.low, veil.encoder.high
            known = np.empty((0, len(box[0])))
            if records is not None:
                known = veil.schema.expand(records)
            natural = None if veil.schema.unbounded else NamedInputs.of_schema(veil.schema, records)
            promise = veil.guarantee
            epsilon = promise.epsilon if epsilon is None else epsilon
            delta = max(delta, promise.delta)
            call: Callable[[Any], Any] = veil.privatize
        elif callable(what):
            if epsilon is None or records is None:
                raise AuditError("to audit a callable, pass the epsilon it claims and some records it may receive.")
            natural = NamedInputs.of_records(records)
            known = as_records(records) if natural is None else np.empty((1, 0))
            finite = np.where(np.isfinite(known), known, 0.0)
            box = finite.min(axis=0), finite.max(axis=0)
            call = what
        else:
            raise AuditError(f"audit takes a Veil or a callable from records to reports, got {type(what).__name__}.")
        claim = as_epsilon(epsilon)
        target = cls(call=call, epsilon=claim, delta=delta, low=box[0], high=box[1], records=known, veil=veil)
        return replace(target, natural=natural)

    @property
    def width(self) -> int:
        """The number of attributes of a record."""
        return len(self.low)

    @property
    def numeric(self) -> bool:
        """Whether it takes numbers, with or without natural values."""
        return self.natural is None or self.veil is not None

    @property
    def middle(self) -> Array:
        """The middle of the box (n,): an input like any other."""
        if self.natural is not None and not self.numeric:
            return self.natural.middle
        return np.asarray(self.low + (self.high - self.low) / 2)

    def beside(self, record: Array) -> Array:
        """An ordinary input (n,) of the same kind as this one."""
        return self.natural.middle if self.natural is not None and record.dtype == object else self.middle

    def numbers(self, records: Sequence[Array]) -> Floats:
        """The numbers (N, n) that a veil makes of inputs of either kind; NaN where it makes none."""
        made = np.full((len(records), self.width), np.nan)
        natural = [place for place, record in enumerate(records) if record.dtype == object]
        for place in set(range(len(records))) - set(natural):
            made[place] = records[place]
        if natural and not self._expand(made, records, natural):  # a refusal is judged by the structural checks
            for place in natural:
                self._expand(made, records, [place])
        return made

    def _expand(self, made: Floats, records: Sequence[Array], places: list[int]) -> bool:
        """Whether numbers could be made of these natural records, which then stand in `made` (N, n)."""
        try:
            found = self.veil.schema.expand(np.stack([records[place] for place in places]))  # type: ignore[union-attr]
            whole = found.shape == (len(places), self.width)
        except Exception:
            return False
        if whole:
            made[places] = found
        return whole

    def report(self, records: Array) -> Array:
        """One call: the reports as a numeric matrix, one row per record; those that are bytes, byte by byte."""
        made = self.call(records if self.numeric or self.natural is None else self.natural.as_mappings(records))
        if isinstance(made, Sequence) and len(made) > 0 and all(isinstance(one, bytes) for one in made):
            if len({len(one) for one in made}) > 1:
                raise AuditError(
                    "reports have different lengths, which can reveal something about the record: use one length."
                )
            made = np.frombuffer(b"".join(made), dtype=np.uint8).reshape(len(made), -1)
        made = np.asarray(made)
        made = made[:, None] if made.ndim == 1 else made
        if made.ndim != 2 or len(made) != len(records) or made.dtype.kind not in "biuf":
            raise AuditError(
                f"reports must be numbers, one row per record: got shape {made.shape} of {made.dtype} "
                f"for {len(records)} records."
            )
        return made.astype(np.int64) if made.dtype.kind in "bu" else made

    def values(self, reports: Array) -> Array:
        """The values that reports stand for, in units of latents for a veil."""
        return reports if self.veil is None else self.veil.mechanism.values(reports.astype(np.int64))

    def sample(self, record: Array, count: int) -> Array:
        """`count` reports of one record."""
        parts = [self.report(np.tile(record, (min(CHUNK, count - start), 1))) for start in range(0, count, CHUNK)]
        return np.concatenate(parts)
