"""All structural checks, each an attack on one way in which real mechanisms have failed: subject by subject in
`shapes`, `sources`, `samples`, `calls` and `echoes`."""

from __future__ import annotations

import numpy as np

from taskveil.auditing.calls import small_calls, through_a_client
from taskveil.auditing.check import Check
from taskveil.auditing.echoes import nothing_echoed
from taskveil.auditing.pairs import Pair, hostile_records
from taskveil.auditing.samples import bit_pattern_attack, fresh_noise, rows_apart
from taskveil.auditing.shapes import claim_covers_parameters, latents_inside, reports_on_grid
from taskveil.auditing.sources import no_entropy_no_report, no_foreign_randomness, no_shared_noise
from taskveil.auditing.target import Target

FORKS, SPAWNS = 64, 8


def structural_checks(target: Target, pair: Pair, trials: int, rng: np.random.Generator) -> tuple[Check, ...]:
    """All of them, the cheap ones first.

    Args:
        target: what is audited.
        pair: two inputs that are easy to tell apart.
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
