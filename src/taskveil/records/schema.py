"""What a record consists of, as a person sees it: inferred from a table, written, corrected, and stored as JSON.

    schema = tv.Schema.of(volunteers)                                    # look at it: print(schema)
    schema = schema.replace(power=tv.Number(0, 250, "hp", missing=True))  # correct it
    veil = tv.design(volunteers, task, epsilon=2.0, schema=schema)

Devices get its `fields` alone (`client.record`); that a column was a pandas integer is the server's to know.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats, as_floats
from taskveil.client.fields import Category, Count, Date, Field, Flag, Number
from taskveil.client.record import Fields, is_row
from taskveil.client.values import DAY
from taskveil.errors import DataError, DoubtfulColumnWarning, callers_line
from taskveil.records.column_warnings import FEWEST_VALUES
from taskveil.records.conversion import column_names
from taskveil.records.inference import dated, infer, needs_schema, rounded_middle, with_other
from taskveil.records.schema_text import as_json, from_json, shown
from taskveil.records.table_building import build, written
from taskveil.records.tables import ColumnType, Kind, Library, library_of, read_column, select


@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """What a record consists of: a field (`Number`, `Count`, `Category`, `Flag`, `Date`) for every name, in order.

    `schema[name]` is a field, `len(schema)` their number. `expand` turns tables and records into numbers (N, width),
    `collapse` turns such numbers, or means of them, into a table like the volunteers'.
    """

    fields: Fields
    library: Library
    types: tuple[ColumnType, ...]

    def __init__(
        self,
        fields: Mapping[str, Field] | Fields,
        *,
        library: Library = "pandas",
        types: tuple[ColumnType, ...] | None = None,
    ) -> None:
        """From fields by name.

        Args:
            fields: what a record consists of, in order.
            library: the package whose tables `collapse` makes.
            types: of its columns; by default what each field is by nature.
        """
        if not isinstance(fields, Fields):
            fields = Fields(names=tuple(fields), fields=tuple(fields.values()))
        types = tuple(_natural_type(field, library) for field in fields.fields) if types is None else types
        if len(types) != len(fields.names):
            raise DataError(f"{len(types)} column types for {len(fields.names)} fields.")
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "library", library)
        object.__setattr__(self, "types", types)

    @classmethod
    def of(cls, X: Any) -> Schema:
        """The schema of a table: volunteers' records, pandas, polars or Arrow.

        Bounds are the volunteers' own, those of numbers rounded outwards, and pulled in where a few values are out of
        line with all others (a WildRecordWarning names the column). Categories are values that at least five
        volunteers share, the fifty most frequent ones. A column that says nothing so (all different texts, nothing at
        all) is left out with an UnusedColumnWarning; one that looks like something else (dates or numbers in texts, a
        number of the row) is named by a DoubtfulColumnWarning.
        """
        names, library = column_names(X), library_of(X)
        if names is None or library is None:
            raise DataError("a schema is inferred from a table with named columns: pandas, polars or Arrow.")
        found: dict[str, tuple[Field, ColumnType]] = {}
        for name, column in zip(names, select(X, names), strict=True):
            of, values = read_column(column)
            inferred = infer(name, of, values)
            if inferred is not None:
                found[name] = inferred
        if not found:
            raise DataError("no column of this table can be reported: see the warnings.")
        chosen = {name: field for name, (field, _) in found.items()}
        return cls(chosen, library=library, types=tuple(of for _, of in found.values()))

    def like(self, X: Any) -> Schema:
        """The same fields, with the column types of another table; DataError where a column holds other things."""
        library = library_of(X)
        if library is None:
            return self
        typed = []
        for name, field, column in zip(self, self.fields.fields, select(X, self.names), strict=True):
            of, values = read_column(column)
            _check_holds(name, field, of)
            if isinstance(field, Category) and not isinstance(values, list):
                of = with_other(of, field, values)
            typed.append(dated(of, values) if isinstance(field, Date) else of)
        return Schema(self.fields, library=library, types=tuple(typed))

    @classmethod
    def for_volunteers(cls, X: Any, given: Schema | None = None) -> Schema | None:
        """The schema that a design for the volunteers X needs: the one `given`, with the types of their table,
        else one inferred from it, if it holds other things than numbers, else none."""
        if given is not None:
            return given.like(X).filled(X)
        return cls.of(X) if needs_schema(X) else None

    def filled(self, X: Any) -> Schema:
        """The same schema, where the median of the records X stands in for missing numbers whose `fill` was not given.

        It is rounded, as inferred bounds are: it is public. If fewer than ten records have a value, it is the middle of
        the bounds, and a warning says so.
        """
        chosen = {
            name: field
            for name, field in zip(self, self.fields.fields, strict=True)
            if isinstance(field, Number | Count) and field.missing and not field.stated
        }
        if not chosen:
            return self
        numbers = Schema(chosen).expand(X)
        for place, (name, field) in enumerate(chosen.items()):
            value, missing = numbers[:, 2 * place : 2 * place + 2].T
            known = value[missing == 0]
            if len(known) < FEWEST_VALUES:
                warnings.warn(
                    f"few volunteers have a value of {name!r}: {field.fill:g}, the middle of its bounds, stands in for "
                    "missing values. Give a better one: tv.Number(low, high, missing=True, fill=...).",
                    DoubtfulColumnWarning,
                    stacklevel=callers_line(),
                )
            else:
                middle = rounded_middle(known, field.low, field.high)
                chosen[name] = replace(field, fill=math.floor(middle) if isinstance(field, Count) else middle)
        return self.replace({**chosen})

    @property
    def published(self) -> Schema:
        """The same as the server half of a release has it: of the values that no field lists, only the one that models
        are told for all of them."""
        types = tuple(
            of.of_values(field.values) if isinstance(field, Category) else of
            for field, of in zip(self.fields.fields, self.types, strict=True)
        )
        return Schema(self.fields, library=self.library, types=types)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields."""
        return self.fields.names

    @property
    def columns(self) -> tuple[str, ...]:
        """What the numbers are called that a record becomes."""
        return self.fields.labels

    @property
    def width(self) -> int:
        """How many numbers a record becomes."""
        return self.fields.width

    @property
    def weighed(self) -> tuple[slice, ...]:
        """Which of the numbers a weight on each field is about: the chances of a category's values, else the value."""
        return tuple(
            place if isinstance(field, Category) else slice(place.start, place.start + 1)
            for field, place in zip(self.fields.fields, self.fields.places, strict=True)
        )

    @property
    def plain(self) -> bool:
        """Whether every field is one number that is never missing, so that a record is its numbers."""
        return all(not isinstance(field, Category | Date) and not field.missing for field in self.fields.fields)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> Field:
        if name not in self.names:
            raise DataError(f"the schema has no field {name!r}; it has {', '.join(self.names)}.")
        return self.fields.fields[self.names.index(name)]

    def __repr__(self) -> str:
        longest = max(len(repr(name)) for name in self.names)
        lines = [f"    {name!r:<{longest}}  {shown(self[name])}" for name in self]
        return "\n".join(["Schema(", *lines, ")"])

    def replace(self, changes: Mapping[str, Field] | None = None, /, **named: Field) -> Schema:
        """The same with other fields for some names.

        Args:
            changes: fields by name.
            named: the same by keyword, for names that are words.
        """
        changed = {**(changes or {}), **named}
        for name in changed:
            self[name]
        chosen = {name: changed.get(name, self[name]) for name in self}
        return Schema(chosen, library=self.library, types=self.types)

    def drop(self, *names: str) -> Schema:
        """The same without some fields."""
        for name in names:
            self[name]
        kept = [place for place, name in enumerate(self) if name not in names]
        chosen = {self.names[place]: self.fields.fields[place] for place in kept}
        return Schema(chosen, library=self.library, types=tuple(self.types[place] for place in kept))

    def expand(self, X: Any) -> Floats:
        """Records of any quality → numbers (N, width): a table or a mapping by its names, a list of mappings or of rows
        in the fields' order, or numbers that are expanded already. Only names and numbers of values are ever refused.

        A bare list of values is one record, unless every one of them is itself a list, a tuple, an array or a mapping.
        """
        if column_names(X) is not None:
            return self.fields.expand([read_column(column)[1] for column in select(X, self.names)])
        if isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and X.ndim == 2 and X.shape[1] == self.width:
            # Natural, where both have this shape: a None, which makes an array of objects, must change no neighbour.
            return self.fields.expand(list(X.T)) if self.plain else as_floats(X)
        if hasattr(X, "keys"):
            return self.fields.expand_rows([X], others=True)
        X = list(X) if isinstance(X, Iterator) else X
        many = isinstance(X, Sequence | np.ndarray) and not isinstance(X, str) and all(map(is_row, X))
        return self.fields.expand_rows(X if many else [X], others=True)

    def collapse(self, X: Floats, *, probabilities: bool = False) -> Any:
        """A table like the volunteers': the most probable category, a missing value where that is the most probable.

        Args:
            X: numbers (N, width), or means of them.
            probabilities: a column beside each says how probable its value is.
        """
        table: dict[str, tuple[ColumnType, Array]] = {}
        double = ColumnType(holds="number", name="Float64" if self.library == "polars" else "double")
        for name, of, values, chance in self._natural(X, known=False):
            table[name] = (of, values)
            if probabilities:
                table[f"{name} probability"] = (double, chance)
        return build(self.library, table)

    def for_model(self, X: Floats) -> Any:
        """Numbers (N, width), or means of them, as a table that a model fitted to the volunteers' takes: for anything
        else than a category's values it is told one of those that volunteers had."""
        return build(self.library, {name: (of, values) for name, of, values, _ in self._natural(X, known=True)})

    def natural(self, X: Floats) -> dict[str, Array]:
        """The same as natural values (N,) by name: NaN, NaT and None where missing."""
        found = self._natural(X, known=True)
        return {name: np.array(written(values, of.form)) if of.form else values for name, of, values, _ in found}

    def typical(self, count: int) -> Floats:
        """Some records inside the bounds as numbers (count, width), with every kind of value that is not missing."""
        share = (np.arange(count) + 0.5) / count
        columns: list[Any] = []
        for field in self.fields.fields:
            low, high = field.box[0][0], field.box[1][0]
            between = low + share * (high - low)
            if isinstance(field, Category):
                columns.append([field.values[place % len(field.values)] for place in range(count)])
            elif isinstance(field, Date):
                # The bounds are dates of volunteers: some models know no others.
                columns.append(np.rint(np.resize([low, high], count) * DAY).astype("datetime64[s]"))
            else:
                columns.append(np.rint(between) if isinstance(field, Flag) else between)
        return self.fields.expand(columns)

    def _natural(self, X: Floats, *, known: bool) -> Iterator[tuple[str, ColumnType, Array, Floats]]:
        """Name and type of every column, its values and their chances; those of a category whose column held numbers
        are numbers. With `known`, anything else than a category's values is one that volunteers had."""
        parts = zip(self.names, self.types, self.fields.fields, self.fields.places, strict=True)
        for name, of, field, place in parts:
            if known and isinstance(field, Category):
                other = of.other or field.values[0]
                values, chance = field.collapse(X[:, place], other)
                values = np.where(np.isin(values, of.unseen), other, values) if of.unseen else values
            else:
                values, chance = field.collapse(X[:, place])
            yield name, of, _as_numbers(values) if values.dtype == object and of.holds in _NUMERIC else values, chance

    def to_json(self, path: str | Path | None = None) -> str:
        """The fields as JSON that a person can read and correct; written to `path`, if there is one."""
        text = as_json(self.fields)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> Schema:
        """The schema of a JSON file, or of its text; whatever is wrong with it is said with the field's name."""
        return cls(from_json(source))


