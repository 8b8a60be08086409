"""Trees that are none: releases that every client must refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from forged.tools import Arrays, Change, first, put, tensor

DEEP, FOREST = "laplace_trees_deep", "codebook_trees"


def enc(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return tensor(f"encoder.{name}", change)


def last(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """An array whose last number is another."""

    def apply(array: np.ndarray) -> np.ndarray:
        array.flat[-1] = value
        return array

    return apply


def shaped(split: list[bool]) -> Change:
    """Nodes in another shape, everything else of fitting sizes."""

    def change(_: object, arrays: Arrays) -> None:
        inner, trees = np.array(split), len(arrays["encoder.output"])
        arrays["encoder.attribute"] = np.where(inner, 0, -1).astype(np.int16)
        arrays["encoder.rank"] = np.zeros(max(1, inner.sum()), dtype=np.int16)
        arrays["encoder.values"] = np.zeros((max(1, (~inner).sum()), 1), dtype=np.int32)
        arrays["encoder.output"] = np.zeros(trees, dtype=np.int16)

    return change


def chain(depth: int, trees: int = 3) -> list[bool]:
    """One tree of this depth, every left side a leaf, and small ones."""
    return [True, False] * depth + [False] + [True, False, False] * (trees - 1)


def other_counts(content: object, arrays: Arrays) -> None:
    """More knots of one attribute than splits can name, rising."""
    counts = np.zeros_like(arrays["encoder.counts"])
    counts[0] = 2**15 + 1
    arrays["encoder.counts"], arrays["encoder.knots"] = counts, np.arange(float(counts[0]))
    arrays["encoder.rank"] = np.zeros_like(arrays["encoder.rank"])
    arrays["encoder.attribute"] = np.minimum(arrays["encoder.attribute"], 0)


def below_zero(array: np.ndarray) -> np.ndarray:
    """Counts with the same sum, one of them negative."""
    array[:2] = array[0] + array[1] + 1, -1
    return array


def without_latent(_: object, arrays: Arrays) -> None:
    arrays["encoder.offset"], arrays["encoder.step"] = arrays["encoder.offset"][:2], arrays["encoder.step"][:2]


TREES: list[tuple[str, str, Change]] = [
    ("a tree cut short", DEEP, shaped([True, False, False] * 2 + [True, False])),
    ("a tree that ends with a split", DEEP, shaped([True, False, False] * 2 + [True, False, True])),
    ("a tree too many", DEEP, shaped([True, False, False] * 4)),
    ("a tree too few", DEEP, shaped([True, False, False] * 2)),
    ("a leaf behind the last tree", DEEP, shaped([True, False, False] * 3 + [False])),
    ("leaves alone", DEEP, shaped([False] * 3)),
    ("a tree 257 splits deep", DEEP, shaped(chain(257))),
    ("a tree 200,000 splits deep", DEEP, shaped(chain(200_000))),
    ("more than 2^20 nodes", DEEP, shaped([True, False, False] * 349_526)),
    ("a split at an attribute that is not there", DEEP, enc("attribute", first(12))),
    ("a split at an attribute in no tree", DEEP, enc("attribute", first(11))),
    ("a split at attribute 2^15 - 1", DEEP, enc("attribute", first(2**15 - 1))),
    ("a leaf written -2", DEEP, enc("attribute", last(-2))),
    ("a leaf turned into a split", DEEP, enc("attribute", last(0))),
    ("a split turned into a leaf", DEEP, enc("attribute", first(-1))),
    ("a rank below 0", DEEP, enc("rank", first(-1))),
    ("a rank beyond the knots", DEEP, enc("rank", first(12))),
    ("a rank too few", DEEP, enc("rank", lambda a: a[:-1])),
    ("a rank too many", DEEP, enc("rank", lambda a: np.append(a, a[:1]))),
    ("ranks of eight bytes", DEEP, enc("rank", lambda a: a.astype(np.int64))),
    ("nodes of four bytes", DEEP, enc("attribute", lambda a: a.astype(np.int32))),
    ("nodes in a column", DEEP, enc("attribute", lambda a: a[:, None])),
    ("knots of a tree that fall", DEEP, enc("knots", first(1e308))),
    ("a knot of a tree twice", DEEP, enc("knots", lambda a: np.append(a[:1], a[:-1]))),
    ("a knot of a tree at NaN", DEEP, enc("knots", first(np.nan))),
    ("a knot of a tree at infinity", DEEP, enc("knots", first(-np.inf))),
    ("a knot of a tree too many", DEEP, enc("knots", lambda a: np.append(a, 1e300))),
    ("a knot counted too many", DEEP, enc("counts", last(1))),
    ("a count of knots below 0", DEEP, enc("counts", below_zero)),
    ("counts of knots beyond 2^62", DEEP, enc("counts", first(2**52))),
    ("32,769 knots of one attribute", DEEP, other_counts),
    ("counts of two bytes", DEEP, enc("counts", lambda a: a.astype(np.int16))),
    ("counts of fewer attributes", DEEP, enc("counts", lambda a: a[:-1])),
    ("a leaf without values", DEEP, enc("values", lambda a: a[:-1])),
    ("leaves in one row", DEEP, enc("values", np.ravel)),
    ("leaves of eight bytes", DEEP, enc("values", lambda a: a.astype(np.int64))),
    ("leaves of two values for one latent", DEEP, enc("values", lambda a: np.tile(a, (1, 4)))),
    ("a latent that is not there", DEEP, enc("output", first(3))),
    ("a latent below 0", DEEP, enc("output", first(-1))),
    ("a latent of 2^15 - 1", DEEP, enc("output", first(2**15 - 1))),
    ("a tree without a latent", DEEP, enc("output", lambda a: a[:-1])),
    ("leaves beyond the last latent", FOREST, enc("output", last(1))),
    ("leaves of more latents than there are", FOREST, without_latent),
    ("sums of leaves that are not exact", DEEP, enc("offset", lambda a: np.full_like(a, 2**53 - 1))),
    ("a tree's step that is no power of two", DEEP, enc("step", first(0.3))),
    ("a tree's step of 2^901", DEEP, enc("step", first(2.0**901))),
    ("a range of a tree turned around", DEEP, enc("low", last(1e9))),
    ("a range of a tree from NaN", DEEP, enc("low", last(np.nan))),
    ("a range too few before trees", DEEP, enc("high", lambda a: a[:-1])),
    ("trees and a softmax in words", DEEP, put("encoder", softmax="no")),
    ("trees without a word about a softmax", DEEP, lambda m, _: m["encoder"].pop("softmax")),
    ("trees and a number more", DEEP, put("encoder", depth=4)),
]  # fmt: skip
