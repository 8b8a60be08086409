"""Mixed records of the worst kind: every one is answered, by one report of one length, from a channel within ε."""

from __future__ import annotations

import asyncio
import datetime
import logging
import math
import time
from collections import ChainMap, UserDict, defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskveil as tv
from hostile_values import FIELDS, LONG, ORDINARY, VALUES, mixed_records, mixed_veil
from taskveil.arrays import one_float
from taskveil.client import Client
from taskveil.errors import DataError

GOOD = {name: values[1] for name, values in ORDINARY.items()}


@pytest.fixture(scope="module")
def veil() -> tv.Veil:
    return mixed_veil()


@pytest.fixture
def client(veil: tv.Veil, tmp_path: Path) -> Client:
    veil.save(tmp_path / "release")
    return Client.load(tmp_path / "release", ledger=tmp_path / "ledger", cap=1e6)


def assert_inside(numbers: np.ndarray, count: int) -> None:
    low, high = FIELDS.box
    assert numbers.shape == (count, FIELDS.width)
    assert ((numbers >= low) & (numbers <= high)).all()


@pytest.mark.parametrize("name", VALUES)
def test_every_value_is_an_input_in_every_field(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """No error, no warning (pytest makes them errors), no line anywhere; the other fields keep theirs."""
    good = FIELDS.expand_one(GOOD)[0]
    for field, place in zip(FIELDS.names, FIELDS.places, strict=True):
        found = FIELDS.expand_one({**GOOD, field: VALUES[name]})
        assert_inside(found, 1)
        others = np.ones(FIELDS.width, dtype=bool)
        others[place] = False
        assert np.array_equal(found[0, others], good[others])
    for many in ([VALUES[name]] * len(FIELDS.names), (VALUES[name],) * len(FIELDS.names)):
        assert_inside(FIELDS.expand_one(many), 1)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_a_hundred_thousand_hostile_records_in_batches(veil: tv.Veil) -> None:
    """`python benchmarks/hostile.py` makes all of them singly too."""
    records, count = mixed_records(20_000), 0
    for turn in range(5):  # the same values in other company
        batch = records[turn * 1000 :] + records[: turn * 1000]
        reports = veil.privatize(batch)
        assert reports.shape == (len(batch), veil.mechanism.report_width)
        assert veil.mechanism.possible(reports).all()
        count += len(batch)
    assert count == 100_000
    table = pd.DataFrame({name: _objects([record[name] for record in records]) for name in FIELDS.names})
    assert len(veil.privatize(table)) == len(records)


def test_hostile_records_singly_through_a_client(client: Client) -> None:
    """Some through the ledger, which writes to the disk each time; thousands as they are made for it."""
    records = mixed_records(2000, seed=1)
    with client:
        lengths = {len(client.report(record, round=i).to_bytes()) for i, record in enumerate(records[:40])}
        lengths |= {len(client._make(client.device.record(record)).to_bytes()) for record in records}
    assert len(lengths) == 1


_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.decimals()
    | st.fractions()
    | st.dates()
    | st.datetimes(timezones=st.timezones())
    | st.times()
    | st.timedeltas()
    | st.dates().map(str)
    | st.datetimes().map(str)
    | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]{5,12}Z?)?"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=6,
)


@given(st.fixed_dictionaries(dict.fromkeys(FIELDS.names, _anything)))
def test_whatever_python_can_hold_becomes_numbers_inside_the_box(record: dict[str, Any]) -> None:
    singly = FIELDS.expand_one(record)
    assert_inside(singly, 1)
    assert np.array_equal(FIELDS.expand_rows([GOOD, record, GOOD])[1:2], singly)


def test_no_record_changes_its_neighbours() -> None:
    """Not even one whose values claim to equal all others, in a column of objects."""
    records = mixed_records(1200, seed=2)
    singly = np.concatenate([FIELDS.expand_one(record) for record in records])
    assert np.array_equal(FIELDS.expand_rows(records), singly)
    schema = tv.Schema(FIELDS)
    for order in (range(1200), range(1199, -1, -1)):
        ordered = [records[i] for i in order]
        for some in (ordered, [record for record in ordered if issubclass(type(record["origin"]), str)]):
            table = pd.DataFrame({name: _objects([record[name] for record in some]) for name in FIELDS.names})
            assert np.array_equal(schema.expand(table), FIELDS.expand_rows(some))


