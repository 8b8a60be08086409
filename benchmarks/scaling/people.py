"""The tables and releases of `benchmarks/ray.py`: made once in a folder, and found there again by the next run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import taskveil as tv
from taskveil.arrays import Floats

ATTRIBUTES, FACTORS, VOLUNTEERS, EPSILON = 30, 6, 2000, 4.0
FILE_ROWS, GROUP_ROWS = 1 << 20, 1 << 17
ROW_BYTES = 8 * ATTRIBUTES


def people(rows: int, seed: int) -> Floats:
    """Records (N, 30) that hang together through 6 hidden things; a third of the attributes is skewed like incomes, a
    third are counts."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, FACTORS)) @ np.random.default_rng(0).normal(size=(FACTORS, ATTRIBUTES)) / 2
    X += rng.standard_normal(X.shape)
    X[:, 10:20] = np.exp(X[:, 10:20] / 2)
    X[:, 20:] = np.floor(np.exp(1 + X[:, 20:] / 2))
    return X


def mixed(rows: int, seed: int) -> pd.DataFrame:
    """The same people with 10 of their attributes as words of 8 values each, and holes in two others."""
    X, rng = people(rows, seed), np.random.default_rng(seed)
    table = pd.DataFrame({f"x{place}": X[:, place] for place in range(20)})
    table.loc[rng.random(rows) < 0.05, ["x0", "x10"]] = np.nan
    words = np.array([f"value {place}" for place in range(8)], dtype=object)
    for place in range(20, ATTRIBUTES):
        table[f"c{place}"] = words[np.minimum(X[:, place], 7).astype(int)]
    return table


def release(folder: Path, kind: str) -> Path:
    """The folder of a release of that kind, designed now if it is not there: all attributes matter alike."""
    path = folder / f"release-{kind}"
    if not path.exists():
        volunteers = mixed(VOLUNTEERS, 1) if kind == "mixed" else table_of(people(VOLUNTEERS, 1)).to_pandas()
        schema = tv.Schema.of(volunteers) if kind == "mixed" else None
        spread = (volunteers if schema is None else schema.expand(volunteers)).std(axis=0)
        task = tv.LinearTask(np.diag(1.0 / np.maximum(np.asarray(spread), 1e-9)))
        method = "task_aware" if kind == "laplace" else "codebook"
        tv.design(volunteers, task, epsilon=EPSILON, method=method, schema=schema).save(path)
    return path


def table_of(X: Floats) -> pa.Table:
    """Records in columns x0, x1, …"""
    return pa.table({f"x{place}": np.ascontiguousarray(column) for place, column in enumerate(X.T)})


def tables(folder: Path, kind: str, rows: int, *, file_rows: int = FILE_ROWS) -> Path:
    """The folder of so many people as Parquet, in files of a million and row groups of 131,072; written now where it is
    not there. 3 × 10⁷ rows are 7.2 GB of doubles and, as Snappy leaves them, 5.3 GB of files."""
    home = folder / f"{'mixed' if kind == 'mixed' else 'people'}-{rows}"
    home.mkdir(parents=True, exist_ok=True)
    for number, at in enumerate(range(0, rows, file_rows)):
        path, count = home / f"{number:05d}.parquet", min(file_rows, rows - at)
        if path.exists():
            continue
        if shutil.disk_usage(home).free < 2 * ROW_BYTES * (rows - at):
            raise SystemExit(f"{home}: not enough free disk for {rows - at:,} more rows and what is made of them.")
        made = (
            pa.Table.from_pandas(mixed(count, 10 + number), preserve_index=False)
            if kind == "mixed"
            else table_of(people(count, 10 + number))
        )
        draft = home / ".writing"
        pq.write_table(made, draft, row_group_size=GROUP_ROWS, use_dictionary=kind == "mixed")
        draft.rename(path)
    return home
