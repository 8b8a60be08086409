"""What the literature has for shares of values under ε-LDP: what the categories of a survey are compared with.

Each method can draw reports of given people and estimate shares from them, so that its formula can be checked. The
error of a method is E Σ_v (score_v − 1[value = v])², the total squared error of all shares times the number of reports.
Every score is unbiased, so the errors of N reports add up to N times this for all people.

`GeneralizedResponse`  the value itself, or any other one (k-ary randomised response)
`SubsetSelection`      Ye and Barg (2018), Wang et al. (2016): w of all values, likelier if they hold one's own
`LocalHashing`         Wang et al. (2017): randomised response on a hash of the value to g cells; OLH is its best g
`HadamardResponse`     Acharya, Sun and Zhang (2019): half of a block of a Hadamard code
`SquareWave`           Li et al. (2020), for numbers: a position near one's own, and shares of bins by EM

A method whose reports support v with probability p where v is the value, and with q where it is not, has the score
(1[v is supported] − q)/(p − q), and the error (p(1 − p) + (k − 1) q(1 − q))/(p − q)² for any shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.errors import DataError
from taskveil.peers.likelihood import likeliest_shares

HASH_PRIME = 2**31 - 1
"""Hashes are (a·v + c mod this prime) mod g: two values get the same cell with probability 1/g, to nine digits."""


@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """A method for the shares of `values` values. Subclasses say p, q, and which values a report supports."""

    values: int
    epsilon: float

    def __post_init__(self) -> None:
        if self.values < 2 or not 0.0 < self.epsilon < math.inf:
            raise DataError(f"shares need 2 values and a budget above 0; got {self.values} and {self.epsilon}.")

    @property
    def name(self) -> str:
        """The method and its parameter."""
        raise NotImplementedError

    @property
    def support(self) -> tuple[float, float]:
        """(p, q): how probable it is that a report supports the person's own value, and any other one."""
        raise NotImplementedError

    def error(self, shares: Floats) -> float:  # noqa: ARG002
        """The total squared error of shares, times the number of reports, for people with these shares (k,)."""
        p, q = self.support
        return (p * (1.0 - p) + (self.values - 1) * q * (1.0 - q)) / (p - q) ** 2

    def variance(self, shares: Floats, weights: Floats) -> float:
        """The variance of one report's estimate of Σ_v weights_v · share_v, people's differences included.

        Only for methods in which any two other values are supported alike: `joint` is what it needs.
        """
        p, q = self.support
        other, both = self.joint
        # The weights of supported values, squared, for one who has v: own² p + 2 own·others·other + …
        total, squares = weights.sum(), (weights**2).sum()
        others, other_squares = total - weights, squares - weights**2
        second = (
            weights**2 * p + 2.0 * weights * others * other + other_squares * q + (others**2 - other_squares) * both
        )
        first = weights * p + others * q
        scale = p - q
        shifted = second - 2.0 * q * total * first + (q * total) ** 2
        return float(shares @ shifted) / scale**2 - float(shares @ weights) ** 2

    @property
    def joint(self) -> tuple[float, float]:
        """How probable it is that a report supports one's own value and a given other one, and two given others."""
        raise NotImplementedError

    def reports(self, people: Integers, rng: np.random.Generator) -> Integers:
        """One report for every value (N,) of `people`: a row each (N, ...)."""
        raise NotImplementedError

    def supported(self, reports: Integers) -> Iterator[Bools]:
        """For every value, in order, which of the reports support it (N,)."""
        raise NotImplementedError

    def estimate(self, reports: Integers) -> Floats:
        """Unbiased shares (k,) of the values."""
        p, q = self.support
        counts = np.array([np.count_nonzero(held) for held in self.supported(reports)])
        return np.asarray((counts / len(reports) - q) / (p - q))


