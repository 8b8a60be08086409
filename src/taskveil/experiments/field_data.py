"""The tables of the comparison in the field: other people's data with real labels.

`NAMED` holds the tables that goals were set for, `OTHERS` further ones; none of these is the paper's. `HELD_BACK` holds
what is measured once, at the end: other targets of tables at hand, two of the paper's among them, and other generators.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from taskveil.arrays import Floats
from taskveil.errors import DataError
from taskveil.experiments.data import household, local_file, real_estate
from taskveil.tasks import LossName

DESIGN_SHARE = 0.6
"""Of the records, for the model and the design; the others judge."""

_DIGESTS = {
    "anes96": "da0c87aeb5e4d95f0ac37a911db09f236ebc120c78c72ff9b2a4015bc21a350d",
    "cars": "6e8fda3e192d72430419fb1536d6fb4107df5b91b6b6b47abda710eacb7075ee",
    "fair": "676760f996c29de72f72b023086f4888f5edc9c939153ca3823a789a9b5e4903",
    "seattle_weather": "5c822be5f9b70c9180dff922d1b43bcfaff89b48250215bef9a4d9465f356a89",
    "star98": "27da26dbbfe1c891d50eaff97c94fea873ab48ad7da1bdd07e2f1a22e20b84ef",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Records X (N, n), where NaN is a missing value, and their labels y (N,): class numbers for cross_entropy."""

    X: Floats
    y: NDArray[Any]
    loss: LossName


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Records and labels for model and design, and those that judge; nothing is missing."""

    X: Floats
    y: NDArray[Any]
    X_test: Floats
    y_test: NDArray[Any]


def split(table: Table, number: int) -> Split:
    """The random split of that number. Missing values become the median of the design records."""
    order = np.random.default_rng(number).permutation(len(table.X))
    design, test = np.split(order, [round(DESIGN_SHARE * len(order))])
    filled = np.where(np.isnan(table.X), np.nanmedian(table.X[design], axis=0), table.X)
    return Split(X=filled[design], y=table.y[design], X_test=filled[test], y_test=table.y[test])


def _fair() -> Table:
    """6,366 people's marriages; whether there were affairs."""
    X, y = _columns(_rows("fair"), "affairs")
    return Table(X=X, y=(y > 0).astype(np.int64), loss="cross_entropy")


def _anes96() -> Table:
    """944 American voters; for whom they voted."""
    X, y = _columns(_rows("anes96"), "vote")
    return Table(X=X, y=y.astype(np.int64), loss="cross_entropy")


def _star98() -> Table:
    """303 school districts; the share of pupils above the national median in mathematics."""
    X, above = _columns(_rows("star98"), "NABOVE")
    return Table(X=X[:, 1:], y=above / (above + X[:, 0]), loss="mse")


def _seattle_weather() -> Table:
    """1,461 days; drizzle, fog, rain, snow or sun, by measurements and the time of year."""
    rows = _rows("seattle_weather")
    days = [date.fromisoformat(row["date"]) for row in rows]
    angle = np.array([2 * np.pi * day.timetuple().tm_yday / 365.25 for day in days])
    measured = [[float(row[name]) for name in ("precipitation", "temp_max", "temp_min", "wind")] for row in rows]
    _, y = np.unique([row["weather"] for row in rows], return_inverse=True)
    X = np.column_stack([measured, np.sin(angle), np.cos(angle), [day.year for day in days]])
    return Table(X=X, y=y.astype(np.int64), loss="cross_entropy")


def _cars() -> Table:
    """398 cars of which it is known how many miles they go on a gallon; six horsepowers are missing."""
    rows = [row for row in _rows("cars") if row["Miles_per_Gallon"]]
    numbers = ("Cylinders", "Displacement", "Horsepower", "Weight_in_lbs", "Acceleration")
    measured = [[float(row[name] or "nan") for name in numbers] for row in rows]
    years = [int(row["Year"][:4]) for row in rows]
    origins = sorted({row["Origin"] for row in rows})
    one_hot = [[float(row["Origin"] == origin) for origin in origins] for row in rows]
    y = np.array([float(row["Miles_per_Gallon"]) for row in rows])
    return Table(X=np.column_stack([measured, years, one_hot]), y=y, loss="mse")


