"""Tables and matrices come in the types that a file's inputs want, or are refused without quoting their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import taskveil as tv
from taskveil.errors import TaskError
from taskveil.tasks.costs import CrossEntropy, SquaredError
from taskveil.tasks.models.onnx_session import SessionModel, read_session

RNG = np.random.default_rng(11)
X = RNG.normal(size=(240, 4)).astype(np.float32).astype(np.float64)

TABLE = pd.DataFrame(
    {
        "power": 100.0 + 20.0 * X[:, 0],
        "year": RNG.integers(60, 90, size=len(X)),
        "weight": X[:, 1].astype(np.float32),
        "sporty": X[:, 2] > 0.5,
        "origin": RNG.choice(["Europe", "Japan", "USA"], size=len(X)),
    }
)
THIRST = np.where(TABLE["power"] + TABLE["year"] + 30 * (TABLE["origin"] == "USA") > 190, "much", "little")


def table_model(path: Path, columns: list[str]) -> tuple[Path, Any]:
    texts = [name for name in columns if name == "origin"]
    encoded = make_column_transformer(
        (StandardScaler(), ["power", "weight"]),
        (OneHotEncoder(), texts),
        (OneHotEncoder(handle_unknown="ignore"), ["year"]),
    )
    model = make_pipeline(encoded, RandomForestClassifier(10, random_state=0)).fit(TABLE[columns], THIRST)
    path.write_bytes(to_onnx(model, TABLE[columns][:1]).SerializeToString())
    return path, model


def natural(table: pd.DataFrame) -> dict[str, np.ndarray]:
    return {name: table[name].to_numpy(dtype=object if name == "origin" else None) for name in table}


def test_numbers_by_name_are_columns_in_the_order_of_the_file(tmp_path: Path) -> None:
    names = ["weight", "year", "power", "sporty"]
    path, model = table_model(tmp_path / "m.onnx", names)
    task = tv.ModelTask(path, loss="cross_entropy")
    assert task.frozen.columns == tuple(names)
    assert task.width == 4
    assert task.answers(TABLE[names].astype(float)) == pytest.approx(model.predict_proba(TABLE[names]), abs=1e-5)
    off = TABLE[names].astype(float)
    off["year"] += 0.4  # estimates of whole numbers are none
    assert task.answers(off) == pytest.approx(model.predict_proba(TABLE[names]), abs=1e-5)
    with pytest.raises(TaskError, match="in this order"):
        task.check_columns(("year", "weight", "power", "sporty"))


def test_tables_with_text_are_asked_by_column(tmp_path: Path) -> None:
    path, model = table_model(tmp_path / "m.onnx", list(TABLE))
    session = read_session(path, CrossEntropy())
    assert session.by_name
    assert session.inputs == tuple(TABLE)
    assert session.classes is not None
    assert session.classes.tolist() == ["little", "much"]
    backwards = dict(reversed(natural(TABLE).items())) | {"more": np.zeros(len(X))}
    assert np.exp(session.ask(backwards)) == pytest.approx(model.predict_proba(TABLE), abs=1e-5)
    flags = natural(TABLE) | {"sporty": TABLE["sporty"].to_numpy(dtype=object)}
    assert session.ask(flags) == pytest.approx(session.ask(natural(TABLE)))
    task = tv.ModelTask(path, loss="cross_entropy")
    with pytest.raises(TaskError, match="takes text in origin: design it with a table"):
        task.check_width(len(TABLE.columns))
    schema = tv.Schema.of(TABLE)
    bound = task.on(schema)
    assert bound.answers(schema.expand(TABLE)) == pytest.approx(model.predict_proba(TABLE), abs=1e-5)
    assert task.on(tv.Schema.of(TABLE[TABLE.columns[::-1]])).outputs == 2  # by name, whatever their order


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("power", ["fast"], "power takes numbers"),
        ("power", np.array(["2021-03-04"], dtype="datetime64[D]"), "power takes numbers"),
        ("year", [np.nan], "whole numbers, which cannot be missing"),
        ("origin", [3.0], "origin takes text"),
    ],
)
def test_columns_of_another_kind_are_named_without_their_values(
    name: str, values: Any, says: str, tmp_path: Path
) -> None:
    session = read_session(table_model(tmp_path / "m.onnx", list(TABLE))[0], CrossEntropy())
    with pytest.raises(ValueError, match=says) as said:
        session.ask(natural(TABLE[:1]) | {name: np.asarray(values)})
    assert "fast" not in str(said.value)
    with pytest.raises(TaskError, match=f"{name} are not there"):
        session.ask(natural(TABLE[:1].drop(columns=name)))


def echo(path: Path, kind: int) -> SessionModel:
    """Two columns in; whether the second is "a", "2021-03-04", "" or "True", or else its number, out."""
    pair = [
        helper.make_tensor_value_info("n", TensorProto.FLOAT, ["N", 1]),
        helper.make_tensor_value_info("v", kind, ["N", 1]),
    ]
    texts = {
        "keys_strings": ["a", "2021-03-04", "", "True"],
        "values_floats": [1.0, 2.0, 3.0, 4.0],
        "default_float": -1.0,
    }
    read = (
        helper.make_node("LabelEncoder", ["v"], ["w"], domain="ai.onnx.ml", **texts)
        if kind == TensorProto.STRING
        else helper.make_node("Cast", ["v"], ["w"], to=TensorProto.FLOAT)
    )
    graph = helper.make_graph(
        [read, helper.make_node("Add", ["n", "w"], ["y"])], "g", pair,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return read_session(path, SquaredError())


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (TensorProto.STRING, np.array(["a", None, "else", True], dtype=object), [1, 3, -1, 4]),
        (TensorProto.STRING, np.array(["2021-03-04", "NaT"], dtype="datetime64[D]"), [2, 3]),
        (TensorProto.STRING, np.array([True, False]), [4, -1]),
        (TensorProto.STRING, np.array(["a", "b"]), [1, -1]),
        (TensorProto.FLOAT, np.array([True, None, 3], dtype=object), [1, np.nan, 3]),
        (TensorProto.FLOAT, np.array([1e300, -np.inf]), [np.inf, -np.inf]),
        (TensorProto.DOUBLE, np.array([3, 4], dtype=np.int8), [3, 4]),
        (TensorProto.INT64, np.array([2.6, -0.4, 1e300]), [3, 0, 2.0**63]),
        (TensorProto.INT32, np.array([-2.6, 1e300]), [-3, 2.0**31]),
        (TensorProto.BOOL, np.array([0.2, 0.9]), [0, 1]),
    ],
)
def test_values_come_in_the_type_that_an_input_wants(
    kind: int, values: np.ndarray, expected: list, tmp_path: Path
) -> None:
    session = echo(tmp_path / "m.onnx", kind)
    answer = session.ask({"n": np.zeros(len(values)), "v": values})
    assert answer[:, 0] == pytest.approx(np.array(expected, dtype=float), rel=1e-6, nan_ok=True)