@dataclass(frozen=True, kw_only=True)
class GeneralizedResponse(Frequencies):
    """The value itself, e^ε times likelier than any other one."""

    @property
    def name(self) -> str:
        """The method."""
        return "GRR"

    @property
    def support(self) -> tuple[float, float]:
        """p and q of the value itself and of another one."""
        total = math.exp(self.epsilon) + self.values - 1
        return math.exp(self.epsilon) / total, 1.0 / total

    @property
    def joint(self) -> tuple[float, float]:
        """A report supports one value."""
        return 0.0, 0.0

    def reports(self, people: Integers, rng: np.random.Generator) -> Integers:
        """Values (N, 1)."""
        p, _ = self.support
        others = (people + rng.integers(1, self.values, len(people))) % self.values
        return np.where(rng.random(len(people)) < p, people, others)[:, None]

    def supported(self, reports: Integers) -> Iterator[Bools]:
        """The value that was sent."""
        return (reports[:, 0] == value for value in range(self.values))


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(Frequencies):
    """`size` values, all subsets that hold one's own value e^ε times likelier than the others."""

    size: int

    @classmethod
    def best(cls, values: int, epsilon: float) -> SubsetSelection:
        """The size of least error: one of the two whole numbers around k/(e^ε + 1)."""
        near = values / (math.exp(epsilon) + 1.0)
        sizes = {min(max(1, size), values - 1) for size in (math.floor(near), math.ceil(near))}
        ways = (cls(values=values, epsilon=epsilon, size=size) for size in sorted(sizes))
        return min(ways, key=lambda way: way.error(np.full(values, 1.0 / values)))

    @property
    def name(self) -> str:
        """The method and the size of a subset."""
        return f"SS, w = {self.size}"

    @property
    def support(self) -> tuple[float, float]:
        """p: the subset holds one's own value; q: it holds a given other one."""
        w, k = self.size, self.values
        p = w * math.exp(self.epsilon) / (w * math.exp(self.epsilon) + k - w)
        return p, (p * (w - 1) + (1.0 - p) * w) / (k - 1)

    @property
    def joint(self) -> tuple[float, float]:
        """Pairs of a uniform subset of the other values."""
        w, k, (p, _) = self.size, self.values, self.support
        if k == 2:
            return p * (w - 1), 0.0
        pairs = p * (w - 1) * (w - 2) + (1.0 - p) * w * (w - 1)
        return p * (w - 1) / (k - 1), pairs / ((k - 1) * (k - 2))

    def reports(self, people: Integers, rng: np.random.Generator) -> Integers:
        """Subsets (N, size)."""
        p, _ = self.support
        chances = rng.random((len(people), self.values))
        # The person's own value comes first or last among all values in a random order.
        chances[np.arange(len(people)), people] = np.where(rng.random(len(people)) < p, -1.0, 2.0)
        return np.argpartition(chances, self.size - 1, axis=1)[:, : self.size]

    def supported(self, reports: Integers) -> Iterator[Bools]:
        """The values of the subset."""
        return ((reports == value).any(axis=1) for value in range(self.values))


