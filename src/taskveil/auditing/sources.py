"""Checks of where randomness comes from: failing entropy stops reports, and no two processes share noise."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from taskveil.auditing.bound import at_most
from taskveil.auditing.check import ALPHA, Check
from taskveil.auditing.processes import fork_digests, in_child, replace_entropy, spawn_digests
from taskveil.auditing.reach import foreign_randomness
from taskveil.auditing.samples import equal_rows
from taskveil.auditing.target import Target

_ROWS = 40_000
"""Enough for every mechanism of this package to ask the system more than once."""

Failure = Literal["failed", "came short", "failed half way"]
FAILURES: tuple[Failure, ...] = ("failed", "came short", "failed half way")


def no_foreign_randomness(target: Target) -> Check:
    """Neither np.random nor random can be reached from what makes reports."""
    veil = target.veil
    roots = [target.call] if veil is None else [veil.mechanism, veil.encoder, veil.schema]
    found = foreign_randomness(*roots)
    detail = f"Predictable randomness is within reach: {', '.join(found[:3])}." if found else "None is within reach."
    return Check.of("no np.random, no random", detail, held=not found)


def no_entropy_no_report(target: Target) -> Check:
    """When the operating system gives no randomness, at once or half way, there is an error and no report.

    Every failure is injected into a child process. A mechanism that was not seen to ask (one that draws outside Python,
    or drew ahead) cannot be tried in this way.
    """
    name = "no entropy, no report"
    if not hasattr(os, "fork"):
        return Check.not_applicable(name, "failures are injected into forked processes, and this system cannot fork.")
    tried = []
    for failure in FAILURES:
        seen = in_child(lambda failure=failure: _starve(target, failure))  # type: ignore[misc]
        if seen is None:
            return Check.not_applicable(name, "a forked process gave no answer.")
        if seen["injected"] and seen["made"]:
            return Check.of(name, f"A report was made although the system's entropy {failure}.", held=False)
        if seen["injected"]:
            tried.append(failure)
        elif failure == "failed":
            why = "it was not seen to ask the system through Python, so no failure could be injected."
            return Check.not_applicable(name, why)
    return Check.of(name, f"Injected failures ({', '.join(tried)}) stop every report.", held=True)


def _starve(target: Target, failure: Failure) -> dict[str, Any]:
    """In a child: reports under failing entropy. `injected`: how often it failed; `made`: reports came all the same."""
    system = os.urandom
    asked = injected = 0

    def source(count: int) -> bytes:
        nonlocal asked, injected
        asked += 1
        if failure == "came short" or (failure == "failed half way" and asked == 1):
            return system(count)
        injected += 1
        raise OSError("entropy failure injected by the audit")

    def short(count: int) -> bytes:
        nonlocal injected
        injected += 1
        return bytes(max(count - 1, 0))

    records = np.tile(target.middle, (_ROWS if failure == "failed half way" else 1, 1))
    # Python's own os.urandom gives all it was asked for or fails; only taskveil's door may meet a source that does not.
    replace_entropy(source, door=short if failure == "came short" else None)
    try:
        target.report(records)
    except Exception:  # an error is what should happen
        return {"injected": injected, "made": False}
    return {"injected": injected, "made": True}


def no_shared_noise(target: Target, *, forks: int, spawns: int) -> Check:
    """Processes forked from this one, and freshly started ones, never draw the same noise."""
    name = "no noise shared by processes"
    probe = np.tile(target.middle, (4096, 1))
    repeats = float(at_most(equal_rows(target.report(probe), target.report(probe)).sum(), 4096, ALPHA))
    rows = int(np.clip(np.ceil(-50 / np.log(min(max(repeats, 1e-3), 1 - 1e-9))), 64, 4096))
    batch = np.tile(target.middle, (rows, 1))
    forked = fork_digests(lambda: target.report(batch), forks)
    digests = forked + spawn_digests(target.veil, batch, spawns)
    if len(digests) < 2:
        return Check.not_applicable(name, "no two other processes made reports.")
    # Near-deterministic reports may agree by chance; then only the bytes drawn can tell.
    telling = rows * np.log(repeats) + np.log(len(digests) ** 2) < np.log(ALPHA)
    made = [made for made, _ in digests]
    drawn = [drawn for _, drawn in digests if drawn]
    if (telling and len(set(made)) < len(made)) or len(set(drawn)) < len(drawn):
        return Check.of(name, "Two processes drew the same noise.", held=False)
    if not telling and len(drawn) < 2:
        return Check.not_applicable(name, "reports repeat too often, and no randomness was seen to be drawn.")
    started = len(digests) - len(forked)
    return Check.of(name, f"{len(forked)} forks and {started} fresh processes drew different noise.", held=True)
