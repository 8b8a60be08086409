"""A kind of field that the package does not know goes all the way: one class, and its name among those of releases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.auditing.target import NamedInputs as Inputs
from taskveil.client import Client, reading
from taskveil.client.base_field import BaseField, Kind, Natural
from taskveil.client.values import Values, text_of
from taskveil.designs.predictors.own import records_near, records_of
from taskveil.errors import DataError, TaskError
from taskveil.jobs.tables import TableFile, encoder_input, words_of


@dataclass(frozen=True)
class Grade(BaseField):
    """One of some levels in their order, as a number from 0 to 1; a missing or unknown level counts as the first."""

    levels: tuple[str, ...]
    missing: bool = False

    kind: ClassVar[str] = "grade"
    reads_as: ClassVar[tuple[Kind, Kind]] = ("number", "share")
    holds: ClassVar[tuple[str, ...]] = ("text", "category")
    types: ClassVar[tuple[str, str, str]] = ("str", "String", "string")

    @property
    def words(self) -> tuple[str, ...]:
        return self.levels

    def _names(self, name: str) -> tuple[str, ...]:
        return (name,)

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        return [0.0], [1.0]

    def expand(self, values: Values) -> Floats:
        places = {level: place / (len(self.levels) - 1) for place, level in enumerate(self.levels)}
        known = [(places.get(text_of(value) or ""), value) for value in values]
        found = np.array([[place or 0.0, float(place is None)] for place, _ in known]).reshape(-1, 2)
        return found if self.missing else found[:, :1]

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:
        gone = columns[:, -1] if self.missing else np.zeros(len(columns))
        places = np.rint(np.clip(columns[:, 0], 0, 1) * (len(self.levels) - 1)).astype(int)
        found = np.where(gone < 0.5, np.array(self.levels, dtype=object)[places], None)
        return Natural(found, np.maximum(gone, 1 - gone))

    def rounded(self, columns: Floats) -> Floats:
        steps = len(self.levels) - 1
        return np.asarray(np.rint(columns * steps) / steps)

    def samples(self) -> tuple[Any, ...]:
        return self.levels


@dataclass(frozen=True)
class Code(BaseField):
    """A number of up to five digits, as a point of a plane: an open vocabulary without a hash."""

    kind: ClassVar[str] = "code"
    reads_as: ClassVar[tuple[Kind, Kind]] = ("number", "number")
    holds: ClassVar[tuple[str, ...]] = ("whole", "number")
    types: ClassVar[tuple[str, str, str]] = ("int64", "Int64", "int64")
    missing = False

    @property
    def side(self) -> int:
        return 331

    def _names(self, name: str) -> tuple[str, ...]:
        return f"{name} (first)", f"{name} (second)"

    @property
    def _bounds(self) -> tuple[list[float], list[float]]:
        return [0.0, 0.0], [self.side - 1.0] * 2

    def expand(self, values: Values) -> Floats:
        return np.array([divmod(int(value or 0) % self.side**2, self.side) for value in values], float).reshape(-1, 2)

    def rounded(self, columns: Floats) -> Floats:
        return np.rint(columns)

    def collapse(self, columns: Floats, other: str | None = None) -> Natural:
        return Natural(np.full(len(columns), None, dtype=object), np.zeros(len(columns)))

    def samples(self) -> tuple[Any, ...]:
        return (0, 1, 99_999)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    for kinds in (reading.FIELDS, reading.DEVICE_KINDS):
        monkeypatch.setitem(kinds, "grade", Grade)  # type: ignore[arg-type]
        monkeypatch.setitem(kinds, "code", Code)  # type: ignore[arg-type]


LEVELS = ("NA", "bad", "fair", "good")
SCHEMA = tv.Schema({"state": Grade(LEVELS, missing=True), "age": tv.Number(0, 20)})


def table(count: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    place = rng.integers(0, 4, count)
    state = np.where(rng.random(count) < 0.1, None, np.array(LEVELS, dtype=object)[place])
    return pd.DataFrame({"state": state, "age": 5.0 * place + rng.random(count)})


def test_it_is_shown_written_and_read() -> None:
    assert "Grade(['NA', 'bad', 'fair', 'good'], missing=True)" in repr(SCHEMA)
    assert tv.Schema.from_json(SCHEMA.to_json()) == SCHEMA
    assert SCHEMA.columns == ("state", "state is missing", "age")


def test_tables_come_back() -> None:
    found = SCHEMA.like(table()).collapse(SCHEMA.expand(table()))
    pd.testing.assert_frame_equal(found, table(), check_dtype=False)


def test_from_the_volunteers_to_estimates(tmp_path: Path) -> None:
    people = table()
    veil = tv.design(people, tv.LinearTask(np.diag([2.0, 0.2])), epsilon=3.0, schema=SCHEMA)
    assert veil.loss(people).mean < 2.0
    veil.save(tmp_path / "r")
    again = tv.Veil.load(tmp_path / "r")
    assert (again.release_id, again.schema) == (veil.release_id, veil.schema)
    with Client.load(tmp_path / "r" / "client", ledger=tmp_path / "ledger", cap=9) as client:
        report = client.report({"state": "good", "age": 17}, round="1")
    decoded = again.decode(again.receive(report.to_bytes()), probabilities=True)
    assert decoded["state"].isin([*LEVELS, None]).all()


def test_servers_ask_nothing_else(tmp_path: Path) -> None:
    veil = tv.design(table(), tv.MeanTask(np.eye(2)), epsilon=3.0, schema=SCHEMA)
    rows = tv.estimate(veil, veil.privatize(table())).attributes
    assert [row.name for row in rows] == ["state", "state is missing", "age"]
    inputs = Inputs.of_schema(SCHEMA, table())
    assert ("value 0 of state", "NA") in [(name, row[0]) for name, row in inputs.pool(np.random.default_rng(0))]
    table().to_csv(tmp_path / "people.csv", index=False, na_rep="")
    file = TableFile.open(tmp_path / "people.csv")
    batch = pa.RecordBatch.from_pydict({"state": ["NA", "good", None], "age": ["3", "4.5", ""]})
    np.testing.assert_array_equal(
        encoder_input(veil.device, batch, ["state", "age"], file, 0), [[0, 0, 3], [1, 0, 4.5], [0, 1, 10]]
    )
    assert words_of(veil.device) == frozenset(LEVELS)
    assert SCHEMA["state"].outside(["good", "worse", None]) == (2, 0)
    with pytest.raises(DataError, match="a grade has no bounds"):
        SCHEMA["state"].within("0", "1")
    rng = np.random.default_rng(0)
    X = SCHEMA.expand(table())
    for drawn in (records_of(SCHEMA, 50, rng), records_near(SCHEMA, X, 50, rng)):
        assert ((drawn >= SCHEMA.fields.box[0]) & (drawn <= SCHEMA.fields.box[1])).all()


def test_surveys_ask_for_it(tmp_path: Path) -> None:
    """A field with an order, and one with an open vocabulary, whose values the server asks for one by one."""
    people = table(20_000).assign(code=np.where(np.arange(20_000) % 4 == 0, 12_345, np.arange(20_000)))
    schema = tv.Schema({"state": SCHEMA["state"], "age": SCHEMA["age"], "code": Code()})
    veil = tv.design(people[:400], tv.SurveyTask(), epsilon=4.0, schema=schema)
    veil.save(tmp_path / "r")
    again = tv.Veil.load(tmp_path / "r")
    found = tv.estimate(again, again.privatize(people), candidates={"code": [12_345, 77]})
    assert set(found.means) == {"state", "age"}
    assert abs(found.means["age"].mean - people["age"].mean()) < 0.5
    shares = found.shares["code"]
    assert abs(shares[12_345].mean - 0.25) < 0.05 > abs(shares[77].mean)
    with pytest.raises(TaskError, match="'code' has an open vocabulary"):
        tv.design(people[:400], tv.SurveyTask(by=["code"]), epsilon=4.0, schema=schema)
