"""At how many points of the comparison ours is as good as the best simple method: the arithmetic of the shares.

A point is one table, model and budget: on one split, or with losses and accuracies averaged over its splits. A design
that keeps the model at home may not depend on the model at all: two models of one table then give one design, and one
point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.experiments.field import HELD_BACK, OTHERS, SIMPLE, FieldRow
from taskveil.experiments.field_peers import ON_OURS

SLACK = 0.01
"""A hundredth of the loss, and a point of accuracy: less is no difference worth a word."""

SAME = 1e-9
"""Losses that differ by no more than this share are those of one design."""

ASKED_SINGLE, ASKED_MEANS = 0.90, 0.95
"""Shares asked for of points within 1% of the best simple method: on single splits, and of means over splits."""

NAMED_PAIRS, FURTHER_PAIRS, HELD_BACK_PAIRS = GROUPS = ("Named pairs", "Further pairs", "Held-back pairs")


@dataclass(frozen=True, kw_only=True)
class FieldPoint:
    """Losses and accuracies of all methods at one budget; accuracies of classifiers only. `split` is None where they
    are means over splits."""

    data: str
    model: str
    split: int | None
    epsilon: float
    losses: dict[str, float]
    accuracies: dict[str, float]

    @property
    def best_simple(self) -> float:
        """The least loss of any simple method; a constant prediction is one."""
        return self._least(*SIMPLE, "constant")

    @property
    def best_peer(self) -> float:
        """The same, with the responses on our predictor among them."""
        return self._least(*SIMPLE, *ON_OURS, "constant")

    def relative(self, design: str) -> float:
        """The design's loss as a multiple of the best simple method's."""
        return self.losses[design] / self.best_simple

    def _least(self, *methods: str) -> float:
        return min(loss for method, loss in self.losses.items() if method in methods)


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


def points_of(rows: Iterable[FieldRow], *, averaged: bool = False) -> list[FieldPoint]:
    """The points of the rows, one for every split, or one with the means over splits."""
    found: dict[tuple[str, str, float, int | None], dict[str, list[FieldRow]]] = {}
    for row in rows:
        key = (row.data, row.model, row.epsilon, None if averaged else row.split)
        found.setdefault(key, {}).setdefault(row.design, []).append(row)
    return [
        FieldPoint(
            data=data,
            model=model,
            split=split,
            epsilon=epsilon,
            losses={way: float(np.mean([row.loss for row in same])) for way, same in ways.items()},
            accuracies={
                way: float(np.mean([row.accuracy for row in same if row.accuracy is not None]))
                for way, same in ways.items()
                if all(row.accuracy is not None for row in same)
            },
        )
        for (data, model, epsilon, split), ways in found.items()
    ]


def same_design(points: Sequence[FieldPoint], design: str) -> list[list[FieldPoint]]:
    """The points that have the design, those together whose models gave the same one: at one budget and split of one
    table, with the same loss to 1e-9."""
    found: dict[tuple[str, int | None, float], list[list[FieldPoint]]] = {}
    for point in points:
        if design not in point.losses:
            continue
        groups = found.setdefault((point.data, point.split, point.epsilon), [])
        loss = point.losses[design]
        for group in groups:
            if math.isclose(group[0].losses[design], loss, rel_tol=SAME):
                group.append(point)
                break
        else:
            groups.append([point])
    return [group for groups in found.values() for group in groups]


def shares(points: Sequence[FieldPoint], *, averaged: bool = False) -> list[Share]:
    """What the comparison is about, in seven numbers. Where the model is kept, points of one design count once, and
    meet what is asked for if they do beside every model; `averaged` says which share is asked for."""
    asked = ASKED_MEANS if averaged else ASKED_SINGLE
    found = []
    for design, word in (("auto_shared", "shipped"), ("auto", "kept")):

        def simple(point: FieldPoint, design: str = design) -> bool:
            return point.relative(design) <= 1 + SLACK

        found.append(
            _share(f"within 1% of the best simple method or better, model {word}", points, design, simple, asked)
        )
    for design, word in (("auto_shared", "shipped"), ("auto", "kept")):

        def peers(point: FieldPoint, design: str = design) -> bool:
            return point.losses[design] <= (1 + SLACK) * point.best_peer

        what = f"the same, with the responses on our predictor among the simple methods, model {word}"
        having = [point for point in points if not point.losses.keys().isdisjoint(ON_OURS)]
        found.append(_share(what, having, design, peers, None))

    def harmless(point: FieldPoint) -> bool:
        return all(point.losses[design] <= (1 + SLACK) * point.losses["constant"] for design in ("auto", "auto_shared"))

    both = [point for point in points if "auto" in point.losses]
    what = "not above the constant by more than 1%, model shipped or kept"
    found.append(_share(what, both, "auto_shared", harmless, 1.0))
    for design, word, share in (("accurate_shared", "shipped", 0.95), ("accurate", "kept", None)):

        def accurate(point: FieldPoint, design: str = design) -> bool:
            return point.accuracies[design] >= point.accuracies["label_response"] - SLACK

        what = f"accuracy at most one point below label response, designed for it, model {word}"
        having = [point for point in points if design in point.accuracies]
        found.append(_share(what, having, design, accurate, share))
    return found


def parted(rows: Iterable[FieldRow]) -> dict[str, list[FieldRow]]:
    """The rows of the named pairs, those of the further ones and those held back; only what there is."""
    found: dict[str, list[FieldRow]] = {group: [] for group in GROUPS}
    for row in rows:
        pair = row.data, row.model
        other = FURTHER_PAIRS if pair in OTHERS else NAMED_PAIRS
        found[HELD_BACK_PAIRS if pair in HELD_BACK else other].append(row)
    return {group: mine for group, mine in found.items() if mine}


def _share(
    what: str, points: Sequence[FieldPoint], design: str, meets: Callable[[FieldPoint], bool], asked: float | None
) -> Share:
    """Of the points that have the design. Only one that keeps the model at home can be the same for two models."""
    if design in ("auto", "accurate"):
        counted = same_design(points, design)
    else:
        counted = [[point] for point in points if design in point.losses]
    met = [all(meets(point) for point in group) for group in counted]
    return Share(what=what, met=sum(met), points=len(met), asked=asked)
