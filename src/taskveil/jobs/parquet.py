"""Tables in, tables out, in constant memory: CSV or Parquet of records → Parquet of reports → Parquet of estimates.

Columns are found by name, never by position (unless the release has no names), and their units are compared with the
release's. Every row is one person and gets one report, whatever its values are: a missing one is randomised like any
other. No other column of the input is copied. The output appears complete or not at all, never over reports that are
there already, and carries the release's id, so that reports are never decoded with another release.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from taskveil.client.device import Device
from taskveil.client.promise import rounded_up
from taskveil.errors import DataError, needs
from taskveil.jobs.answers import Answers, estimates_of, outputs_of
from taskveil.jobs.columns import check_units, encoder_input, match_columns, words_of
from taskveil.jobs.files import TableFile, parquet_writer
from taskveil.jobs.report_files import RELEASE, report_schema
from taskveil.jobs.reports import Progress, report_batches, report_columns
from taskveil.veil import Veil

with needs("a file of records"):
    import pyarrow as pa


def privatize_table(
    device: Device,
    release: str,
    source: Path,
    target: Path,
    *,
    columns: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _: None,
) -> int:
    """One report for every row of `source` (CSV or Parquet), written to `target` (Parquet); returns their number.

    Args:
        device: what every row goes through.
        release: the id of its release, which the reports carry.
        source: one person a row. A missing value, or one out of range, is randomised like any other; so is whatever
            does not belong there, where the release has fields.
        target: must not exist yet: a second report of the same people spends their budget again.
        columns: from the release's names to the file's where they differ.
        units: of columns for which the file states none.
        overwrite: replace `target` all the same.
        progress: called with the number of rows done since the last call.
    """
    refuse_second_reports(target, device.mechanism.epsilon, overwrite=overwrite)
    table = TableFile.open(source)
    names = match_columns(device, table, dict(columns or {}))
    check_units(device, table, names, dict(units or {}))
    schema = report_schema(device.mechanism.report_width, release)
    with _refusing(target, device.mechanism.epsilon), parquet_writer(target, schema, overwrite=overwrite) as writer:
        total = 0
        for batch in table.batches(names, words=words_of(device)):
            reports = device.privatize(encoder_input(device, batch, names, table, total))
            writer.write_batch(pa.record_batch([pa.array(column) for column in reports.T], schema=schema))
            total += len(reports)
            progress(len(reports))
    return total


def decode_table(
    veil: Veil,
    source: Path,
    target: Path,
    *,
    columns: Mapping[str, str] | None = None,
    predict: bool = False,
    probabilities: bool = False,
    progress: Progress = lambda _: None,
) -> int:
    """Estimates x̂ for every report of `source`, written to `target`; returns their number.

    Args:
        veil: of the release that the reports were made with.
        source: what `privatize_table` wrote.
        target: a Parquet file: the release's columns, with their types where the release has fields.
        columns: from the release's names to those wanted in the output where they differ.
        predict: the task's answers instead (`jobs.answers` says how they are called).
        probabilities: a column beside each says how probable its value is, where the release has fields.
        progress: called with the number of rows done since the last call.
    """
    table = TableFile.open(source)
    names = report_columns(veil, table)
    answers: Answers
    answers = outputs_of(veil) if predict else estimates_of(veil, dict(columns or {}), probabilities=probabilities)
    schema = answers.schema.with_metadata({RELEASE: veil.release_id.encode()})
    with parquet_writer(target, schema, overwrite=True) as writer:
        total = 0
        for reports in report_batches(table, names, made=len(schema)):
            writer.write_batch(pa.record_batch(answers.arrays(reports), schema=schema))
            total += len(reports)
            progress(len(reports))
    return total


def refuse_second_reports(target: Path, epsilon: float, *, overwrite: bool) -> None:
    """A DataError that says what drawing again would cost, if `target` is there and is not to be overwritten."""
    if os.path.lexists(target) and not overwrite:
        raise DataError(second_reports(target, epsilon))


@contextlib.contextmanager
def _refusing(target: Path, epsilon: float) -> Iterator[None]:
    """The same if somebody else has put reports there meanwhile."""
    try:
        yield
    except FileExistsError:
        raise DataError(second_reports(target, epsilon)) from None


def second_reports(target: str | Path, epsilon: float) -> str:
    """Why reports that are at `target` are not drawn again."""
    return (
        f"{target} exists already. Running again draws a second report for the same people, which costs each of "
        f"them ε = {rounded_up(epsilon)} once more if both were seen: together e^{rounded_up(2 * epsilon)} instead "
        f"of e^{rounded_up(epsilon)}. Send the reports that are there; or, if they were never sent, overwrite them "
        "(--overwrite)."
    )
