"""At how many points of the comparison ours is as good as the best simple way: the arithmetic of the shares.

A point is one table, model and budget: on one split, or with losses and accuracies averaged over its splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.experiments.field import OTHERS, SIMPLE, FieldRow

SLACK = 0.01
"""A hundredth of the loss, and a point of accuracy: less is no difference worth a word."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Losses and accuracies of all ways at one budget; accuracies of classifiers only."""

    data: str
    model: str
    epsilon: float
    losses: dict[str, float]
    accuracies: dict[str, float]

    @property
    def best_simple(self) -> float:
        """The least loss of any simple way; sending nothing is one."""
        return min(loss for way, loss in self.losses.items() if way in (*SIMPLE, "constant"))

    def relative(self, design: str) -> float:
        """The design's loss as a multiple of the best simple way's."""
        return self.losses[design] / self.best_simple


@dataclass(frozen=True, kw_only=True)
class Share:
    """`met` of `points` points meet what is asked for."""

    what: str
    met: int
    points: int
    asked: float | None
    """The share that was to be reached, where one was named before anything was measured."""

    @property
    def value(self) -> float:
        """From 0 to 1."""
        return self.met / self.points if self.points else float("nan")

    def __str__(self) -> str:
        asked = "" if self.asked is None else f"; asked for: {self.asked:.0%}"
        return f"{self.what}: {self.met} of {self.points} points ({self.value:.1%}{asked})"


def points_of(rows: Iterable[FieldRow], *, averaged: bool = False) -> list[Point]:
    """The points of the rows, one for every split, or one with the means over splits."""
    found: dict[tuple[str, str, float, int], dict[str, list[FieldRow]]] = {}
    for row in rows:
        key = (row.data, row.model, row.epsilon, 0 if averaged else row.split)
        found.setdefault(key, {}).setdefault(row.design, []).append(row)
    return [
        Point(
            data=data,
            model=model,
            epsilon=epsilon,
            losses={way: float(np.mean([row.loss for row in same])) for way, same in ways.items()},
            accuracies={
                way: float(np.mean([row.accuracy for row in same if row.accuracy is not None]))
                for way, same in ways.items()
                if all(row.accuracy is not None for row in same)
            },
        )
        for (data, model, epsilon, _), ways in found.items()
    ]


def shares(points: Sequence[Point]) -> list[Share]:
    """What the comparison is about, in five numbers."""
    return [
        _share(
            "within 1% of the best simple way or better, model shipped",
            [point.relative("auto_shared") <= 1 + SLACK for point in points if "auto_shared" in point.losses],
            0.95,
        ),
        _share(
            "within 1% of the best simple way or better, model kept",
            [point.relative("auto") <= 1 + SLACK for point in points if "auto" in point.losses],
            0.85,
        ),
        _share(
            "not above the constant by more than 1%, model shipped or kept",
            [
                all(point.losses[way] <= (1 + SLACK) * point.losses["constant"] for way in ("auto", "auto_shared"))
                for point in points
                if {"auto", "auto_shared"} <= point.losses.keys()
            ],
            1.0,
        ),
        *(
            _share(
                f"accuracy at most one point below label response, designed for it, model {word}",
                [
                    point.accuracies[way] >= point.accuracies["label_response"] - SLACK
                    for point in points
                    if way in point.accuracies
                ],
                asked,
            )
            for way, word, asked in (("accurate_shared", "shipped", 0.95), ("accurate", "kept", None))
        ),
    ]


def parted(rows: Iterable[FieldRow]) -> dict[str, list[FieldRow]]:
    """The rows of the named pairs, and those of the further ones; only what there is."""
    found: dict[str, list[FieldRow]] = {}
    for row in rows:
        other = (row.data, row.model) in OTHERS
        found.setdefault("Further pairs" if other else "Named pairs", []).append(row)
    return found


def _share(what: str, met: Sequence[bool], asked: float | None) -> Share:
    return Share(what=what, met=sum(met), points=len(met), asked=asked)
