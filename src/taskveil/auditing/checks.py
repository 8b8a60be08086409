"""Checks of parameters, latents and reports. Each is an attack on one way in which real mechanisms have failed.

- Parameters, latents and reports lie where the release says, whatever the input.
- Every report has fresh noise, which rows and calls do not share.
- Ways of asking: one record at a time, at the ends of small batches, through a `Client`. A mechanism may be correct in
  a batch of thousands and wrong in a device's single call. ε bounds every report however it was asked for, so each
  way is attacked by itself. A veil promises more: the same distribution in every way.
- Repetition: one of a thousand inputs is drawn, and its report must not name it.

Each check that compares samples gives a false alarm with probability 1e-9 at most. Every count is bounded exactly
(Clopper–Pearson), and all comparisons of a check share the 1e-9 (Bonferroni).
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from taskveil.arrays import Array, Bools, Floats, Integers
from taskveil.auditing.bound import at_least, at_most, epsilon_low, largest_provable
from taskveil.auditing.pairs import BEYOND, InputPair
from taskveil.auditing.scores import Idea, choose_event, distance_from_medians, frequencies, ideas, whole_reports
from taskveil.auditing.target import ALPHA, FEW, Check, Target
from taskveil.client import Client, Report
from taskveil.client.ledger import Ledger
from taskveil.errors import AuditError
from taskveil.veil import Veil

CALLS = 4000
"""Calls of a veil in each way, at most: equal distributions of its reports show more than their bound does."""


def claim_covers_parameters(target: Target) -> Check:
    """Whether the claimed ε is at least the ε that scale, sensitivity or weights imply, in sixty digits."""
    name = "claim covers the parameters"
    if target.veil is None:
        return Check.not_applicable(name, "the parameters are not known.")
    implied = target.veil.mechanism.exact_epsilon
    held = implied <= Decimal(target.epsilon) + Decimal("1e-40")
    return Check.of(name, f"The parameters imply ε = {float(implied):.6g}, claimed {target.epsilon:.6g}.", held=held)


def latents_inside(target: Target, hostile: Sequence[Array]) -> Check:
    """Whether latents lie inside the set of the release for all hostile inputs, each (N, n)."""
    name = "latents inside their set"
    if target.veil is None:
        return Check.not_applicable(name, "a callable shows no latents.")
    mechanism = target.veil.mechanism
    try:
        k = np.concatenate([target.veil.encode(part) for part in hostile]) / mechanism.region.step
    except Exception as error:  # whatever it is, the input has no latents
        return Check.of(name, f"An input was refused ({type(error).__name__}), which reveals something.", held=False)
    whole = np.asarray((k == np.floor(k)).all(axis=1) & np.isfinite(k).all(axis=1))
    steps = np.where(whole[:, None], k, 0.0).astype(np.int64)
    held = whole & mechanism.region.contains(steps)
    if not held.all():
        row = int(np.flatnonzero(~held)[0])
        which = [record for part in hostile for record in part][row]
        return Check.of(name, f"{int((~held).sum())} inputs leave it, such as {which}.", held=False)
    fault = mechanism.fault(steps)
    return Check.of(name, fault or f"All {len(k):,} hostile inputs end inside it.", held=fault is None)


def reports_on_grid(target: Target, hostile: Sequence[Array]) -> Check:
    """Whether all hostile inputs, each (N, n), get one report of one length from the set that the release names."""
    name = "reports on the grid"
    parts = [part[i : i + 10_000] for part in hostile for i in range(0, len(part), 10_000)]
    try:
        reports = np.concatenate([target.report(part) for part in parts])
    except AuditError as error:
        return Check.of(name, f"A hostile input is not answered like others: {error}", held=False)
    except Exception as error:  # whatever it is, the input was not answered
        detail = f"An input was refused ({type(error).__name__}), and a refusal reveals something about the record."
        return Check.of(name, detail, held=False)
    held, where = np.asarray(np.isfinite(reports.astype(np.float64)).all(axis=1)), "finite numbers"
    if target.veil is not None:
        with np.errstate(invalid="ignore"):
            held = np.asarray((reports == np.floor(reports)).all(axis=1))
        held &= target.veil.mechanism.possible(np.where(held[:, None], reports, -1).astype(np.int64))
        where = "whole numbers that the release can make"
    if held.all():
        return Check.of(name, f"All reports of {len(reports):,} hostile inputs are {where}.", held=True)
    row = int(np.flatnonzero(~held)[0])
    return Check.of(name, f"{int((~held).sum())} reports are not {where}, such as {reports[row]}.", held=False)


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


def equal_rows(one: Array, other: Array) -> Bools:
    """(N,): which rows of two arrays of reports agree; NaN repeats itself too."""
    same = (one == other) | ((one != one) & (other != other))
    return np.asarray(same.all(axis=1))


def rows_apart(target: Target, pair: InputPair, count: int = 40_000) -> Check:
    """Whether two reports together keep to ε about the record of one of them: rows and calls share no noise.

    The other record is known and stays the same, so ε bounds the two reports together as it bounds one. Noise that is
    shared, or opposite, in two rows cancels in their difference or sum.
    """
    name = "rows and calls apart"
    worst, where = 0.0, ""
    asked = [(record, size) for size in (count // 4, count) for record in (pair.first, pair.second)]
    places = list(zip(*(_with_companion(target, record, size) for record, size in asked), strict=True))
    alpha = ALPHA / len(places)
    for (place, first), (_, second), *counted in places:
        event = choose_event(_TOGETHER, first, second, trials=count, alpha=alpha, delta=target.delta)
        scores = [event.score(both) for _, both in counted]
        shown = float(epsilon_low(*event.counted(*scores), count, alpha=alpha, delta=target.delta))
        if shown > worst:
            worst, where = shown, place
    if worst > target.epsilon:
        detail = f"{where.capitalize()}, two reports together show ε ≥ {worst:.3g}, claimed {target.epsilon:.3g}."
        return Check.of(name, detail, held=False)
    return Check.of(name, f"Two reports together show ε ≥ {worst:.3g} at most.", held=True)


def _with_companion(target: Target, record: Array, count: int) -> Iterator[tuple[str, Array]]:
    """Where the report of a known record comes from, and both reports (count, 2 width), for every such place."""
    known = target.beside(record)
    for place, batch in (("after its neighbour", [known, record]), ("before its neighbour", [record, known])):
        made = target.report(np.tile(np.stack(batch), (count, 1)))
        yield place, np.hstack([made[0::2], made[1::2]])
    made = target.report(np.repeat(np.stack([known, record]), count, axis=0))
    yield "in the two halves of a call", np.hstack([made[:count], made[count:]])
    calls = [target.report(np.tile(one, (count, 1))) for one in (known, record)]
    yield "in one call and the next", np.hstack(calls)


def _sums(both: Array, sign: int) -> Array:
    """Sums or differences (N, width) of both reports (N, 2 width)."""
    one, other = np.hsplit(both.astype(np.float64), 2)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(one + sign * other)


_COMBINED = {name: partial(_sums, sign=sign) for name, sign in (("sums", 1), ("differences", -1))}
_TOGETHER = [
    *(Idea(name=f"frequency of {name}", learn=frequencies(columns)) for name, columns in _COMBINED.items()),
    *(
        Idea(name=f"{name} near the medians", learn=partial(distance_from_medians, columns=columns))
        for name, columns in _COMBINED.items()
    ),
    Idea(name="frequency of both reports", learn=frequencies(whole_reports)),
]


Way = Callable[[Target, Array, int], Array]
"""Asks a target for so many reports of a record."""

_SIZES = (2, 3, 2, 5, 2, 3, 2, 8, 2, 3, 2, 16, 2, 3, 2, 63)
"""Of small batches, in turn; the large ones cost most."""


def _in_batches(sizes: tuple[int, ...], place: int) -> Way:
    """Asks with batches of these sizes in turn, with the record at this place and an ordinary one everywhere else."""

    def ask(target: Target, record: Array, count: int) -> Array:
        batches = [np.tile(target.beside(record), (size, 1)) for size in sizes]
        for batch in batches:
            batch[place] = record
        return np.stack([target.report(batches[turn % len(sizes)].copy())[place] for turn in range(count)])

    return ask


def small_calls(target: Target, pair: InputPair, *, most: int) -> Check:
    """Whether reports made one at a time, and at both ends of small batches, keep to ε.

    Args:
        target: what is audited.
        pair: the two inputs.
        most: calls for each input and way of calling, at most. Few more are made than disproving the claim takes.
    """
    most = most if target.veil is None else min(most, CALLS)
    ways = {
        "alone": _in_batches((1,), 0),
        "as the first of a small batch": _in_batches(_SIZES, 0),
        "as the last of a small batch": _in_batches(_SIZES, -1),
    }
    count = int(np.clip(60 * math.exp(min(target.epsilon, 30.0)), most // 8, most))
    return _compared("single records and small batches", target, pair, ways, count=count)


def through_a_client(target: Target, pair: InputPair, *, most: int) -> Check:
    """Whether reports of a `Client`, numbers and random id, are distributed like the reports of its veil."""
    name = "through a Client"
    veil = target.veil
    if veil is None:
        return Check.not_applicable(name, "only a veil has clients.")
    return _compared(name, target, pair, {"by a Client": lambda _t, record, n: _by_client(veil, record, n)}, count=most)


def _compared(name: str, target: Target, pair: InputPair, ways: dict[str, Way], *, count: int) -> Check:
    """Whether `count` reports of each input, asked for in each way, keep to ε; of a veil, also their distribution."""
    alpha = ALPHA / (2 * len(ways))
    learn, worst = count // 2, 0.0
    for way, ask in ways.items():
        made = []
        for record in (pair.first, pair.second):
            with contextlib.suppress(Exception):  # whatever it is, there is no report
                made.append(ask(target, record, learn + count))
        if not made:
            return Check.not_applicable(name, f"asked {way}, it answers neither input.")
        if len(made) < 2:
            return Check.of(name, f"Asked {way}, one input is answered and another refused.", held=False)
        tried = ideas(None, np.empty((2, 0)), made[0])
        event = choose_event(tried, made[0][:learn], made[1][:learn], trials=count, alpha=alpha, delta=target.delta)
        scores = [event.score(reports[learn:]) for reports in made]
        shown = float(epsilon_low(*event.counted(*scores), count, alpha=alpha, delta=target.delta))
        if shown > target.epsilon:
            detail = f"Asked {way}, reports show ε ≥ {shown:.3g}, claimed {target.epsilon:.3g}."
            return Check.of(name, detail, held=False)
        if target.veil is not None:
            usual = [target.sample(record, 4 * (learn + count)) for record in (pair.first, pair.second)]
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

    A third of each, as many of both, choose an event, and its two probabilities are bounded on the rest. Columns that
    `one` does not have are left out.
    """
    other, learn = other[:, : one.shape[1]], min(len(one), len(other)) // 3
    tried, trials = ideas(None, np.empty((2, 0)), one), len(other) - learn
    event = choose_event(tried, one[:learn], other[:learn], trials=trials, alpha=alpha, delta=0.0)
    rest = [event.tail.holds(event.score(sample[learn:])) for sample in (one, other)]
    low, high = ([float(end(hits.sum(), len(hits), alpha / 4)) for hits in rest] for end in (at_least, at_most))
    return low[0] > high[1] or low[1] > high[0]


