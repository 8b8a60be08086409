"""Codewords that a public seed stands for: as good as Gaussian vectors, and equal bit by bit in every language.

A seed is two 32-bit numbers. Word number i of it is mix(mix(i + first) ^ second), i + first modulo 2^32, with `mix` a
bijection of 32-bit numbers in which every output bit depends on every input bit. Each half of a word chooses an entry
of a table of normal quantiles. Any word can be computed alone, so the server finds one codeword without the others.

Of `size` codewords the second half is the first half with the other sign: as many directions for half the work.

With `rows` above 0, vectors of `dim` numbers are first multiplied by a matrix of so many rows, from the same seed, and
the codewords have so many numbers. For a Gaussian matrix W and any v, E[Wᵀ v(Wx)] is a multiple of x: a report stays
unbiased (docs/theory/balls.md).

Numbers are whole, and sums of them stay below 2^53, so doubles hold them exactly in any order of summation. Square
roots and divisions are rounded as IEEE 754 says, in Python and in browsers alike.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats, Integers, Integers16, blocks, own_arrays, owned
from taskveil.client.networks import MOST_NUMBERS
from taskveil.errors import MechanismError

Words = NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, eq=False)
class SeededCodewords:
    """`size` codewords for vectors of `dim` numbers, for every seed. `quantiles` (H,) are those of the absolute value
    of a normal number, in any unit; H is a power of two."""

    dim: int
    rows: int
    size: int
    quantiles: Integers16

    def __post_init__(self) -> None:
        own_arrays(self)
        if self.dim < 1 or self.rows < 0 or self.size < 2 or self.size % 2:
            raise MechanismError("codewords need 1 dimension or more, and there is an even number of them.")
        if self.size // 2 * self.inner + self.rows * self.dim > MOST_NUMBERS:
            raise MechanismError(f"a report has at most {MOST_NUMBERS} numbers of codewords: use fewer codewords.")
        entries = len(self.quantiles) if self.quantiles.ndim == 1 and self.quantiles.dtype == np.int16 else 0
        if not 1 <= entries <= 2**15 or entries & (entries - 1) or self.quantiles.min() < 1:
            raise MechanismError("a table of quantiles has 1, 2, 4, … or 2^15 whole numbers of 1 or more in 16 bits.")

    @property
    def inner(self) -> int:
        """How many numbers a codeword has."""
        return self.rows or self.dim

    @cached_property
    def largest(self) -> int:
        """The largest quantile."""
        return int(self.quantiles.max())

    @cached_property
    def spread(self) -> float:
        """The standard deviation of a codeword's numbers."""
        return float(np.sqrt((self.quantiles.astype(np.float64) ** 2).mean()))

    @cached_property
    def _table(self) -> Floats:
        """Quantiles of both signs (2 H,)."""
        return owned(np.concatenate([self.quantiles, -self.quantiles.astype(np.float64)]))

    def _numbers(self, words: Words, width: int) -> Floats:
        """Words (…, w) → numbers (…, width): of the lower halves of all words, then of the upper halves."""
        mask = np.uint32(len(self._table) - 1)
        half, found = width - words.shape[-1], np.empty((*words.shape[:-1], width))
        found[..., : width - half] = self._table[words & mask]
        found[..., width - half :] = self._table[(words[..., :half] >> np.uint32(16)) & mask]
        return found

    def _lines(self, seeds: Integers, start: int, lines: slice, width: int) -> Floats:
        """(N, lines, width): some of the lines of numbers whose first one begins with word `start`."""
        words = -(-width // 2)
        places = start + np.arange(lines.start * words, lines.stop * words)
        return self._numbers(seeded_words(seeds, places).reshape(len(seeds), -1, words), width)

    @property
    def _matrix_start(self) -> int:
        """The first word of the matrix: those of the codewords come before."""
        return self.size // 2 * -(-self.inner // 2)

    def _products(self, seeds: Integers, columns: Floats) -> Floats:
        """The matrix times columns (N, dim, M) → (N, rows, M)."""
        parts = [
            self._lines(seeds, self._matrix_start, lines, self.dim) @ columns
            for lines in _parts(self.rows, len(seeds) * self.dim)
        ]
        return np.concatenate(parts, axis=1)

    def scores(self, seeds: Integers, vectors: Integers) -> Floats:
        """Seeds (N, 2) and vectors (N, M, dim) → the score of every codeword (N, M, size): its product with the vector
        over its length. All vectors in a row share the seed."""
        half, scores = self.size // 2, np.empty((*vectors.shape[:2], self.size))
        for some in blocks(len(seeds), half * self.inner + self.rows * self.dim):
            columns = vectors[some].astype(np.float64).transpose(0, 2, 1)
            if self.rows:
                columns = np.floor(self._products(seeds[some], columns) / self.largest)
            for lines in _parts(half, len(columns) * self.inner):
                codewords = self._lines(seeds[some], 0, lines, self.inner)
                lengths = np.sqrt(np.einsum("nki,nki->nk", codewords, codewords))
                scores[some, :, lines] = (codewords @ columns).transpose(0, 2, 1) / lengths[:, None, :]
        scores[:, :, half:] = -scores[:, :, :half]
        return scores

    def directions(self, seeds: Integers, codes: Integers) -> Floats:
        """Seeds (N, 2) and numbers of codewords (N,) → unit vectors v (N, dim), Wᵀ v where there is a matrix; zero for
        numbers from `size` on."""
        words, half = -(-self.inner // 2), self.size // 2
        places = (codes % half)[:, None] * words + np.arange(words)
        found = self._numbers(seeded_words(seeds, places), self.inner)
        sign = np.where(codes < half, 1.0, np.where(codes < self.size, -1.0, 0.0))
        found *= sign[:, None] / np.linalg.norm(found, axis=1, keepdims=True)
        if not self.rows:
            return found
        wide = np.zeros((len(codes), self.dim))
        for some in blocks(len(codes), self.rows * self.dim):
            for lines in _parts(self.rows, len(seeds[some]) * self.dim):
                numbers = self._lines(seeds[some], self._matrix_start, lines, self.dim)
                wide[some] += (found[some, None, lines] @ numbers)[:, 0] / self.spread
        return wide


def _parts(count: int, width: int) -> Iterator[slice]:
    """So many lines of this width, as many at a time as stay in the processor's cache."""
    return (slice(some.start, min(some.stop, count)) for some in blocks(count, width))


def seeded_words(seeds: Integers, places: Integers) -> Words:
    """Seeds (N, 2) and places (n,) or (N, n) → the words there (N, n)."""
    first, second = (seeds[:, column].astype(np.uint32)[:, None] for column in (0, 1))
    return _mix(_mix(places.astype(np.uint32) + first) ^ second)


def _mix(x: Words) -> Words:
    """A bijection of 32-bit numbers, in place: multiplications by odd numbers and shifted exclusive ors."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    x ^= x >> np.uint32(15)
    return x
