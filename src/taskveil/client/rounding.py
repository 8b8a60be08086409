"""Numbers of a promise, rounded against ourselves: never smaller on paper than they are.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction


def round_up(exact: Fraction) -> float:
    """The least double that is not below `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def rounded_up(epsilon: float) -> str:
    """Six digits for people, rounded up from the shortest decimal that names the double: 2.0000004 is no 2."""
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(epsilon))):g}"
