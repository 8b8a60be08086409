"""Parquet files of reports, as `taskveil privatize` and a collector's export write them, and the columns of estimates
and answers that `taskveil decode` makes of them.

A file of reports has a column `report_0`, `report_1`, … for every number of a report. Its metadata holds the id of the
release, so that reports are never decoded with another release.

CSV has no metadata: a CSV file of reports has the id in a column `release` of every row.

A file of reports of a family has a column `member` too, and as many numbers as its widest member; others are zero. Its
metadata holds the id of the family and those of its members, and it is read with one member's release at a time.

Estimates have the columns and, if the release has fields, the types of the volunteers' table. Answers of weighted means
have the names and the units of their columns: weights only say which column matters more. Answers of classifiers are
probabilities. They are named after the classes if the veil has its model, or its release names them: p(rain), p(sun),
…; otherwise p0, p1, … in the model's order. All other answers are y0, y1, … as the model gives them.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.errors import DataError, TaskError, needs
from taskveil.jobs.running import Engine
from taskveil.jobs.storage import Place
from taskveil.jobs.tables import TableFile
from taskveil.records.schema import Schema
from taskveil.records.tables import ColumnType
from taskveil.tasks import LinearTask, ModelTask
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder

with needs("a file of records"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

RELEASE = b"taskveil.release"
"""The key of the release's id in the metadata of a file."""
RELEASE_COLUMN = "release"
"""The column with that id in a CSV file, which has no metadata."""
MEMBERS = b"taskveil.members"
"""The key of the ids of a family's members by name, in JSON."""
MEMBER = "member"
"""The column that says which member of a family a report is of."""


def report_names(width: int) -> list[str]:
    """The names of the columns, for reports of `width` numbers."""
    return [f"report_{i}" for i in range(width)]


def report_schema(width: int, release: str, more: Sequence[pa.Field] = ()) -> pa.Schema:
    """The schema of a file with reports of `width` numbers of a release, and `more` columns after them."""
    fields = [pa.field(name, pa.int64(), nullable=False) for name in report_names(width)]
    return pa.schema([*fields, *more], metadata={RELEASE: release.encode()})


def family_schema(widths: Mapping[str, int], releases: Mapping[str, str], family: str) -> pa.Schema:
    """The schema of a file with reports of a family: widths and ids of its members by name, and its own id."""
    more = [pa.field(MEMBER, pa.string(), nullable=False)]
    schema = report_schema(max(widths.values()), family, more)
    return schema.with_metadata({RELEASE: family.encode(), MEMBERS: json.dumps(dict(releases)).encode()})


def csv_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a CSV file with the columns of a Parquet file; reports have a column `release` before them."""
    fields = [
        pa.field(one.name, pa.string() if pa.types.is_dictionary(one.type) else one.type, one.nullable)
        for one in schema
    ]
    if schema.names[0] != report_names(1)[0]:
        return pa.schema(fields)
    if MEMBERS in schema.metadata:
        raise DataError("reports of a family are written as Parquet: name the file .parquet.")
    return pa.schema([pa.field(RELEASE_COLUMN, pa.string()), *fields], metadata=schema.metadata)


def csv_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a Parquet file as rows of `csv_schema`."""
    columns = list(batch.columns)
    if len(columns) < len(schema):
        columns.insert(0, pa.array([schema.metadata[RELEASE].decode()] * batch.num_rows))
    return pa.record_batch([one.cast(field.type) for one, field in zip(columns, schema, strict=True)], schema=schema)


@contextlib.contextmanager
def as_parquet(sources: Sequence[Place], engine: Engine | None) -> Iterator[list[Place]]:
    """The sources, with a temporary Parquet file in place of each CSV file of reports that `csv_schema` describes. A
    cluster could not read it: there, CSV stays as it is, and is refused."""
    if engine is not None and engine.name != "plain":
        yield list(sources)
        return
    with tempfile.TemporaryDirectory(prefix="taskveil-") as folder:
        made: dict[str, Place] = {}
        for source in sources:
            place = os.path.realpath(source)
            if str(source).lower().endswith(".csv") and os.path.isfile(place) and place not in made:
                home = Path(folder) / str(len(made))
                home.mkdir()
                made[place] = home / f"{Path(source).stem}.parquet"
                _to_parquet(TableFile.open(Path(source)), str(made[place]))
        yield [made.get(os.path.realpath(source), source) for source in sources]


