"""Reports seen as bits and as points of a grid: what the numbers themselves give away, whatever they mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Array, Floats, Integers

_LARGEST = 2.0**61
"""Whole numbers up to here are added and subtracted without overflow."""

_DECIMALS = 7

_ENOUGH = 20_000
"""Reports of one input whose differences are looked at: their gcd hardly ever changes after a few hundred."""


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
    """The 64 bits of every number as an integer: zeros of either sign, and every NaN, are told from each other."""
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
        samples = tuple(sample[:_ENOUGH] for sample in samples)
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
