"""What `design` and `sweep` are asked to do: records, labels, what a record consists of, and the task."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.cli.console import numbers, pairs
from taskveil.cli.models import as_task, is_estimator, load_model, with_loss
from taskveil.cli.volunteers import left_out, named_columns, read_volunteers, with_labels
from taskveil.client.fields import Count, Date, Field, Number
from taskveil.errors import DataError
from taskveil.records.conversion import as_records
from taskveil.records.inference import needs_schema
from taskveil.records.tails import harmless_range
from taskveil.tasks.linear import spreads

_WEIGHED = "each weighed by 1/spread and by its --weight."


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a job, as they were typed; `options.py` says what each means."""

    data: Path
    target: str | None = None
    model: str | None = None
    loss: str | None = None
    schema: Path | None = None
    columns: str | None = None
    drop: str | None = None
    bounds: list[str] | None = None
    weights: list[str] | None = None
    units: list[str] | None = None
    means: bool = False
    segment: str | None = None
    answers: Literal["direct", "record"] = "direct"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Volunteers' records X and labels y for a task.

    `schema` says what a record consists of, where it is more than numbers or where bounds were given.
    """

    X: Any
    y: Any
    task: tv.LinearTask | tv.MeanTask | tv.ModelTask
    names: tuple[str, ...]
    schema: tv.Schema | None
    units: dict[str, str] = field(default_factory=dict)
    labels: Any = None
    """The segment of every record (N,), where a column says it, be that a part of the record or not."""

    @classmethod
    def of(cls, asked: Asked) -> Job:
        """Read, choose and check all that a design needs; whatever is wrong is said here."""
        if asked.model is not None and asked.weights:
            raise DataError("--weight is for weighted means of the columns: with --model, the model says what matters.")
        if asked.model is not None and asked.means:
            raise DataError("--means is about the columns' means over all people: with --model, the model is the task.")
        if asked.model is None and asked.loss is not None:
            raise DataError("--loss judges a model: pass --model too.")
        if asked.segment is not None and asked.segment == asked.target:
            raise DataError(
                f"--segment {asked.segment} is what the model predicts: which release a report is of would tell the "
                "answer. Name a column of something that is known of people anyway."
            )
        given = None if asked.schema is None else tv.Schema.from_json(asked.schema)
        fields = {} if given is None else dict(zip(given, given.fields.fields, strict=True))
        table = read_volunteers(asked.data, fields, left_out(asked.columns, asked.drop, asked.target))
        found = tuple(table.column_names)
        if asked.target is not None and asked.target not in found:
            raise DataError(f"{asked.data} has no column {asked.target!r}, only {', '.join(found)}.")
        y = None
        if asked.target is not None:
            table, y = with_labels(asked.data, table, asked.target)
        model = None if asked.model is None else load_model(asked.model)
        task = None if model is None else as_task(model, asked.loss, asked.answers)
        wanted = (task.frozen.columns if task else None) or (found if given is None else given.names)
        names = _chosen(asked, found, tuple(wanted))
        X: Any = table.select(names)
        if is_estimator(model):
            X = _as_pandas(X)
        schema = _schema(asked, given, X, names)
        names = names if schema is None else list(schema.names)
        X = X[names] if hasattr(X, "iloc") else X.select(names)
        about = {"X": X, "y": y, "names": tuple(names), "schema": schema}
        if asked.segment is not None:
            if asked.segment not in found:
                raise DataError(f"--segment: {asked.data} has no column {asked.segment!r}, only {', '.join(found)}.")
            about["labels"] = table.column(asked.segment)
        if schema is None:  # a schema has them already
            about["units"] = pairs("--unit", asked.units, tuple(names))
        if task is not None:
            width = len(names) if schema is None else schema.width
            return cls(task=with_loss(task, asked.loss, width, schema), **about)
        spread = spreads(_numbers(X, schema), schema)
        # A column that is the same for everybody keeps a weight: its answer is that value, not 0.
        weights = 1.0 / np.where(spread > 0, spread, 1.0)
        for name, weight in pairs("--weight", asked.weights, tuple(names)).items():
            weights[names.index(name)] *= numbers("--weight", [weight])[0]
        K = np.diag(weights)
        return cls(task=tv.MeanTask(K) if asked.means else tv.LinearTask(K), **about)

    @property
    def about(self) -> str | None:
        """What the task is, in words; None where a model is."""
        if isinstance(self.task, tv.MeanTask):
            return f"Task: the mean of every column over all people, {_WEIGHED}"
        if isinstance(self.task, tv.LinearTask):
            return f"Task: every person's columns, {_WEIGHED} (For means over all people: --means.)"
        return None

    def numbers(self) -> Floats:
        """The records as numbers (N, n), single cells that are out of line with all others brought back."""
        return _numbers(self.X, self.schema)

    def measured_in(self) -> tuple[str, ...] | None:
        """The columns' units, where `--unit` gave some and no schema holds them."""
        return tuple(self.units.get(name, "") for name in self.names) if self.units else None


