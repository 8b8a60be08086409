"""Records of natural values, by name or in order: only their form is ever refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mixed_records
import releases
from forged.tools import changed, put
from mixed_records import ORDINARY, STRANGE
from taskveil.client import Client
from taskveil.client.base_field import MOST_COLUMNS, Coded
from taskveil.client.device import Fields
from taskveil.client.fields import Category, Flag, Number
from taskveil.client.reading import MANIFEST, WEIGHTS, client_files, read_device
from taskveil.errors import DataError

RECORD: dict[str, Any] = {
    **{"power": 120, "income": None, "doors": 4, "children": 2.0, "origin": "Europe", "size": 4},
    **{"leased": False, "insured": None, "since": "2021-03-04", "serviced": "2024-05-06T07:08:09Z"},
}
MIXED = {"mixed": ORDINARY, "mixed_strange": STRANGE}


def test_a_record_becomes_numbers() -> None:
    numbers = ORDINARY.expand_one(RECORD)
    assert numbers.shape == (1, ORDINARY.width)
    assert numbers[0, :18].tolist() == [120, 21000.5, 1, 4, 2, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1]
    assert dict(zip(ORDINARY.labels, numbers[0], strict=True))["since in days"] == 18690
    assert len(ORDINARY.labels) == len(set(ORDINARY.labels)) == ORDINARY.width


def test_names_count_and_not_their_order() -> None:
    backwards = dict(reversed(RECORD.items()))
    expected = ORDINARY.expand_one(RECORD)
    row = pd.DataFrame([RECORD]).iloc[0]
    for same in (backwards, pd.Series(backwards), list(RECORD.values()), tuple(RECORD.values()), row):
        assert np.array_equal(ORDINARY.expand_one(same), expected)
    assert np.array_equal(ORDINARY.expand_one(np.array(list(RECORD.values()), dtype=object)), expected)


def test_a_mapping_that_does_not_tell_a_value_lacks_it() -> None:
    class Sensors(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            if name == "power":
                raise OSError("the sensor of secret value broke")
            return super().__getitem__(name)

    assert np.array_equal(ORDINARY.expand_one(Sensors(RECORD)), ORDINARY.expand_one({**RECORD, "power": None}))


@pytest.mark.parametrize("wrong", [
    {}, {**RECORD, "more": 1}, dict.fromkeys(list(RECORD)[1:], 1), {1: 2}, [], [1, 2, 3], "0123456789", b"0123456789",
    None, 7, iter(range(10)), np.zeros((2, 10)), np.float64(3), pd.Series(range(10)),
])  # fmt: skip
def test_another_form_is_refused(wrong: object) -> None:
    with pytest.raises(DataError, match=r"exactly the release's columns|10 values"):
        ORDINARY.expand_one(wrong)


def test_a_refusal_quotes_no_value() -> None:
    with pytest.raises(DataError) as refusal:
        ORDINARY.expand_one({**RECORD, "origin": "secret", "more": "secret"})
    assert "secret" not in str(refusal.value)
    assert "more" in str(refusal.value)


@pytest.mark.parametrize("name", MIXED)
def test_a_hundred_thousand_hostile_records_are_reported_like_any_other(name: str) -> None:
    """Any mixture of a thousand values of each field: no exception, no report of another length."""
    fields, device = MIXED[name], releases.devices()[name]
    rng = np.random.default_rng(1)
    drawn = [[mixed_records.given(value) for value in mixed_records.record(rng, fields)] for _ in range(1000)]
    columns = [list(column) for column in zip(*drawn, strict=True)]
    codes = [rng.integers(-1, 1000, size=100_000) for _ in columns]
    with np.errstate(all="raise"):
        X = fields.expand([Coded(codes=code, values=column) for code, column in zip(codes, columns, strict=True)])
        reports = device.privatize(X)
    assert X.shape == (100_000, fields.width)
    assert np.array_equal(X, np.clip(X, *fields.box))
    assert reports.shape == (100_000, device.mechanism.report_width)
    assert device.mechanism.possible(reports).all()


@pytest.mark.parametrize("name", MIXED)
def test_batches_and_clients_find_the_same_numbers(name: str) -> None:
    fields, device = MIXED[name], releases.devices()[name]
    client = Client(device=device, release=bytes(32), ledger=None, cap=None)  # type: ignore[arg-type]
    rng = np.random.default_rng(2)
    records = [[mixed_records.given(value) for value in mixed_records.record(rng, fields)] for _ in range(500)]
    batch = fields.expand(list(zip(*records, strict=True)))
    alone = np.vstack([client.device.record(dict(zip(fields.names, record, strict=True))) for record in records])
    assert np.array_equal(batch, alone)
    assert len({len(client._make(row[None, :]).to_bytes()) for row in alone}) == 1


@pytest.mark.parametrize("name", MIXED)
def test_fields_come_back_from_a_release(name: str, tmp_path: Path) -> None:
    manifest, weights = changed(name, lambda *_: None)
    (tmp_path / MANIFEST).write_bytes(manifest)
    (tmp_path / WEIGHTS).write_bytes(weights)
    device, content = read_device(client_files(tmp_path))
    assert device.fields == MIXED[name]
    assert device.attributes == len(MIXED[name].names)
    assert content["schema"] == 4


@pytest.mark.parametrize("change", [
    put("fields.fields.0", low=0),
    put("fields.fields.2", fill=3.5),
    put("fields.fields.4", values=["Europe", "", "USA"]),
    put("fields.fields.8", high="2024.12.31 23:59:59.9+01:00"),
])  # fmt: skip
def test_what_browsers_take_is_taken(change: Callable[..., object], tmp_path: Path) -> None:
    """The other half of `forged.mixed`: js/test/fields.test.ts has the same list."""
    manifest, weights = changed("mixed", change)
    (tmp_path / MANIFEST).write_bytes(manifest)
    (tmp_path / WEIGHTS).write_bytes(weights)
    device, _ = read_device(client_files(tmp_path))
    assert device.columns == ORDINARY.names


@pytest.mark.parametrize(("names", "fields"), [
    ((), ()),
    (("a",), ()),
    (("a", "a"), (Flag(), Flag())),
    ((1,), (Flag(),)),
    (("a",), ("flag",)),
    (("a",), (Flag,)),
    (tuple(f"{n}" for n in range(17)), (Category([str(n) for n in range(4096)]),) * 17),
])  # fmt: skip
def test_fields_that_make_no_record_are_refused(names: Any, fields: Any) -> None:
    with pytest.raises(DataError):
        Fields(names=names, fields=fields)


def test_as_many_numbers_as_there_may_be() -> None:
    wide = Fields(names=tuple(f"{n}" for n in range(16)), fields=(Category([str(n) for n in range(4096)]),) * 16)
    assert wide.width == MOST_COLUMNS
    assert wide.expand_one([7] * 16).sum() == 16


def test_another_number_of_columns_is_refused() -> None:
    two = Fields(names=("a", "b"), fields=(Number(0, 1), Flag()))
    with pytest.raises(DataError, match="2 values"):
        two.expand([[1.0]])
    assert two.expand([[], []]).shape == (0, 2)
