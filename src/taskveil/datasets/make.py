"""Simulates the data sets of this folder: nobody's data, the same bytes every time.

    python -m taskveil.datasets.make

All numbers come from `numpy.random.RandomState`, whose streams numpy keeps the same in all versions. Every table
is sampled column by column; the functions say how the columns depend on each other.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from taskveil.arrays import Array, Bools, Floats

Columns = Mapping[str, Array]
"""A table: the values of each column, all of one length. A missing value is None."""

JOBS = (
    *("nurse", "teacher", "software developer", "sales assistant", "accountant", "driver", "electrician", "cook"),
    *("office clerk", "cleaner", "engineer", "carpenter", "student", "retired", "social worker", "designer", "farmer"),
    *("lawyer", "mechanic", "doctor", "pharmacist", "translator", "gardener", "musician", "baker", "plumber"),
    *("journalist", "hairdresser", "architect", "librarian", "midwife", "surveyor", "beekeeper", "piano tuner"),
)
"""What people answer when they are asked for their job, the frequent answers first."""
RARE_JOBS = ("falconer", "glass blower", "lighthouse keeper")
"""Answers of a few people. A schema does not list them, because they could identify a person."""


def churn() -> Columns:
    """1,500 customers and who renewed the contract, which depends on all other columns."""
    random, count = np.random.RandomState(1), 1500
    country = _choice(random, count, {"France": 0.35, "Peru": 0.25, "Japan": 0.22, "Ghana": 0.18})
    days = random.randint(0, 3100, count)
    income = np.exp(random.normal(10.4, 0.45, count) + 0.2 * (country == "Japan") - 0.15 * (country == "Ghana"))
    children = np.minimum(random.poisson(1.1, count), 6)
    owner = random.random_sample(count) < _logistic(1.6 * np.log(income / 33_000) - 0.2)
    score = 2.2 * np.log(income / 33_000) + 1.6 * owner - 0.9 * children + 1.3 * (country == "France") + days / 2000
    return {
        "country": country,
        "since": _dates("2018-01-01", days),
        "income": _without(random, np.char.mod("%d", np.round(income, -2)), 0.1),
        "children": children,
        "owner": _flags(owner),
        "renewed": np.where(random.random_sample(count) < _logistic(1.4 * (score - 0.7)), "yes", "no"),
    }


def survey() -> Columns:
    """3,000 people's answers to nine questions about work and travel. Who works at home has no way to work."""
    random, count = np.random.RandomState(2), 3000
    shares = {"north": 0.28, "south": 0.24, "west": 0.2, "east": 0.16, "islands": 0.08, "abroad": 0.04}
    region = _choice(random, count, shares)
    age = np.clip(random.normal(44, 15, count), 18, 90).round()
    often = np.concatenate([[0.002] * len(RARE_JOBS), 1 / (2.0 + np.arange(len(JOBS)))])
    jobs = dict(zip((*RARE_JOBS, *JOBS), often / often.sum(), strict=True))
    job = np.where(age >= 67, "retired", _choice(random, count, jobs))
    at_home = random.random_sample(count) < _logistic(1.5 * np.isin(job, JOBS[2::5]) - 1.2)
    away = ~at_home & (job != "retired")
    car = random.random_sample(count) < _logistic(0.8 - 1.8 * (region == "north") + 0.7 * (region == "islands"))
    other = _choice(random, count, {"train": 0.4, "bicycle": 0.35, "on foot": 0.25})
    transport = np.where(car, "car", other)
    minutes = np.exp(random.normal(3.2, 0.5, count) + 0.6 * (transport == "train") - 0.6 * (transport == "on foot"))
    liked = 6.6 + 1.1 * at_home - 0.02 * minutes * away + 0.015 * (age - 44) + random.normal(0, 1.6, count)
    trained = random.exponential(np.where(job == "retired", 2500, 600), count).astype(int)
    return {
        "region": region,
        "age": _without(random, np.char.mod("%d", age), 0.03),
        "job": _without(random, job, 0.05),
        "place_of_work": np.where(job == "retired", "none", np.where(at_home, "home", "away")),
        "transport": _only(away, transport),
        "commute_minutes": _only(away, _without(random, np.char.mod("%d", np.clip(minutes, 2, 150)), 0.04)),
        "satisfaction": _without(random, np.char.mod("%d", np.clip(np.round(liked), 0, 10)), 0.06),
        "has_children": _without(random, _flags(random.random_sample(count) < np.clip((age - 20) / 40, 0, 0.75)), 0.04),
        "last_training": _only(trained < 3500, _dates("2026-06-30", -np.minimum(trained, 3500))),
    }


def power() -> Columns:
    """600 households' load in kW, the mean of each hour of one day: four habits, and every household's own scale."""
    random, count = np.random.RandomState(3), 600
    hours = np.arange(24)

    def peak(at: float, width: float) -> Floats:
        apart = np.abs(hours - at)
        return np.asarray(np.exp(-0.5 * (np.minimum(apart, 24 - apart) / width) ** 2))

    habits = np.stack([
        0.9 * peak(7, 1.2) + 1.8 * peak(19.5, 2.0),  # at work in the daytime
        0.6 * peak(8, 1.8) + 1.1 * peak(12.5, 2.0) + 1.0 * peak(19, 2.5),  # at home
        3.0 * peak(2, 2.2) + 0.5 * peak(7, 1.2) + 1.0 * peak(19.5, 2.0),  # a car is charged at night
        0.7 * peak(7, 1.2) - 0.15 * peak(13, 3.0) + 1.3 * peak(20.5, 1.8),  # solar cells on the roof
    ])  # fmt: skip
    habit = np.searchsorted(np.cumsum([0.45, 0.25, 0.18]), random.random_sample(count), side="right")
    scale = np.exp(random.normal(-0.1, 0.35, count))
    later = random.randint(-1, 2, count)
    rows = np.stack([np.roll(habits[kind], shift) for kind, shift in zip(habit, later, strict=True)])
    noise = np.exp(random.normal(0, 0.25, rows.shape))
    load = np.maximum(0.05, scale[:, None] * (0.25 + rows) * noise)
    return {f"h{hour:02}": np.char.mod("%.2f", load[:, hour]) for hour in hours.tolist()}


TABLES: dict[str, Callable[[], Columns]] = {"churn": churn, "survey": survey, "power": power}


def csv_of(name: str) -> bytes:
    """The CSV file of a data set, simulated now."""
    columns = TABLES[name]()
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def write(folder: Path) -> None:
    """Write all data sets into a folder."""
    for name in TABLES:
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(csv_of(name), mtime=0))


def _choice(random: np.random.RandomState, count: int, shares: Mapping[str, float]) -> Array:
    """Values (count,) with these probabilities."""
    edges = np.cumsum(list(shares.values()))[:-1]
    return np.asarray(list(shares))[np.searchsorted(edges, random.random_sample(count), side="right")]


def _logistic(score: Array) -> Floats:
    return np.asarray(1 / (1 + np.exp(-score)))


def _dates(start: str, days: Array) -> Array:
    return np.asarray((np.datetime64(start) + days).astype(str))


def _flags(values: Bools) -> Array:
    return np.where(values, "true", "false")


def _without(random: np.random.RandomState, values: Array, share: float) -> Array:
    """The values with this share of them missing."""
    return _only(random.random_sample(len(values)) >= share, values)


def _only(there: Bools, values: Array) -> Array:
    """The values, or None where they are not there."""
    found = values.astype(object)
    found[~there] = None
    return found


if __name__ == "__main__":
    write(Path(__file__).parent)