def chosen_columns(columns: str | None, drop: str | None, found: tuple[str, ...], wanted: tuple[str, ...]) -> list[str]:
    """Those of `--columns`, else the `wanted` ones, without those of `--drop`; all of them are in the table."""
    names = named_columns("--columns", columns, found) or list(wanted)
    dropped = named_columns("--drop", drop, found)
    names = [name for name in names if name not in dropped]
    lost = [name for name in names if name not in found]
    if lost:
        raise DataError(f"the table has no column {', '.join(lost)}, only {', '.join(found)}.")
    if not names:
        raise DataError("no column is left: a record has at least one.")
    return names


def _chosen(asked: Asked, found: tuple[str, ...], wanted: tuple[str, ...]) -> list[str]:
    """The columns of a record, in order: the target is none of them."""
    names = chosen_columns(asked.columns, asked.drop, found, tuple(name for name in wanted if name != asked.target))
    if asked.target in names:
        raise DataError(f"--columns: {asked.target!r} is the target, which devices do not know.")
    return names


def _as_pandas(table: Any) -> Any:
    """As pandas would read it: models that were fitted to tables ask for columns by name."""
    try:
        return table.to_pandas()
    except ImportError:
        return table


def _schema(asked: Asked, given: tv.Schema | None, X: Any, names: list[str]) -> tv.Schema | None:
    """What a record consists of: given, or inferred where the table is more than numbers; None for mere numbers."""
    if given is not None:
        schema = given.drop(*[name for name in given if name not in names])
    elif asked.bounds or needs_schema(X):
        schema = tv.Schema.of(X)
    else:
        _check_finite(asked.data, X, names)
        return None
    bounds = pairs("--domain", asked.bounds, schema.names)
    schema = schema.replace({name: _bounded(name, schema[name], ends) for name, ends in bounds.items()})
    units = pairs("--unit", asked.units, schema.names)
    return schema.replace({name: _measured(name, schema[name], unit) for name, unit in units.items()}).filled(X)


def _check_finite(path: Path, X: Any, names: list[str]) -> None:
    """A DataError with the place of the first number that is infinite: nothing is missing here."""
    wrong = np.argwhere(~np.isfinite(as_records(X)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise DataError(
            f"{path}: column {names[column]!r} is infinite in row {row + 1}. Mend it, leave the cell empty, or bound "
            f"the column: --domain {names[column]}=low:high."
        )


def _bounded(name: str, part: Field, ends: str) -> Field:
    low, _, high = ends.partition(":")
    if isinstance(part, Date):
        return dataclasses.replace(part, low=low, high=high)
    if not isinstance(part, Number | Count):
        raise DataError(f"--domain: {name!r} is a {type(part).__name__.lower()}, which has no bounds.")
    first, last = numbers("--domain", [low, high], "column=low:high")
    if not first <= last:
        raise DataError(f"--domain {name}={ends}: the lower bound comes first.")
    fill = min(max(part.fill, first), last) if part.stated else math.nan
    return dataclasses.replace(part, low=first, high=last, fill=fill)


def _measured(name: str, part: Field, unit: str) -> Field:
    if not isinstance(part, Number | Count):
        raise DataError(f"--unit: {name!r} is a {type(part).__name__.lower()}, which has no unit.")
    return dataclasses.replace(part, unit=unit, fill=part.fill if part.stated else math.nan)


def _numbers(X: Any, schema: tv.Schema | None) -> Floats:
    if schema is not None:
        return schema.expand(X)
    records = as_records(X)
    ranges = [harmless_range(column[np.isfinite(column)]) for column in records.T]
    return np.column_stack([np.clip(column, *ends) for column, ends in zip(records.T, ranges, strict=True)])
