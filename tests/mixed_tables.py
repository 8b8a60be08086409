"""A release for mixed records, and the reports of a table: what the tests of jobs share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import releases
import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook
from taskveil.jobs.commands import privatize_tables
from taskveil.veil.decoders import CodewordDecoder

FIELDS = {
    "power": tv.Number(0, 200, "kW", missing=True),
    "cylinders": tv.Count(3, 8),
    "origin": tv.Category(["Europe", "NA", "USA", "4"], missing=True),
    "electric": tv.Flag(missing=True),
    "since": tv.Date("2020-01-01", "2024-12-31", missing=True),
}


def veil(schema: tv.Schema) -> tv.Veil:
    """A budget so large that reports hardly vary: what arrives can be compared with what was sent."""
    mechanism = Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 40.0),))
    low, high = schema.fields.box
    rng = np.random.default_rng(4)
    codewords = low + rng.random((16, schema.width)) * (high - low)
    weights = rng.normal(size=(3, schema.width)) / np.maximum(high - low, 1e-9)
    encoder = LinearEncoder.of(low=low, high=high, weights=weights, offset=-weights @ (low + high) / 2)
    return tv.Veil(
        encoder=encoder,
        mechanism=mechanism,
        decoder=CodewordDecoder(codewords=codewords, sizes=np.array([16])),
        task=tv.LinearTask(np.diag([2.0, 1.0, 3.0, 1.0, 0.5])).on(schema),
        method="by hand",
        schema=schema,
        columns=schema.names,
        units=schema.fields.units,
    )


def reports(release: Path, source: Path) -> np.ndarray:
    """The reports (N,) of the people in a file, which are as many as the engine says; kept beside it."""
    target = source.with_suffix(".reports.parquet")
    done = privatize_tables(release, source, target, overwrite=True)
    found = pq.read_table(target)["report_0"].to_numpy()
    assert len(found) == done.rows
    return found
