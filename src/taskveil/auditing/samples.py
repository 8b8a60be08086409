"""Checks that compare samples of reports.

- Bits of reports, fresh noise for every report, and no noise that rows or calls share.
- Ways of asking: one record at a time, at the ends of small batches, through a `Client`. A mechanism may be correct in
  a batch of thousands and wrong in a device's single call. ε bounds every report however it was asked for, so each
  way is attacked by itself. A veil promises more: the same distribution in every way.
- Repetition: one of a thousand inputs is drawn, and its report must not name it.

Each check gives a false alarm with probability 1e-9 at most. Every count is bounded exactly (Clopper–Pearson), and all
comparisons of a check share the 1e-9 (Bonferroni).
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from taskveil.arrays import Array, Bools, Floats, Integers
from taskveil.auditing.bound import at_least, at_most, epsilon_low, largest_provable
from taskveil.auditing.pairs import BEYOND, Pair
from taskveil.auditing.scores import (
    Frequencies,
    Idea,
    bit_patterns,
    choose_event,
    distance_from_medians,
    ideas,
    raw_bits,
    whole_reports,
)
from taskveil.auditing.target import ALPHA, Check, Target
from taskveil.client import Client
from taskveil.client.ledger import Ledger
from taskveil.veil import Veil


def bit_pattern_attack(target: Target, pair: Pair, count: int = 40_000) -> Check:
    """Whether exponent, lowest bit and raw bits of a report keep to ε (Mironov 2012)."""
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
    """Whether reports of one record repeat, within a call and between calls, exactly as often as by chance."""
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
    return Check.of(name, "Reports repeat as often as by chance.", held=True)


def rows_apart(target: Target, pair: Pair, count: int = 40_000) -> Check:
    """Whether two reports together keep to ε about the record of one of them: rows and calls share no noise.

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
    """Both reports where the known record stands before or after the other one, many times in one call."""
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


_SIZES = (2, 3, 2, 5, 2, 3, 2, 8, 2, 3, 2, 16, 2, 3, 2, 63)
"""Of small batches, in turn; the large ones cost most."""

_LEARN, _LEAST = 500, 1000  # calls that choose an event, at most; calls that are counted, at least
_ENOUGH = 4000
"""Calls of a veil, at most: equal distributions of its reports show more than their bound does."""

_QUANTILES = 16
"""Quantiles at which distributions are compared, per number of a report."""


def small_calls(target: Target, pair: Pair, *, most: int) -> Check:
    """Whether reports made one at a time, and at both ends of small batches, keep to ε.

    Args:
        target: what is audited.
        pair: the two inputs.
        most: calls for each input and way of calling, at most. No more are made than disproving the claim takes.
    """
    if target.veil is not None:
        most = min(most, _ENOUGH)
    count = int(np.clip(60 * math.exp(min(target.epsilon, 30.0)), min(_LEAST, most), most))
    return _compared(
        "single records and small batches",
        target,
        pair,
        {"alone": _alone, "as the first of a small batch": _first, "as the last of a small batch": _last},
        count=count,
    )


def through_a_client(target: Target, pair: Pair, *, most: int) -> Check:
    """Whether reports of a `Client`, numbers and random id, are distributed like the reports of its veil."""
    name = "through a Client"
    veil = target.veil
    if veil is None:
        return Check.not_applicable(name, "only a veil has clients.")
    return _compared(name, target, pair, {"by a Client": lambda _t, record, n: _by_client(veil, record, n)}, count=most)


Way = Callable[[Target, Array, int], Array]