def _by_client(veil: Veil, record: Array, count: int) -> Array:
    """The numbers of a client's reports and the two halves of their ids (count, width + 2)."""
    rows: list[Array] = []
    # Ledgers write through to the disk; memory that looks like a disk makes that quick.
    memory = "/dev/shm"  # noqa: S108 - a private folder is made in it
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        ledger, cap = Ledger(Path(folder) / "ledger.sqlite"), 2 * count * veil.mechanism.epsilon
        device = replace(veil.device, panel=None)  # every round has a report
        with Client(device=device, release=bytes(32), ledger=ledger, cap=cap) as client:
            for turn in range(count):
                report = cast(Report, client.report(record, round=turn))
                numbers = veil.mechanism.layout.unpack(report.payload)
                rows.append(np.array([*numbers, *np.frombuffer(report.id, dtype="<i8")], dtype=np.int64))
    return np.stack(rows)


_INPUTS = 1024  # of which one is drawn
_WINDOWS = (0.0, 2.0**-40, 2.0**-21, 2.0**-12)
"""Half the width of the sets, as a share of the range (or of the number itself, beyond it)."""


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
        # What a report could repeat: latents (M, c) of a veil, else the numbers of the record.
        views = inputs[:, : 2 * FEW] if target.veil is None else target.veil.encode(inputs)
        truth = rng.integers(len(inputs), size=count)
        try:
            made = [target.report(inputs[truth[start : start + size]]) for start in range(0, count, size)]
        except Exception:  # refusals are judged by other checks
            return Check.not_applicable(name, f"inputs {where} are refused.")
        reports = np.concatenate(made)
        compared = [(i, j) for i in range(views.shape[1]) for j in range(min(reports.shape[1], FEW))]
        if views.shape[1] == reports.shape[1]:
            compared = [(i, i) for i in range(min(views.shape[1], 2 * FEW))]
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
