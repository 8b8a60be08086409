"""Every statistic of a questionnaire, against the best peers that draw their questions as well as ours does.

Peers ask for every field, group and pair that ours asks for, each question with its best method:

- categories, flags, and the cells of two of them: subset selection, of the size that costs least here
- the mean of a number: the best of Duchi's, the piecewise and the hybrid mechanism; missing values: randomised response
- a number within groups: the number, centred at the group's mean, in one of the groups, by the same mechanisms

The chances of questions minimise the same weighted sum of squared errors as ours do (p ∝ √cost, and the same pooling of
questions that measure the same statistic). Both are exact expectations for the people of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from benchmarks.surveys_data import QUESTIONNAIRES, Questionnaire

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.designs.means.blocks import subset_variances
from taskveil.designs.means.survey import Digits, DraftQuestion, SurveySample, _spread, _without_superfluous
from taskveil.peers.frequencies import SubsetSelection
from taskveil.peers.literature import second_moment
from taskveil.veil.statistics import Key, Statistics, statistics
from taskveil.veil.surveys import questions

MOST = 1.03
FINE = 48
"""Levels of a number that peers send: as good as the number itself."""


def ours(veil: tv.Veil, task: tv.SurveyTask, spreads: dict[str, float]) -> tuple[dict[Key, float], dict[Key, float]]:
    """By statistic the variance of its estimate times people, and its weight, of a design."""
    precision, weights = dict[Key, float](), dict[Key, float]()
    for question in questions(veil):
        found = statistics(task, question, spreads=spreads)
        variances = question.variances(found.functionals, question.prior)
        for key, variance, weight in zip(found.keys, variances.tolist(), found.weights.tolist(), strict=True):
            precision[key] = precision.get(key, 0.0) + question.chance / max(variance, 1e-300)
            weights[key] = max(weights.get(key, 0.0), weight)
    return {key: 1.0 / one for key, one in precision.items()}, weights


def theirs(sample: SurveySample) -> dict[Key, float]:
    """By statistic the variance of the best peers' estimate times people."""
    wanted = {frozenset(digits): digits for digits in sample._wanted()}
    asked = [_asked(sample, digits) for digits in wanted.values()]
    return _without_superfluous(_spread([one for one in asked if one.measures.keys])).variances


def _asked(sample: SurveySample, digits: Digits) -> DraftQuestion:
    numbers = [place for place, binned in digits if sample._is_number(place) and not binned]
    scales, rows = sample._rows(digits, FINE if numbers else 8)
    measures, prior = statistics(sample.task, rows, spreads=sample.spreads), rows.prior
    if not numbers:
        each = subset_variances(measures.functionals, prior, sample.epsilon)
        way = SubsetSelection(
            values=rows.rows, epsilon=sample.epsilon, size=int((each @ measures.weights).argmin()) + 1
        )
        variances = np.array([way.variance(prior, one) for one in measures.functionals.T])
        return DraftQuestion(digits=digits, scales=scales, rows=rows, measures=measures, variances=variances)
    if len(digits) > 1:  # by group: whatever is measured within a group
        measures = _only(measures, [place for place, key in enumerate(measures.keys) if key[0] == "by"])
    single = np.array([_one_number(one, prior, sample.epsilon) for one in measures.functionals.T])
    # One of them is drawn, by importance.
    roots = np.sqrt(np.maximum(measures.weights * single, 1e-300))
    return DraftQuestion(
        digits=digits, scales=scales, rows=rows, measures=measures, variances=single * roots.sum() / roots
    )  # fmt: skip


def _only(measures: Statistics, places: list[int]) -> Statistics:
    keys = tuple(measures.keys[place] for place in places)
    return replace(
        measures, keys=keys, functionals=measures.functionals[:, places], weights=measures.weights[places]
    )  # fmt: skip


def _one_number(functional: Floats, prior: Floats, epsilon: float) -> float:
    """The variance of one report about a number with these values (rows,), sent in its range."""
    middle, half = (functional.max() + functional.min()) / 2, (functional.max() - functional.min()) / 2
    if half == 0.0:
        return 0.0
    z = (functional - middle) / half
    return float(half**2 * (second_moment(z, prior, epsilon) - float(prior @ z) ** 2))


def compared(one: Questionnaire, epsilon: float) -> tuple[dict[Key, float], float]:
    """By statistic our variance over the peers', and the same of the weighted sums."""
    task = one.task.on(one.schema)
    veil = tv.design(one.table, one.task, epsilon=epsilon, schema=one.schema)
    low, high = one.schema.fields.box
    sample = SurveySample.of(task, low, high, one.schema.expand(one.table), epsilon)
    mine, weights = ours(veil, task, sample.spreads)
    peers = theirs(sample)
    keys = [key for key in mine if key in peers and math.isfinite(peers[key])]
    total = sum(weights[key] * mine[key] for key in keys) / sum(weights[key] * peers[key] for key in keys)
    return {key: mine[key] / peers[key] for key in keys}, total


def questionnaires(quick: bool) -> Iterator[tuple[str, bool]]:
    """Lines of the table."""
    kinds = ("mean", "share", "missing", "pair", "by")
    yield (
        f"{'questionnaire':18s} {'ε':>4s} {'count':>5s} {'all':>6s} "
        + " ".join(f"{kind:>7s}" for kind in kinds)
        + ("  all: weighted sums of squared errors; others: means of the ratios of single statistics"),
        True,
    )
    for one in QUESTIONNAIRES[:1] if quick else QUESTIONNAIRES:
        for epsilon in (1.0,) if quick else (0.5, 1.0, 2.0, 4.0, 8.0):
            ratios, total = compared(one, epsilon)
            by_kind = [[ratio for key, ratio in ratios.items() if key[0] == kind] for kind in kinds]
            cells = " ".join(f"{np.mean(found):7.3f}" if found else f"{'–':>7s}" for found in by_kind)
            good = total <= MOST
            yield f"{one.name:18s} {epsilon:4g} {len(ratios):5d} {total:6.3f} {cells}" + "  MISSED" * (not good), good
