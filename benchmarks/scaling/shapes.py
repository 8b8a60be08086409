"""Tables of unusual shapes, for what a worker's memory comes to: one huge row group, a thousand columns, long words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.scaling import people

import taskveil as tv
from taskveil.jobs.commands import decode_tables, privatize_tables
from taskveil.jobs.running import Engine

ROWS, WIDE = 1 << 20, 1000
Job = Callable[[Engine], object]


def jobs(folder: Path) -> Mapping[str, Job]:
    """By name, what one worker is to do with a million rows of 30 attributes, or with 131,072 of 1,000."""
    home = folder / "shapes"
    home.mkdir(exist_ok=True)
    codebook, mixed = people.release(folder, "codebook"), people.release(folder, "mixed")
    wide = _wide_release(home)
    usual = people.people(ROWS, 10)
    sources = {
        "usual": _written(home / "usual.parquet", lambda: people.table_of(usual), people.GROUP_ROWS),
        "one row group": _written(home / "group.parquet", lambda: people.table_of(usual), ROWS),
        "wide": _written(home / "wide.parquet", lambda: people.table_of(_wide(1 << 17)), 1 << 17),
        "wide, cut": _written(home / "cut.parquet", lambda: people.table_of(_wide(1 << 17)), 1 << 14),
        "words": _written(home / "words.parquet", _words, people.GROUP_ROWS),
    }
    privatized = {
        "30 attributes in row groups of 131,072": ("usual", codebook),
        "30 attributes in one row group of a million": ("one row group", codebook),
        "1,000 attributes in one row group of 131,072": ("wide", wide),
        "1,000 attributes in row groups of 16,384": ("wide, cut", wide),
        "20 numbers, 10 columns of a million different words": ("words", mixed),
    }
    made: dict[str, Job] = {
        name: lambda engine, source=source, release=release: privatize_tables(  # type: ignore[misc]
            release, sources[source], home / f"reports of {source}", engine=engine, overwrite=True
        )
        for name, (source, release) in privatized.items()
    }
    made["estimates of 1,000 attributes"] = lambda engine: decode_tables(
        wide, home / "reports of wide", home / "estimates", engine=engine, overwrite=True
    )
    return made


def _written(path: Path, table: Callable[[], pa.Table], group: int) -> Path:
    if not path.exists():
        pq.write_table(table(), path, row_group_size=group)
    return path


def _wide(rows: int, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 5)) @ np.random.default_rng(0).normal(size=(5, WIDE)) + rng.standard_normal(
        (rows, WIDE)
    )


def _wide_release(home: Path) -> Path:
    path = home / "release-wide"
    if not path.exists():
        volunteers = people.table_of(_wide(3000, 4)).to_pandas()
        tv.design(volunteers, tv.LinearTask(np.eye(WIDE)[:10]), epsilon=4.0, method="codebook").save(path)
    return path


def _words() -> pa.Table:
    """Words that are nobody else's, 40 letters each, where the release knows eight of them."""
    table = pa.Table.from_pandas(people.mixed(ROWS, 10), preserve_index=False)
    unlike = pa.array([f"{number:040d}" for number in range(ROWS)])
    for place, name in enumerate(table.column_names):
        if name.startswith("c"):
            table = table.set_column(place, name, unlike)
    return table