@dataclass(frozen=True, kw_only=True)
class LocalHashing(Frequencies):
    """Randomised response on a hash of the value to `cells`, with a fresh hash for every report."""

    cells: int

    @classmethod
    def best(cls, values: int, epsilon: float) -> LocalHashing:
        """The number of cells of least error: for many values about e^ε + 1, for few it can be another one."""
        most = max(3, math.ceil(2.0 * (math.exp(epsilon) + 1.0)))
        ways = (cls(values=values, epsilon=epsilon, cells=cells) for cells in range(2, most + 1))
        return min(ways, key=lambda way: way.error(np.full(values, 1.0 / values)))

    @property
    def name(self) -> str:
        """The method and the number of cells."""
        return f"OLH, g = {self.cells}"

    @property
    def support(self) -> tuple[float, float]:
        """p: the cell is that of one's own value; q: that of a given other one."""
        return math.exp(self.epsilon) / (math.exp(self.epsilon) + self.cells - 1), 1.0 / self.cells

    @property
    def joint(self) -> tuple[float, float]:
        """Hashes of different values are independent."""
        p, q = self.support
        return p * q, q * q

    def hashed(self, hashes: Integers, values: Integers) -> Integers:
        """The cells of values (N,) by the hashes (N, 2)."""
        return np.asarray((hashes[:, 0] * values + hashes[:, 1]) % HASH_PRIME % self.cells)

    def reports(self, people: Integers, rng: np.random.Generator) -> Integers:
        """Hash and cell (N, 3)."""
        hashes = rng.integers(0, HASH_PRIME, (len(people), 2))
        cells = self.hashed(hashes, people)
        others = (cells + rng.integers(1, self.cells, len(people))) % self.cells
        p, _ = self.support
        return np.column_stack([hashes, np.where(rng.random(len(people)) < p, cells, others)])

    def supported(self, reports: Integers) -> Iterator[Bools]:
        """The values in the cell that was sent."""
        hashes = reports[:, :2]
        return (self.hashed(hashes, np.full(len(reports), value)) == reports[:, 2] for value in range(self.values))


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(Frequencies):
    """Codewords of `blocks` Hadamard matrices of equal order; those of a value are half of one block.

    Value v has block v mod `blocks` and column 1 + v // `blocks` of the matrix there; column 0, all ones, is not used.
    A codeword of the value is e^ε times likelier than any other one. The score of v is ± T/(s(e^ε − 1)) for a codeword
    of its block and 0 for others, where s is half the order and T = s·e^ε + 2s·blocks − s.
    """

    blocks: int

    @classmethod
    def best(cls, values: int, epsilon: float) -> HadamardResponse:
        """The number of blocks, a power of two, of least error for even shares."""
        counts = [2**power for power in range(values.bit_length())]
        ways = (cls(values=values, epsilon=epsilon, blocks=count) for count in counts if count <= values)
        return min(ways, key=lambda way: way.error(np.full(values, 1.0 / values)))

    @property
    def name(self) -> str:
        """The method and the number of blocks."""
        return f"HR, {self.blocks} block{'s' * (self.blocks > 1)}"

    @cached_property
    def order(self) -> int:
        """Rows of a matrix: the power of two above the number of a block's values."""
        return 1 << (-(-self.values // self.blocks)).bit_length()

    @property
    def _total(self) -> float:
        half = self.order / 2
        return half * math.exp(self.epsilon) + 2 * half * self.blocks - half

    @property
    def _reach(self) -> float:
        return self._total / (self.order / 2 * math.expm1(self.epsilon))

    def error(self, shares: Floats) -> float:
        """The total squared error: E Σ score² − 1, by how many values share one's block."""
        sizes = np.bincount(np.arange(self.values) % self.blocks, minlength=self.blocks)
        half = self.order / 2
        own, other = half * (math.exp(self.epsilon) + 1.0) / self._total, 2.0 * half / self._total
        of_block = np.bincount(np.arange(self.values) % self.blocks, weights=shares, minlength=self.blocks)
        seen = of_block @ (sizes * own + (self.values - sizes) * other)
        return float(self._reach**2 * seen - 1.0)

    def reports(self, people: Integers, rng: np.random.Generator) -> Integers:
        """Block and row (N, 2)."""
        half = self.order / 2
        blocks, columns = people % self.blocks, 1 + people // self.blocks
        likely = rng.random(len(people)) < half * math.expm1(self.epsilon) / self._total
        block = np.where(likely, blocks, rng.integers(0, self.blocks, len(people)))
        row = rng.integers(0, self.order, len(people))
        # Among rows of one's own codewords: a row of the wrong sign is moved by a bit of the column.
        flip = likely & (_parity(row & columns) == 1)
        return np.column_stack([block, np.where(flip, row ^ (columns & -columns), row)])

    def estimate(self, reports: Integers) -> Floats:
        """Unbiased shares (k,) of the values, by a fast Hadamard transform of the counts."""
        counts = np.zeros((self.blocks, self.order))
        np.add.at(counts, (reports[:, 0], reports[:, 1]), self._reach / len(reports))
        width = 1
        while width < self.order:
            pairs = counts.reshape(self.blocks, -1, 2, width)
            counts = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
            counts = counts.reshape(self.blocks, self.order)
            width *= 2
        values = np.arange(self.values)
        return np.asarray(counts[values % self.blocks, 1 + values // self.blocks])


def _parity(numbers: Integers) -> Integers:
    """0 or 1 (N,): whether the number of bits that are set is odd."""
    for shift in (32, 16, 8, 4, 2, 1):
        numbers = numbers ^ (numbers >> shift)
    return np.asarray(numbers & 1)


def all_frequencies(values: int, epsilon: float) -> tuple[Frequencies, ...]:
    """Every method for shares, each with its best parameter."""
    return (
        GeneralizedResponse(values=values, epsilon=epsilon),
        SubsetSelection.best(values, epsilon),
        LocalHashing.best(values, epsilon),
        HadamardResponse.best(values, epsilon),
    )


def best_frequencies(values: int, epsilon: float, shares: Floats) -> Frequencies:
    """The method of least error for people with these shares (k,)."""
    return min(all_frequencies(values, epsilon), key=lambda way: way.error(shares))


@dataclass(frozen=True, kw_only=True)
class SquareWave:
    """Positions between 0 and 1, sent as one in [−b, 1 + b]: e^ε times denser within b of one's own than elsewhere.

    b maximises a bound of the mutual information (Li et al. 2020, section 5.3). Shares of `bins` equal bins are the
    likeliest ones given as many equal bins of reports, by EM; with `smooth`, each step also averages neighbours (EMS).
    """

    bins: int
    epsilon: float
    smooth: bool = False

    @cached_property
    def reach(self) -> float:
        """b."""
        grown, more = math.exp(self.epsilon), math.expm1(self.epsilon)
        return (self.epsilon * grown - more) / (2.0 * grown * (more - self.epsilon))

    @cached_property
    def edges(self) -> Floats:
        """The edges (bins + 1,) of the bins of reports."""
        return np.linspace(-self.reach, 1.0 + self.reach, self.bins + 1)

    @cached_property
    def channel(self) -> Floats:
        """(bins of reports, bins of positions): P[report's bin | a position drawn evenly from its bin]."""
        grown, b = math.exp(self.epsilon), self.reach
        base = 1.0 / (2.0 * b * grown + 1.0)

        def held(edge: Floats, low: Floats) -> Floats:
            """∫ over positions from 0 to `low` of the part of [−∞, edge] that is within b of the position."""
            # For one position t it is clip(edge − t + b, 0, 2b); its integral is by cases.
            top = np.clip(edge + b - low, 0.0, None)
            whole = np.clip(edge + b, 0.0, None)
            square = (whole**2 - top**2) / 2.0
            over = (np.clip(whole - 2.0 * b, 0.0, None) ** 2 - np.clip(top - 2.0 * b, 0.0, None) ** 2) / 2.0
            return np.asarray(square - over)

        at = np.linspace(0.0, 1.0, self.bins + 1)
        near = np.diff(np.diff(held(self.edges[:, None], at[None]), axis=0), axis=1) * self.bins
        return np.asarray(base * np.diff(self.edges)[:, None] + base * (grown - 1.0) * near)

    def reports(self, positions: Floats, rng: np.random.Generator) -> Floats:
        """Positions (N,) between 0 and 1 → reports (N,)."""
        grown, b = math.exp(self.epsilon), self.reach
        near = rng.random(len(positions)) < 2.0 * b * (grown - 1.0) / (2.0 * b * grown + 1.0)
        close = positions + rng.uniform(-b, b, len(positions))
        return np.where(near, close, rng.uniform(-b, 1.0 + b, len(positions)))

    def estimate(self, reports: Floats) -> Floats:
        """Shares (bins,) of the bins of positions."""
        counts = np.histogram(np.clip(reports, self.edges[0], self.edges[-1]), self.edges)[0].astype(float)
        # The paper stops EM when a step adds less than 10⁻³ e^ε to the log-likelihood, and EMS at 10⁻³.
        return likeliest_shares(
            self.channel.__matmul__,
            self.channel.T.__matmul__,
            counts,
            gain=1e-3 * (1.0 if self.smooth else math.exp(self.epsilon)),
            smooth=_neighbours_averaged if self.smooth else None,
        )


def _neighbours_averaged(shares: Floats) -> Floats:
    """Shares of bins, averaged with their neighbours' with weights 1, 2, 1."""
    padded = np.concatenate([shares[:1], shares, shares[-1:]])
    return padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4
