"""Small data sets to try taskveil with, and to test it. All people in them are simulated.

`make.py` simulates them; the licence is that of the package, Apache-2.0. A table is a pandas DataFrame if pandas is
installed, otherwise an Arrow table.

    >>> import taskveil as tv
    >>> X, y = tv.datasets.load_churn()
    >>> X.shape, set(y) == {"yes", "no"}
    ((1500, 5), True)
"""

from __future__ import annotations

import gzip
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from taskveil.errors import installed, needs

__all__ = ["Labelled", "as_csv", "load_churn", "load_power", "load_survey"]

Name = Literal["churn", "survey", "power"]
"""The data sets."""
NAMES: tuple[Name, ...] = get_args(Name)


class Labelled(NamedTuple):
    """Records and their labels: `X, y = load_churn()`.

    >>> from taskveil.datasets import load_churn
    >>> len(load_churn().y)
    1500
    """

    X: Any
    """The records: a table with one person in each row."""
    y: Any
    """The label of each record (N,)."""


def load_churn() -> Labelled:
    """1,500 customers of a company (X), and whether each renewed the contract, "yes" or "no" (y).

    Columns: `country` (text), `since` (the date of the first contract), `income` (a year's, 10% missing),
    `children` (a count) and `owner` (of the home: true or false). The label depends on all five.

    Returns:
        X: the records (1500, 5).
        y: the labels (1500,), named `renewed`: a pandas Series, or an array if pandas is not installed.

    >>> from taskveil.datasets import load_churn
    >>> X, y = load_churn()
    >>> list(X)
    ['country', 'since', 'income', 'children', 'owner']
    >>> sorted(set(y))
    ['no', 'yes']
    """
    table = _table("churn")
    y, X = table.column("renewed"), table.drop_columns(["renewed"])
    if not installed("pandas"):
        return Labelled(X, np.asarray(y.to_pylist()))
    frame = _frame(table)
    return Labelled(frame.drop(columns="renewed"), frame["renewed"])


def load_survey() -> Any:
    """3,000 people's answers to nine questions about work and travel: a table (3000, 9).

    Columns: `region`, `age`, `job` (text; a few answers are rare), `place_of_work`, `transport`, `commute_minutes`,
    `satisfaction` (0 to 10), `has_children` and `last_training` (a date). Many answers are missing; `transport` and
    `commute_minutes` are missing for all people who do not travel to work.

    >>> from taskveil.datasets import load_survey
    >>> survey = load_survey()
    >>> survey["place_of_work"].unique().tolist()
    ['away', 'home', 'none']
    """
    return _frame(_table("survey"))


def load_power() -> Any:
    """600 households' electric load in kW: a table (600, 24) with the mean of each hour of a day, `h00` to `h23`.

    >>> from taskveil.datasets import load_power
    >>> power = load_power()
    >>> power.shape, bool(power["h19"].mean() > power["h04"].mean())
    ((600, 24), True)
    """
    return _frame(_table("power"))


def as_csv(name: Name) -> bytes:
    """The CSV file of a data set, as `taskveil data NAME` writes it. The last column of `churn` is the label.

    >>> from taskveil.datasets import as_csv
    >>> as_csv("churn").splitlines()[0]
    b'country,since,income,children,owner,renewed'
    """
    return gzip.decompress(Path(__file__).with_name(f"{name}.csv.gz").read_bytes())


def _table(name: Name) -> Any:
    """The Arrow table of a data set: text, dates, flags and numbers, with nulls."""
    with needs("a data set"):
        from pyarrow import csv
    return csv.read_csv(BytesIO(as_csv(name)), convert_options=csv.ConvertOptions(strings_can_be_null=True))


def _frame(table: Any) -> Any:
    """The table as pandas has it; the same table if pandas is not installed."""
    return table.to_pandas(date_as_object=False) if installed("pandas") else table