def _classes(load: Callable[..., Any]) -> Callable[[], Table]:
    """One of scikit-learn's own tables, with classes."""

    def table() -> Table:
        X, y = load(return_X_y=True)
        return Table(X=np.asarray(X, dtype=np.float64), y=y.astype(np.int64), loss="cross_entropy")

    return table


def _diabetes() -> Table:
    """442 patients; how their illness went on within a year."""
    X, y = datasets.load_diabetes(return_X_y=True)
    return Table(X=X, y=y.astype(np.float64), loss="mse")


def _clusters() -> Table:
    """250 records of three overlapping classes, nine of fifteen attributes say nothing, some labels are wrong."""
    X, y = datasets.make_classification(
        250, 15, n_informative=4, n_redundant=2, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=11
    )
    return Table(X=X, y=y.astype(np.int64), loss="cross_entropy")


def _friedman() -> Table:
    """500 records of Friedman's first function: 5 of 20 attributes matter, not linearly."""
    X, y = datasets.make_friedman1(500, 20, noise=1.0, random_state=12)
    return Table(X=X, y=y, loss="mse")


def _friedman_ranges() -> Table:
    """250 records of Friedman's third function: ranges differ a thousandfold."""
    X, y = datasets.make_friedman3(250, noise=0.1, random_state=13)
    return Table(X=X, y=y, loss="mse")


def _incomes() -> Table:
    """400 records with log-normal attributes; a class of a third of them, by a ratio of two."""
    rng = np.random.default_rng(14)
    X = np.exp(rng.normal(size=(400, 6)) * 1.2)
    score = np.log(X[:, 0] / X[:, 1]) + 0.5 * np.log(X[:, 2]) + rng.normal(size=400)
    return Table(X=X, y=(score > np.quantile(score, 2 / 3)).astype(np.int64), loss="cross_entropy")


def _marriages() -> Table:
    """6,366 people's marriages; how they rate them, from 1 to 5."""
    X, y = _columns(_rows("fair"), "rate_marriage")
    return Table(X=X, y=y.astype(np.int64) - 1, loss="cross_entropy")


def _parties() -> Table:
    """944 American voters; which party they feel close to, in seven degrees."""
    X, y = _columns(_rows("anes96"), "PID")
    return Table(X=X, y=y.astype(np.int64), loss="cross_entropy")


def _warmth() -> Table:
    """1,461 days; the highest temperature, by the other measurements, the weather and the time of year."""
    table = _seattle_weather()
    weather = np.eye(int(table.y.max()) + 1)[table.y]
    return Table(X=np.column_stack([np.delete(table.X, 1, axis=1), weather]), y=table.X[:, 1], loss="mse")


def _origins() -> Table:
    """398 cars; made in Europe, Japan or the USA."""
    table = _cars()
    X = np.column_stack([table.X[:, :-3], table.y])
    return Table(X=X, y=table.X[:, -3:].argmax(axis=1).astype(np.int64), loss="cross_entropy")


def _tomorrow() -> Table:
    """1,416 days of a household, 24 hours each; whether the next day takes more power than the median day."""
    days = household()
    total = days.sum(axis=1)
    return Table(X=days[:-1], y=(total[1:] > np.median(total)).astype(np.int64), loss="cross_entropy")


def _poverty() -> Table:
    """303 school districts; the share of pupils from poor families."""
    X, y = _columns(_rows("star98"), "LOWINC")
    above, below = X[:, 0], X[:, 1]
    return Table(X=np.column_stack([above / (above + below), X[:, 2:]]), y=y, loss="mse")