def test_the_channel_of_every_hostile_record_is_within_epsilon_of_every_other(veil: tv.Veil) -> None:
    """The exact probabilities of all reports: those of hostile values are those of an input like any other."""
    hostile = [{**GOOD, name: value} for name in FIELDS.names for value in VALUES.values()]
    latents = veil.encoder(FIELDS.expand_rows([*hostile, *mixed_records(500), GOOD]))
    every = np.arange(veil.mechanism.stages[0].response.size)[:, None]
    chances = veil.mechanism.log_likelihood(every, latents)
    assert np.allclose(np.exp(chances).sum(axis=0), 1.0)
    worst = (chances.max(axis=1) - chances.min(axis=1)).max()
    assert 0.9 * veil.guarantee.epsilon < worst <= veil.guarantee.epsilon + 1e-12
    told = {tuple(column) for column in chances.T.round(9)}
    between = veil.encoder(np.linspace(*FIELDS.box, 401))  # numbers that nobody calls hostile
    assert told <= {tuple(column) for column in veil.mechanism.log_likelihood(every, between).T.round(9)}


@pytest.mark.parametrize("name", LONG)
def test_what_is_long_takes_no_longer(name: str) -> None:
    """Every text is fresh, so that Python has not hashed it before."""

    def seconds(value: Any) -> float:
        record, best = dict.fromkeys(FIELDS.names, value), 1.0
        for _ in range(15):
            start = time.perf_counter()
            FIELDS.expand_one(record)
            best = min(best, time.perf_counter() - start)
        return best

    fresh = "".join(LONG[name]) if isinstance(LONG[name], str) else LONG[name]
    assert seconds(fresh) < 3 * seconds("a short text")


