"""The promise of a report: its numbers, rounded up, and the sentence that a person reads.

Every number of a promise is rounded up: the stated ε is never smaller than the true ε. The sentence
is made from the mechanism. It is never taken from a file, because a forged release could state anything.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction


def round_up(exact: Fraction) -> float:
    """The least double that is not below `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def rounded_up(epsilon: float | Decimal) -> str:
    """ε in six digits, rounded up from the shortest decimal that names the double: 2.0000004 becomes 2.00001."""
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(str(epsilon))):g}"


def log_ratio(a: int, b: int) -> float:
    """The least double certified to be at least ln(a/b), for whole numbers a ≥ b ≥ 1: the same in every client."""
    # The double nearest to sixty digits is the least candidate. The certificate, which grows with ε, decides.
    bound = float(exact_log_ratio(a, b))
    while floor_exp_times(bound, b) < a:
        bound = math.nextafter(bound, math.inf)
    return bound


def exact_log_ratio(a: int, b: int) -> Decimal:
    """ln(a/b) in sixty digits, by other arithmetic than `log_ratio`'s certificate."""
    exact = Context(prec=60)
    return exact.ln(exact.divide(a, b))


def floor_exp_times(epsilon: float, b: int) -> int:
    """An integer a ≤ e^epsilon · b, below the largest one by a relative 2^-80 at most; nothing is rounded up."""
    if epsilon < 0:
        return 0
    numerator, denominator = epsilon.as_integer_ratio()
    scale = 1 << 128
    term = total = scale
    for j in range(1, 10_000):
        term = term * numerator // (denominator * j)
        if term == 0:
            break
        total += term
    return b * total // scale


WEAK = 5.0
"""The ε above which the sentence says that the protection is weak: odds of 148 to 1 and more."""


def statement(epsilon: float, delta: float, enforced_by: str) -> str:
    """The sentences that say what (ε, δ)-LDP of one report means. `enforced_by` says how it is kept."""
    odds = (
        f"a report can turn even odds between two possible records into odds of up to {times_as_likely(epsilon)} to 1"
    )
    weak = f" This is weak protection: {odds}." if epsilon > WEAK else ""
    return (
        f"{in_a_sentence(epsilon, delta)}{weak} {enforced_by} This holds for one report per person, for every input "
        "including malformed ones, and whatever anyone else knows or computes from the report."
    )


def in_a_sentence(epsilon: float, delta: float) -> str:
    """What (ε, δ)-LDP of one report means, in one sentence: the first of its `statement`."""
    exception = ""
    if delta:
        exception = (
            f", except with probability {chance(delta)}: then a report may reveal more, at worst the whole record"
        )
    return (
        f"Whatever a person's record contains, no report becomes more than {times_as_likely(epsilon)} times as likely "
        f"as it would be for any other record (ε = {rounded_up(epsilon)}){exception}."
    )


def chance(delta: float, count: int = 1) -> str:
    """`count` times a probability above 0, in words, "δ = 1e-06 (1 in 1,000,000)": rounded up from the shortest decimal
    that names the double."""
    total = min(Context(prec=60).multiply(Decimal(repr(float(delta))), count), Decimal(1))
    return f"δ = {rounded_up(total)} (1 in {int(1 / Fraction(total)):,})"


def beside(delta: float) -> str:
    """What stands behind an ε in a line: ", δ = 1e-06" if δ is above 0, else nothing."""
    return f", δ = {rounded_up(delta)}" if delta else ""


def together(spent: float, cap: float, delta: float = 0.0) -> str:
    """The sentences that say what all reports of one person reveal together: those recorded so far, and all that the
    cap allows.

    Budgets add up, whatever the records of the rounds are. So odds between two people, even before the first report,
    are at most e^ε to 1 after reports that cost ε together.

    Args:
        spent: what the recorded reports cost together; 0 if there is none.
        cap: what all reports may cost together; it counts as kept to 12 digits.
        delta: of one report of this release. Neither `spent` nor the cap counts it.
    """
    added = ""
    if delta:
        added = f" Every report of this release adds {chance(delta)} to the probability that this does not hold."
    even = "even odds between two people's records become odds of at most"
    so_far = (
        f" With the reports that this device has recorded so far (ε = {rounded_up(spent)}), {even} "
        f"{times_as_likely(spent)} to 1."
    )
    if spent >= cap:
        return f"Reports add up.{so_far} The cap of ε = {rounded_up(cap)} is reached.{added}"
    allowed = f" With all reports that the cap of ε = {rounded_up(cap)} allows, "
    become = "they become at most" if spent else even
    return f"Reports add up.{so_far if spent else ''}{allowed}{become} {times_as_likely(cap)} to 1.{added}"


def times_as_likely(epsilon: float) -> str:
    """e^ε in three digits or, from 1,000 on, without a fraction; rounded up, so that no sentence promises too much."""
    if epsilon > 30:
        return f"e^{rounded_up(epsilon)}"
    factor = Context(prec=60).exp(Decimal(epsilon))
    digits = max(0, 2 - math.floor(factor.log10()))
    return f"{factor.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING):,.{digits}f}"