def _to_parquet(table: TableFile, target: str) -> None:
    """Writes the reports of a CSV file as `report_schema` says; a DataError if the file is no such table."""
    names = [name for name in table.columns if name != RELEASE_COLUMN]
    if RELEASE_COLUMN not in table.columns or not names or names != report_names(len(names)):
        raise DataError(f"{table.path} holds no reports: taskveil privatize did not write it.")
    writer, release = None, ""
    with contextlib.ExitStack() as stack:
        for batch in table.batches([RELEASE_COLUMN, *names]):
            if writer is None:
                release = str(batch.column(0)[0])
                schema = report_schema(len(names), release)
                writer = stack.enter_context(pq.ParquetWriter(target, schema))
            if pc.any(pc.fill_null(pc.not_equal(batch.column(0), release), True)).as_py():
                raise DataError(f"{table.path} holds reports of several releases: write a file for each.")
            try:
                numbers = [column.cast(pa.int64()) for column in batch.columns[1:]]
                writer.write_batch(pa.record_batch(numbers, schema=schema))
            except pa.ArrowException:
                raise DataError(f"{table.path} has cells that are no whole numbers: no device made them.") from None


def members_of(table: TableFile) -> dict[str, str]:
    """From the ids of members to their names, as a file of reports of a family states them; empty for other files."""
    try:
        found = json.loads((table.schema.metadata or {}).get(MEMBERS, b"{}"))
        return {str(release): str(name) for name, release in found.items()}
    except (ValueError, AttributeError, RecursionError):
        raise DataError(f"{table.path} does not name the members of its family: make it again.") from None


def release_of(table: TableFile) -> str:
    """The release's id that the file states; an empty text if it states none."""
    return str((table.schema.metadata or {}).get(RELEASE, b"").decode("utf-8", "replace"))


def report_columns(veil: Veil, table: TableFile) -> list[str]:
    """The file's columns of reports, or a DataError if they were not made with this release."""
    stated, members = release_of(table), members_of(table)
    if stated != veil.release_id and members and veil.release_id not in members:
        raise DataError(f"{table.path} holds reports of a family: give the release of a member, {_named(members)}.")
    if stated != veil.release_id and not members:
        raise DataError(
            f"{table.path} holds reports of {f'release {stated[:12]}…' if stated else 'no known release'}, not of "
            f"{veil.release_id[:12]}…. Decode reports with the release they were made with."
        )
    names = report_names(veil.mechanism.report_width)
    more = [MEMBER] if members else []
    lost = [name for name in names + more if name not in table.columns]
    if lost:
        raise DataError(f"{table.path} lacks the columns {', '.join(lost)}: it was not written by taskveil privatize.")
    if not all(pa.types.is_integer(table.schema.field(name).type) for name in names):
        raise DataError(f"{table.path} holds fractions, but reports are whole numbers: make it again.")
    return names + more


