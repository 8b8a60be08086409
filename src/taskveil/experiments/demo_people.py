"""The people of the demo: what they answer, what the collector wants to know of them, and the releases they get.

Everybody in it is made up. Records are as people have them: numbers, a count, a category, a yes or no and a date, some
of which may be missing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from taskveil.arrays import Floats
from taskveil.client.fields import Category, Count, Date, Flag, Number
from taskveil.client.panels import Panel, dated
from taskveil.designs.designing import Method, design
from taskveil.progress import Progress
from taskveil.records.schema import Schema
from taskveil.sweeps.sweep import sweep
from taskveil.tasks import LinearTask, MeanTask
from taskveil.veil import Veil

SPORTS = ("none", "walking", "cycling", "running")
SCHEMA = Schema({
    "age": Number(18, 90, "years"),
    "resting pulse": Number(45, 110, "per minute", missing=True),
    "sleep": Number(4, 11, "hours"),
    "household": Count(1, 8, "people"),
    "sport": Category(SPORTS, missing=True),
    "smokes": Flag(missing=True),
    "last check-up": Date("2016-01-01", "2026-12-31", missing=True, cycles=()),
})  # fmt: skip
MISSING = {"resting pulse": 0.25, "sport": 0.05, "smokes": 0.1, "last check-up": 0.1}
"""The share of people who leave it empty."""
OTHERS: dict[str, dict[str, Any]] = {
    "young": {
        **{"age": 22, "resting pulse": 56, "sleep": 8.0, "household": 3, "sport": "running"},
        **{"smokes": False, "last check-up": "2019-05-02"},
    },
    "old": {
        **{"age": 80, "resting pulse": 84, "sleep": 6.0, "household": 1, "sport": "none"},
        **{"smokes": True, "last check-up": "2026-09-30"},
    },
    "silent": dict.fromkeys(SCHEMA.names),
}
"""Whom the page compares its visitor with."""
MEANS = ("age", "resting pulse", "sport")
"""What the second release measures the means and shares of. Of more attributes, each would be asked less often."""
EPSILON = 2.0
"""Of one report of either release."""
PANEL = Panel(reports=3, rounds=tuple(dated("2026-11-16", 7, 12)), days=7)
"""The weeks of the release for single answers, of which each person reports in some."""
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
METHODS: tuple[Method, ...] = ("codebook", "task_agnostic")
VOLUNTEERS = 2000
SWEPT = 600
"""Volunteers whose loss at other budgets is measured: a curve to look at, in seconds."""


def people(count: int, *, seed: int = 0, drift: float = 0.0) -> list[dict[str, Any]]:
    """Records of so many people. With one seed they are the same people, `drift` standard deviations less fit."""
    rng = np.random.default_rng(seed)
    age, fitness = rng.uniform(20, 85, count), rng.normal(size=count) - drift
    lively = fitness - 0.025 * (age - 50) + 0.5 * rng.normal(size=count)
    days = rng.exponential(np.where(age > 60, 250, 900))
    columns = {
        "age": age.round(),
        "resting pulse": np.clip(70 - 7 * fitness + 5 * rng.normal(size=count), 45, 110).round(),
        "sleep": np.clip(7.6 - 0.012 * age + 0.9 * rng.normal(size=count), 4, 11).round(1),
        "household": np.clip(rng.poisson(np.where(age < 55, 2.2, 0.7)) + 1, 1, 8),
        "sport": np.array(SPORTS)[np.digitize(lively, [-0.9, 0.3, 1.2])],
        "smokes": rng.random(count) < 1 / (1 + np.exp(1.0 + fitness)),
        "last check-up": np.datetime64("2026-11-01") - np.ceil(days).astype("timedelta64[D]"),
    }
    empty = {name: rng.random(count) < share for name, share in MISSING.items()}
    answers = {
        name: [None if gone else value for value, gone in zip(column.tolist(), empty[name], strict=True)]
        if name in empty
        else column.tolist()
        for name, column in columns.items()
    }
    return [dict(zip(answers, row, strict=True)) for row in zip(*answers.values(), strict=True)]


def later(count: int, *, seed: int = 0) -> dict[int, dict[str, Any]]:
    """The records of those of `people` who answer a second time, by their place: the young do so more often, and
    everybody is less fit than before. A page that compares rounds has something to show."""
    rng = np.random.default_rng([seed, 2])
    records = people(count, seed=seed, drift=0.3)
    answers = rng.random(count) < 1 / (1 + np.exp((np.array([one["age"] for one in records]) - 60) / 8))
    return {place: records[place] for place in np.flatnonzero(answers).tolist()}


def table(records: list[dict[str, Any]]) -> Any:
    """Records as an Arrow table."""
    return pa.Table.from_pylist(records)


def weights(X: Floats) -> Floats:
    """(width,): of the numbers (N, width) that records become. Every field counts once, however many they are."""
    widths = [place.stop - place.start for place in SCHEMA.fields.places]
    scale: Floats = 1 / (X.std(axis=0) * np.sqrt(np.repeat(widths, widths)))
    return scale


def write_release(folder: Path, *, progress: bool | Progress | None = False) -> Veil:
    """Design the demo's release into a folder, with the curve of loss against budget beside it (frontier.json)."""
    volunteers = table(people(VOLUNTEERS))
    task = LinearTask(np.diag(weights(SCHEMA.expand(volunteers))))
    with Progress.of(progress) as bar:
        bar.begin("designing", 2.0)
        with bar.part("the release", 1.0) as part:
            veil = design(volunteers, task, epsilon=EPSILON, method="codebook", schema=SCHEMA, progress=part)
        veil = replace(veil, panel=PANEL)
        veil.save(folder)
        with bar.part("every budget", 1.0) as part:
            curve = sweep(volunteers[:SWEPT], task, epsilons=EPSILONS, methods=METHODS, schema=SCHEMA, progress=part)
    curve.to_json(folder / "frontier.json", losses=False)
    return veil


def write_means(folder: Path) -> Veil:
    """Design a release that measures the means and shares of `MEANS` into a folder."""
    volunteers = table(people(VOLUNTEERS))
    widths = [place.stop - place.start for place in SCHEMA.fields.places]
    asked = weights(SCHEMA.expand(volunteers)) * np.repeat([name in MEANS for name in SCHEMA.names], widths)
    task = MeanTask(np.diag(asked))
    veil = design(volunteers, task, epsilon=EPSILON, method="means", schema=SCHEMA, progress=False)
    veil.save(folder)
    return veil


def shown(veil: Veil) -> dict[str, Any]:
    """What the demo page shows beside a visitor's own record: other people, and the server's guess for every report."""
    size = int(veil.mechanism.layout.high[0]) + 1
    decoded = veil.decode(np.arange(size)[:, None], probabilities=True)
    return {"others": OTHERS, "guesses": [_guess(row) for row in decoded.to_pylist()]}


def _guess(row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Natural values, and how probable those of categories, flags and nothing at all are."""
    guess: dict[str, dict[str, Any]] = {}
    for name in SCHEMA:
        value, chance = row[name], round(row[f"{name} probability"], 2)
        if value is None or SCHEMA[name].reads_as[0] == "share":
            guess[name] = {"value": value, "chance": chance}
        else:
            guess[name] = {"value": value.strftime("%Y-%m-%d") if isinstance(value, date) else round(value, 1)}
    return guess
