"""The shipped data sets are what the script simulates, load with pandas and without, and have the signal they name."""

from __future__ import annotations

import doctest
import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import taskveil as tv
from taskveil import datasets
from taskveil.datasets import make

FOLDER = Path(datasets.__file__).parent


@pytest.mark.parametrize("name", datasets.NAMES)
def test_the_script_simulates_the_shipped_file(name: datasets.Name) -> None:
    assert make.csv_of(name) == datasets.as_csv(name)


def test_the_script_writes_what_the_loaders_read(tmp_path: Path) -> None:
    assert tuple(make.TABLES) == datasets.NAMES
    make.write(tmp_path)
    shipped = {file.name: gzip.decompress(file.read_bytes()) for file in FOLDER.glob("*.gz")}
    assert {file.name: gzip.decompress(file.read_bytes()) for file in tmp_path.iterdir()} == shipped
    assert sum(file.stat().st_size for file in FOLDER.glob("*.gz")) < 100_000


def test_churn() -> None:
    X, y = tv.datasets.load_churn()
    assert X.dtypes.astype(str).str.rstrip("[nsmu]").to_dict() == {
        "country": X["country"].dtype.name,
        "since": "datetime64",
        "income": "float64",
        "children": "int64",
        "owner": "bool",
    }
    assert pd.api.types.is_string_dtype(X["country"])
    assert 0.05 < X["income"].isna().mean() < 0.15
    assert (X.drop(columns="income").isna().sum() == 0).all()
    assert y.name == "renewed"
    columns = make_column_transformer((OneHotEncoder(), ["country"]), ("drop", ["since"]), remainder="passthrough")
    forest = make_pipeline(columns, RandomForestClassifier(min_samples_leaf=20, random_state=0))
    always = (y == "yes").mean()
    assert 0.4 < always < 0.6
    assert cross_val_score(forest, X, y).mean() > always + 0.15


@pytest.mark.parametrize("column", ["country", "since", "income", "children", "owner"])
def test_every_column_of_churn_says_something_about_the_label(column: str) -> None:
    """A column without signal would make README's example look worse or better than it is."""
    X, y = tv.datasets.load_churn()
    renewed = y == "yes"
    values = X[column]
    if column == "country":
        groups = renewed.groupby(values == "France").mean()
    else:
        groups = renewed.groupby(pd.qcut(values, [0, 0.5, 1], labels=False) if column != "owner" else values).mean()
    # 3.5 standard errors of a difference of two halves: five columns without signal would pass once in 400 times.
    assert abs(groups.iloc[0] - groups.iloc[1]) > 3.5 / np.sqrt(len(X))


def test_survey_has_text_categories_dates_and_missing_values() -> None:
    survey = tv.datasets.load_survey()
    assert survey.shape == (3000, 9)
    assert str(survey["last_training"].dtype).startswith("datetime64")
    assert survey[["region", "place_of_work"]].notna().all(axis=None)
    assert survey.drop(columns=["region", "place_of_work"]).isna().any().all()
    at_work = survey["place_of_work"] == "away"
    assert survey.loc[~at_work, ["transport", "commute_minutes"]].isna().all(axis=None)
    rare = survey["job"].value_counts()
    assert set(rare[rare < 5].index) == set(make.RARE_JOBS)
    schema = tv.Schema.of(survey)
    assert [type(schema[name]).__name__ for name in schema] == [
        *("Category", "Number", "Category", "Category", "Category", "Number", "Number", "Flag", "Date"),
    ]
    assert not set(make.RARE_JOBS) & set(schema["job"].values)  # type: ignore[union-attr]


def test_power_has_a_number_for_every_hour() -> None:
    power = tv.datasets.load_power()
    assert list(power) == [f"h{hour:02}" for hour in range(24)]
    assert power.shape == (600, 24)
    assert (power.dtypes == np.float64).all()
    assert power.min(axis=None) > 0
    assert tv.design(power, tv.LinearTask(np.eye(24)), epsilon=2.0, method="codebook").columns == tuple(power)


def test_tables_are_arrow_tables_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    with_pandas = tv.datasets.load_churn()
    monkeypatch.setitem(sys.modules, "pandas", None)
    X, y = tv.datasets.load_churn()
    assert isinstance(X, pa.Table)
    assert X.column_names == list(with_pandas.X)
    assert y.tolist() == with_pandas.y.tolist()
    assert isinstance(tv.datasets.load_survey(), pa.Table)
    power = tv.datasets.load_power()
    assert power.shape == (600, 24)
    assert tv.design(power, tv.LinearTask(np.eye(24)), epsilon=2.0, method="codebook").columns[0] == "h00"


def test_without_arrow_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(tv.TaskveilError, match=r"a data set needs pyarrow: pip install 'taskveil\[design\]'"):
        tv.datasets.load_power()


def test_the_examples_of_the_docstrings_run() -> None:
    found = doctest.testmod(datasets)
    assert found.attempted > 10
    assert found.failed == 0
