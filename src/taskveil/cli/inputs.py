"""The input of `schema`, `plan`, `design` and `sweep`: volunteers' records, labels, the schema and the task.

Records come from CSV as spreadsheets write it, or from Parquet. Cells of a CSV file become numbers, flags or text.
Dates stay text, as pandas and polars read them; a schema finds them. No error quotes a record.

A model is an ONNX file, or an object of a module that Python can import. Nothing is ever unpickled here.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.cli.console import note, numbers, pairs
from taskveil.client.base_field import BaseField
from taskveil.errors import DataError, TaskError
from taskveil.jobs.csv_format import USUAL, CsvFormat
from taskveil.records.inference import harmless_range
from taskveil.records.tables import as_records, number_in, read_column, select
from taskveil.tasks.costs import LossName
from taskveil.tasks.linear import spreads

if TYPE_CHECKING:
    import pyarrow as pa

    from taskveil.estimates.assumed import CellWeights

_WEIGHED = "each weighed by 1/spread and by its --weight."


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options of `plan`, `design` or `sweep` as you typed them; `options.py` explains each."""

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
    survey: SurveyOptions | None = None
    csv: CsvFormat = USUAL

    def check(self) -> None:
        """Returns if the options are sound and go together; otherwise a DataError says which do not."""
        check_there(self.data)
        if self.loss is not None and self.loss not in get_args(LossName):
            raise DataError(f"--loss is {', '.join(get_args(LossName))}; got {self.loss!r}.")
        for option, given in (("--weight", self.weights), ("--domain", self.bounds), ("--unit", self.units)):
            for item in given or []:
                name, _, value = item.partition("=")
                if not name or not value or (option == "--domain" and ":" not in value):
                    form = "column=low:high" if option == "--domain" else f"name={option[2:]}"
                    raise DataError(f"{option} takes {form}; got {item!r}.")
                if option == "--weight" and not math.isfinite(numbers(option, [value])[0]):
                    raise DataError(f"--weight takes a finite number; got {item!r}.")
        if self.model is not None and self.weights:
            raise DataError("--weight is for weighted means of the columns. With --model, the model is the task.")
        if self.model is not None and self.means:
            raise DataError("--means is for the columns' means over all people. With --model, the model is the task.")
        if self.survey is not None and (self.model is not None or self.means or self.target is not None):
            raise DataError("--survey is a task of its own: leave out --model, --means and --target.")
        if self.model is None and self.loss is not None:
            raise DataError("--loss is the loss of a model: pass --model too.")
        if self.segment is not None and self.segment == self.target:
            raise DataError(
                f"--segment {self.segment} is the target: the release of a report would reveal the label. Name a "
                "column that is known of people anyway."
            )


@dataclass(frozen=True, kw_only=True)
class SurveyOptions:
    """What `--survey` asks for, as you typed it."""

    fields: list[str] | None = None
    by: list[str] | None = None
    pairs: list[str] | None = None
    histograms: list[str] | None = None

    @classmethod
    def of(
        cls,
        survey: bool,
        fields: list[str] | None,
        by: list[str] | None,
        pairs: list[str] | None,
        histograms: list[str] | None,
    ) -> SurveyOptions | None:
        """The options of a survey; None without `--survey`, and then a DataError if there are any."""
        given = {"--fields": fields, "--by": by, "--pairs": pairs, "--histogram": histograms}
        if survey:
            return cls(fields=fields, by=by, pairs=pairs, histograms=histograms)
        if used := [name for name, value in given.items() if value]:
            raise DataError(f"{used[0]} is about a survey: pass --survey too.")
        return None

    def task(self, names: tuple[str, ...], weights: list[str] | None) -> tv.SurveyTask:
        """The survey of columns with these names; DataError for an unknown one."""
        both = []
        for text in self.pairs or []:
            two = named_columns("--pairs", text, names)
            if len(two) != 2:
                raise DataError(f"--pairs takes two columns, a,b; got {text!r}.")
            both.append((two[0], two[1]))
        edges = {name: _edges(text) for name, text in pairs("--histogram", self.histograms, names).items()}
        weighed = pairs("--weight", weights, names).items()
        return tv.SurveyTask(
            named_columns("--fields", ",".join(self.fields or []), names) or None,
            named_columns("--by", ",".join(self.by or []), names) or None,
            both or None,
            {name: numbers("--weight", [text])[0] for name, text in weighed} or None,
            edges or None,
        )


def _edges(text: str) -> list[Any]:
    """Edges of bins, separated by commas: numbers, or dates as text."""
    found = text.split(",")
    values = [number_in(edge) for edge in found]
    return found if None in values else values


