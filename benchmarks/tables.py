"""Mixed tables straight from their CSV files against the same designs on numbers that were encoded by hand.

`cars` (text origin, dates, missing horsepower; a pipeline of ColumnTransformer and forest predicts miles per gallon)
and `seattle_weather` (a date; a pipeline predicts the weather), each on the same splits, methods, budgets and seed:

    TASKVEIL_DATA=folder python benchmarks/tables.py [SPLITS]

By hand, a category becomes ones and zeros, a missing number the median with a flag beside it, and a date its year and
the sine and cosine of its place in the year.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import taskveil as tv

EPSILONS = (2.0, 4.0)
TREES = 200


def of_the_year(dates: pd.DataFrame) -> NDArray[np.float64]:
    """Year, and cosine and sine of the place in it, of dates in one column."""
    stamps = pd.to_datetime(dates.iloc[:, 0])
    angle = 2 * np.pi * stamps.dt.day_of_year / 366
    return np.column_stack([stamps.dt.year, np.cos(angle), np.sin(angle)])


def cars(folder: Path) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame, Pipeline]:
    """Table, labels, the same by hand, and a pipeline for the table."""
    table = pd.read_csv(folder / "field" / "cars.csv").dropna(subset=["Miles_per_Gallon"]).drop(columns="Name")
    y = table.pop("Miles_per_Gallon")
    numbers = ["Cylinders", "Displacement", "Horsepower", "Weight_in_lbs", "Acceleration"]
    by_hand = table[numbers].assign(Year=of_the_year(table[["Year"]])[:, 0], lost=table["Horsepower"].isna())
    by_hand = by_hand.join(pd.get_dummies(table["Origin"])).fillna(table["Horsepower"].median()).astype(float)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["Origin"]),
        (FunctionTransformer(of_the_year), ["Year"]),
        (SimpleImputer(strategy="median"), numbers),
    )
    return table, y, by_hand, make_pipeline(columns, RandomForestRegressor(TREES, random_state=0))


def weather(folder: Path) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame, Pipeline]:
    """Table, labels, the same by hand, and a pipeline for the table."""
    table = pd.read_csv(folder / "field" / "seattle_weather.csv")
    y = table.pop("weather")
    dates = pd.DataFrame(of_the_year(table[["date"]]), columns=["year", "cos", "sin"])
    by_hand = dates.join(table.drop(columns="date")).astype(float)
    columns = make_column_transformer((FunctionTransformer(of_the_year), ["date"]), remainder="passthrough")
    forest = RandomForestClassifier(TREES, min_samples_leaf=5, random_state=0)
    return table, y, by_hand, make_pipeline(columns, forest)


def losses(records: pd.DataFrame, y: pd.Series, model: BaseEstimator, train: NDArray[np.intp]) -> NDArray[np.float64]:
    """The expected test loss at every budget, of the design that the method chooses by itself."""
    held = np.setdiff1d(np.arange(len(y)), train)
    fitted = model.fit(records.iloc[train], y.iloc[train])
    task = tv.ModelTask(fitted, loss="mse" if y.dtype.kind == "f" else "cross_entropy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frontier = tv.sweep(
            records.iloc[train],
            task,
            y=y.iloc[train],
            test=(records.iloc[held], y.iloc[held]),
            epsilons=EPSILONS,
            methods=["codebook"],
            seeds=1,
        )
    return np.array([point.loss for point in frontier.points])


def main(splits: int) -> None:
    """Print both losses and their ratio, and the ratio of the means over all splits."""
    folder = Path(os.environ["TASKVEIL_DATA"])
    for name, read in (("cars", cars), ("seattle_weather", weather)):
        table, y, by_hand, model = read(folder)
        forest = model.steps[-1][1]
        found = []
        for split in range(splits):
            train = np.random.default_rng(split).permutation(len(y))[: int(0.7 * len(y))]
            found.append([losses(table, y, model, train), losses(by_hand, y, forest, train)])
            show(f"{name}, split {split}", *found[-1])
        show(f"{name}, mean", *np.mean(found, axis=0))


def show(what: str, straight: NDArray[np.float64], by_hand: NDArray[np.float64]) -> None:
    """One line for every budget."""
    for epsilon, one, other in zip(EPSILONS, straight, by_hand, strict=True):
        print(
            f"{what:24} ε = {epsilon:g}: from the CSV {one:.4f}, by hand {other:.4f}: {one / other - 1:+.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