def _natural_type(field: Field, library: Library) -> ColumnType:
    """The type of a column that nobody has seen."""
    names: dict[type, tuple[Kind, str, str, str]] = {
        Number: ("number", "float64", "Float64", "double"),
        Count: ("whole", "int64", "Int64", "int64"),
        Flag: ("flag", "bool", "Boolean", "bool"),
        Category: ("text", "str", "String", "string"),
        Date: ("date", "datetime64[s]", "Datetime", "timestamp[us]"),
    }
    kind, *named = names[type(field)]
    return ColumnType(holds=kind, name=named[("pandas", "polars", "arrow").index(library)])


_NUMERIC: tuple[Kind, ...] = ("number", "whole", "flag")

_HOLDING: dict[type, tuple[Kind, ...]] = {
    Number: _NUMERIC,
    Count: _NUMERIC,
    Flag: _NUMERIC,
    Category: ("text", "category", "number", "whole"),
    Date: ("date", "text"),
}
"""What columns may hold whose values a field says."""


def _check_holds(name: str, field: Field, of: ColumnType) -> None:
    """DataError unless a column of this type can hold the field's values, so that a model gets its own kind of them."""
    kind = type(field).__name__
    if of.holds not in _HOLDING[type(field)]:
        raise DataError(
            f"column {name!r} holds {of.holds} ({of.name}), which is no tv.{kind}: convert the column, or describe it "
            "by another field."
        )
    if isinstance(field, Category) and of.holds in _NUMERIC:
        try:
            _as_numbers(np.array(field.values, dtype=object))
        except ValueError:
            raise DataError(
                f"column {name!r} holds numbers ({of.name}), but values of its tv.Category are none."
            ) from None


def _as_numbers(texts: Array) -> Floats:
    """The numbers (N,) that the values of a category write, where its column held numbers or flags."""
    return np.array([np.nan if t is None else float({"true": "1", "false": "0"}.get(t, t)) for t in texts])
