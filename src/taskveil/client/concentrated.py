"""From concentrated to approximate privacy: the ε that a mechanism keeps at a given δ.

A mechanism is ρ-zCDP if, for any two inputs and every order α > 1, the Rényi divergence of order α between its reports
is at most α·ρ. Then it is (ε, δ)-private for every α > 1 (Canonne, Kamath and Steinke 2020, Proposition 12) with

    ε = αρ + ln(1 − 1/α) − (ln δ + ln α) / (α − 1).

Every order gives a valid bound, so a poor order only states a larger ε. `epsilon_bound` computes this number in whole
numbers and rounds it up: clients in other languages find the same double. The others find the order in doubles.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.promise import round_up
from taskveil.errors import MechanismError


def epsilon_bound(rho: Fraction, delta: float, order: float) -> float:
    """A double that is at least the ε of ρ-zCDP at this δ and order; 0 if that ε is below 0.

    The number of the formula is never larger, and at most 2^-120 smaller before it is rounded up to a double. This
    needs the bounds of δ and of the order.
    """
    if not (2.0**-100 <= delta <= 0.5 and 1 + 2.0**-20 <= order <= 2.0**20):
        raise MechanismError(
            f"delta must lie between 2^-100 and 1/2 and the order between 1 + 2^-20 and 2^20, got {delta} and {order}."
        )
    return _bound(rho, delta, order)


def _bound(rho: Fraction, delta: float, order: float) -> float:
    (n, d), (part, whole) = order.as_integer_ratio(), delta.as_integer_ratio()
    # (α − 1)·ε = α(α − 1)ρ + ln(1/δ) − ln α − (α − 1) ln(α/(α − 1)), times 2^192; what is added is rounded up, what is
    # subtracted is rounded down.
    cost = -(-(n * (n - d) * rho.numerator << 192) // (d * d * rho.denominator))
    added = cost + _floor_log(whole, part) + 2**16
    subtracted = _floor_log(n, d) + (n - d) * _floor_log(n, n - d) // d
    return round_up(Fraction((added - subtracted) * d, (n - d) << 192)) if added > subtracted else 0.0


def exact_epsilon(rho: Fraction, delta: float, order: float) -> Decimal:
    """The ε of the formula in sixty digits, by other arithmetic than `epsilon_bound`."""
    exact = Context(prec=120)
    a, one = Decimal(order), Decimal(1)
    cost = exact.divide(exact.multiply(a, Decimal(rho.numerator)), Decimal(rho.denominator))
    gained = exact.ln(exact.subtract(one, exact.divide(one, a)))
    logs = exact.add(exact.ln(Decimal(delta)), exact.ln(a))
    found = exact.subtract(exact.add(cost, gained), exact.divide(logs, exact.subtract(a, one)))
    return Context(prec=60).plus(found)


def best_order(rho: float, delta: float) -> float:
    """The order at which ε is smallest for this ρ and δ, nearly."""
    return _least(lambda orders: orders * rho + _beside(orders, delta))


def largest_rho(epsilon: float, delta: float) -> tuple[float, float]:
    """The largest ρ of which ε at this δ is at most `epsilon`, nearly, and its order; ρ ≤ 0 if there is none."""
    order = _least(lambda orders: (_beside(orders, delta) - epsilon) / orders)
    return float((epsilon - _beside(np.array([order]), delta)[0]) / order), order


def _beside(orders: Floats, delta: float) -> Floats:
    """ε less αρ, for orders (N,)."""
    return np.asarray(np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1))


def _least(cost: Callable[[Floats], Floats]) -> float:
    """The order of least cost, from a coarse grid of ln(α − 1) and then a fine one."""
    low, high = -20 * math.log(2), 20 * math.log(2)
    for _ in range(2):
        grid = np.linspace(low, high, 4001)
        place = int(np.argmin(cost(1 + np.exp(grid))))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, 4000)]
    return float(np.clip(1 + np.exp(grid[place]), 1 + 2.0**-20, 2.0**20))


def _floor_log(p: int, q: int) -> int:
    """A whole number v with v ≤ 2^192 · ln(p/q) < v + 2^16, for p ≥ q ≥ 1 and p/q < 2^101.

    p/q is 2^e · m with 1 ≤ m < 2. Everything below is rounded down. `_floor_log_of` falls short by less than 2^9 units,
    and there are at most 101 of them.
    """
    exponent = (p // q).bit_length() - 1
    return exponent * _floor_log_of(2 << 192) + _floor_log_of((p << 192) // (q << exponent))


def _floor_log_of(m: int) -> int:
    """2^192 · ln(m/2^192) less than 2^9 units too small, for m/2^192 from 1 to 2: 2 artanh z, z = (m − 1)/(m + 1).

    z ≤ 1/3, so there are at most 62 terms. A power of z is short by at most two units, as 2/9 + 2/3 + 1 < 2, and
    each division by at most one more.
    """
    one = 1 << 192
    power = ((m - one) << 192) // (m + one)
    square, total, k = power * power >> 192, 0, 1
    while power:
        total, power, k = total + power // k, power * square >> 192, k + 2
    return 2 * total
