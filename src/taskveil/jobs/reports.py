"""Files of reports, as `privatize_table` writes them: whose they are, their numbers some rows at a time, their tally.

A file says which release its reports were made with, and is read with no other. All of it takes constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from taskveil.arrays import Integers
from taskveil.errors import DataError, needs
from taskveil.estimates.scores import Tally, scores_of
from taskveil.jobs.files import TableFile
from taskveil.jobs.report_files import RELEASE, report_names
from taskveil.veil import Veil

with needs("a file of records"):
    import pyarrow as pa

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""


def report_columns(veil: Veil, table: TableFile) -> list[str]:
    """The file's columns of reports, if they are of this release, or a DataError."""
    stated = release_of(table)
    if stated != veil.release_id:
        raise DataError(
            f"{table.path} holds reports of {f'release {stated[:12]}…' if stated else 'no known release'}, not of "
            f"{veil.release_id[:12]}…. Decode reports with the release they were made with."
        )
    names = report_names(veil.mechanism.report_width)
    lost = [name for name in names if name not in table.columns]
    if lost:
        raise DataError(f"{table.path} lacks the columns {', '.join(lost)}: it was not written by taskveil privatize.")
    if not all(pa.types.is_integer(table.schema.field(name).type) for name in names):
        # 0.1 wrote Laplace reports in the latents' units, which would decode without a word, and wrongly.
        raise DataError(f"{table.path} holds fractions, no reports: decode it with the taskveil that wrote it.")
    return names


def report_batches(
    table: TableFile, names: list[str], *, groups: Sequence[int] | None = None, made: int = 0
) -> Iterator[Integers]:
    """The reports (N, width) of a file, or of some of its row `groups`, some at a time, as whole numbers that nobody
    has checked yet; fewer at a time where many columns are `made` of them."""
    for batch in table.batches(names, groups=groups, made=made):
        if any(column.null_count for column in batch.columns):
            raise DataError(f"{table.path} has missing reports.")
        # Column by column, as Arrow has them: twice as fast to check and to add up as row by row.
        yield np.array([batch.column(name).to_numpy(zero_copy_only=False) for name in names]).T


def tally_table(veil: Veil, source: Path, *, progress: Progress = lambda _: None) -> Tally:
    """What all reports of a file add up to, which is all that `taskveil.estimate` needs of them.

    Args:
        veil: of the release that the reports were made with.
        source: what `privatize_table` wrote. A number that no device makes is refused, as by `decode_table`.
        progress: called with the number of rows done since the last call.
    """
    return tally_rows(veil, TableFile.open(source), progress=progress)


def tally_rows(
    veil: Veil, table: TableFile, groups: Sequence[int] | None = None, *, progress: Progress = lambda _: None
) -> Tally:
    """What the reports of an open `table`, or of some of its row `groups`, add up to; the rest as in `tally_table`."""
    names = report_columns(veil, table)
    scores = scores_of(veil)
    total = scores.tally(np.zeros((0, len(names)), dtype=np.int64))
    for reports in report_batches(table, names, groups=groups):
        total += scores.tally(veil.checked(reports))
        progress(len(reports))
    return total


def release_of(table: TableFile) -> str:
    """The id that the file states, or nothing."""
    return str((table.schema.metadata or {}).get(RELEASE, b"").decode("utf-8", "replace"))
