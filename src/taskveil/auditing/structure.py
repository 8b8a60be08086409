"""Checks that need no statistics, or hardly any: each attacks one way in which real mechanisms have failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.auditing.bound import at_least, at_most, epsilon_low
from taskveil.auditing.pairs import hostile_records
from taskveil.auditing.processes import fork_digests, spawn_digests
from taskveil.auditing.reach import foreign_randomness
from taskveil.auditing.scores import Frequencies, bit_patterns
from taskveil.auditing.target import Target
from taskveil.client import entropy

ADVERSARIAL = 100_000
"""Hostile inputs whose latents and reports are looked at."""

FORKS, SPAWNS = 64, 16

_ALPHA = 1e-9
"""Chance of a false alarm in each of the checks that compare samples."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question, its answer, and a sentence that says what was seen."""

    name: str
    passed: bool
    detail: str


def structural_checks(target: Target, rng: np.random.Generator) -> tuple[Check, ...]:
    """All of them, the cheap ones first."""
    hostile = hostile_records(target.low, target.high, rng, ADVERSARIAL)
    return (
        claim_covers_parameters(target),
        no_foreign_randomness(target),
        latents_inside(target, hostile),
        reports_on_grid(target, hostile),
        bit_pattern_attack(target),
        no_entropy_no_report(target),
        fresh_noise(target),
        no_shared_noise(target, forks=FORKS, spawns=SPAWNS),
    )


def claim_covers_parameters(target: Target) -> Check:
    """The claimed ε is at least what scale, sensitivity or weights imply, in sixty digits."""
    name = "claim covers the parameters"
    if target.veil is None:
        return Check(name=name, passed=True, detail="Not applicable: the parameters are not known.")
    implied = target.veil.mechanism.exact_epsilon
    held = implied <= Decimal(target.epsilon) + Decimal("1e-40")
    return Check(
        name=name, passed=held, detail=f"The parameters imply ε = {float(implied):.6g}, claimed {target.epsilon:.6g}."
    )


def no_foreign_randomness(target: Target) -> Check:
    """Neither np.random nor random can be reached from what makes reports."""
    roots = [target.call] if target.veil is None else [target.veil.mechanism, target.veil.encoder]
    found = foreign_randomness(*roots)
    detail = f"Predictable randomness is within reach: {', '.join(found[:3])}." if found else "None is within reach."
    return Check(name="no np.random, no random", passed=not found, detail=detail)


def latents_inside(target: Target, hostile: Floats) -> Check:
    """What noise is added to, or what is coded, lies inside the release's set for every hostile input."""
    name = "latents inside their set"
    if target.veil is None:
        return Check(name=name, passed=True, detail="Not applicable: a callable shows no latents.")
    mechanism = target.veil.mechanism
    k = target.veil.encode(hostile) / mechanism.region.step
    whole = np.asarray(np.isfinite(k).all(axis=1))
    steps = np.floor(np.where(whole[:, None], k, 0.0)).astype(np.int64)
    exact = np.asarray((steps == np.where(whole[:, None], k, 0.5)).all(axis=1))
    held = whole & exact & mechanism.region.contains(steps)
    if not held.all():
        row = int(np.flatnonzero(~held)[0])
        return Check(name=name, passed=False, detail=f"{int((~held).sum())} inputs leave it, such as {hostile[row]}.")
    fault = mechanism.fault(steps)
    if fault is not None:
        return Check(name=name, passed=False, detail=fault)
    return Check(name=name, passed=True, detail=f"All {len(hostile):,} hostile inputs end inside it.")


def reports_on_grid(target: Target, hostile: Floats) -> Check:
    """Every input is answered, with numbers from the set the release names."""
    name = "reports on the grid"
    try:
        reports = np.concatenate([target.report(hostile[i : i + 10_000]) for i in range(0, len(hostile), 10_000)])
    except Exception as error:  # whatever it is, the input was not answered
        detail = f"An input was refused ({type(error).__name__}), and a refusal tells about the record."
        return Check(name=name, passed=False, detail=detail)
    if target.veil is None:
        held, where = np.asarray(np.isfinite(reports.astype(np.float64)).all(axis=1)), "finite numbers"
    else:
        with np.errstate(invalid="ignore"):
            whole = np.asarray((reports == np.floor(reports)).all(axis=1))
            held = whole & target.veil.mechanism.possible(np.where(whole[:, None], reports, -1).astype(np.int64))
        where = "whole numbers that the release can make"
    if held.all():
        return Check(name=name, passed=True, detail=f"All reports of {len(hostile):,} hostile inputs are {where}.")
    row = int(np.flatnonzero(~held)[0])
    return Check(
        name=name, passed=False, detail=f"{int((~held).sum())} reports are not {where}, such as {reports[row]}."
    )


