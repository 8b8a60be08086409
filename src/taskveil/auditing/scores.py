"""Scores of a report, and the events that separate two inputs best.

A score is high where input x is likelier than input x'. Any score is allowed, because its tail is counted on new
reports. Most scores are learned from reports alone and work for every callable. One reads the release to know where to
look. No score is trusted: a release with wrong parameters only weakens the one score that used them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.auditing.bound import RESOLUTION, Tail, best_tail
from taskveil.veil import Veil

_LARGEST = 2.0**61
"""Whole numbers up to here are added and subtracted without overflow."""

_DECIMALS = 7  # digits after the point of a decimal grid, at most


def bit_patterns(reports: Array) -> Integers:
    """Per number: its binary exponent and the place of its lowest bit, as one integer.

    Mironov's attack ('On significance of the least significant bits', 2012): the doubles that x + noise can reach
    depend on x unless noise and sum live on one fixed grid.
    """
    r = reports.astype(np.float64)
    finite = np.where(np.isfinite(r), np.abs(r), 0.0)
    mantissa, exponent = np.frexp(finite)
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = whole & -whole
    trailing = np.frexp(lowest.astype(np.float64))[1]
    special = np.isnan(r) * 1 + np.isposinf(r) * 2 + np.isneginf(r) * 3
    return np.asarray(exponent.astype(np.int64) * 512 + trailing * 4 + special, dtype=np.int64)


def raw_bits(reports: Array) -> Integers:
    """The 64 bits of every number as an integer: zeros of either sign, and all kinds of NaN, differ."""
    wide = reports.astype(np.float64 if reports.dtype.kind == "f" else np.int64)
    return np.ascontiguousarray(wide).view(np.int64)


def whole_reports(reports: Array) -> Integers:
    """A hash of the bits of every report (N, 1), so that equal reports are one category."""
    words = raw_bits(reports).view(np.uint64)
    code = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        code = (code ^ column) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    return code.view(np.int64)[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Residues:
    """Numbers modulo the gcd of the differences between reports of one input.

    Noise on a grid coarser than the latents' leaves the latent's residue as it was: every report of an input then has
    the same one. `entries` lists (column, what makes its numbers whole, modulus).
    """

    entries: tuple[tuple[int, float, int], ...]

    @classmethod
    def of(cls, *samples: Array) -> Residues:
        """Learned from reports (N, width) of one input each; up to three moduli for every column."""
        entries = []
        for column in range(samples[0].shape[1]):
            values = [sample[:, column] for sample in samples]
            scale = _scale(np.concatenate(values))
            if scale is None:
                continue
            found = Counter(int(np.gcd.reduce(np.diff(_whole(value, scale)))) for value in values if len(value) > 1)
            common = int(np.gcd.reduce(np.array(list(found))))
            moduli = dict.fromkeys([common, *(modulus for modulus, _ in found.most_common())])
            entries += [(column, scale, modulus) for modulus in moduli if modulus > 1][:3]
        return cls(entries=tuple(entries))

    def __call__(self, reports: Array) -> Integers:
        """(N, entries): the residues; −1 where a number is not on the grid."""
        made = np.full((len(reports), len(self.entries)), -1, dtype=np.int64)
        for place, (column, scale, modulus) in enumerate(self.entries):
            values = reports[:, column]
            held = _on_grid(values, scale)
            made[held, place] = _whole(values[held], scale) % modulus
        return made


def _scale(values: Array) -> float | None:
    """What to multiply by to get whole numbers: a power of ten, or else of two; None if there is none."""
    if values.dtype.kind != "f":
        return 1.0 if len(values) and max(abs(int(values.min())), abs(int(values.max()))) < _LARGEST else None
    if len(values) == 0 or not np.isfinite(values).all():
        return None
    largest = max(float(np.abs(values).max()), 1e-300)
    for scale in (10.0**digits for digits in range(_DECIMALS)):
        if largest * scale < _LARGEST and _on_grid(values, scale).all():
            return scale
    mantissa, exponent = np.frexp(values)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 54 + exponent  # the exponent of the lowest bit
    finest = int(lowest[whole > 0].min(initial=0))
    if finest < -1000 or not largest * 2.0**-finest < _LARGEST:
        return None
    return 2.0**-finest


def _whole(values: Array, scale: float) -> Integers:
    return np.asarray(values if values.dtype.kind != "f" else np.rint(values * scale)).astype(np.int64)


def _on_grid(values: Array, scale: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if values.dtype.kind != "f":
        return np.ones(len(values), dtype=np.bool_)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled: Floats = values * scale
        # Decimal fractions are not exact in binary: near a whole number, relative to how exact doubles are.
        near = np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(1.0, 1e-6 * np.abs(scaled))
        return np.asarray(near & (np.abs(scaled) < _LARGEST))


Score = Callable[[Array], Floats]


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A way to build a score for two inputs from some reports of each; `robust` ways hardly overfit.

    `says` describes a report of high score; the name of x follows it.
    """

    name: str
    learn: Callable[[Array, Array], Score]
    says: str = "a report with values more frequent for"
    robust: bool = False


