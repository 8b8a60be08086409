"""Ensembles of decision trees as encoders: forests and boosted trees, in comparisons and sums of whole numbers.

A value is first replaced by its rank: the number of its attribute's knots below it. Knots are the numbers that some
tree compares the attribute with. Comparing doubles is exact, so ranks are the same in every language. The trees then
compare and add up whole numbers. Every record takes as many steps as the deepest path of a tree has: a leaf leads to
itself.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import Array, Floats, Integers, Integers16, Integers32, blocks, check_arrays, own_arrays
from taskveil.client.networks import RangedEncoder, check_layer, portable_softmax
from taskveil.errors import DataError

MOST_NODES = 2**20
"""Splits and leaves in an ensemble."""
MOST_DEPTH = 256
"""Splits between a tree's root and its deepest leaf."""
MOST_KNOTS = 2**15
"""For one attribute, so that a split's rank fits into two bytes. Tables of levels have no more either."""


class Walk:
    """The paths down all trees of an ensemble.

    Trees are written one after the other. In a tree each node comes before its left subtree, and that before the right
    subtree. So every list of splits and leaves that ends with the end of a tree is an ensemble.

    Args:
        attribute: (E,) the attribute that a split looks at, −1 for a leaf.
        rank: (splits,) of its knot, 0 for the lowest: to the right go ranks above it.
    """

    def __init__(self, attribute: Integers16, rank: Integers16) -> None:
        split = attribute >= 0
        # Nodes that this tree still needs, less one for every tree before.
        open_after = np.cumsum(np.where(split, 1, -1))
        open_before = np.concatenate([[0], open_after[:-1]])
        ends = open_after < np.minimum.accumulate(open_before)
        if not ends[-1]:
            raise DataError("the last tree of an ensemble is cut short: every split needs two nodes below it.")
        tree: Integers = np.cumsum(ends) - ends
        # The right subtree begins where, for the next time, as many nodes are needed as before the split.
        order = np.argsort(open_before, kind="stable")
        right = np.zeros(len(split), dtype=np.int64)
        right[order[:-1]] = order[1:]

        self.depth = np.zeros(int(tree[-1]) + 1, dtype=np.int64)
        """(T,): the depth of every tree, in the given order."""
        self.leaves = np.bincount(tree, weights=~split).astype(np.int64)
        """(T,): how many leaves each tree has."""
        # Nodes are numbered level by level, so that the two below a split are neighbours.
        levels = [np.flatnonzero(np.concatenate([[True], ends[:-1]]))]
        while len(above := levels[-1][split[levels[-1]]]):
            if len(levels) > MOST_DEPTH:
                raise DataError(f"a tree may be {MOST_DEPTH} splits deep at most.")
            levels.append(np.stack([above + 1, right[above]], axis=1).ravel())
            self.depth[tree[above]] = len(levels) - 1
        nodes = np.concatenate(levels)
        number = np.empty(len(nodes), dtype=np.int64)
        number[nodes] = np.arange(len(nodes))

        self.order = np.argsort(-self.depth, kind="stable")
        """(T,): the trees in the order in which they are followed: the deepest first, so that the others can stop."""
        self._followed = [int((self.depth > level).sum()) for level in range(len(levels) - 1)]
        at = np.zeros(len(split), dtype=np.int64)
        at[split] = rank
        left = np.where(split, number[np.minimum(np.arange(len(split)) + 1, len(split) - 1)], number)
        self._attribute = np.where(split, attribute, 0).astype(np.int64)[nodes]
        # The number of the left node in the high digits; a rank above the split's carries one over: the right node.
        self._below = ((left << 16) + np.where(split, 2**16 - 1 - at, 0))[nodes]
        self._leaf = (np.cumsum(~split) - 1)[nodes]

    @property
    def steps(self) -> int:
        """Comparisons per record."""
        return int(self.depth.sum())

    def __call__(self, ranks: Array) -> Integers:
        """Ranks (n, B) → the leaf that each record reaches in each tree, counted over all trees: (T, B), trees in the
        order of `order`."""
        count = ranks.shape[1]
        values, column = ranks.astype(np.int64).ravel(), np.arange(count)
        start = self._attribute * count
        # Trees and their roots have the same numbers.
        node = np.repeat(self.order[:, None], count, axis=1)
        place, value = np.empty_like(node), np.empty_like(node)
        for trees in self._followed:
            here, at, found = node[:trees], place[:trees], value[:trees]
            # "clip" never clips here. It saves numpy a check of every number.
            start.take(here, out=at, mode="clip")
            at += column
            values.take(at, out=found, mode="clip")
            self._below.take(here, out=at, mode="clip")
            at += found
            np.right_shift(at, 16, out=here)
        return np.asarray(self._leaf.take(node, mode="clip"))


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeEncoder(RangedEncoder):
    """φ = (the sum of the leaves a record reaches + offset) · step, and class probabilities of that if `softmax`.

    A tree whose `output` is z adds the V numbers of the leaf reached to the latents z … z + V − 1: boosted trees have
    V = 1 and a latent each, forests of classifiers V = Z. NaN counts as the middle of its attribute's range.

    Shapes: low, high and counts (n,); knots (K,), attribute after attribute and rising, `counts` of each; attribute and
    rank as in `Walk`; values (leaves, V); output (T,); offset and step (Z,). Steps are powers of two.
    """

    knots: Floats
    counts: Integers
    attribute: Integers16
    rank: Integers16
    values: Integers32
    output: Integers16
    offset: Integers
    softmax: bool

    def __post_init__(self) -> None:
        own_arrays(self)
        width, latents, splits = len(self.low), len(self.offset), int((self.attribute >= 0).sum())
        check_arrays(
            low=(self.low, (width,)),
            high=(self.high, (width,)),
            knots=(self.knots, (len(self.knots),)),
            step=(self.step, (latents,)),
        )
        if not (self.low <= self.high).all():
            raise DataError("low must not lie above high.")
        whole = (self.counts, self.offset, self.attribute, self.rank, self.output, self.values)
        if [array.dtype.itemsize for array in whole] != [8, 8, 2, 2, 2, 4] or any(a.dtype.kind != "i" for a in whole):
            raise DataError("trees need whole numbers of the sizes that TreeEncoder declares.")
        self._check_knots(width)
        if self.attribute.ndim != 1 or not 3 <= len(self.attribute) <= MOST_NODES or self.rank.shape != (splits,):
            raise DataError(f"trees need 3 to {MOST_NODES:,} nodes and a rank for every split.")
        looked = self.attribute[self.attribute >= 0]
        if not (self.attribute >= -1).all() or not (looked < width).all():
            raise DataError(f"a split looks at one of {width} attributes; a leaf is written -1.")
        if not ((self.rank >= 0) & (self.rank < self.counts[looked])).all():
            raise DataError("a split compares with one of its attribute's knots.")
        trees = len(self._walk.order)  # or a DataError, if these are no trees
        if self.values.ndim != 2 or len(self.values) != len(self.attribute) - splits or self.output.shape != (trees,):
            raise DataError("every leaf needs its values, every tree the latent that they add to.")
        per_leaf, output = self.values.shape[1], self.output.astype(np.int64)
        if per_leaf < 1 or not ((output >= 0) & (output + per_leaf <= latents)).all():
            raise DataError(f"trees add to {latents} latents, and a leaf has a value at least.")
        starts = np.concatenate([[0], np.cumsum(self._walk.leaves)[:-1]])
        largest = np.maximum.reduceat(np.abs(self.values.astype(np.int64)), starts, axis=0)  # of every tree
        reach = np.zeros((latents, 1), dtype=np.int64)
        for place in range(per_leaf):
            np.add.at(reach[:, 0], output + place, largest[:, place])
        check_layer("trees", reach, self.offset, self.step, np.ones(1, dtype=np.int64), latents)

    def _check_knots(self, width: int) -> None:
        shaped = self.counts.shape == (width,) and ((self.counts >= 0) & (self.counts <= MOST_KNOTS)).all()
        if not shaped or self.counts.sum() != len(self.knots):
            raise DataError(f"every attribute needs the number of its knots, {MOST_KNOTS:,} at most.")
        first = np.zeros(len(self.knots) + 1, dtype=bool)
        first[np.cumsum(self.counts)] = True
        if not ((self.knots[1:] > self.knots[:-1]) | first[1:-1]).all():
            raise DataError("the knots of an attribute must rise.")

    @cached_property
    def _walk(self) -> Walk:
        return Walk(self.attribute, self.rank)

    @cached_property
    def _leaf_values(self) -> Floats:
        """(V, leaves), in doubles."""
        return np.ascontiguousarray(self.values.T, dtype=np.float64)

    @cached_property
    def _by_latent(self) -> tuple[Integers, Integers, Integers]:
        """Trees, as numbers in the walk's order, by the latent they add to; where each latent's begin; which it is."""
        output = self.output[self._walk.order].astype(np.int64)
        trees = np.argsort(output, kind="stable")
        latents, starts = np.unique(output[trees], return_index=True)
        return trees, starts, latents

    @property
    def operations(self) -> int:
        """Comparisons and additions that a record takes."""
        searches = np.ceil(np.log2(self.counts + 1)).sum()
        return int(searches) + self._walk.steps + int(self.values.shape[1]) * len(self.output)

    @np.errstate(all="ignore")  # ranges may be as wide as doubles go
    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        ranks = self._ranks(X)
        sums = np.tile(self.offset.astype(np.float64), (len(X), 1))
        trees, starts, latents = self._by_latent
        for part in blocks(len(X), len(self.output)):
            leaves = self._walk(ranks[:, part])[trees]
            for place, values in enumerate(self._leaf_values):
                found = np.add.reduceat(values.take(leaves, mode="clip"), starts, axis=0)
                sums[part, latents + place] += found.T  # whole numbers: in any order
        sums *= self.step
        return portable_softmax(sums) if self.softmax else sums

    def _ranks(self, X: Floats) -> Array:
        """(N, n) → (n, N): how many knots lie below each value, after clipping to its range."""
        inside = np.where(np.isnan(X), self.low + (self.high - self.low) / 2, X)
        inside = np.minimum(np.maximum(inside, self.low), self.high)
        ranks = np.zeros(X.shape[::-1], dtype=np.uint16)
        starts = np.cumsum(self.counts) - self.counts
        for column in np.flatnonzero(self.counts):
            knots = self.knots[starts[column] : starts[column] + self.counts[column]]
            ranks[column] = np.searchsorted(knots, inside[:, column], side="left")
        return ranks
