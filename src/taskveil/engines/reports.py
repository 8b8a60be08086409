"""Files of reports, as `privatize_table` writes them: whose they are, their numbers some rows at a time, their tally.

A file says which release its reports were made with, and is read with no other. All of it takes constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from taskveil.arrays import Integers
from taskveil.engines.files import TableFile
from taskveil.errors import DataError, needs
from taskveil.server.estimates.scores import Tally, scores_of
from taskveil.server.report_files import RELEASE, report_names
from taskveil.veil import Veil

with needs("a file of records"):
    import pyarrow as pa

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""


def report_columns(veil: Veil, table: TableFile) -> list[str]:
    """The file's columns of reports, if they are of this release, or a DataError."""
    stated = _release_of(table)
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


def report_batches(table: TableFile, names: list[str]) -> Iterator[Integers]:
    """The reports (N, width) of a file, some at a time, as whole numbers that nobody has checked yet."""
    for batch in table.batches(names):
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
    table = TableFile.open(source)
    names = report_columns(veil, table)
    scores = scores_of(veil)
    total = scores.tally(np.zeros((0, len(names)), dtype=np.int64))
    for reports in report_batches(table, names):
        total += scores.tally(veil.checked(reports))
        progress(len(reports))
    return total


def tally_tables(
    veils: Sequence[Veil], sources: Sequence[Path], *, progress: Progress = lambda _: None
) -> tuple[list[Veil], list[Tally]]:
    """The veils that some files hold reports of, and what these add up to, each file counted for its own release.

    Args:
        veils: one for every release that reports may be of.
        sources: what `privatize_table` wrote, in any order; several files of one release are one collection. The same
            file twice is refused: people who are counted twice make intervals too short.
        progress: called with the number of rows done since the last call.
    """
    found: dict[int, Tally] = {}
    if len({source.resolve() for source in sources}) < len(sources):
        raise DataError("a file of reports is named twice, and nobody may count twice: name each file once.")
    for source in sources:
        stated = _release_of(TableFile.open(source))
        place = next((place for place, veil in enumerate(veils) if veil.release_id == stated), 0)
        counted = tally_table(veils[place], source, progress=progress)  # refuses what is of no release here
        found[place] = found[place] + counted if place in found else counted
    return [veils[place] for place in sorted(found)], [found[place] for place in sorted(found)]


def _release_of(table: TableFile) -> str:
    """The id that the file states, or nothing."""
    return str((table.schema.metadata or {}).get(RELEASE, b"").decode("utf-8", "replace"))
