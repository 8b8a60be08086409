"""Scores of a report: high where x is likelier than x'. Any score is allowed, since its tail is judged on new reports.

Some are learned from reports alone and work for every callable; two read the release to know where to look. None
of them is trusted: a release that lies only makes its own audit weaker in the one score that believed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.auditing.bits import Residues, bit_patterns, raw_bits, whole_reports
from taskveil.veil import Veil

Score = Callable[[Array], Floats]

_LISTED = 512
"""Columns with at most this many values are counted value by value."""


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A way to build a score for two inputs from some reports of each; `robust` ones hardly overfit.

    `says` is what a report of high score is, to be followed by the name of x.
    """

    name: str
    learn: Callable[[Array, Array], Score]
    says: str = "a report with values more frequent for"
    robust: bool = False


def ideas(veil: Veil | None, inputs: Floats, reports: Array) -> list[Idea]:
    """Everything worth trying for two inputs (2, n), as a veil's encoder takes them, and reports like these."""
    width = reports.shape[1]
    found = [
        Idea(
            name="distance from the two medians",
            learn=distance_from_medians,
            says="a report nearer to the median report of",
            robust=True,
        ),
        Idea(name="frequency of every value", learn=_frequencies(_same)),
    ]
    on_grid = "a report whose place on the grid is more frequent for"
    found.append(Idea(name="residues on the grid", learn=_residues, says=on_grid))
    if reports.dtype.kind == "f":
        for name, view in (("bit patterns", bit_patterns), ("raw bits", raw_bits)):
            found.append(Idea(name=name, learn=_frequencies(view), says="a report with bits more frequent for"))
    if width > 1:
        found.append(Idea(name="frequency of whole reports", learn=_frequencies(whole_reports)))
        for place in range(mixtures(reports[:1]).shape[1]):
            found.append(Idea(name=f"mixture {place} of columns", learn=_frequencies(_mixture(place))))
    if veil is not None:
        informed = _informed(veil, inputs)
        likelier = "a report that the release itself takes to be likelier for"
        found.append(
            Idea(name="the release's own likelihood", learn=lambda _a, _b: informed, says=likelier, robust=True)
        )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Distance:
    """‖r − b‖₁ − ‖r − a‖₁: the log-likelihood ratio of Laplace noise around a and b, up to the scale.

    NaN anywhere counts as far beyond a.
    """

    a: Floats
    b: Floats

    def __call__(self, reports: Array) -> Floats:
        r = reports.astype(np.float64)
        with np.errstate(invalid="ignore"):
            score = (np.abs(r - self.b) - np.abs(r - self.a)).sum(axis=1)
        return np.asarray(np.nan_to_num(score, nan=1e300), dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Frequencies:
    """Σ over columns of ln(how often x gave this value / how often x' did), on values or ranges of values."""

    columns: Callable[[Array], Array]
    bins: tuple[Bins, ...]
    ratios: tuple[Floats, ...]

    @classmethod
    def of(cls, first: Array, second: Array, columns: Callable[[Array], Array]) -> Frequencies:
        """Learned from reports of both inputs, (N, width) each, seen through `columns`."""
        a, b = columns(first), columns(second)
        bins = tuple(Bins.of(np.concatenate([a[:, j], b[:, j]])) for j in range(a.shape[1]))
        ratios = []
        for j, column in enumerate(bins):
            seen_a = np.bincount(column(a[:, j]), minlength=column.size) + 0.5
            seen_b = np.bincount(column(b[:, j]), minlength=column.size) + 0.5
            ratios.append(np.log(seen_a / seen_b))
        return cls(columns=columns, bins=bins, ratios=tuple(ratios))

    def __call__(self, reports: Array) -> Floats:
        values = self.columns(reports)
        total = np.zeros(len(values))
        for j, (column, ratio) in enumerate(zip(self.bins, self.ratios, strict=True)):
            total += ratio[column(values[:, j])]
        return total


@dataclass(frozen=True, kw_only=True, eq=False)
class Bins:
    """Numbers → categories: frequent values have one each, the others share ranges, NaN has its own."""

    atoms: Array
    edges: Array

    @classmethod
    def of(cls, values: Array) -> Bins:
        """Categories for numbers like these (N,)."""
        known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        distinct, counts = np.unique(known, return_counts=True)
        if len(distinct) <= _LISTED:
            return cls(atoms=distinct, edges=distinct[:0])
        frequent = np.argsort(-counts, kind="stable")[: _LISTED // 2]
        frequent = frequent[counts[frequent] >= max(10, len(values) // 5000)]
        ordered = np.sort(known)
        edges = np.unique(ordered[np.linspace(0, len(ordered) - 1, _LISTED // 4).astype(np.int64)])
        return cls(atoms=np.sort(distinct[frequent]), edges=edges)

    @property
    def size(self) -> int:
        """How many categories there are."""
        return len(self.atoms) + len(self.edges) + 2

    def __call__(self, values: Array) -> Integers:
        code = np.searchsorted(self.edges, values).astype(np.int64) + len(self.atoms)
        if len(self.atoms):
            place = np.minimum(np.searchsorted(self.atoms, values), len(self.atoms) - 1)
            code = np.where(self.atoms[place] == values, place, code)
        if values.dtype.kind == "f":
            code = np.where(np.isnan(values), self.size - 1, code)
        return np.asarray(code, dtype=np.int64)


def _same(reports: Array) -> Array:
    return reports


def mixtures(reports: Array) -> Floats:
    """Differences and sums of two columns, up to 6 pairs: what is left when both got the same noise."""
    pairs = list(combinations(range(reports.shape[1]), 2))[:6]
    r = reports.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.stack([r[:, i] + sign * r[:, j] for i, j in pairs for sign in (-1, 1)], axis=1)


def _mixture(place: int) -> Callable[[Array], Array]:
    return lambda reports: mixtures(reports)[:, place : place + 1]


def _frequencies(columns: Callable[[Array], Array]) -> Callable[[Array, Array], Score]:
    return lambda first, second: Frequencies.of(first, second, columns)


def _residues(first: Array, second: Array) -> Score:
    return Frequencies.of(first, second, Residues.of(first, second))


def distance_from_medians(first: Array, second: Array, columns: Callable[[Array], Array] = _same) -> Score:
    """Nearer to the median of x than to that of x', in ℓ1, by these columns of the reports."""
    a, b = (np.nan_to_num(np.median(np.nan_to_num(columns(r).astype(np.float64)), axis=0)) for r in (first, second))
    distance = Distance(a=a, b=b)
    return lambda reports: distance(columns(reports))


def _informed(veil: Veil, inputs: Floats) -> Score:
    """The likelihood ratio as the release's parameters would have it."""
    latents = veil.encoder(inputs)

    def score(reports: Array) -> Floats:
        likely = veil.mechanism.log_likelihood(reports.astype(np.int64), latents)
        return np.asarray(likely[:, 0] - likely[:, 1])

    return score
