"""The promise in words that need no mathematics, for the person whose device keeps it.

The sentence is made from what the mechanism keeps, never taken from a file: a release may say what it likes.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from taskveil.client.rounding import rounded_up

WEAK = 5.0
"""Above this budget the sentence says that the protection is weak: odds of 148 to 1 and more."""


def statement(epsilon: float, delta: float, enforced_by: str) -> str:
    """What (ε, δ)-LDP of one report means, and `enforced_by` what it is kept."""
    exception = f", except with probability {delta:g}" if delta else ""
    times = _times(epsilon)
    odds = f"a report can turn even odds between two possible records into odds of up to {times} to 1"
    weak = f" This is weak protection: {odds}." if epsilon > WEAK else ""
    return (
        f"Whatever a person's record contains, no report becomes more than {times} times as likely as it "
        f"would be for any other record{exception} (ε = {rounded_up(epsilon)}).{weak} {enforced_by} This holds for one "
        "report per person, for every input including malformed ones, and whatever anyone else knows or computes from "
        "the report."
    )


def _times(epsilon: float) -> str:
    """e^ε in three digits, rounded up in decimal: the sentence never promises more than the mathematics."""
    if epsilon > 30:
        return f"e^{rounded_up(epsilon)}"
    factor = Context(prec=60).exp(Decimal(epsilon))
    digits = max(0, 2 - math.floor(factor.log10()))
    return f"{factor.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING):,.{digits}f}"
