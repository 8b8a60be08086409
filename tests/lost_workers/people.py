"""People whose reports say which row they are of, so that every single one can be looked for.

A record's first two attributes are the digits of its row's number to the base 4096, and the release's noise is far
smaller than the distance of two numbers: a report tells its row with a chance of error below 10⁻¹⁴, and what is left is
the noise that was drawn for it, by which two reports of one row are told apart. (ε is about 840,000: no release for
anybody.)
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import releases
import taskveil as tv
from taskveil.client.latent_encoders import HiddenEncoder
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import BoxRegion

BASE = 4096
MOST_ROWS = BASE**2
STEPS = 1024
"""Of the grid, between two numbers."""
SCALE = 10.0
"""Of the noise, in steps: it passes half the distance with probability e^-51."""
MARK = b"\x13RECORD@"
"""A double that all records have as their third attribute: where these bytes are, there are records."""
COLUMNS = ("a [kW]", "b [kW]", "c [kW]", "d [kW]")


def veil(*, units: int = 8) -> tv.Veil:
    """Reports of the first two of four attributes. So many hidden `units` of the encoder change nothing in them, and
    take their time: 700 of them 10 µs a row."""
    rng = np.random.default_rng(0)
    encoder = HiddenEncoder.of(
        low=np.zeros(4),
        high=np.full(4, float(BASE)),
        hidden_weights=rng.normal(size=(units, 4)),
        hidden_offset=rng.normal(size=units),
        weights=np.zeros((2, units)),
        offset=np.zeros(2),
        skip=np.eye(2, 4),
    )
    region = BoxRegion(step=1 / STEPS, low=np.zeros(2, dtype=np.int64), high=np.full(2, BASE * STEPS))
    return releases.veil(encoder, Laplace(region=region, scale=SCALE))


def write(folder: Path, *, rows: int, files: int) -> None:
    """So many rows in so many files, each of several row groups and some in folders below."""
    if rows > MOST_ROWS:
        raise ValueError(f"at most {MOST_ROWS:,} rows can be told apart.")
    rng = np.random.default_rng(0)
    for number, some in enumerate(np.array_split(np.arange(rows), files)):
        home = folder / f"half-{number % 2}"
        home.mkdir(parents=True, exist_ok=True)
        values = (some // BASE, some % BASE, np.full(len(some), np.frombuffer(MARK)[0]), rng.normal(size=len(some)))
        table = pa.table({name: np.asarray(value, dtype=float) for name, value in zip(COLUMNS, values, strict=True)})
        pq.write_table(table, home / f"people-{number:04d}.parquet", row_group_size=max(1, len(some) * 2 // 5))


def digest(path: Path) -> str:
    """Of all that is in a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rows_of(reports: pa.Table) -> np.ndarray:
    """The numbers of the rows that reports are of."""
    high, low = (np.rint(reports.column(place).to_numpy() / STEPS).astype(np.int64) for place in (0, 1))
    return high * BASE + low


def traces(reports: Path) -> list[bytes]:
    """Bytes that lie where the first reports of a part, or any records, lie in Arrow's or numpy's memory."""
    table = pq.read_table(reports)
    return [MARK * 2, *(column.to_numpy()[:8].tobytes() for column in table.columns)]


def noise_of(reports: pa.Table) -> np.ndarray:
    """What was drawn for them (N, 2)."""
    return np.array([reports.column(place).to_numpy() for place in (0, 1)]).T % STEPS