def _stores() -> Table:
    """414 houses; how many shops are near, by the other attributes and the price, all between 0 and 1."""
    X, price = real_estate()
    return Table(X=np.column_stack([np.delete(X, 3, axis=1), price]), y=X[:, 3], loss="mse")


def _hastie() -> Table:
    """600 records of ten normal attributes; whether the sum of their squares is above its median."""
    X, y = datasets.make_hastie_10_2(600, random_state=21)
    return Table(X=X, y=(y > 0).astype(np.int64), loss="cross_entropy")


def _shells() -> Table:
    """500 records in three shells of one normal cloud."""
    X, y = datasets.make_gaussian_quantiles(n_samples=500, n_features=5, n_classes=3, random_state=22)
    return Table(X=X, y=y.astype(np.int64), loss="cross_entropy")


def _friedman_second() -> Table:
    """300 records of Friedman's second function, a third of whose variance is noise."""
    X, y = datasets.make_friedman2(300, noise=250.0, random_state=23)
    return Table(X=X, y=y, loss="mse")


def _moons() -> Table:
    """300 records of two overlapping half-moons; six further attributes say nothing."""
    X, y = datasets.make_moons(300, noise=0.35, random_state=24)
    noise = np.random.default_rng(24).normal(size=(len(X), 6))
    return Table(X=np.column_stack([X, noise]), y=y.astype(np.int64), loss="cross_entropy")


def _sparse() -> Table:
    """250 records; four of twelve attributes matter, linearly."""
    X, y = datasets.make_sparse_uncorrelated(250, 12, random_state=25)
    return Table(X=X, y=y, loss="mse")


NAMED: Mapping[str, Callable[[], Table]] = MappingProxyType(
    {
        "fair": _fair,
        "anes96": _anes96,
        "star98": _star98,
        "seattle_weather": _seattle_weather,
        "cars": _cars,
        "iris": _classes(datasets.load_iris),
        "diabetes": _diabetes,
        "breast_cancer": _classes(datasets.load_breast_cancer),
    }
)
OTHERS: Mapping[str, Callable[[], Table]] = MappingProxyType(
    {
        "wine": _classes(datasets.load_wine),
        "digits": _classes(datasets.load_digits),
        "clusters": _clusters,
        "friedman": _friedman,
        "friedman_ranges": _friedman_ranges,
        "incomes": _incomes,
    }
)
HELD_BACK: Mapping[str, Callable[[], Table]] = MappingProxyType(
    {
        "marriages": _marriages,
        "parties": _parties,
        "warmth": _warmth,
        "origins": _origins,
        "tomorrow": _tomorrow,
        "poverty": _poverty,
        "stores": _stores,
        "hastie": _hastie,
        "shells": _shells,
        "friedman_second": _friedman_second,
        "moons": _moons,
        "sparse": _sparse,
    }
)


def load(name: str) -> Table:
    """The table of that name."""
    return {**NAMED, **OTHERS, **HELD_BACK}[name]()


def _rows(name: str) -> list[dict[str, str]]:
    """A table of `TASKVEIL_DATA`/field as text, its digest checked."""
    path = local_file(f"field/{name}.csv")
    if path is None:
        raise DataError(
            f"field/{name}.csv is not in the folder TASKVEIL_DATA. It is a table of statsmodels (fair, anes96, star98) "
            "or vega_datasets (seattle_weather, cars), saved as a CSV file."
        )
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != _DIGESTS[name]:
        raise DataError(f"{path} is not the table that the comparison was made with (digest {found[:12]}…).")
    return list(csv.DictReader(content.decode("utf-8").splitlines()))


def _columns(rows: list[dict[str, str]], label: str) -> tuple[Floats, Floats]:
    """All columns but the label (N, n) as numbers, and the label (N,)."""
    names = [name for name in rows[0] if name != label]
    return np.array([[float(row[name]) for name in names] for row in rows]), np.array([float(r[label]) for r in rows])