def _compared(name: str, target: Target, pair: Pair, ways: dict[str, Way], *, count: int) -> Check:
    alpha = ALPHA / (2 * len(ways))
    learn, worst = min(_LEARN, count // 2), 0.0
    inputs = pair.first, pair.second
    for way, ask in ways.items():
        asked = [_asked(ask, target, record, learn + count) for record in inputs]
        made = [reports for reports in asked if reports is not None]
        if not made:
            return Check.not_applicable(name, f"asked {way}, it answers neither input.")
        if len(made) < len(inputs):
            return Check.of(name, f"Asked {way}, one input is answered and another refused.", held=False)
        tried = ideas(None, np.empty((2, 0)), made[0])
        event = choose_event(tried, made[0][:learn], made[1][:learn], trials=count, alpha=alpha, delta=target.delta)
        scores = [event.score(reports[learn:]) for reports in made]
        shown = float(epsilon_low(*event.counted(*scores), count, alpha=alpha, delta=target.delta))
        if shown > target.epsilon:
            detail = f"Asked {way}, reports show ε ≥ {shown:.3g}, claimed {target.epsilon:.3g}."
            return Check.of(name, detail, held=False)
        if target.veil is not None:
            usual = [target.sample(record, 4 * len(reports)) for record, reports in zip(inputs, made, strict=True)]
            if any(differ(*both, alpha=alpha / 2) for both in zip(usual, made, strict=True)):
                detail = f"Asked {way}, reports have another distribution than in large batches."
                return Check.of(name, detail, held=False)
        worst = max(worst, shown)
    provable = largest_provable(count, alpha=alpha, delta=target.delta)
    detail = f"Asked {', '.join(ways)}: {count:,} reports of two inputs each show ε ≥ {worst:.3g}"
    like = ", and are distributed like those of large batches." if target.veil is not None else "."
    return Check.of(name, f"{detail} (they can show {provable:.3g} at most){like}", held=True)


def differ(one: Array, other: Array, *, alpha: float) -> bool:
    """Whether two samples of reports have different distributions; a false alarm has probability `alpha` at most.

    Every number's distribution function is compared at and just below some of its quantiles, by exact bounds. The
    quantiles are taken from reports that are not counted. Columns that `one` does not have are left out.
    """
    half = len(one) // 2
    counted, width = one[half:], one.shape[1]
    share = alpha / (8 * _QUANTILES * width)
    for j in range(width):
        edges = np.quantile(one[:half, j], np.linspace(0, 1, _QUANTILES + 2)[1:-1], method="nearest")
        hits = [
            np.concatenate([(sample[:, j, None] <= edges).sum(axis=0), (sample[:, j, None] < edges).sum(axis=0)])
            for sample in (counted, other)
        ]
        low = [at_least(k, len(s), share) for k, s in zip(hits, (counted, other), strict=True)]
        high = [at_most(k, len(s), share) for k, s in zip(hits, (counted, other), strict=True)]
        if (low[0] > high[1]).any() or (low[1] > high[0]).any():
            return True
    return False


def _asked(ask: Way, target: Target, record: Array, count: int) -> Array | None:
    try:
        return ask(target, record, count)
    except Exception:  # whatever it is, there is no report
        return None


def _alone(target: Target, record: Array, count: int) -> Array:
    one = record[None, :]
    return np.concatenate([target.report(one.copy()) for _ in range(count)])


def _first(target: Target, record: Array, count: int) -> Array:
    return np.stack([target.report(batch)[0] for batch in _batches(target, record, count, place=0)])


def _last(target: Target, record: Array, count: int) -> Array:
    return np.stack([target.report(batch)[-1] for batch in _batches(target, record, count, place=-1)])


def _batches(target: Target, record: Array, count: int, *, place: int) -> list[Array]:
    """Batches of several sizes in turn, the record at this place and one like any other everywhere else."""
    kinds = []
    for size in _SIZES:
        batch = np.tile(target.beside(record), (size, 1))
        batch[place] = record
        kinds.append(batch)
    return [kinds[i % len(kinds)] for i in range(count)]


def _by_client(veil: Veil, record: Array, count: int) -> Array:
    """The numbers of a client's reports and the two halves of their ids (count, width + 2)."""
    rows: list[Array] = []
    # Ledgers write through to the disk; memory that looks like a disk makes that quick.
    memory = "/dev/shm"  # noqa: S108 - a private folder is made in it
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        ledger, cap = Ledger(Path(folder) / "ledger.sqlite"), 2 * count * veil.mechanism.epsilon
        with Client(device=veil.device, release=bytes(32), ledger=ledger, cap=cap) as client:
            for turn in range(count):
                report = client.report(record, round=turn)
                numbers = veil.mechanism.layout.unpack(report.payload)
                rows.append(np.array([*numbers, *np.frombuffer(report.id, dtype="<i8")], dtype=np.int64))
    return np.stack(rows)


_INPUTS = 1024  # of which one is drawn
_WINDOWS = (0.0, 2.0**-40, 2.0**-21, 2.0**-12)
"""Half the width of the sets, as a share of the range (or of the number itself, beyond it)."""

_COLUMNS = 4
"""Numbers of records and reports that are compared, each with each where they do not correspond."""


def nothing_echoed(target: Target, rng: np.random.Generator, *, calls: int, rows: int) -> Check:
    """Whether no report repeats its record, neither in many calls of one record nor far out of range.

    Args:
        target: what is audited.
        rng: draws the inputs.
        calls: records inside the range, one call each.
        rows: records inside and far outside the range, in large batches.
    """
    name = "no record repeated"
    if target.veil is not None and target.veil.mechanism.responses:
        return Check.not_applicable(name, "a report is an entry of a public list, which holds no record.")
    if not target.numeric:
        return Check.not_applicable(name, "records are not numbers, so a report cannot repeat them.")
    inside = target.low + rng.random((_INPUTS, target.width)) * (target.high - target.low)
    far = np.exp(rng.uniform(0, np.log(BEYOND[-1]), size=(_INPUTS, 1))) * rng.choice([-1.0, 1.0], size=(_INPUTS, 1))
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
    """Numbers that a report could repeat (M, c): the latents of a veil, the numbers of the record otherwise."""
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
