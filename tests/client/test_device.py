from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import releases
from taskveil.client import device as module
from taskveil.client import entropy
from taskveil.client.device import Device
from taskveil.errors import DataError

DEVICES = releases.devices()


@pytest.mark.parametrize("change", [
    {"encoder": releases.linear(5, 4)},
    {"columns": ("a", "b")},
    {"columns": ("a", "b", "c", "d", "d")},
    {"columns": ("a", "b", "c", "d", 5)},
    {"units": ("kW",)},
    {"units": (1, 2, 3, 4, 5)},
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(DataError):
        replace(DEVICES["laplace_box"], **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["codebook", "codebook_ties", "laplace_box"])
def test_a_batch_is_encoded_as_its_records_are_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are cut into pieces for speed; with the same bits for every report, the pieces do not show."""
    device = DEVICES[name]
    X = np.random.default_rng(0).normal(size=(700, device.encoder.width))
    monkeypatch.setattr(entropy, "system_bytes", lambda n: bytes([0x5A]) * n)
    one_by_one = np.concatenate([device.privatize(row[None, :]) for row in X])
    assert np.array_equal(device.privatize(X), one_by_one)
    monkeypatch.setattr(module, "NUMBERS_AT_A_TIME", 64)
    monkeypatch.setattr(module, "_REPORTS_AT_A_TIME", 100)
    assert np.array_equal(device.privatize(X), one_by_one)


def test_no_records_give_no_reports() -> None:
    for device in DEVICES.values():
        assert device.privatize(np.empty((0, device.encoder.width))).shape == (0, device.mechanism.report_width)


def test_names_are_optional() -> None:
    parts = DEVICES["laplace_box"]
    assert Device(encoder=parts.encoder, mechanism=parts.mechanism).columns is None


@pytest.mark.parametrize("library", [pl.DataFrame, pa.table, pa.RecordBatch.from_pydict])
@pytest.mark.parametrize("columns", [("a", "b", "c", "d", "e"), None])
def test_a_table_is_no_record(library: Callable[[object], object], columns: tuple[str, ...] | None) -> None:
    """Its names were ignored, and its columns taken in their order."""
    device = replace(DEVICES["laplace_box"], columns=columns, units=None)
    with pytest.raises(DataError, match="5 numbers"):
        device.record(library({name: [1.0] for name in "edcba"}))
