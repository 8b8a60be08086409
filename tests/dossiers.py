"""Three releases for dossiers: a codebook for a model, a survey, and a family; and a reader of their pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import families
import taskveil as tv
from taskveil.signoff.printing import BROWSERS

needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, BROWSERS)) and os.environ.get("CI") != "true",
    reason="needs Chromium",
)


@cache
def model() -> tv.Veil:
    """The answers of a classifier, with designs that were compared."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"income": rng.normal(40, 10, 300).round(1), "children": rng.integers(0, 5, 300)})
    y = np.where(X["income"] / 10 + X["children"] + rng.normal(size=300) > 5.5, "renews", "leaves")
    task = tv.ModelTask(LogisticRegression(max_iter=1000).fit(X, y), loss="cross_entropy")
    return tv.design(X, task, y=y, epsilon=3.0, on_device=tv.OnDevice(encoder="linear"))


@cache
def survey() -> tv.Veil:
    """Statistics of four fields of five, some of them by region."""
    rng = np.random.default_rng(6)
    schema = tv.Schema(
        {
            "age": tv.Count(18, 90, unit="years"),
            "bmi": tv.Number(15.0, 45.0, missing=True),
            "region": tv.Category(["north", "south"]),
            "smokes": tv.Flag(),
            "since": tv.Date("2015-01-01", "2026-01-01"),
        }
    )
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 300),
            "bmi": pd.Series(rng.normal(27, 4, 300)).where(rng.random(300) > 0.1),
            "region": rng.choice(["north", "south"], 300),
            "smokes": rng.random(300) < 0.2,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, 300), unit="D"),
        }
    )
    return tv.design(table, tv.SurveyTask(["age", "bmi", "smokes"], by="region"), epsilon=1.0, schema=schema)


@cache
def gaussian() -> tv.Veil:
    """Sums with Gaussian noise: a promise with a δ."""
    X = np.random.default_rng(7).normal(size=(300, 3))
    return tv.design(X, tv.LinearTask([[1.0, 1.0, 1.0]]), epsilon=2.0, delta=1e-6, method="gaussian")


def family() -> tv.Family:
    """Answers for nine tenths of the reports, means for one tenth."""
    return families.drawn()


class Reader(HTMLParser):
    """The words of a page that a browser would show, its elements, and their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._style = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = self._style and tag != "style"

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).replace("\N{NO-BREAK SPACE}", " ").split())


def texts(value: Any) -> Iterator[str]:
    """Every text in some content."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(one)
