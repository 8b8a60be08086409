"""The schema of a record: inferred from a table, written, corrected, and stored as JSON.

    schema = tv.Schema.of(volunteers)                                    # look at it: print(schema)
    schema = schema.replace(power=tv.Number(0, 250, "hp", missing=True))  # correct it
    veil = tv.design(volunteers, task, epsilon=2.0, schema=schema)

Every table has a schema. An array, or a table of numbers alone, has one of numbers without bounds: its records are
taken as they are, and the domain of the design bounds them.

Devices get the `fields` alone (`client.device`). The types of the volunteers' columns stay on the server.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats, as_floats
from taskveil.client.base_field import BaseField
from taskveil.client.device import Fields, is_row
from taskveil.client.reading import FIELDS
from taskveil.errors import DataError, DoubtfulColumnWarning, callers_line, printable
from taskveil.notebooks import summary
from taskveil.records.inference import FEWEST_VALUES, dated, doubt_fit, infer, needs_schema, rounded_middle, with_other
from taskveil.records.tables import (
    ColumnType,
    Library,
    as_records,
    build,
    column_names,
    library_of,
    read_column,
    select,
    written,
)

SHOWN_VALUES = 8
"""Values of a category that `print(schema)` lists."""


@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """What a record consists of: for every name, in order, a `Number`, `Count`, `Category`, `Flag`, `Date` or `Words`.

    `schema[name]` is a field, `len(schema)` their number. `expand` turns tables and records into numbers (N, width),
    `collapse` turns such numbers, or means of them, into a table like the volunteers'.

    Example:
        >>> import taskveil as tv
        >>> schema = tv.Schema({"age": tv.Number(18, 90, "years"), "plan": tv.Category(["Basic", "Pro"])})
        >>> schema.replace(age=tv.Count(18, 99))
        Schema(
            'age'   Count(18, 99)
            'plan'  Category(['Basic', 'Pro'])
        )
    """

    fields: Fields
    library: Library
    types: tuple[ColumnType, ...]

    def __init__(
        self,
        fields: Mapping[str, BaseField] | Fields,
        *,
        library: Library = "pandas",
        types: tuple[ColumnType, ...] | None = None,
    ) -> None:
        """From fields by name.

        Args:
            fields: what a record consists of, in order.
            library: the package whose tables `collapse` makes; "array" for numpy's arrays.
            types: of its columns; by default the natural type of each field.
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

        Bounds are the volunteers' own. Those of numbers are rounded outwards, and pulled in if a few values lie far
        from all others (a WildRecordWarning names the column). A category lists the values that at least five
        volunteers share, the fifty most frequent ones. A column without usable values (all texts differ, or every
        value is missing) is left out with an UnusedColumnWarning. A DoubtfulColumnWarning names a column that looks
        like something else (dates or numbers in texts, row numbers).

        Example:
            >>> import pandas as pd, taskveil as tv
            >>> table = pd.DataFrame({"age": range(20, 80), "plan": ["Basic", "Pro", "Pro"] * 20})
            >>> tv.Schema.of(table)
            Schema(
                'age'   Count(20, 79)
                'plan'  Category(['Basic', 'Pro'])
            )
        """
        names, library = column_names(X), library_of(X)
        if names is None:
            raise DataError("a schema is inferred from a table with named columns: pandas, polars or Arrow.")
        found: dict[str, tuple[BaseField, ColumnType]] = {}
        for name, column in zip(names, select(X, names), strict=True):
            of, values = read_column(column)
            inferred = infer(name, of, values)
            if inferred is not None:
                found[name] = inferred
        if not found:
            raise DataError("no column of this table can be reported: see the warnings.")
        chosen = {name: field for name, (field, _) in found.items()}
        return cls(chosen, library=library, types=tuple(of for _, of in found.values()))

    @classmethod
    def numbers(
        cls, names: Sequence[str] | int, *, units: Sequence[str] | None = None, library: Library = "array"
    ) -> Schema:
        """A schema of numbers without bounds.

        Args:
            names: of the columns; for a number of columns, they are x0, x1, …
            units: what each column is measured in.
            library: the package whose tables `collapse` makes.
        """
        names = tuple(f"x{place}" for place in range(names)) if isinstance(names, int) else tuple(names)
        return cls(Fields.numbers(names, units), library=library)

    @classmethod
    def for_volunteers(cls, X: Any, given: Schema | None = None) -> Schema:
        """The schema for the volunteers' records X: the `given` one with the types of their table. Without one, it is
        inferred from a table that holds more than numbers, and is of numbers without bounds otherwise."""
        for name in column_names(X) or () if given is None else given.names:
            if printable(name) != name:
                raise DataError(f"the name of column {printable(name)!r} has a control character: rename the column.")
        if given is not None:
            schema = given.like(X).filled(X)
            if library_of(X) != "array":
                for name, column in zip(schema, select(X, schema.names), strict=True):
                    doubt_fit(name, schema[name], read_column(column)[1])
            return schema
        if needs_schema(X):
            return cls.of(X)
        return cls.numbers(column_names(X) or as_records(X).shape[1], library=library_of(X))

    def like(self, X: Any) -> Schema:
        """The same fields, with the column types of another table; DataError if a column holds other things."""
        library = library_of(X)
        if library == "array":
            natural = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == len(self)
            return Schema(self.fields, library="array") if natural else self
        typed = []
        for name, field, column in zip(self, self.fields.fields, select(X, self.names), strict=True):
            of, values = read_column(column)
            _check_holds(name, field, of)
            if field.exclusive and not isinstance(values, list):
                of = with_other(of, field.words, values)
            typed.append(dated(of, values) if field.holds[0] == "date" else of)
        return Schema(self.fields, library=library, types=None if self.unbounded else tuple(typed))

    def filled(self, X: Any) -> Schema:
        """The same schema, where the median of the records X stands in for missing numbers whose `fill` was not given.

        The median is rounded, like inferred bounds: it is public. If fewer than ten records have a value, the middle of
        the bounds is used, with a warning.
        """
        chosen = {name: self[name] for name in self if self[name].flagged and not self[name].stated}
        if not chosen:
            return self
        numbers = Schema(chosen).expand(X)
        for place, (name, field) in enumerate(chosen.items()):
            value, missing = numbers[:, 2 * place : 2 * place + 2].T
            known = value[missing == 0]
            (low, _), (high, _) = field.box
            if len(known) < FEWEST_VALUES:
                warnings.warn(
                    f"few volunteers have a value of {name!r}: {field.expand([None])[0, 0]:g}, the middle of its "
                    "bounds, stands in for missing values. Give a better one: tv.Number(low, high, missing=True, "
                    "fill=...).",
                    DoubtfulColumnWarning,
                    stacklevel=callers_line(),
                )
            else:
                chosen[name] = field.filled(rounded_middle(known, low, high))
        return self.replace(chosen)

    @property
    def published(self) -> Schema:
        """The schema in the server's half of a release: of the values that a category does not list, it names only the
        one that stands for all of them."""
        types = tuple(
            of.of_values(field.words) if field.exclusive else of
            for field, of in zip(self.fields.fields, self.types, strict=True)
        )
        return Schema(self.fields, library=self.library, types=types)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return self.fields.names

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the numbers that a record becomes."""
        return self.fields.labels

    @property
    def width(self) -> int:
        """How many numbers a record becomes."""
        return self.fields.width

    @property
    def weighed(self) -> tuple[slice, ...]:
        """Which of the numbers a weight on each field is about: the chances of a category's values, else the value."""
        parts = zip(self.fields.fields, self.fields.places, strict=True)
        return tuple(slice(place.start, place.start + field.weighed) for field, place in parts)

    @property
    def plain(self) -> bool:
        """Whether every field is one number that is never missing, so that a record is its numbers."""
        return all(len(field.box[0]) == 1 and not field.exclusive for field in self.fields.fields) and all(
            field.reads_as[0] != "date" for field in self.fields.fields
        )

    @property
    def unbounded(self) -> bool:
        """Whether records are numbers without bounds, which are taken as they are."""
        return self.fields.unbounded

    @property
    def named(self) -> bool:
        """Whether the columns have names of their own; those of an array are x0, x1, …"""
        return self.library != "array" or self.names != tuple(f"x{place}" for place in range(len(self)))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> BaseField:
        if name not in self.names:
            raise DataError(f"the schema has no field {name!r}; it has {', '.join(self.names)}.")
        return self.fields.fields[self.names.index(name)]

    def __repr__(self) -> str:
        longest = max(len(repr(name)) for name in self.names)
        lines = [f"    {name!r:<{longest}}  {shown(self[name])}" for name in self]
        return "\n".join(["Schema(", *lines, ")"])

    def _repr_html_(self) -> str:
        rows = [[name, shown(field)] for name, field in zip(self.names, self.fields.fields, strict=True)]
        return summary(f"Schema of {len(self):,} fields", head=("field", "what it holds"), rows=rows)

    def replace(self, changes: Mapping[str, BaseField] | None = None, /, **named: BaseField) -> Schema:
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
        in the fields' order, or numbers that are expanded already.

        A bare list of values is one record, unless every one of them is itself a list, a tuple, an array or a mapping.
        If fields have bounds, only names and the number of values are ever refused. Numbers without bounds must be
        numbers.
        """
        if self.unbounded:
            return self._as_they_are(X)
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

    def _as_they_are(self, X: Any) -> Floats:
        """Records (N, n) of numbers without bounds. Columns without names of their own match tables of any names."""
        if hasattr(X, "keys") and np.ndim(X) < 2:  # one record, a mapping or a pandas Series
            lost = [name for name in self.names if name not in X.keys()]  # noqa: SIM118 - a Series holds values
            if lost:
                raise DataError(f"the record lacks {', '.join(lost)}; this design takes {', '.join(self.names)}.")
            X = [[X[name] for name in self.names]]
        by_name = self.named or set(self.names) <= set(column_names(X) or ())
        return as_records(X, width=self.width, columns=self.names if by_name else None)

    def collapse(self, X: Floats, *, probabilities: bool = False) -> Any:
        """A table like the volunteers': the most probable category, a missing value where that is the most probable.
        For an array of numbers without bounds it is X itself.

        Args:
            X: numbers (N, width), or means of them.
            probabilities: a column beside each says how probable its value is.
        """
        if probabilities and self.unbounded:
            raise DataError("estimates of numbers are means, which have no probability.")
        if self.unbounded and self.library == "array":
            return X
        table: dict[str, tuple[ColumnType, Array]] = {}
        double = ColumnType(holds="number", name="Float64" if self.library == "polars" else "double")
        for name, of, values, chance in self._natural(X, known=False):
            table[name] = (of, values)
            if probabilities:
                table[f"{name} probability"] = (double, chance)
        return build(self.library, table)

    def for_model(self, X: Floats) -> Any:
        """Numbers (N, width), or means of them, as a table for a model that was fitted to the volunteers' table: for a
        value that a category does not list, the model gets one that volunteers had."""
        return build(self.library, {name: (of, values) for name, of, values, _ in self._natural(X, known=True)})

    def natural(self, X: Floats) -> dict[str, Array]:
        """The same as natural values (N,) by name: NaN, NaT and None where missing."""
        found = self._natural(X, known=True)
        return {name: np.array(written(values, of.form)) if of.form else values for name, of, values, _ in found}

    def typical(self, count: int) -> Floats:
        """Some records inside the bounds as numbers (count, width), with every kind of value that is not missing."""
        return self.fields.expand([field.typical(count) for field in self.fields.fields])

    def try_types(self) -> None:
        """Make a column of every field, with each value that a server can find in it. A value that the column's type
        cannot hold is an error, of whatever kind."""
        for known in (False, True):
            for name, of, field in zip(self.names, self.types, self.fields.fields, strict=True):
                other = self._other(of, field) if known else None
                if field.exclusive:  # a table of all its columns would have as many rows as values
                    gone = [None] if field.missing or not known else []
                    values = np.array([*field.words, *gone, other], dtype=object)
                else:
                    width = len(field.box[0])
                    values = field.collapse(
                        np.vstack([np.zeros((1, width)), np.eye(width), np.ones((1, width))])
                    ).values
                if known or not (self.unbounded and self.library == "array"):
                    build(self.library, {name: (of, _typed(of, values, other))})

    def _other(self, of: ColumnType, field: BaseField) -> str | None:
        """What stands for values that a category does not list: one that volunteers had."""
        return (of.other or field.words[0]) if field.exclusive else None

    def _natural(self, X: Floats, *, known: bool) -> Iterator[tuple[str, ColumnType, Array, Floats]]:
        """Name and type of every column, its values and their chances. With `known`, a value that a category does not
        list is replaced by one that volunteers had."""
        parts = zip(self.names, self.types, self.fields.fields, self.fields.places, strict=True)
        for name, of, field, place in parts:
            other = self._other(of, field) if known else None
            values, chance = field.collapse(X[:, place], other)
            yield name, of, _typed(of, values, other), chance

    def to_json(self, path: str | Path | None = None) -> str:
        """The fields as JSON that a person can read and correct; written to `path`, if there is one."""
        entries = [
            {"name": name, "kind": self[name].kind}
            | {part.name: getattr(self[name], part.name) for part in _written(self[name])}
            for name in self
        ]
        text = json.dumps({"fields": entries}, indent=1, ensure_ascii=False) + "\n"
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> Schema:
        """The schema of a JSON file, or of its text; errors name the field that is wrong."""
        text = source if isinstance(source, str) and source.lstrip().startswith("{") else _read(Path(source))
        try:
            entries = [(dict(entry), str(entry["name"]), str(entry["kind"])) for entry in json.loads(text)["fields"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f'a schema is {{"fields": [{{"name": …, "kind": …}}, …]}} ({error!r}).') from None
        names = [name for _, name, _ in entries]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"the schema has two fields named {twice!r}.")
        return cls({name: _from_entry(name, kind, entry) for entry, name, kind in entries})


def shown(field: BaseField) -> str:
    """A field as a person would write it: without defaults, 3 for 3.0, and with the first of many values."""
    parts = []
    for part in _written(field):
        value = getattr(field, part.name)
        if part.name == "fill" and not field.missing:
            continue  # it is never missing
        if isinstance(value, tuple) and part.default is MISSING:
            more = len(value) - SHOWN_VALUES
            listed = ", ".join(map(repr, value[:SHOWN_VALUES]))
            parts.append(f"[{listed}{f', … {more} more' if more > 0 else ''}]")
            continue
        short = repr(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)
        if part.default is MISSING or part.name in ("low", "high"):
            parts.append(short)
        elif value != part.default:
            parts.append(f"{part.name}={short}")
    return f"{type(field).__name__}({', '.join(parts)})"


def _written(field: BaseField) -> list[Any]:
    """The content of a field, without bounds that it does not have and a fill that the design will choose."""
    left_out = {"low", "high", "fill"} if not field.bounded else set() if field.stated else {"fill"}
    return [part for part in fields(field) if part.init and part.name not in left_out]  # type: ignore[arg-type]


def _from_entry(name: str, kind: str, entry: Mapping[str, Any]) -> BaseField:
    """The field that an entry of a JSON file describes."""
    kinds = {kind: part for kind, part in FIELDS.items() if part is not Fields}
    part = kinds.get(kind)
    if part is None:
        raise DataError(f"field {name!r}: a field is a {', '.join(kinds)}, not a {kind!r}.")
    known = {option.name: option.default is MISSING for option in fields(part) if option.init}
    given = {key: value for key, value in entry.items() if key not in ("name", "kind")}
    unknown = sorted(given.keys() - known.keys())
    lost = sorted(option for option, needed in known.items() if needed and option not in given)
    if unknown or lost:
        raise DataError(f"field {name!r}: a {kind} has {', '.join(known)}; {unknown=}, missing={lost}.")
    try:
        return part(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})  # type: ignore[no-any-return]
    except DataError as error:
        raise DataError(f"field {name!r}: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no text'}.") from None


def _natural_type(field: BaseField, library: Library) -> ColumnType:
    """The type of a column that nobody has seen; an array's are those of pandas."""
    pandas, polars, arrow = field.types
    return ColumnType(holds=field.holds[0], name={"polars": polars, "arrow": arrow}.get(library, pandas))


