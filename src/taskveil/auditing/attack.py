"""The audit itself: find inputs, choose an event on one half of the reports, bound ε on the other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from taskveil.auditing.bound import epsilon_low, epsilon_of_event_high, largest_provable
from taskveil.auditing.checks import (
    claim_covers_parameters,
    fresh_noise,
    latents_inside,
    nothing_echoed,
    reports_on_grid,
    rows_apart,
    small_calls,
    through_a_client,
)
from taskveil.auditing.over_time import over_time_checks
from taskveil.auditing.pairs import InputPair, find_pairs, hostile_records
from taskveil.auditing.picture import Sketch
from taskveil.auditing.result import Audit, Finding
from taskveil.auditing.scores import choose_event, ideas
from taskveil.auditing.sources import no_entropy_no_report, no_foreign_randomness, no_shared_noise
from taskveil.auditing.target import CHUNK, Check, Target
from taskveil.client.families import single
from taskveil.errors import AuditError, ReleaseError

Progress = Callable[[str, float], None]

FORKS = 64
"""Processes whose noise is compared."""


def audit(
    what: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    records: Any = None,
    confidence: float = 1 - 1e-6,
    trials: int = 1_000_000,
    finalists: int = 4,
    structural: bool = True,
    over_time: bool = True,
    progress: Progress | None = None,
) -> Audit:
    """The result of an attack on a mechanism.

    Args:
        what: a Veil, or any callable that maps records (N, n), or a list of N mappings where `records` have names, to
            reports: one row of numbers, or one `bytes` of one length, per record.
        epsilon, delta: the claim; a veil brings its own.
        records: some records the mechanism may receive: an array, a list of mappings, or a table. Needed for a
            callable, optional for a veil. A callable gets lists of mappings if `records` is such a list, or a table
            with text, dates or missing values.
        confidence: of the lower bound, over all pairs and events together.
        trials: reports of each of the two inputs of a finalist pair: half choose the event, half bound ε.
        finalists: pairs that are attacked in full; the confidence is split among them (Bonferroni).
        structural: also run the structural checks. Each of them gives a false alarm with probability 1e-9 at most.
        over_time: of a veil with planned rounds, also attack the reports of all rounds together.
        progress: called with a description and the share done.
    """
    target = Target.of(what, epsilon=epsilon, delta=delta, records=records)
    if not (0 < confidence < 1 and trials >= 1000 and finalists >= 1):
        raise AuditError(
            "confidence must lie between 0 and 1, trials must be 1000 or more, finalists 1 or more; "
            f"got {confidence}, {trials} and {finalists}."
        )
    tell = progress or (lambda _what, _share: None)
    # The attacker's own choices need no secrecy and gain from being repeatable.
    rng = np.random.default_rng(20)
    tell("looking for inputs that are easy to distinguish", 0.0)
    pairs = find_pairs(target, count=finalists, pilot=min(2000, trials // 10), rng=rng)
    if not pairs:
        raise AuditError("fewer than two inputs gave a report, so there is nothing to compare: pass other records=.")
    # Every finalist pair gives one event, and so one chance to be wrong. Pairs and events were chosen on other reports
    # than those counted, so the choice costs no confidence.
    alpha = (1 - confidence) / len(pairs)
    attacks = []
    for place, pair in enumerate(pairs):
        tell(f"comparing reports of pair {place + 1} of {len(pairs)}", (place + 0.2) / (len(pairs) + 1))
        attacks.append(_attack(target, pair, trials=trials, alpha=alpha))
    best = max(range(len(attacks)), key=lambda i: attacks[i][0].epsilon_lower)
    tell("structural checks", len(pairs) / (len(pairs) + 1))
    # Where devices take natural values, the ways of asking are tried with natural values.
    asked = [place for place, pair in enumerate(pairs) if pair.natural] or [best]
    telling = max(asked, key=lambda i: attacks[i][0].epsilon_lower)
    checks = structural_checks(target, pairs[telling], trials, rng) if structural else ()
    if structural and over_time and target.veil is not None and target.veil.panel is not None:
        tell("reports over time", (len(pairs) + 0.5) / (len(pairs) + 1))
        records = pairs[telling].first.tolist(), pairs[telling].second.tolist()
        checks += over_time_checks(single(target.veil.device, bytes(32)), records, trials)
    tell("done", 1.0)
    return Audit(
        epsilon_lower=attacks[best][0].epsilon_lower,
        epsilon_claimed=target.epsilon,
        delta=target.delta,
        confidence=confidence,
        trials=trials,
        provable=largest_provable(trials - trials // 2, alpha=alpha, delta=target.delta),
        findings=tuple(finding for finding, _ in attacks),
        checks=checks,
        sketch=attacks[best][1],
        release=_release_of(target),
        date=datetime.now(UTC).date().isoformat(),
    )


def _release_of(target: Target) -> str | None:
    """The id of the release; None for a function, and for a veil with parts that releases do not name."""
    try:
        return None if target.veil is None else target.veil.release_id
    except ReleaseError:
        return None


def structural_checks(target: Target, pair: InputPair, trials: int, rng: np.random.Generator) -> tuple[Check, ...]:
    """All of them, the cheap ones first.

    Args:
        target: what is audited.
        pair: two inputs that are easy to distinguish.
        trials: of the audit; the checks make fewer reports when it has few.
        rng: draws hostile inputs.
    """

    def reports(at_most: int, share: int) -> int:
        return min(at_most, max(min(2000, trials // 2), trials // share))

    many, hostile = reports(100_000, 2), []
    if target.numeric:
        hostile.append(hostile_records(target.low, target.high, rng, many))
    if target.natural is not None:
        hostile.append(target.natural.draw(rng, many))
    return (
        claim_covers_parameters(target),
        no_foreign_randomness(target),
        latents_inside(target, hostile),
        reports_on_grid(target, hostile),
        no_entropy_no_report(target),
        fresh_noise(target, reports(1 << 15, 2)),
        rows_apart(target, pair, reports(20_000, 5)),
        small_calls(target, pair, most=reports(20_000, 50)),
        through_a_client(target, pair, most=min(500, max(200, trials // 200))),
        nothing_echoed(target, rng, calls=reports(10_000, 10), rows=reports(50_000, 2)),
        no_shared_noise(target, forks=FORKS),
    )


def _attack(target: Target, pair: InputPair, *, trials: int, alpha: float) -> tuple[Finding, Sketch]:
    """One event for one pair: scores are learned on a quarter of the reports, the event is chosen on the next, and half
    of them, made afterwards, are counted."""
    if pair.natural and target.veil is not None:
        trials = min(trials, CHUNK)  # reading text takes ten times as long as all the rest
    learn, test = trials // 2, trials - trials // 2
    first, second = target.sample(pair.first, learn), target.sample(pair.second, learn)
    seen = np.empty((2, 0)) if target.veil is None else target.numbers([pair.first, pair.second])
    tried = ideas(target.veil, seen, first)
    event = choose_event(tried, first, second, trials=test, alpha=alpha, delta=target.delta)
    scores = event.score(target.sample(pair.first, test)), event.score(target.sample(pair.second, test))
    p, q = event.counted(*scores)
    finding = Finding(
        pair=" / ".join(pair.names),
        event=str(event),
        reports=test,
        first=q if event.tail.swapped else p,
        second=p if event.tail.swapped else q,
        epsilon_lower=float(epsilon_low(p, q, test, alpha=alpha, delta=target.delta)),
        epsilon_upper=epsilon_of_event_high(p, q, test, alpha=alpha, delta=target.delta),
    )
    few = min(test, 50_000)
    sketch = Sketch(
        inputs=pair.names,
        event=event.in_words(pair.names),
        first=scores[0][:few],
        second=scores[1][:few],
        threshold=event.tail.threshold,
        below=event.tail.below,
    )
    return finding, sketch
