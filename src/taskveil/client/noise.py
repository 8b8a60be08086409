"""Exact samplers of integer noise, apart from the mechanisms that use them.

The discrete Laplace distribution of Canonne, Kamath and Steinke (2020) with scale t > 0,

    P(x) = (1 − p) / (1 + p) · p^|x|,   p = e^(−1/t),   x an integer,

is drawn *exactly*, by inversion. Since P(|x| ≥ k) = 2 p^k / (1 + p) for k ≥ 1, the magnitude is

    |x| = ⌊c − t ln R⌋,   c = t ln(2 / (1 + p)),   R a uniform real,

and the sign is a fair coin. The bits of R come from the operating system, and only as many are read as the answer
needs. One 64-bit word and a double decide nearly every draw: the error of the double is bounded, and where that error
leaves a doubt about the integer, more bits of R and decimal arithmetic with certified rounding decide. The result
depends on the bits only, never on how a machine rounds, so clients in other languages draw the same noise from the same
bits.

The discrete Gaussian distribution with scale σ > 0,

    P(x) ∝ e^(−x²/(2σ²)),   x an integer,

is drawn exactly too, by rejection (the same paper, Algorithm 3): a draw y of the discrete Laplace distribution with
scale σ is kept with probability e^(−γ), γ = (|y| − σ)²/(2σ²). The product is proportional to
e^(−|y|/σ − (|y| − σ)²/(2σ²)) = e^(−1/2) · e^(−y²/(2σ²)). Whether a uniform real is below e^(−γ) is decided as above.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import blocks
from taskveil.client import entropy


def discrete_laplace(scale: float, count: int) -> NDArray[np.int64]:
    """`count` independent draws of the discrete Laplace distribution with scale `scale`, exact.

    Each draw takes one word: its lowest bit is the sign, the others are the first 63 bits of R.
    """
    noise = np.empty(count, dtype=np.int64)
    for some in blocks(count, 1):
        block = noise[some]
        words = entropy.random_words(len(block))
        np.multiply(_magnitudes(words, scale), 1 - 2 * (words & 1).astype(np.int64), out=block)
    return noise


def discrete_laplace_variance(scale: float) -> float:
    """2p / (1 − p)² with p = e^(−1/scale): 2·scale² − 1/6 + O(1/scale²)."""
    return 0.5 / math.sinh(0.5 / scale) ** 2


def discrete_gaussian(scale: float, count: int) -> NDArray[np.int64]:
    """`count` independent draws of the discrete Gaussian distribution with scale `scale`, exact.

    All proposals are drawn first, then a word for each that decides whether it is kept; then the same for those that
    were not. How often that happens does not depend on the draws that are kept, nor on a record.
    """
    noise = np.empty(count, dtype=np.int64)
    for some in blocks(count, 1):
        block = noise[some]
        waiting = np.arange(len(block))
        while len(waiting):
            proposed = discrete_laplace(scale, len(waiting))
            kept = _is_kept(proposed, scale)
            block[waiting[kept]] = proposed[kept]
            waiting = waiting[~kept]
    return noise


def discrete_gaussian_mass(scale: float) -> float:
    """Σ e^(−x²/(2·scale²)) over all integers x."""
    if scale >= 4:  # then the sum is √(2π)·scale up to a factor 1 + 2 e^(−2π²·scale²)
        return math.sqrt(2 * math.pi) * scale
    return 1 + 2 * sum(math.exp(-((x / scale) ** 2) / 2) for x in range(1, 200))


def discrete_gaussian_variance(scale: float) -> float:
    """Σ x² e^(−x²/(2·scale²)) over all integers x, divided by `discrete_gaussian_mass`; scale² for all but small
    scales."""
    if scale >= 4:
        return scale**2
    return 2 * sum(x**2 * math.exp(-((x / scale) ** 2) / 2) for x in range(1, 200)) / discrete_gaussian_mass(scale)


def _is_kept(proposed: NDArray[np.int64], scale: float) -> NDArray[np.bool_]:
    """(N,): for each proposal y whether U < e^(−γ), γ = (|y| − scale)²/(2·scale²), with a uniform real U of its own."""
    words = entropy.random_words(len(proposed))
    away = (np.abs(proposed) - scale) / scale
    apart = np.exp(-0.5 * (away * away)) - words * 2.0**-64
    # γ has a relative error below 2^-50, which moves e^(−γ) by at most γ e^(−γ) 2^-50 < 2^-51; exp, the conversion of
    # the word and the difference err by less than 2^-51 each, and the bits not seen count 2^-64. Together less than
    # 2^-48; a thousand times that is charged.
    kept: NDArray[np.bool_] = apart > 0
    for lane in np.flatnonzero(np.abs(apart) < 2.0**-38):
        kept[lane] = _is_below(int(words[lane]), abs(int(proposed[lane])), scale)
    return kept


def _is_below(leading: int, size: int, scale: float) -> bool:
    """Whether U < e^(−γ), γ = (size − scale)²/(2·scale²), for a real U that starts with 64 bits `leading`.

    More bits are read until it is certain.
    """
    bits, numerator = 64, leading
    gamma = (size / Fraction(scale) - 1) ** 2 / 2
    while True:
        context = Context(prec=bits // 3 + 40)
        # γ has a relative error of one rounding, which moves e^(−γ) by less than one unit in the last place of 1; two
        # more roundings of numbers below 1 stay far below `slack`.
        slack = Decimal(10) ** (4 - context.prec)
        edge = context.exp(context.divide(-gamma.numerator, gamma.denominator))
        low, high = (context.divide(n, 1 << bits) for n in (numerator, numerator + 1))
        if high <= context.subtract(edge, slack):
            return True
        if low >= context.add(edge, slack):
            return False
        bits, numerator = bits + 64, numerator << 64 | int(entropy.random_words(1)[0])


def _magnitudes(words: NDArray[np.uint64], scale: float) -> NDArray[np.int64]:
    """⌊c − scale · ln R⌋ for reals R that start with the upper 63 bits of `words`."""
    shift = -scale * math.log1p(math.expm1(-1.0 / scale) / 2.0)
    y = np.log(np.maximum(words, 1) * 2.0**-64)  # words this small are decided below
    y *= -scale
    y += shift
    whole = np.floor(y)
    # For words of at least 2^48 the true value differs from y by less than `doubt`: the bits not seen move ln R by at
    # most 2^-47, and y ≤ 11.1 · scale + 1 carries a relative error below 2^-50 through conversion,
    # log, product and sum. Together less than scale · 2^-45 + 2^-49; eight times that is charged.
    doubt = scale * 2.0**-42 + 2.0**-46
    y -= whole
    y -= 0.5
    undecided = np.flatnonzero((np.abs(y, out=y) > 0.5 - doubt) | (words < 2**48))
    whole[undecided] = 0
    magnitudes: NDArray[np.int64] = whole.astype(np.int64)
    for lane in undecided:
        magnitudes[lane] = _decided(int(words[lane]) >> 1, scale)
    return magnitudes


def _decided(leading: int, scale: float) -> int:
    """⌊c − scale · ln R⌋ for a real R that starts with 63 bits `leading`. More bits are read until it is certain."""
    bits, numerator, t = 63, leading, Decimal(scale)
    while True:
        context = Context(prec=bits // 3 + 40)
        # decimal's ln, exp and arithmetic are correctly rounded; a dozen roundings of values that add up to less than
        # 10^20 stay far below `slack`.
        slack = Decimal(10) ** (24 - context.prec)
        p = context.exp(context.divide(-1, t))
        constant = context.ln(context.divide(2, context.add(1, p)))
        low, high = (
            context.multiply(t, context.subtract(constant, context.ln(context.divide(n, Decimal(1 << bits)))))
            for n in (Decimal(numerator + 1), Decimal(numerator))
        )
        low, high = context.subtract(low, slack), context.add(high, slack)
        if high.is_finite() and math.floor(low) == math.floor(high):
            return math.floor(high)
        bits, numerator = bits + 64, numerator << 64 | int(entropy.random_words(1)[0])
