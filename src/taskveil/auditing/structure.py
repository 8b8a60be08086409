"""All structural checks. Each is an attack on one way in which real mechanisms have failed."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from taskveil.arrays import Array
from taskveil.auditing.pairs import Pair, hostile_records
from taskveil.auditing.samples import (
    bit_pattern_attack,
    fresh_noise,
    nothing_echoed,
    rows_apart,
    small_calls,
    through_a_client,
)
from taskveil.auditing.sources import no_entropy_no_report, no_foreign_randomness, no_shared_noise
from taskveil.auditing.target import Check, Target
from taskveil.errors import AuditError


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
    whole = np.asarray(np.isfinite(k).all(axis=1))
    steps = np.floor(np.where(whole[:, None], k, 0.0)).astype(np.int64)
    exact = np.asarray((steps == np.where(whole[:, None], k, 0.5)).all(axis=1))
    held = whole & exact & mechanism.region.contains(steps)
    if not held.all():
        row = int(np.flatnonzero(~held)[0])
        which = [record for part in hostile for record in part][row]
        return Check.of(name, f"{int((~held).sum())} inputs leave it, such as {which}.", held=False)
    fault = mechanism.fault(steps)
    if fault is not None:
        return Check.of(name, fault, held=False)
    return Check.of(name, f"All {len(k):,} hostile inputs end inside it.", held=True)


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
    if target.veil is None:
        held, where = np.asarray(np.isfinite(reports.astype(np.float64)).all(axis=1)), "finite numbers"
    else:
        with np.errstate(invalid="ignore"):
            whole = np.asarray((reports == np.floor(reports)).all(axis=1))
            held = whole & target.veil.mechanism.possible(np.where(whole[:, None], reports, -1).astype(np.int64))
        where = "whole numbers that the release can make"
    if held.all():
        return Check.of(name, f"All reports of {len(reports):,} hostile inputs are {where}.", held=True)
    row = int(np.flatnonzero(~held)[0])
    return Check.of(name, f"{int((~held).sum())} reports are not {where}, such as {reports[row]}.", held=False)


FORKS, SPAWNS = 64, 8


def structural_checks(target: Target, pair: Pair, trials: int, rng: np.random.Generator) -> tuple[Check, ...]:
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
        bit_pattern_attack(target, pair, reports(40_000, 2)),
        no_entropy_no_report(target),
        fresh_noise(target, reports(1 << 15, 2)),
        rows_apart(target, pair, reports(20_000, 5)),
        small_calls(target, pair, most=reports(20_000, 50)),
        through_a_client(target, pair, most=min(500, max(200, trials // 200))),
        nothing_echoed(target, rng, calls=reports(10_000, 10), rows=reports(50_000, 2)),
        no_shared_noise(target, forks=FORKS, spawns=SPAWNS),
    )
