"""Numbers of a promise, rounded against ourselves: never smaller on paper than they are.

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


def rounded_up(epsilon: float) -> str:
    """Six digits for people, rounded up from the shortest decimal that names the double: 2.0000004 is no 2."""
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(epsilon))):g}"


def log_ratio(a: int, b: int) -> float:
    """The least double certified to be at least ln(a/b), for whole numbers a ≥ b ≥ 1: the same in every client."""
    # The double nearest to sixty digits is the least candidate; the certificate, which grows with ε, has the last word.
    bound = float(exact_log_ratio(a, b))
    while floor_exp_times(bound, b) < a:
        bound = math.nextafter(bound, math.inf)
    return bound


def exact_log_ratio(a: int, b: int) -> Decimal:
    """ln(a/b) in sixty digits, by other arithmetic than `log_ratio`'s certificate."""
    exact = Context(prec=60)
    return exact.ln(exact.divide(a, b))


def floor_exp_times(epsilon: float, b: int) -> int:
    """An integer a ≤ e^epsilon · b, short of the largest by a relative 2^-80 at most; nothing is rounded up."""
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
