"""Mixed records in batches: ten numbers and five categories, from tables of every kind to reports, on one core.

    python benchmarks/records.py            # 200,000 rows
    python benchmarks/records.py --rows N

Rates are per second of processor time, the best of three: on a shared machine that is what a core can do.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.jobs.commands import decode_tables, privatize_tables
from taskveil.records.tables import read_column, select
from taskveil.veil.decoders import CodewordDecoder

NUMBERS, CATEGORIES, VALUES, LATENTS, SIZE = 10, 5, 8, 8, 64
BAR = 500_000


def people(rows: int) -> pd.DataFrame:
    """Ten numbers, a twentieth of them missing in two, and five categories of eight values, one of them with holes."""
    rng = np.random.default_rng(0)
    words = np.array([f"value {place}" for place in range(VALUES)], dtype=object)
    columns: dict[str, Any] = {f"n{place}": rng.normal(size=rows) for place in range(NUMBERS)}
    for place in (3, 7):
        columns[f"n{place}"] = np.where(rng.random(rows) < 0.05, np.nan, columns[f"n{place}"])
    columns |= {f"c{place}": words[rng.integers(VALUES, size=rows)] for place in range(CATEGORIES)}
    columns["c2"] = np.where(rng.random(rows) < 0.05, None, columns["c2"])
    return pd.DataFrame(columns)


def veil(schema: tv.Schema) -> tv.Veil:
    """A codebook of 64 on 8 latents, linear in the record's numbers."""
    rng, (low, high) = np.random.default_rng(0), schema.fields.box
    encoder = LinearEncoder.of(
        low=low, high=high, weights=rng.normal(size=(LATENTS, schema.width)), offset=np.zeros(LATENTS)
    )
    stage = Stage(
        vectors=rng.integers(-1000, 1000, size=(SIZE, LATENTS)),
        offsets=rng.integers(-1000, 1000, size=SIZE),
        shifts=np.zeros((SIZE, LATENTS), dtype=np.int64),
        response=Response.calibrated(size=SIZE, favoured=4, epsilon=3.0),
    )
    region = BoxRegion(step=2.0**-10, low=np.full(LATENTS, -(1 << 13)), high=np.full(LATENTS, 1 << 13))
    return tv.Veil(
        encoder=encoder,
        mechanism=Codebook(region=region, stages=(stage,)),
        decoder=CodewordDecoder(codewords=rng.random(size=(SIZE, schema.width)), sizes=np.array([SIZE])),
        task=None,
        method="benchmark",
        schema=schema,
        columns=schema.names,
        units=schema.fields.units,
    )


def rate(title: str, rows: int, work: Callable[[], object], bar: float | None = None) -> None:
    """Prints how many rows a second the best of three runs did."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    told = f" (bar: {bar:,.0f})" if bar else ""
    print(f"{title:42s} {rows / min(times):12,.0f} rows a second a core{told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    pa.set_cpu_count(1)
    frame = people(rows)
    schema = tv.Schema.of(frame.iloc[:5000])
    made = veil(schema)
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    coded = frame.astype({f"c{place}": "category" for place in range(CATEGORIES)})
    tables = {
        "pandas, text": frame,
        "pandas, category": coded,
        "polars": pl.from_arrow(arrow),
        "Arrow": arrow,
        "Arrow, dictionaries": pa.Table.from_pandas(coded, preserve_index=False),
    }
    for title, table in tables.items():
        rate(f"privatize, {title}", rows, lambda table=table: made.privatize(table), BAR)
        columns = [read_column(column)[1] for column in select(table, schema.names)]
        rate("  reading", rows, lambda table=table: [read_column(column) for column in select(table, schema.names)])
        rate("  expanding", rows, lambda columns=columns: schema.fields.expand(columns))
    numbers = schema.expand(frame)
    rate("  encoding and randomising, all alike", rows, lambda: made.device.privatize(numbers))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made.save(folder / "release")
        pq.write_table(arrow, folder / "people.parquet")
        frame.to_csv(folder / "people.csv", index=False)
        reports = folder / "reports.parquet"
        for source in ("people.parquet", "people.csv"):
            whole = (folder / "release", folder / source, reports)
            bar = BAR if source.endswith("parquet") else None
            rate(f"privatize, {source}", rows, lambda whole=whole: privatize_tables(*whole, overwrite=True), bar)
        again = (folder / "release", reports, folder / "estimates.parquet")
        rate("decode, reports.parquet", rows, lambda: decode_tables(*again, overwrite=True))


if __name__ == "__main__":
    main()