def ideas(veil: Veil | None, inputs: Floats, reports: Array) -> list[Idea]:
    """All ways to score reports of two inputs (2, n), which are numbers as a veil's encoder takes them."""
    width = reports.shape[1]
    found = [
        Idea(
            name="distance from the two medians",
            learn=distance_from_medians,
            says="a report nearer to the median report of",
            robust=True,
        ),
        Idea(name="frequency of every value", learn=frequencies(_same)),
    ]
    on_grid = "a report whose place on the grid is more frequent for"
    found.append(Idea(name="residues on the grid", learn=_residues, says=on_grid))
    if reports.dtype.kind == "f":
        for name, view in (("bit patterns", bit_patterns), ("raw bits", raw_bits)):
            found.append(Idea(name=name, learn=frequencies(view), says="a report with bits more frequent for"))
    if width > 1:
        found.append(Idea(name="frequency of whole reports", learn=frequencies(whole_reports)))
        for place in range(mixtures(reports[:1]).shape[1]):
            found.append(Idea(name=f"mixture {place} of columns", learn=frequencies(_mixture(place))))
    if veil is not None:
        informed = _informed(veil, inputs)
        likelier = "a report that the release itself takes to be likelier for"
        own = Idea(name="the release's own likelihood", learn=lambda _a, _b: informed, says=likelier, robust=True)
        found.append(own)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class FrequencyRatios:
    """Σ over columns of ln(how often x gave this value / how often x' did), on values or ranges of values."""

    columns: Callable[[Array], Array]
    bins: tuple[Bins, ...]
    ratios: tuple[Floats, ...]

    @classmethod
    def of(cls, first: Array, second: Array, columns: Callable[[Array], Array]) -> FrequencyRatios:
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
        if len(distinct) <= RESOLUTION:
            return cls(atoms=distinct, edges=distinct[:0])
        frequent = np.argsort(-counts, kind="stable")[: RESOLUTION // 2]
        frequent = frequent[counts[frequent] >= max(10, len(values) // 5000)]
        ordered = np.sort(known)
        edges = np.unique(ordered[np.linspace(0, len(ordered) - 1, RESOLUTION // 4).astype(np.int64)])
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
    """Differences and sums of two columns, up to 6 pairs: noise that both columns share cancels in them."""
    pairs = list(combinations(range(reports.shape[1]), 2))[:6]
    r = reports.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.stack([r[:, i] + sign * r[:, j] for i, j in pairs for sign in (-1, 1)], axis=1)


def _mixture(place: int) -> Callable[[Array], Array]:
    return lambda reports: mixtures(reports)[:, place : place + 1]


def frequencies(columns: Callable[[Array], Array]) -> Callable[[Array, Array], Score]:
    """From reports of two inputs to the score by the frequencies of these columns."""
    return lambda first, second: FrequencyRatios.of(first, second, columns)


def _residues(first: Array, second: Array) -> Score:
    return FrequencyRatios.of(first, second, Residues.of(first, second))


def distance_from_medians(first: Array, second: Array, columns: Callable[[Array], Array] = _same) -> Score:
    """‖r − b‖₁ − ‖r − a‖₁ of these columns r of a report, for the medians a and b of the reports of x and x'.

    It is the log-likelihood ratio of Laplace noise around a and b, up to the scale. NaN counts as far beyond a.
    """
    a, b = (np.nan_to_num(np.median(np.nan_to_num(columns(r).astype(np.float64)), axis=0)) for r in (first, second))

    def score(reports: Array) -> Floats:
        r = columns(reports).astype(np.float64)
        with np.errstate(invalid="ignore"):
            nearer = (np.abs(r - b) - np.abs(r - a)).sum(axis=1)
        return np.asarray(np.nan_to_num(nearer, nan=1e300), dtype=np.float64)

    return score


def _informed(veil: Veil, inputs: Floats) -> Score:
    """The likelihood ratio according to the parameters of the release."""
    latents = veil.encoder(inputs)

    def score(reports: Array) -> Floats:
        likely = veil.mechanism.log_likelihood(reports.astype(np.int64), latents)
        return np.asarray(likely[:, 0] - likely[:, 1])

    return score


_SCREENED = 20_000
"""Reports of each input on which all scores are compared first; the best few then learn from half of the reports."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """A set of reports, as a tail of a score: chosen on some reports, to be counted on others."""

    name: str
    says: str
    score: Score
    tail: Tail

    def __str__(self) -> str:
        return f"{self.name} {'≤' if self.tail.below else '≥'} {self.tail.threshold:.4g}"

    def in_words(self, names: tuple[str, str]) -> str:
        """Which reports belong to it, given the names of the two inputs."""
        return f"{self.says} “{names[1] if self.tail.below else names[0]}”"

    def counted(self, first: Floats, second: Floats) -> tuple[int, int]:
        """How many scores of each input fall into it, the input it is likelier for before the other."""
        hits = int(self.tail.holds(first).sum()), int(self.tail.holds(second).sum())
        return (hits[1], hits[0]) if self.tail.swapped else hits


def choose_event(
    tried: Sequence[Idea], first: Array, second: Array, *, trials: int, alpha: float, delta: float
) -> Event:
    """The event that promises the largest bound in `trials` further reports of each input.

    Args:
        tried: ways to score reports.
        first, second: reports (N, width) of the two inputs; half teach the scores, half choose the event.
        trials: how many new reports of each input will be counted.
        alpha: with what probability the bound may be wrong.
        delta: of the claim.
    """
    learn = len(first)

    def promise(score: Score, a: Array, b: Array) -> tuple[float, Tail]:
        return best_tail(score(a), score(b), trials=trials, alpha=alpha, delta=delta)

    few = min(_SCREENED, learn // 2)
    screened = []
    for idea in tried:
        score = idea.learn(first[:few], second[:few])
        screened.append(promise(score, first[-few:], second[-few:])[0])
    promising = [tried[int(place)] for place in np.argsort(-np.array(screened), kind="stable")[:3]]
    # Few reports miss narrow margins, so robust scores are never dropped.
    promising += [idea for idea in tried if idea.robust and idea not in promising]
    events = []
    for idea in promising:
        score = idea.learn(first[: learn // 2], second[: learn // 2])
        hope, tail = promise(score, first[learn // 2 :], second[learn // 2 :])
        events.append((hope, Event(name=idea.name, says=idea.says, score=score, tail=tail)))
    return max(events, key=lambda found: found[0])[1]