def bit_pattern_attack(target: Target, count: int = 40_000) -> Check:
    """Exponent and lowest bit of a report do not tell inputs apart beyond ε (Mironov 2012)."""
    name = "64-bit patterns"
    inputs = [target.low, target.high, np.zeros(target.width)]
    worst, pairs = 0.0, [(0, 1), (0, 2), (1, 2)]
    reports = [target.sample(record, count) for record in inputs]
    if reports[0].dtype.kind != "f":
        return Check(name=name, passed=True, detail="Not applicable: reports are whole numbers.")
    half = count // 2
    for i, j in pairs:
        table = Frequencies.of(reports[i][:half], reports[j][:half], bit_patterns)
        score_i, score_j = table(reports[i][half:]), table(reports[j][half:])
        for p, q in ((score_i, score_j), (-score_j, -score_i)):
            hits = int((p >= target.epsilon).sum()), int((q >= target.epsilon).sum())
            shown = epsilon_low(hits[0], hits[1], half, alpha=_ALPHA / 6, delta=target.delta)
            worst = max(worst, float(shown))
    detail = f"The bits alone show ε ≥ {worst:.3g}, claimed {target.epsilon:.3g}."
    return Check(name=name, passed=worst <= target.epsilon, detail=detail)


def no_entropy_no_report(target: Target) -> Check:
    """When the operating system gives no randomness, at once or half way, there is an error and no report."""
    name = "no entropy, no report"
    records = np.tile(target.low + (target.high - target.low) / 2, (40_000, 1))

    def refuse(_count: int) -> bytes:
        raise OSError("entropy failure injected by the audit")

    def cut(count: int) -> bytes:
        return bytes(max(count - 1, 0))

    calls = iter(range(10**9))

    def later(count: int) -> bytes:
        return refuse(count) if next(calls) > 0 else _urandom(count)

    for kind, source, rows in (("failed", refuse, 1), ("came short", cut, 1), ("failed half way", later, len(records))):
        with _replaced_entropy(source):
            try:
                target.report(records[:rows])
            except Exception:  # noqa: S112 - an error is what should happen
                continue
        # A batch that needs a single request cannot fail half way.
        if kind == "failed half way" and next(calls) <= 1:
            continue
        return Check(name=name, passed=False, detail=f"A report was made although the system's entropy {kind}.")
    return Check(name=name, passed=True, detail="Injected failures stop every report.")


def fresh_noise(target: Target, count: int = 1 << 15) -> Check:
    """Reports of one record repeat within a call, and between calls, exactly as often as chance has it."""
    name = "fresh noise for every report"
    records = np.tile(target.low + (target.high - target.low) / 2, (count, 1))
    one, two, three = target.report(records), target.report(records), target.report(records)
    half = count // 2
    rates = {
        "neighbours in a call": _equal(one[0::2], one[1::2]),
        "halves of a call": _equal(two[:half], two[half:]),
        "one call and the next": _equal(one, two),
        "one call and the next but one": _equal(one, three),
    }
    # If noise is fresh, all four estimate the same probability: that two reports of a record are equal.
    floor = max(float(at_least(equal.sum(), len(equal), _ALPHA / 8)) for equal in rates.values())
    ceiling = min(float(at_most(equal.sum(), len(equal), _ALPHA / 8)) for equal in rates.values())
    most = max(rates, key=lambda key: float(rates[key].mean()))
    if floor > ceiling:
        return Check(
            name=name,
            passed=False,
            detail=f"Noise is reused: {rates[most].mean():.1%} of reports agree between {most}.",
        )
    return Check(name=name, passed=True, detail="Reports repeat as often as chance has it.")


def no_shared_noise(target: Target, *, forks: int, spawns: int) -> Check:
    """Processes forked from this one, and freshly started ones, never draw the same noise."""
    name = "no noise shared by processes"
    record = target.low + (target.high - target.low) / 2
    probe = np.tile(record, (4096, 1))
    repeats = float(at_most(_equal(target.report(probe), target.report(probe)).sum(), 4096, _ALPHA))
    rows = int(np.clip(np.ceil(-50 / np.log(min(max(repeats, 1e-3), 1 - 1e-9))), 64, 4096))
    batch = np.tile(record, (rows, 1))
    digests = fork_digests(lambda: target.report(batch), forks) + spawn_digests(target.veil, batch, spawns)
    # Near-deterministic reports may agree by chance; then only the bytes drawn can tell.
    telling = rows * np.log(repeats) + np.log(len(digests) ** 2) < np.log(_ALPHA)
    made = [made for made, _ in digests]
    drawn = [drawn for _, drawn in digests if drawn]
    shared = (telling and len(set(made)) < len(made)) or len(set(drawn)) < len(drawn)
    if shared:
        return Check(name=name, passed=False, detail="Two processes drew the same noise.")
    started = len(digests) - forks
    return Check(name=name, passed=True, detail=f"{forks} forks and {started} fresh processes drew different noise.")


def _equal(one: Array, other: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    same = (one == other) | ((one != one) & (other != other))  # NaN repeats itself too
    return np.asarray(same.all(axis=1))


_urandom = os.urandom


@contextmanager
def _replaced_entropy(source: Callable[[int], bytes]) -> Iterator[None]:
    """The operating system's entropy replaced for taskveil and for everybody who calls os.urandom."""
    before = entropy.system_bytes
    entropy.system_bytes, os.urandom = source, source
    try:
        yield
    finally:
        entropy.system_bytes, os.urandom = before, _urandom
