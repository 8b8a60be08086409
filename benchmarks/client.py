"""The device client's bars: one report, batches, and the memory of a large Parquet file.

    python benchmarks/client.py            # a million rows in memory, ten million through Parquet
    python benchmarks/client.py --rows N   # another size of the Parquet file

Rates are per second of processor time of one core: on a shared machine that is what a core can do.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import taskveil as tv
from taskveil.client import Client
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Laplace, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder

WIDTH, SIZE = 30, 64


def veil(latents: int, favoured: int | None) -> tv.Veil:
    """30 attributes; Laplace noise, or a codebook of 64 with `favoured` favoured outputs."""
    rng = np.random.default_rng(0)
    encoder = LinearEncoder.of(
        low=np.full(WIDTH, -3.0),
        high=np.full(WIDTH, 3.0),
        weights=rng.normal(size=(latents, WIDTH)),
        offset=np.zeros(latents),
    )
    region = BoxRegion(step=2.0**-10, low=np.full(latents, -(1 << 13)), high=np.full(latents, 1 << 13))
    mechanism: Laplace | Codebook
    decoder: AffineDecoder | CodewordDecoder
    if favoured is None:
        mechanism = Laplace.calibrated(region=region, epsilon=2.0)
        decoder = AffineDecoder(weights=rng.normal(size=(WIDTH, latents)), offset=np.zeros(WIDTH))
    else:
        stage = Stage(
            vectors=rng.integers(-1000, 1000, size=(SIZE, latents)),
            offsets=rng.integers(-1000, 1000, size=SIZE),
            shifts=np.zeros((SIZE, latents), dtype=np.int64),
            response=Response.calibrated(size=SIZE, favoured=favoured, epsilon=3.0),
        )
        mechanism = Codebook(region=region, stages=(stage,))
        decoder = CodewordDecoder(codewords=rng.normal(size=(SIZE, WIDTH)), sizes=np.array([SIZE]))
    return tv.Veil(
        encoder=encoder,
        mechanism=mechanism,
        decoder=decoder,
        task=None,
        method="benchmark",
        columns=tuple(f"c{i}" for i in range(WIDTH)),
    )


def imports() -> None:
    """Print the processor time of importing numpy and of importing the client after it."""
    code = (
        "import time; start = time.process_time(); import numpy; middle = time.process_time()\n"
        "import taskveil.client; print(middle - start, time.process_time() - middle)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    of_numpy, of_client = (min(times) for times in zip(*(map(float, run.stdout.split()) for run in runs), strict=True))
    print(f"import: numpy {of_numpy * 1e3:.0f} ms, taskveil.client {of_client * 1e3:.0f} ms more")


def one_report(folder: Path, name: str, made: tv.Veil) -> None:
    made.save(folder / name)
    record = dict.fromkeys(made.columns or (), 0.5)
    draw, whole = [], []
    with Client.load(folder / name, ledger=folder / f"{name}.sqlite", cap=1e9) as client:
        for _ in range(400):
            start = time.perf_counter()
            client._make(client.device.record(record))
            draw.append(time.perf_counter() - start)
        for place in range(200):
            start = time.perf_counter()
            client.report(record, round=place)
            whole.append(time.perf_counter() - start)
    print(
        f"one report, {name:26s} {1e6 * np.median(draw):7.0f} µs (bar: 200); "
        f"recorded with fsync {1e6 * np.median(whole):7.0f} µs, at best {1e6 * min(whole):.0f} µs"
    )


def batch(name: str, made: tv.Veil) -> None:
    X = np.random.default_rng(1).normal(size=(1_000_000, WIDTH))
    times = []
    for _ in range(3):
        start = time.process_time()
        made.privatize(X)
        times.append(time.process_time() - start)
    print(f"batch, {name:32s} {len(X) / min(times) / 1e6:7.2f} million records a second a core (bar: 1)")


def write_table(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(2)
    schema = pa.schema([(f"c{i}", pa.float32()) for i in range(WIDTH)])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        for start in range(0, rows, 500_000):
            values = rng.normal(size=(WIDTH, min(500_000, rows - start))).astype(np.float32)
            writer.write_table(pa.table(list(values), schema=schema))


def large_table(folder: Path, rows: int) -> None:
    for count in (rows // 10, rows):
        source = folder / f"{count}.parquet"
        write_table(source, count)
        arguments = [sys.executable, __file__, "--privatize", str(folder / "codebook, Z = 8"), str(source)]
        start = time.perf_counter()
        out = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip()
        size = source.stat().st_size / 2**20
        print(f"Parquet, {count:,} rows × {WIDTH} ({size:,.0f} MB): {out}, {time.perf_counter() - start:.0f} s in all")
        source.unlink()


def privatize(release: Path, source: Path) -> None:
    from taskveil.jobs.commands import privatize_tables

    start = time.process_time()
    count = privatize_tables(release, source, source.with_suffix(".reports")).rows
    rate = count / (time.process_time() - start) / 1e6
    # Not getrusage: a child's ru_maxrss starts at its parent's.
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]
    print(f"{rate:.2f} million rows a second a core, peak memory {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--privatize", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.privatize:
        privatize(*options.privatize)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = {
            "Laplace, Z = 30": veil(30, None),
            "codebook, Z = 30": veil(30, 4),
            "codebook, Z = 8": veil(8, 4),
            "codebook, Z = 4, m = 1": veil(4, 1),
        }
        imports()
        for title, what in made.items():
            one_report(folder, title, what)
        for title, what in made.items():
            batch(title, what)
        large_table(folder, options.rows)


if __name__ == "__main__":
    main()