@dataclass(frozen=True, kw_only=True)
class Job:
    """Volunteers' records X, their labels y, the schema of a record, and the task."""

    X: Any
    y: Any
    task: tv.LinearTask | tv.MeanTask | tv.ModelTask | tv.SurveyTask
    names: tuple[str, ...]
    schema: tv.Schema
    labels: Any = None
    """The segment of every record (N,), if a column holds it. The column may be a part of the record or not."""

    @classmethod
    def of_schema(cls, path: Path, survey: SurveyOptions | None, weights: list[str] | None) -> Job:
        """The job for a survey without volunteers: the schema alone."""
        if survey is None:
            raise DataError(f"{path} is a schema, and a schema alone is enough for a survey only: pass --survey.")
        known = tv.Schema.from_json(path)
        return cls(X=known, y=None, task=survey.task(known.names, weights), names=known.names, schema=known)

    @classmethod
    def of(cls, asked: JobOptions) -> Job:
        """The job for the options, or a DataError that says which option or column is wrong."""
        asked.check()
        given = None if asked.schema is None else tv.Schema.from_json(asked.schema)
        model = None if asked.model is None else load_model(asked.model)
        fields = {} if given is None else dict(zip(given, given.fields.fields, strict=True))
        unused = left_out(asked.columns, asked.drop, asked.target)
        table = read_volunteers(asked.data, fields, unused, asked.csv, asked.target)
        found = tuple(table.column_names)
        y = None
        if asked.target is not None:
            table, y = with_labels(asked.data, table, asked.target)
        task = None if model is None else as_task(model, asked.loss, asked.answers)
        wanted = (task.frozen.columns if task else None) or (found if given is None else given.names)
        names = _chosen(asked, found, tuple(wanted))
        X: Any = table.select(names)
        if is_estimator(model):
            X = _as_pandas(X)
        schema = _schema(asked, given, X, names)
        names = list(schema.names)
        X = X[names] if hasattr(X, "iloc") else X.select(names)
        if given is not None:
            _note_outside(X, schema)
        about = {"X": X, "y": y, "names": tuple(names), "schema": schema}
        if asked.segment is not None:
            if asked.segment not in found:
                raise DataError(f"--segment: {asked.data} has no column {asked.segment!r}, only {', '.join(found)}.")
            about["labels"] = table.column(asked.segment)
        if task is not None:
            return cls(task=with_loss(task, asked.loss, schema), **about)
        if asked.survey is not None:
            return cls(task=asked.survey.task(tuple(names), asked.weights), **about)
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
        if isinstance(self.task, tv.SurveyTask):
            return "Task: a survey of all people. Devices draw one question each."
        if isinstance(self.task, tv.MeanTask):
            return f"Task: the mean of every column over all people, {_WEIGHED}"
        if isinstance(self.task, tv.LinearTask):
            return f"Task: every person's columns, {_WEIGHED} (For means over all people: --means.)"
        return None

    def numbers(self) -> Floats:
        """The records as numbers (N, n). Single values far outside a column's range are clipped."""
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
        raise DataError("no column is left, and a record needs at least one: name fewer columns in --drop.")
    return names


def _chosen(asked: JobOptions, found: tuple[str, ...], wanted: tuple[str, ...]) -> list[str]:
    """The columns of a record, in order, without the target."""
    names = chosen_columns(asked.columns, asked.drop, found, tuple(name for name in wanted if name != asked.target))
    if asked.target in names:
        raise DataError(f"--columns: {asked.target!r} is the target, which devices do not know.")
    return names


def _as_pandas(table: Any) -> Any:
    """The table as a pandas DataFrame: models that were fitted to one ask for columns by name."""
    try:
        return table.to_pandas()
    except ImportError:
        return table


def _schema(asked: JobOptions, given: tv.Schema | None, X: Any, names: list[str]) -> tv.Schema:
    """The given schema, or one inferred from the table, with the bounds and units of the options."""
    if given is not None:
        schema = given.drop(*[name for name in given if name not in names])
    else:
        bounded = asked.bounds or asked.survey is not None
        schema = tv.Schema.of(X) if bounded else tv.Schema.for_volunteers(X)
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


def _note_outside(X: Any, schema: tv.Schema) -> None:
    """Say how many values of each column a schema from a file takes for others: they may be in another unit or form."""
    columns = select(X, schema.names)
    counts = {
        name: schema[name].outside(read_column(column)[1])[1] for name, column in zip(schema, columns, strict=True)
    }
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    if listed:
        note(
            f"values that --schema does not have, in {len(X):,} rows: {listed}. Numbers and dates count as the nearest "
            "value inside, others as not listed. Text that stands for no value: --missing."
        )


