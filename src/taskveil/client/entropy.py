"""Randomness for mechanisms. Its only source is the operating system, which is asked again for every report.

Nothing is buffered, so a fork can never repeat its parent's noise, and nothing is seeded. Tests replace `system_bytes`
in this module (pytest's monkeypatch). No parameter, environment variable or file can do so.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import EntropyError

system_bytes = os.urandom


def random_words(count: int) -> NDArray[np.uint64]:
    """`count` uniform 64-bit words. Raises EntropyError rather than return anything less."""
    try:
        raw = system_bytes(8 * count)
    except OSError as error:
        raise EntropyError(f"the operating system gave no randomness ({error}); no report was made.") from error
    if len(raw) != 8 * count:
        raise EntropyError(f"the operating system gave {len(raw)} of {8 * count} random bytes; no report was made.")
    return np.frombuffer(raw, dtype="<u8")


def uniform_below(bound: int, count: int) -> NDArray[np.int64]:
    """`count` uniform integers in [0, bound) for bound ≤ 2^63, by rejection.

    A candidate is the top bits of one word, as many as bound − 1 has; candidates of `bound` or more are drawn anew.
    """
    shift = np.uint64(64 - max((bound - 1).bit_length(), 1))
    drawn = (random_words(count) >> shift).astype(np.int64)
    rejected = np.flatnonzero(drawn >= bound)
    while len(rejected):
        drawn[rejected] = (random_words(len(rejected)) >> shift).astype(np.int64)
        rejected = rejected[drawn[rejected] >= bound]
    return drawn


def wide_uniform_below(bound: int) -> int:
    """One uniform integer in [0, bound) for any bound, by rejection from as many words as it takes."""
    bits = max((bound - 1).bit_length(), 1)
    words = -(-bits // 64)
    while True:
        candidate = 0
        for word in random_words(words):
            candidate = candidate << 64 | int(word)
        candidate >>= 64 * words - bits
        if candidate < bound:
            return candidate


def bernoulli(parts: NDArray[np.int64], wholes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(N,): true with probability parts / wholes, exactly, for 0 ≤ parts < wholes ≤ 2^42.

    A uniform number below 1 is compared with the fraction, 63 binary digits at a time. More digits are drawn only if
    all of them are equal (probability 2^-63), so no fraction takes longer than another.
    """
    drawn = (random_words(len(parts)) >> np.uint64(1)).astype(np.int64)
    digits, rest = np.zeros(len(parts), dtype=np.int64), parts
    for _ in range(3):  # 21 at once: what is left over stays below 2^63
        more, rest = np.divmod(rest << 21, wholes)
        digits = digits << 21 | more
    happens = drawn < digits
    undecided = np.flatnonzero(drawn == digits)
    if len(undecided):
        happens[undecided] = bernoulli(rest[undecided], wholes[undecided])
    return happens
