"""Checks that no record is repeated: one of a thousand inputs is drawn, and its report must not name it.

An echo is found even where it is rare, because chance does not help to hit one of a thousand. Let the input be drawn
evenly from x₁ … x_M, and let W₁ … W_M be disjoint sets of reports. If every P[W_j | x_j] ≤ e^ε P[W_j | x_i] + δ, then

    P[report in the set of its own input] ≤ e^ε P[report in the set of another input] / (M − 1) + δ,

so the two rates, bounded exactly on independent draws, give ε ≥ ln((M − 1)(own − δ) / others). W_j is a window around
the record's own number (or latent), as wide as rounding may make it.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.auditing.bound import at_least, at_most
from taskveil.auditing.check import ALPHA, Check
from taskveil.auditing.target import Target

_INPUTS = 1024
_WINDOWS = (0.0, 2.0**-40, 2.0**-21, 2.0**-12)
"""Half the width of the sets, as a share of the range (or of the number itself, beyond it)."""

_COLUMNS = 4
"""Numbers of records and reports that are compared, each with each where they do not correspond."""

_FARTHEST = 1e6


def nothing_echoed(target: Target, rng: np.random.Generator, *, calls: int, rows: int) -> Check:
    """Neither in many calls of one record, nor far out of range, does a report repeat its record.

    Args:
        target: what is audited.
        rng: draws the inputs.
        calls: records inside the range, one call each.
        rows: records inside and far outside the range, in large batches.
    """
    name = "no record repeated"
    if target.veil is not None and target.veil.mechanism.responses:
        return Check.not_applicable(name, "a report is a choice from a list, in which no record stands.")
    if not target.numeric:
        return Check.not_applicable(name, "records are no numbers that a report could repeat.")
    inside = target.low + rng.random((_INPUTS, target.width)) * (target.high - target.low)
    far = np.exp(rng.uniform(0, np.log(_FARTHEST), size=(_INPUTS, 1))) * rng.choice([-1.0, 1.0], size=(_INPUTS, 1))
    with np.errstate(over="ignore"):  # ranges may be as wide as doubles go
        beyond = target.middle + far * (target.high - target.low) / 2 * rng.uniform(0.9, 1, size=inside.shape)
    beyond = np.clip(beyond, -np.finfo(float).max, np.finfo(float).max)
    worst, tests = 0.0, 2
    for where, inputs, count, size in (
        ("in one of many calls", inside, calls, 1),
        ("out of range", np.concatenate([inside[: _INPUTS // 4], beyond[: 3 * _INPUTS // 4]]), rows, 10_000),
    ):
        views = _views(target, inputs)
        truth = rng.integers(len(inputs), size=count)
        try:
            made = [target.report(inputs[truth[start : start + size]]) for start in range(0, count, size)]
        except Exception:  # refusals are judged by other checks
            return Check.not_applicable(name, f"inputs {where} are refused.")
        reports = np.concatenate(made)
        compared = [(i, j) for i in range(views.shape[1]) for j in range(min(reports.shape[1], _COLUMNS))]
        if views.shape[1] == reports.shape[1]:
            compared = [(i, i) for i in range(min(views.shape[1], 2 * _COLUMNS))]
        compared = [(i, j) for i, j in compared if np.ptp(views[:, i]) > 0]
        for i, j in compared:
            alpha = ALPHA / (tests * len(compared) * len(_WINDOWS))
            number = target.values(reports)[:, j].astype(np.float64)
            shown = _identified(number, truth, views[:, i], alpha=alpha, delta=target.delta)
            if shown > target.epsilon:
                detail = f"Reports repeat their record {where}: that shows ε ≥ {shown:.3g}."
                return Check.of(name, detail, held=False)
            worst = max(worst, shown)
    return Check.of(
        name,
        f"{calls:,} calls of one record and {rows:,} records in and out of range show ε ≥ {worst:.3g} by repetition.",
        held=True,
    )


def _views(target: Target, inputs: Floats) -> Floats:
    """What a report would repeat (M, c): the latents of a veil, the numbers of the record for anything else."""
    seen = inputs[:, : 2 * _COLUMNS] if target.veil is None else target.veil.encode(inputs)
    return np.asarray(seen, dtype=np.float64)


def _identified(number: Floats, truth: Integers, candidates: Floats, *, alpha: float, delta: float) -> float:
    """The ε shown by one number of the reports (N,), made from candidates[truth], with candidates (M,)."""
    order = np.argsort(candidates, kind="stable")
    ordered = candidates[order]
    right = np.clip(np.searchsorted(ordered, number), 1, len(ordered) - 1)
    left = right - 1
    with np.errstate(invalid="ignore", over="ignore"):
        nearest = np.where(number - ordered[left] <= ordered[right] - number, left, right)
        gap = np.abs(number - ordered[nearest])
        # The middle half of the candidates gives the range: those far out of it must not widen every window.
        span = float(np.subtract(*np.quantile(ordered, [0.75, 0.25])))
        reach = np.maximum(np.abs(ordered[nearest]), span)
    own = order[nearest] == truth
    shown = 0.0
    for window in _WINDOWS:
        inside = gap <= window * reach
        p = float(at_least(int((inside & own).sum()), len(number), alpha / 2)) - delta
        q = float(at_most(int((inside & ~own).sum()), len(number), alpha / 2))
        if p > 0:
            shown = max(shown, float(np.log((len(candidates) - 1) * p / q)))
    return shown
