"""Checks of how reports are asked for: one record at a time, at the ends of small batches, through a `Client`.

A mechanism may behave in a batch of thousands and not in the call that a device makes. ε bounds every report however it
was asked for, so each way of asking is attacked by itself. A veil promises more: the same distribution in every way.

Each check gives a false alarm with probability 1e-9 at most (Clopper–Pearson bounds, Bonferroni over all it compares).
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from taskveil.arrays import Array
from taskveil.auditing.bound import at_least, at_most, epsilon_low, largest_provable
from taskveil.auditing.check import ALPHA, Check
from taskveil.auditing.pairs import Pair
from taskveil.auditing.scores import ideas
from taskveil.auditing.target import Target
from taskveil.auditing.telling import choose_event
from taskveil.client import Client
from taskveil.client.ledger import Ledger
from taskveil.veil import Veil

_SIZES = (2, 3, 2, 5, 2, 3, 2, 8, 2, 3, 2, 16, 2, 3, 2, 63)
"""Of small batches, in turn; the large ones cost most."""

_LEARN, _LEAST = 500, 1000
_ENOUGH = 4000
"""Calls of a veil: that reports are distributed as in large batches shows more than their bound."""

_ROUNDS = 50
"""Rounds of one person; then the next one, with a ledger of their own."""

_EDGES = 16
"""Where distributions are compared, per number of a report."""


def small_calls(target: Target, pair: Pair, *, most: int) -> Check:
    """Reports made one at a time, and at both ends of small batches, tell two inputs apart no better than ε allows.

    Args:
        target: what is audited.
        pair: the two inputs.
        most: calls for each input and way of calling, at most; as many are made as disproving the claim takes.
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
    """What a `Client` hands out, numbers and random id, is distributed like the reports of its veil."""
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
                detail = f"Asked {way}, reports are distributed otherwise than in large batches."
                return Check.of(name, detail, held=False)
        worst = max(worst, shown)
    provable = largest_provable(count, alpha=alpha, delta=target.delta)
    detail = f"Asked {', '.join(ways)}: {count:,} reports of two inputs each show ε ≥ {worst:.3g}"
    like = ", and are distributed like those of large batches." if target.veil is not None else "."
    return Check.of(name, f"{detail} (they can show {provable:.3g} at most){like}", held=True)


def differ(one: Array, other: Array, *, alpha: float) -> bool:
    """Whether two samples of reports cannot be of one distribution; wrongly so with probability `alpha` at most.

    Every number's distribution function is compared at and just below some of its quantiles, by exact bounds. The
    quantiles are taken from reports that are not counted. Columns that `one` does not have are left out.
    """
    half = len(one) // 2
    counted, width = one[half:], one.shape[1]
    share = alpha / (8 * _EDGES * width)
    for j in range(width):
        edges = np.quantile(one[:half, j], np.linspace(0, 1, _EDGES + 2)[1:-1], method="nearest")
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
        for person in range(-(-count // _ROUNDS)):
            ledger = Ledger(Path(folder) / f"{person}.sqlite")
            cap = 2 * _ROUNDS * veil.mechanism.epsilon
            with Client(device=veil.device, release=bytes(32), ledger=ledger, cap=cap) as client:
                for turn in range(min(_ROUNDS, count - len(rows))):
                    report = client.report(record, round=turn)
                    numbers = veil.mechanism.layout.unpack(report.payload)
                    rows.append(np.array([*numbers, *np.frombuffer(report.id, dtype="<i8")], dtype=np.int64))
    return np.stack(rows)