def _check_holds(name: str, field: BaseField, of: ColumnType) -> None:
    """DataError unless a column of this type can hold the field's values, so that a model gets its own kind of them."""
    kind = type(field).__name__
    if of.holds not in field.holds:
        raise DataError(
            f"column {name!r} holds {of.holds} ({of.name}), which is no tv.{kind}: convert the column, or describe it "
            "by another field."
        )
    if field.words and of.numeric:
        try:
            _as_numbers(np.array(field.words, dtype=object))
        except ValueError:
            raise DataError(
                f"column {name!r} holds numbers ({of.name}), but values of its tv.{kind} are not numbers."
            ) from None


def _typed(of: ColumnType, values: Array, other: str | None) -> Array:
    """Natural values (N,) as the type has them: `other` for those that no volunteer had, unless it is None; numbers if
    the column of a category held numbers."""
    if other is not None and of.unseen:
        unseen = frozenset(of.unseen)
        values = np.array([other if value in unseen else value for value in values.tolist()], dtype=object)
    return _as_numbers(values) if values.dtype == object and of.numeric else values


def _as_numbers(texts: Array) -> Floats:
    """The numbers (N,) that the values of a category write, where its column held numbers or flags."""
    return np.array([np.nan if t is None else float({"true": "1", "false": "0"}.get(t, t)) for t in texts])
