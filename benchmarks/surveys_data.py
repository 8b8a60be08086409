"""Questionnaires and tables for `surveys.py`: people who exist, and people made here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.experiments.data import household
from taskveil.experiments.field_data import load

MADE = 20_000


def _fair() -> pd.DataFrame:
    """6,366 answers to a magazine's questionnaire (statsmodels): marriages, religion, children, occupation."""
    X = load("fair").X
    names = ["rating", "age", "years", "children", "religious", "education", "occupation", "occupation of husband"]
    table = pd.DataFrame(X[:, :8], columns=names)
    for name in ("rating", "religious", "occupation", "occupation of husband"):
        table[name] = table[name].astype(int).map(lambda value: f"n{value}")
    return table


def _made() -> pd.DataFrame:
    """People made here: incomes that depend on plan and region, a flag, visits, and a seventh without an age."""
    rng = np.random.default_rng(31)
    region = rng.choice(["North", "South", "East", "West"], MADE, p=[0.4, 0.3, 0.2, 0.1])
    plan = rng.choice(["Basic", "Plus", "Pro"], MADE, p=[0.6, 0.3, 0.1])
    income = np.clip(rng.lognormal(3.2 + 0.3 * (plan == "Pro") + 0.1 * (region == "North"), 0.5), 0, 150)
    age = np.where(rng.random(MADE) < 1 / 7, np.nan, rng.integers(18, 90, MADE))
    active = rng.random(MADE) < 0.3
    return pd.DataFrame({"region": region, "plan": plan, "income": income, "age": age, "active": active})


@dataclass(frozen=True)
class Questionnaire:
    """A table, what is asked about it, and its schema."""

    name: str
    make: Any
    task: tv.SurveyTask

    @cached_property
    def table(self) -> pd.DataFrame:
        """The records."""
        found: pd.DataFrame = self.make()
        return found

    @cached_property
    def schema(self) -> tv.Schema:
        """Inferred, with bounds."""
        return tv.Schema.of(self.table)


QUESTIONNAIRES = (
    Questionnaire("made", _made, tv.SurveyTask(by="region", pairs=[("plan", "region")])),
    Questionnaire("made, no groups", _made, tv.SurveyTask()),
    Questionnaire("fair", _fair, tv.SurveyTask(pairs=[("religious", "rating")])),
    Questionnaire("fair, by religion", _fair, tv.SurveyTask(["rating", "age", "years", "children"], by="religious")),
)


def halving_weights(count: int) -> Floats:
    """1, 1/2, 1/4, … over their sum."""
    each = 0.5 ** np.arange(count)
    return np.asarray(each / each.sum())


def mean_tables(quick: bool) -> Iterator[tuple[str, Floats]]:
    """Tables of numbers, those columns that vary."""
    named = {"fair": lambda: load("fair").X}
    if not quick:
        named |= {
            "household": household,
            "breast cancer": lambda: load("breast_cancer").X,
            "star98": lambda: load("star98").X,
        }
    for name, read in named.items():
        X = np.asarray(read())
        yield name, X[:, np.ptp(X, axis=0) > 0]