def _named(members: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({release[:12]}…)" for release, name in members.items())


def report_batches(
    veil: Veil, table: TableFile, groups: Sequence[int] | None = None, *, made: int = 0
) -> Iterator[Integers]:
    """The reports (N, width) of a file, some at a time. Their numbers are not checked yet.

    Args:
        veil: the veil of the release that the reports were made with.
        table: the file.
        groups: the row groups to read; by default all.
        made: the number of columns that the caller makes of them.
    """
    for reports, held in own_batches(veil, table, groups, made=made):
        yield reports if held is None else reports[held]


def own_batches(
    veil: Veil, table: TableFile, groups: Sequence[int] | None = None, *, made: int = 0
) -> Iterator[tuple[Integers, Bools | None]]:
    """As `report_batches`, but with the rows (N,) that are reports of this release, where the file is of a family."""
    names, members = report_columns(veil, table), members_of(table)
    for batch in table.batches(names, groups=groups, made=made):
        if any(column.null_count for column in batch.columns):
            raise DataError(f"{table.path} has rows without a report: leave them out, or make the file again.")
        # Column by column, as Arrow has them: twice as fast to check and to add up as row by row.
        numbers = [name for name in names if name != MEMBER]
        reports = np.array([batch.column(name).to_numpy(zero_copy_only=False) for name in numbers]).T
        if not members:
            yield reports, None
            continue
        made_by = batch.column(MEMBER).to_pylist()
        if not set(made_by) <= set(members.values()):
            raise DataError(f"{table.path} has reports of unknown members: the family has {_named(members)}.")
        yield reports, np.array([one == members[veil.release_id] for one in made_by], dtype=np.bool_)


@dataclass(frozen=True, kw_only=True)
class AnswerColumns:
    """The `schema` of a table of answers, and the `arrays` of its columns for reports (N, width)."""

    schema: pa.Schema
    arrays: Callable[[Integers], list[Any]]


def estimates_of(veil: Veil, renamed: Mapping[str, str], *, probabilities: bool = False) -> AnswerColumns:
    """Estimates of the records, under the release's names or what they are `renamed` to."""
    schema = veil.schema
    types = tuple(_nearest_of_arrow(of) for of in schema.types)
    as_arrow = Schema(schema.fields, library="arrow", types=types)
    found = as_arrow.collapse(as_arrow.fields.box[0][None], probabilities=probabilities).schema
    fields = []
    for name, unit in zip(schema.names, schema.fields.units, strict=True):
        new = renamed.get(name, name)
        field = found.field(name).with_name(new).with_metadata(_unit(unit))
        fields.append(field.with_nullable(not schema.unbounded))
        if probabilities:
            fields.append(pa.field(f"{new} probability", pa.float64()))

    def arrays(reports: Integers) -> list[Any]:
        table = as_arrow.collapse(veil.estimates(reports), probabilities=probabilities)
        return [column.combine_chunks() for column in table.columns]

    return AnswerColumns(schema=pa.schema(fields), arrays=arrays)


def outputs_of(veil: Veil) -> AnswerColumns:
    """The task's answers: weighted columns in their own units, probabilities of classes, or outputs as they are."""
    weighted = weighted_columns(veil)
    if weighted is not None:
        return _numbers(weighted.names, lambda reports: veil.predict(reports) / weighted.weights, weighted.units)
    model = veil.task if isinstance(veil.task, ModelTask) else None
    if model is not None and model.cost.logits is True:
        known = model.frozen.classes
        count = model.outputs
        names = [f"p{i}" for i in range(count)] if known is None else [f"p({label})" for label in known.tolist()]
        return _numbers(names, lambda reports: model.cost.answers(veil.predict(reports)))
    if veil.answering is not None:
        count = veil.answering.shape[0]
    elif veil.task is not None:
        count = veil.task.outputs
    else:
        raise TaskError("this release answers with its model, which it does not hold: pass --model.")
    if holds_log_probabilities(veil):
        return _numbers(class_names(veil), lambda reports: np.exp(veil.predict(reports)))
    return _numbers([f"y{place}" for place in range(count)], veil.predict)


def class_names(veil: Veil) -> list[str]:
    """The columns of the probabilities of classes: p(rain), p(sun), … as the release names its classes; p0, p1, … if it
    numbers them."""
    count = veil.answering.shape[0] if veil.answering is not None else 0
    numbered = [f"p{place}" for place in range(count)]
    if veil.outputs is None or len(veil.outputs.names) != count or not veil.outputs.shares.all():
        return numbered
    labels = [name.partition(" = ")[2] for name in veil.outputs.names]
    return numbered if labels == [str(place) for place in range(count)] else [f"p({label})" for label in labels]


def holds_log_probabilities(veil: Veil) -> bool:
    """Whether each answer in the release holds logarithms of probabilities that add up to one, as a classifier's do."""
    answers = veil.answering.codewords if isinstance(veil.answering, CodewordDecoder) else np.zeros((1, 1))
    if answers.shape[1] < 2 or len(veil.mechanism.layout.high) > 1 or (answers > 0).any():
        return False
    return bool(np.allclose(np.exp(answers).sum(axis=1), 1.0, atol=1e-6))


class WeightedColumns(NamedTuple):
    """The column of each output of weighted means, the columns' units, and the weights (m,)."""

    names: list[str]
    units: list[str]
    weights: Floats


def weighted_columns(veil: Veil) -> WeightedColumns | None:
    """The column of each output of weighted means. A weight of 0 is given as 1, so that dividing by it is safe. None if
    an output mixes columns, or if the task is another one."""
    if not isinstance(veil.task, LinearTask):
        return None
    K, schema = veil.task.K, veil.schema
    labels, units = schema.columns, [""] * schema.width
    for unit, place in zip(schema.fields.units, schema.fields.places, strict=True):
        units[place.start] = unit
    weighed = [column for place in schema.weighed for column in range(place.start, place.stop)]
    places = list(range(len(labels))) if len(K) == len(labels) else weighed
    if len(K) != len(places):
        return None
    weights = K[np.arange(len(places)), places]
    if np.count_nonzero(K) != np.count_nonzero(weights):
        return None
    weights = np.where(weights == 0, 1.0, weights)
    return WeightedColumns([labels[place] for place in places], [units[place] for place in places], weights)


def _numbers(
    names: list[str], function: Callable[[Integers], Floats], units: Sequence[str] | None = None
) -> AnswerColumns:
    """Columns of doubles with these names."""
    fields = [
        pa.field(name, pa.float64(), nullable=False, metadata=_unit(units[place] if units else ""))
        for place, name in enumerate(names)
    ]
    return AnswerColumns(
        schema=pa.schema(fields), arrays=lambda reports: [pa.array(column) for column in function(reports).T]
    )


def _nearest_of_arrow(of: ColumnType) -> ColumnType:
    """The Arrow type that is nearest to a pandas or polars type."""
    name = of.name.lower()  # Int64 and Float64 are what others call int64 and float64
    if of.holds == "date" and not of.form:
        name = "date32" if name in ("date", "date32[day]", "date64[ms]") else "timestamp[us]"
    return replace(of, name=name)


def _unit(unit: str) -> dict[bytes, bytes] | None:
    return {b"unit": unit.encode()} if unit else None
