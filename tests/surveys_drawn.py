"""A survey of people whose statistics are known, and counts of their reports drawn by the thousand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.estimates.labels import Label
from taskveil.estimates.scores import Tally
from taskveil.veil.surveys import OTHER

SCHEMA = tv.Schema(
    {
        "region": tv.Category(["North", "South", "Island"]),
        "plan": tv.Category(["Basic", "Plus"], missing=True),
        "income": tv.Number(0.0, 100.0, missing=True, unit="k€"),
        "owner": tv.Flag(),
    }
)
TASK = tv.SurveyTask(by="region", pairs=[("plan", "region")], histograms={"income": [0.0, 20.0, 40.0, 60.0, 100.0]})


def people(count: int, seed: int, *, island: float = 0.1, richer: float = 0.0) -> pd.DataFrame:
    """Answers to a questionnaire: the island is rare, plans and incomes differ by region, some values are missing."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["North", "South", "Island"], count, p=[0.5, 0.5 - island, island])
    plan = np.where(rng.random(count) < np.where(region == "North", 0.6, 0.3), "Basic", "Plus").astype(object)
    plan[rng.random(count) < 0.1] = None
    income = np.minimum(rng.gamma(4.0, 8.0, count) + 8.0 * (region == "North") + richer, 100.0)
    income[rng.random(count) < 0.15] = np.nan
    return pd.DataFrame({"region": region, "plan": plan, "income": income, "owner": rng.random(count) < 0.3})


@cache
def survey(epsilon: float = 2.0) -> tv.Veil:
    """A release for these people, designed once."""
    return tv.design(people(2000, 0), TASK, epsilon=epsilon, schema=SCHEMA)


def has(table: pd.DataFrame, name: str, value: Any) -> np.ndarray:
    """(N,): who has this value; a lower edge stands for its bin."""
    column = table[name]
    if value is None:
        return column.isna().to_numpy()
    if value is OTHER:
        return (column.notna() & ~column.isin(SCHEMA[name].words)).to_numpy()
    if isinstance(value, float):
        edges = TASK.edges(name)
        place = int(np.searchsorted(edges, value))
        return ((column >= value) & (column < (edges[place + 1] if place < len(edges) - 2 else np.inf))).to_numpy()
    return (column == value).to_numpy(dtype=bool)


def truth(table: pd.DataFrame, label: Label) -> float:
    """A statistic of these people, by the label of its row."""
    kind, *key = label.key
    if kind == "means":
        return float(table[key[0]].mean())
    if kind == "shares":
        return float(has(table, *key).mean())
    if kind == "missing":
        return float(table[key[0]].isna().mean())
    if kind == "pairs":
        return float((has(table, key[0], key[2]) & has(table, key[1], key[3])).mean())
    if kind in ("histograms", "bands", "likely"):
        return float(has(table, key[0], key[1])[table[key[0]].notna()].mean())
    if kind == "below":
        return float((table[key[0]].dropna() < key[1]).mean())
    by, group, name, *value = key
    inside = table[has(table, by, group)]
    if not len(inside):
        return 0.0
    return float(has(inside, name, value[0]).mean() if value else inside[name].mean())


@dataclass(frozen=True)
class Drawn:
    """So many people stand for everybody; `chances` (outputs,) is how probable each report of one of them is."""

    veil: tv.Veil
    table: pd.DataFrame
    chances: np.ndarray

    @classmethod
    def of(cls, veil: tv.Veil, table: pd.DataFrame) -> Drawn:
        X = veil.schema.expand(table)
        parts = [veil.mechanism.chances(veil.encoder(part)).mean(axis=0) for part in np.array_split(X, 20)]
        sizes = [len(part) for part in np.array_split(X, 20)]
        return cls(veil, table, np.average(parts, axis=0, weights=sizes))

    def reports(self, count: int, rng: np.random.Generator) -> Tally:
        """What `count` people, drawn with replacement, report."""
        none = np.zeros((0, 0))
        codes = rng.multinomial(count, self.chances / self.chances.sum())
        return Tally(release=self.veil.release_id, count=count, codes=codes, total=none.ravel(), square=none)