class Withholding(Mapping[str, Any]):
    """Raises for one name."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name, self.error = name, error

    def __getitem__(self, name: str) -> Any:
        if name == self.name:
            raise self.error
        return GOOD[name]

    def __iter__(self) -> Any:
        return iter(GOOD)

    def __len__(self) -> int:
        return len(GOOD)


class Panic(BaseException):
    """As Rust libraries raise it."""


ERRORS = [KeyError("origin"), RuntimeError("Europe"), SystemExit(3), Panic(), GeneratorExit(), asyncio.CancelledError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_value_that_a_record_does_not_hand_out_is_missing(error: BaseException) -> None:
    found = FIELDS.expand_one(Withholding("origin", error))
    assert np.array_equal(found, FIELDS.expand_one({**GOOD, "origin": None}))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_value_raises_it_is_an_input(error: BaseException, veil: tv.Veil) -> None:
    """Whether there is a report must not depend on the record: 0.2.0.dev let panics and cancelled tasks through."""

    class Raising(float):
        def __float__(self) -> float:
            raise error

    class Text(str):
        __slots__ = ()

        def __len__(self) -> int:
            raise error

        __str__ = __hash__ = __len__  # type: ignore[assignment]

    class Nameless(type):
        @property
        def __name__(cls) -> str:
            raise error

    class Anonymous(metaclass=Nameless):  # type: ignore[misc]
        pass

    class Unknown:
        @property
        def __class__(self) -> type:  # type: ignore[override]
            raise error

    for value in (Raising(1.0), Text("Europe"), Unknown(), Anonymous()):
        for name in FIELDS.names:
            assert_inside(FIELDS.expand_one({**GOOD, name: value}), 1)
        assert len(veil.privatize(pd.DataFrame({name: _objects([value]) for name in FIELDS.names}))) == 1
        assert math.isnan(one_float(Raising(1.0)))
    with pytest.raises(DataError, match="numbers only"):
        one_float(Anonymous())


def test_a_person_s_own_interruption_passes() -> None:
    class Slow(float):
        def __float__(self) -> float:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FIELDS.expand_one({**GOOD, "power": Slow(1.0)})


@pytest.mark.parametrize(
    "record",
    [
        ChainMap(GOOD),
        UserDict(GOOD),
        defaultdict(int, GOOD),
        MappingProxyType(GOOD),
        pd.Series(GOOD),
        pd.Series(GOOD)[::-1],
        list(GOOD.values()),
        tuple(GOOD.values()),
        np.array(list(GOOD.values()), dtype=object),
        next(pd.DataFrame([GOOD]).itertuples(index=False)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_come_in_many_forms(record: Any) -> None:
    assert np.array_equal(FIELDS.expand_one(record), FIELDS.expand_one(GOOD))


class Unreadable(dict[str, Any]):
    def keys(self) -> Any:
        raise RuntimeError("Europe")


@pytest.mark.parametrize(
    "record",
    [
        {},
        {**GOOD, "more": 1},
        {name: value for name, value in GOOD.items() if name != "tax"},
        defaultdict(int),
        Unreadable(GOOD),
        pd.Series([1] * 7, index=[*GOOD, "tax"]),
        pd.DataFrame([GOOD]),
        pl.DataFrame([{"a": 1}] * 6),
        pa.table({"a": range(6)}),
        np.zeros((6, 6)),
        np.zeros((1, 6)),
        [1, 2],
        "sixsix",
        b"sixsix",
        {1, 2, 3, 4, 5, 6},
        iter(range(6)),
        None,
        7,
    ],
    ids=lambda record: type(record).__name__,
)
def test_only_names_and_number_are_refused(record: Any, client: Client) -> None:
    """Whatever the form, without quoting a value, and without spending."""
    with pytest.raises(DataError) as refused:
        client.report(record)
    assert "Europe" not in str(refused.value)
    assert client.recorded() is None


def _objects(values: list[Any]) -> pd.Series:
    made = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        made[place] = value
    return pd.Series(made, dtype=object)


_BAD_TEXT = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], dtype=np.int32).tobytes()), pa.py_buffer(b"\xff4")]
)
_FAR = [2**63 - 1, -(2**63), None]
COLUMNS = {
    "text that is none": _BAD_TEXT,
    "nothing in a dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["Europe", None])),
    "an empty dictionary": pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.string())),
    "a dictionary of numbers": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([4.0, np.nan])),
    "far seconds": pa.array(_FAR, pa.timestamp("s")),
    "far seconds in Berlin": pa.array(_FAR, pa.timestamp("s", tz="Europe/Berlin")),
    "far days": pa.array([2**31 - 1, -(2**31), None], pa.date32()),
    "large numbers": pa.array([2**64 - 1, None], pa.uint64()),
    "lists": pa.array([[1], None]),
    "structures": pa.array([{"a": 1}, None]),
    "bytes": pa.array([b"\xff", None]),
    "hours": pa.array([datetime.time(1), None]),
    "nothing": pa.nulls(2),
    "identities": pa.nulls(2, pa.uuid()),
    "runs": pa.nulls(2, pa.run_end_encoded(pa.int32(), pa.string())),
    "polars' objects": pl.Series([object(), None], dtype=pl.Object),
    "polars' large numbers": pl.Series([2**100, None], dtype=pl.Int128),
    "polars' categories": pl.Series(["Europe", None], dtype=pl.Categorical),
    "polars' durations": pl.Series([datetime.timedelta(1), None]),
    "pandas' categories of anything": pd.Series(pd.Categorical([1, "a"])),
    "pandas' categories of intervals": pd.Series(pd.Categorical(pd.interval_range(0, 2))),
    "pandas' periods": pd.Series(pd.period_range("2021-01", periods=2)),
    "pandas' far dates": pd.Series(np.array([2**62, -(2**62)], dtype="datetime64[s]")),
    "pandas' dates of Arrow": pd.Series([datetime.date(2021, 1, 1), None], dtype=pd.ArrowDtype(pa.date32())),
    "pandas' sparse numbers": pd.Series(pd.arrays.SparseArray([0.0, 1.0])),
    "pandas' complex numbers": pd.Series(np.array([1j, 2])),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_every_type_are_read(name: str, veil: tv.Veil) -> None:
    """In whatever field, and without rows too."""
    column = COLUMNS[name]
    table: Any = (
        pa.table if isinstance(column, pa.Array) else pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    )
    for some in (column, column[:0]):
        made = table(dict.fromkeys(FIELDS.names, some))
        assert_inside(veil.schema.expand(made), len(some))
        assert len(veil.privatize(made)) == len(some)


def test_a_list_of_values_is_one_record_whatever_they_are(veil: tv.Veil) -> None:
    """0.2.0.dev took texts for rows, and asked numpy for the shape of whatever was in them."""
    for value in ("Europe", "Japan?", b"sixsix", None, np.ma.masked, 10**400, VALUES["no attributes"]):
        assert len(veil.privatize([value] * 6)) == 1
        assert len(veil.privatize([[value] * 6, [1] * 6])) == 2
    assert len(veil.privatize([1, "Europe", [1, 2], (), {}, "x"])) == 1
    assert len(veil.privatize([])) == 0


def test_nothing_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), client:
        client.report(dict.fromkeys(FIELDS.names, "a secret"))
    assert "secret" not in caplog.text
