"""Checks that compare samples: bits of reports, fresh noise for every report, no noise shared by rows or calls.

Each gives a false alarm with probability 1e-9 at most: every count is bounded exactly (Clopper–Pearson), and all that
a check compares shares the 1e-9 (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taskveil.arrays import Array, Bools
from taskveil.auditing.bits import bit_patterns, raw_bits, whole_reports
from taskveil.auditing.bound import at_least, at_most, epsilon_low
from taskveil.auditing.check import ALPHA, Check
from taskveil.auditing.pairs import Pair
from taskveil.auditing.scores import Frequencies, Idea, distance_from_medians
from taskveil.auditing.target import Target
from taskveil.auditing.telling import choose_event


def bit_pattern_attack(target: Target, pair: Pair, count: int = 40_000) -> Check:
    """Exponent, lowest bit and raw bits of a report do not tell inputs apart beyond ε (Mironov 2012)."""
    name = "64-bit patterns"
    if target.report(target.middle[None, :]).dtype.kind != "f":
        return Check.not_applicable(name, "reports are whole numbers.")
    inputs = [target.low, target.high, np.zeros(target.width)] if target.numeric else [pair.first, pair.second]
    inputs = [*inputs, target.middle][:3]
    reports = [target.sample(record, count) for record in inputs]
    half, worst = count // 2, 0.0
    views: list[Callable[[Array], Array]] = [bit_patterns]
    views += [lambda made, j=j: raw_bits(made[:, j : j + 1]) for j in range(reports[0].shape[1])]  # type: ignore[misc]
    comparisons = [(i, j, view) for i, j in ((0, 1), (0, 2), (1, 2)) for view in views]
    for i, j, view in comparisons:
        table = Frequencies.of(reports[i][:half], reports[j][:half], view)
        score_i, score_j = table(reports[i][half:]), table(reports[j][half:])
        for p, q in ((score_i, score_j), (-score_j, -score_i)):
            hits = int((p >= target.epsilon).sum()), int((q >= target.epsilon).sum())
            alpha = ALPHA / (2 * len(comparisons))
            worst = max(worst, float(epsilon_low(hits[0], hits[1], half, alpha=alpha, delta=target.delta)))
    detail = f"The bits alone show ε ≥ {worst:.3g}, claimed {target.epsilon:.3g}."
    return Check.of(name, detail, held=worst <= target.epsilon)


def fresh_noise(target: Target, count: int = 1 << 15) -> Check:
    """Reports of one record repeat within a call, and between calls, exactly as often as chance has it."""
    name = "fresh noise for every report"
    records = np.tile(target.middle, (count, 1))
    one, two, three = target.report(records), target.report(records), target.report(records)
    half = count // 2
    rates = {
        "neighbours in a call": equal_rows(one[0::2], one[1::2]),
        "halves of a call": equal_rows(two[:half], two[half:]),
        "one call and the next": equal_rows(one, two),
        "one call and the next but one": equal_rows(one, three),
    }
    # If noise is fresh, all four estimate the same probability: that two reports of a record are equal.
    floor = max(float(at_least(equal.sum(), len(equal), ALPHA / 8)) for equal in rates.values())
    ceiling = min(float(at_most(equal.sum(), len(equal), ALPHA / 8)) for equal in rates.values())
    most = max(rates, key=lambda key: float(rates[key].mean()))
    if floor > ceiling:
        return Check.of(name, f"Noise is reused: {rates[most].mean():.1%} of reports agree between {most}.", held=False)
    return Check.of(name, "Reports repeat as often as chance has it.", held=True)


def rows_apart(target: Target, pair: Pair, count: int = 40_000) -> Check:
    """Two reports together tell the record of one of them no better than ε allows: rows and calls share no noise.

    The other record is known and stays the same, so ε bounds the two reports together as it bounds one. Noise that is
    shared, or opposite, in two rows cancels in their difference or sum.
    """
    name = "rows and calls apart"
    worst, where = 0.0, ""
    alpha = ALPHA / len(_COMPANIONS)
    for place, together in _COMPANIONS.items():
        learn = [together(target, record, count // 4) for record in (pair.first, pair.second)]
        event = choose_event(_TOGETHER, *learn, trials=count, alpha=alpha, delta=target.delta)
        scores = [event.score(together(target, record, count)) for record in (pair.first, pair.second)]
        shown = float(epsilon_low(*event.counted(*scores), count, alpha=alpha, delta=target.delta))
        if shown > worst:
            worst, where = shown, place
    if worst > target.epsilon:
        detail = f"{where.capitalize()}, two reports together show ε ≥ {worst:.3g}, claimed {target.epsilon:.3g}."
        return Check.of(name, detail, held=False)
    return Check.of(name, f"Two reports together show ε ≥ {worst:.3g} at most.", held=True)


def equal_rows(one: Array, other: Array) -> Bools:
    """(N,): which rows of two arrays of reports agree; NaN repeats itself too."""
    same = (one == other) | ((one != one) & (other != other))
    return np.asarray(same.all(axis=1))


def _neighbours(target: Target, record: Array, count: int, *, before: bool) -> Array:
    """The known record before or after the other one, again and again in one call."""
    known = target.beside(record)
    batch = np.tile(np.stack([known, record] if before else [record, known]), (count, 1))
    made = target.report(batch)
    return np.hstack([made[0::2], made[1::2]])


def _halves(target: Target, record: Array, count: int) -> Array:
    made = target.report(np.repeat(np.stack([target.beside(record), record]), count, axis=0))
    return np.hstack([made[:count], made[count:]])


def _calls(target: Target, record: Array, count: int) -> Array:
    known = target.report(np.tile(target.beside(record), (count, 1)))
    return np.hstack([known, target.report(np.tile(record, (count, 1)))])


_COMPANIONS: dict[str, Callable[[Target, Array, int], Array]] = {
    "after its neighbour": lambda target, record, count: _neighbours(target, record, count, before=True),
    "before its neighbour": lambda target, record, count: _neighbours(target, record, count, before=False),
    "in the two halves of a call": _halves,
    "in one call and the next": _calls,
}
"""Where the other report comes from → both reports (count, 2 width), the known record's among them."""


def _sums(both: Array) -> Array:
    width = both.shape[1] // 2
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(both[:, :width].astype(np.float64) + both[:, width:])


def _differences(both: Array) -> Array:
    width = both.shape[1] // 2
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(both[:, :width].astype(np.float64) - both[:, width:])


_TOGETHER = [
    Idea(name="frequency of sums", learn=lambda a, b: Frequencies.of(a, b, _sums)),
    Idea(name="frequency of differences", learn=lambda a, b: Frequencies.of(a, b, _differences)),
    Idea(name="sums near the medians", learn=lambda a, b: distance_from_medians(a, b, _sums)),
    Idea(name="differences near the medians", learn=lambda a, b: distance_from_medians(a, b, _differences)),
    Idea(name="frequency of both reports", learn=lambda a, b: Frequencies.of(a, b, whole_reports)),
]