def _ends(text: str) -> tuple[str, str]:
    """The bounds in low:high."""
    low, _, high = text.partition(":")
    return low, high


def _check_finite(path: Path, X: Any, names: list[str]) -> None:
    """Raise a DataError with the place of the first infinite number. Missing values are no error."""
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


def population(path: Path) -> CellWeights:
    """The people of an estimate in a file of `taskveil estimate --assume cells --json`, for `tv.design(like=...)`."""
    from taskveil.estimates.assumed import CellWeights

    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shares, folder, release = cells["shares"], Path(cells["folder"]), str(cells["release"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            f"--like {path} says nothing about cells of people. Write it with: taskveil estimate … --assume cells "
            f"--json {path}"
        ) from None
    if not folder.is_dir():
        raise DataError(
            f"--like {path} is about reports of the release in {folder}, and there is no such folder: run the command "
            "where taskveil estimate ran."
        )
    veil = tv.Veil.load(folder)
    if veil.release_id != release:
        raise DataError(f"--like {path} is about release {release[:12]}…, and {folder} holds {veil.release_id[:12]}….")
    return CellWeights.of(veil, shares)


# Files of volunteers' records


def read_volunteers(
    path: Path,
    fields: Mapping[str, BaseField] | None = None,
    unused: Callable[[str], bool] = lambda _: False,
    csv: CsvFormat = USUAL,
    target: str | None = None,
) -> pa.Table:
    """The table in a CSV or Parquet file.

    Args:
        path: of the file.
        fields: of columns with a known field. Other columns of a CSV file are inferred.
        unused: whether a column is not used. Such a column is not checked.
        csv: how a CSV file is written.
        target: a column that must be there. A slip in its name is said before anything about cells.
    """
    from taskveil.jobs.tables import TableFile

    file = TableFile.open(path, csv=csv)
    found = file.schema.names
    if target is not None and target not in found:
        raise DataError(f"{path} has no column {target!r}, only {', '.join(found)}.")
    table = file.read()
    if not file.is_text:
        return table
    if table.num_rows == 0:
        raise DataError(f"{path} needs a header and at least one record.")
    if csv.dates is not None:
        table = _as_dates(path, table, fields or {}, unused, csv)
    return _as_numbers(path, table, fields or {}, unused, csv)


def check_there(path: Path) -> None:
    """A DataError if there is no file or folder of this name."""
    if not path.exists():
        raise DataError(f"cannot read {str(path)!r}: there is no such file.")


def left_out(columns: str | None, drop: str | None, target: str | None) -> Callable[[str], bool]:
    """Whether a column is left out: --drop lists it, or --columns is given and does not list it."""
    listed, dropped = (None if option is None else split_names(option) for option in (columns, drop))
    return lambda name: name != target and (name in (dropped or ()) or (listed is not None and name not in listed))


def split_names(listed: str) -> list[str]:
    """The names of columns in an option, where commas separate them."""
    return [name.strip() for name in listed.split(",")]


def named_columns(option: str, listed: str | None, names: Sequence[str]) -> list[str]:
    """The columns in an option, where commas separate them. Each must be one of `names`."""
    found = split_names(listed) if listed else []
    for name in found:
        if name not in names:
            raise DataError(f"{option}: there is no column {name!r}, only {', '.join(names)}.")
    return found


def with_labels(path: Path, table: pa.Table, target: str) -> tuple[pa.Table, Any]:
    """The rows of the table that have a label in column `target`, and these labels (N,)."""
    import pyarrow.compute as pc

    lost = pc.is_null(table.column(target), nan_is_null=True)
    count = pc.sum(lost).as_py() or 0
    if count == table.num_rows:
        raise DataError(f"{path}: column {target!r}, the target, is empty.")
    if count:
        note(f"column {target!r}, the target, is missing in {count:,} of {table.num_rows:,} rows: left out.")
        table = table.filter(pc.invert(lost))
    return table, np.asarray(table.column(target).to_pylist())


def _as_dates(
    path: Path, table: pa.Table, fields: Mapping[str, BaseField], unused: Callable[[str], bool], csv: CsvFormat
) -> pa.Table:
    """The table with dates as 2021-03-04 in columns of dates that are written as `csv` says."""
    import pyarrow as pa

    any_date = False
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if not pa.types.is_string(column.type):
            continue
        coded = column.combine_chunks().dictionary_encode()
        texts = coded.dictionary.to_pylist()
        dates = [csv.date(text) for text in texts]
        any_date = any_date or any(dates)
        known = name in fields and fields[name].reads_as[0] == "date"
        wrong = np.array([*(date is None for date in dates), False])[coded.indices.fill_null(-1).to_numpy()]
        if unused(name) or not (known or 2 * wrong.sum() < len(wrong) - column.null_count):
            with contextlib.suppress(pa.ArrowException):  # whole numbers were kept as text, because dates may be some
                table = table.set_column(place, name, column.cast(pa.int64()))
            continue
        if wrong.any() and known:
            note(f"column {name!r}: cells that are no dates like {csv.example} count as missing: {int(wrong.sum()):,}.")
        elif wrong.any():
            raise DataError(
                f"{path}, line {int(np.flatnonzero(wrong)[0]) + 2}: column {name!r} holds dates like {csv.example}, "
                f"but here something else. Correct it, pass --missing and the text if it stands for no value, leave "
                f"the column out (--drop {name}), or state in a --schema that it is a date (then such cells count as "
                "missing values)."
            )
        table = table.set_column(place, name, pa.array(dates, pa.string()).take(coded.indices))
    if not any_date:
        raise DataError(
            f"{path} holds no date in the form of --date-format {csv.dates}, which writes the fourth of March 2021 as "
            f"{csv.example}."
        )
    return table


def _as_numbers(
    path: Path, table: pa.Table, fields: Mapping[str, BaseField], unused: Callable[[str], bool], csv: CsvFormat
) -> pa.Table:
    """The table with numbers instead of text in columns of numbers that Arrow does not recognise."""
    import pyarrow as pa

    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        text = name in fields and "text" in fields[name].holds
        if not pa.types.is_string(column.type) or text or unused(name):
            continue
        coded = column.combine_chunks().dictionary_encode()
        found = [number_in(csv.number(cell)) for cell in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        texts = np.array([*(number is None for number in found), False])[codes]
        numbers = np.array([*(np.nan if number is None else number for number in found), np.nan])[codes]
        if texts.any() and name in fields:
            note(f"column {name!r}: cells that are no numbers count as missing values: {int(texts.sum()):,}.")
        elif texts.any() and texts.sum() > np.isfinite(numbers).sum():
            continue
        elif texts.any():
            line = int(np.flatnonzero(texts)[0]) + 2
            raise DataError(
                f"{path}, line {line}: column {name!r} holds numbers, but here something else. Correct it, pass "
                f"--missing and the text if it stands for no value, leave the column out (--drop {name}), or state in "
                "a --schema what it is: a category, or a number (then such cells count as missing values)."
            )
        table = table.set_column(place, name, pa.array(numbers, from_pandas=True))
    return table


# Models


def load_model(name: str) -> Any:
    """The model that `--model` names: the path of an ONNX file, or the object of package.module:object."""
    if name.lower().endswith(".onnx"):
        return Path(name)
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise TaskError(
            f"--model takes an .onnx file, or package.module:object, got {name!r}. Files of pickles (.pkl, .joblib, "
            ".pt) can run whatever they like and are not opened: write a module that makes or loads the model."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found if is_model(found) or isinstance(found, type) or not callable(found) else found()
    except (Exception, SystemExit) as error:  # your module may raise anything
        raise TaskError(f"--model {name} cannot be loaded: {type(error).__name__}: {error}") from error


def is_model(found: Any) -> bool:
    """Whether an object is a model, and not a function that returns one."""
    return not isinstance(found, type) and (is_estimator(found) or hasattr(found, "named_parameters"))


def is_estimator(model: Any) -> bool:
    """Whether a model has the interface of scikit-learn: it takes tables."""
    return hasattr(model, "predict") and hasattr(model, "get_params")


def as_task(model: Any, loss: str | None, answers: Literal["direct", "record"] = "direct") -> tv.ModelTask:
    """The model's task with this loss. Without one, the loss depends on the kind of the model."""
    if loss is None and is_estimator(model):
        loss = "cross_entropy" if hasattr(model, "predict_proba") else "mse"
    if loss is not None:
        return tv.ModelTask(model, loss=loss, answering=answers)  # type: ignore[arg-type]
    try:
        return tv.ModelTask(model, answering=answers)
    except TaskError:  # an ONNX file with names of classes is a classifier, and takes no other loss
        return tv.ModelTask(model, loss="cross_entropy", answering=answers)


def with_loss(task: tv.ModelTask, loss: str | None, schema: tv.Schema) -> tv.ModelTask:
    """The task for records of a schema. Without a loss, one output is a number, and several are classes."""
    bound = task.on(schema)
    if loss is None and task.loss == "mse" and not is_estimator(task.model) and bound.outputs > 1:
        return tv.ModelTask(task.model, loss="cross_entropy", answering=task.answering)
    return task
