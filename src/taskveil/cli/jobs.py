"""The input of `design` and `sweep`: records, labels, the schema of a record, and the task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.cli.console import numbers, pairs
from taskveil.cli.models import as_task, is_estimator, load_model, with_loss
from taskveil.cli.volunteers import left_out, named_columns, read_volunteers, with_labels
from taskveil.client.fields import BaseField
from taskveil.errors import DataError
from taskveil.records.conversion import as_records
from taskveil.records.inference import harmless_range
from taskveil.tasks.linear import spreads

_WEIGHED = "each weighed by 1/spread and by its --weight."


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a command, as they were typed; `options.py` explains each."""

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

    `schema` says what a record consists of.
    """

    X: Any
    y: Any
    task: tv.LinearTask | tv.MeanTask | tv.ModelTask
    names: tuple[str, ...]
    schema: tv.Schema
    labels: Any = None
    """The segment of every record (N,), if a column holds it. The column may be a part of the record or not."""

    @classmethod
    def of(cls, asked: Asked) -> Job:
        """The job for the options, or a DataError that says which option or column is wrong."""
        if asked.model is not None and asked.weights:
            raise DataError("--weight is for weighted means of the columns. With --model, the model is the task.")
        if asked.model is not None and asked.means:
            raise DataError("--means is for the columns' means over all people. With --model, the model is the task.")
        if asked.model is None and asked.loss is not None:
            raise DataError("--loss is the loss of a model: pass --model too.")
        if asked.segment is not None and asked.segment == asked.target:
            raise DataError(
                f"--segment {asked.segment} is the target: the release of a report would reveal the label. Name a "
                "column that is known of people anyway."
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
        names = list(schema.names)
        X = X[names] if hasattr(X, "iloc") else X.select(names)
        about = {"X": X, "y": y, "names": tuple(names), "schema": schema}
        if asked.segment is not None:
            if asked.segment not in found:
                raise DataError(f"--segment: {asked.data} has no column {asked.segment!r}, only {', '.join(found)}.")
            about["labels"] = table.column(asked.segment)
        if task is not None:
            return cls(task=with_loss(task, asked.loss, schema), **about)
        spread = spreads(_numbers(X, schema), schema)
        # A column that is the same for everybody keeps a weight: its answer is that value, not 0.
        weights = 1.0 / np.where(spread > 0, spread, 1.0)
        for name, weight in pairs("--weight", asked.weights, tuple(names)).items():
            weights[names.index(name)] *= numbers("--weight", [weight])[0]
        K = np.diag(weights)
        return cls(task=tv.MeanTask(K) if asked.means else tv.LinearTask(K), **about)

    @property
    def about(self) -> str | None:
        """A sentence about the task; None if the task is a model."""
        if isinstance(self.task, tv.MeanTask):
            return f"Task: the mean of every column over all people, {_WEIGHED}"
        if isinstance(self.task, tv.LinearTask):
            return f"Task: every person's columns, {_WEIGHED} (For means over all people: --means.)"
        return None

    def numbers(self) -> Floats:
        """The records as numbers (N, n), single cells that are out of line with all others brought back."""
        return _numbers(self.X, self.schema)


def chosen_columns(columns: str | None, drop: str | None, found: tuple[str, ...], wanted: tuple[str, ...]) -> list[str]:
    """The columns of `--columns`, or else the `wanted` ones, without those of `--drop`. All must be in the table."""
    names = named_columns("--columns", columns, found) or list(wanted)
    dropped = named_columns("--drop", drop, found)
    names = [name for name in names if name not in dropped]
    lost = [name for name in names if name not in found]
    if lost:
        raise DataError(f"the table has no column {', '.join(lost)}, only {', '.join(found)}.")
    if not names:
        raise DataError("no column is left: a record has at least one column.")
    return names


def _chosen(asked: Asked, found: tuple[str, ...], wanted: tuple[str, ...]) -> list[str]:
    """The columns of a record, in order, without the target."""
    names = chosen_columns(asked.columns, asked.drop, found, tuple(name for name in wanted if name != asked.target))
    if asked.target in names:
        raise DataError(f"--columns: {asked.target!r} is the target, which devices do not know.")
    return names


def _as_pandas(table: Any) -> Any:
    """The table as pandas has it: models that were fitted to tables ask for columns by name."""
    try:
        return table.to_pandas()
    except ImportError:
        return table


def _schema(asked: Asked, given: tv.Schema | None, X: Any, names: list[str]) -> tv.Schema:
    """What a record consists of: the given schema, or one for the table, with the bounds and units of the options."""
    if given is not None:
        schema = given.drop(*[name for name in given if name not in names])
    else:
        schema = tv.Schema.of(X) if asked.bounds else tv.Schema.for_volunteers(X)
    if schema.unbounded:
        _check_finite(asked.data, X, names)
    changed: dict[str, BaseField] = {}
    for option, given_for in (("--domain", asked.bounds), ("--unit", asked.units)):
        for name, text in pairs(option, given_for, schema.names).items():
            field = changed.get(name, schema[name])
            try:
                changed[name] = field.within(*_ends(text)) if option == "--domain" else field.measured_in(text)
            except DataError as error:
                raise DataError(f"{option} {name}={text}: {error}") from None
    return schema.replace(changed).filled(X)


def _ends(text: str) -> tuple[str, str]:
    """The bounds in low:high."""
    low, _, high = text.partition(":")
    return low, high


def _check_finite(path: Path, X: Any, names: list[str]) -> None:
    """A DataError with the place of the first number that is infinite: nothing is missing here."""
    wrong = np.argwhere(~np.isfinite(as_records(X)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise DataError(
            f"{path}: column {names[column]!r} is infinite in row {row + 1}. Correct it, leave the cell empty, or "
            f"bound the column: --domain {names[column]}=low:high."
        )


def _numbers(X: Any, schema: tv.Schema) -> Floats:
    records = schema.expand(X)
    if not schema.unbounded:
        return records
    ranges = [harmless_range(column[np.isfinite(column)]) for column in records.T]
    return np.column_stack([np.clip(column, *ends) for column, ends in zip(records.T, ranges, strict=True)])
