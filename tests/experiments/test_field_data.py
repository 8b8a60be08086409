"""The tables of the comparison: what is in them, and that nothing of the records that judge gets into the design."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conftest import needs
from taskveil.errors import DataError
from taskveil.experiments import field
from taskveil.experiments.data import local_file
from taskveil.experiments.field_data import HELD_BACK, NAMED, OTHERS, Table, load, split
from taskveil.experiments.field_models import MODELS
from taskveil.tasks import ModelTask

HAVE_TABLES = local_file("field/fair.csv") is not None
OWN = ("fair", "anes96", "star98", "seattle_weather", "cars")
FROM_FILES = ("marriages", "parties", "warmth", "origins", "tomorrow", "poverty", "stores")


@needs(HAVE_TABLES, "the field tables in TASKVEIL_DATA")
@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("fair", (6366, 8), 2),
        ("anes96", (944, 10), 2),
        ("star98", (303, 20), None),
        ("seattle_weather", (1461, 7), 5),
        ("cars", (398, 9), None),
        ("marriages", (6366, 8), 5),
        ("parties", (944, 10), 7),
        ("warmth", (1461, 11), None),
        ("origins", (398, 7), 3),
        ("tomorrow", (1416, 24), 2),
        ("poverty", (303, 20), None),
        ("stores", (414, 6), None),
    ],
)
def test_the_tables(name: str, shape: tuple[int, int], classes: int | None) -> None:
    table = load(name)
    assert table.X.shape == shape
    assert np.isnan(table.X).sum() == (6 if name in ("cars", "origins") else 0)
    assert np.isfinite(table.y).all()
    if classes is None:
        assert table.loss == "mse"
    else:
        assert np.unique(table.y).tolist() == list(range(classes))


@pytest.mark.parametrize("name", [name for name in {**NAMED, **OTHERS, **HELD_BACK} if name not in (*OWN, *FROM_FILES)])
def test_tables_that_need_no_file(name: str) -> None:
    table = load(name)
    assert len(table.X) == len(table.y)
    assert np.isfinite(table.X).all()
    assert load(name).X.tolist() == table.X.tolist()


@needs(HAVE_TABLES, "the field tables in TASKVEIL_DATA")
def test_the_target_of_a_held_back_table_is_no_attribute() -> None:
    for name in HELD_BACK:
        table = load(name)
        assert not any(np.array_equal(column, table.y) for column in table.X.T)


def test_splits_share_no_record_and_fill_gaps_from_the_design_alone() -> None:
    X = np.arange(40.0).reshape(20, 2)
    X[3, 1] = np.nan
    one, other = (split(Table(X=X, y=np.arange(20), loss="mse"), number) for number in (0, 1))
    assert len(one.X) == 12
    assert sorted([*one.y, *one.y_test]) == list(range(20))
    assert one.y.tolist() != other.y.tolist()
    filled = {int(y): x for half in ((one.X, one.y), (one.X_test, one.y_test)) for x, y in zip(*half, strict=True)}
    assert filled[3][1] == np.median([X[y, 1] for y in one.y if y != 3])
    assert all((filled[row] == X[row]).all() for row in range(20) if row != 3)


def test_a_table_that_is_missing_or_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKVEIL_DATA", str(tmp_path))
    with pytest.raises(DataError, match="statsmodels"):
        load("fair")
    (tmp_path / "field").mkdir()
    (tmp_path / "field" / "fair.csv").write_text("affairs\n1\n")
    with pytest.raises(DataError, match="not the table"):
        load("fair")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_models_are_better_than_the_constant(model: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from taskveil.experiments import field_models

    monkeypatch.setattr(field_models, "EPOCHS", 20)
    table = load("diabetes" if loss == "mse" else "iris")
    records = split(table, 0)
    task = ModelTask(MODELS[model](records.X, records.y, table.loss, 0), table.loss)
    clear = task.losses(records.X_test, records.X_test, records.y_test).mean()
    assert clear < 0.9 * task.constant_loss(records.X, records.y, records.X_test, records.y_test)


def test_every_pair_has_its_table_and_its_model() -> None:
    assert {data for data, _ in field.NAMED} == set(NAMED)
    assert {data for data, _ in field.OTHERS} == set(OTHERS)
    assert {data for data, _ in field.HELD_BACK} == set(HELD_BACK)
    assert {model for _, model in (*field.NAMED, *field.OTHERS)} == set(MODELS)
    assert {model for _, model in field.HELD_BACK} <= set(MODELS)
    assert not set(HELD_BACK) & {*NAMED, *OTHERS}
    assert len(field.NAMED) >= 12
