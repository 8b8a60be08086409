"""An ensemble of decision trees in doubles: what conversions and fits give, and what becomes a device's encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taskveil.arrays import Floats, Integers, own_arrays
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.client.trees import MOST_KNOTS, TreeEncoder, Walk
from taskveil.errors import DataError

_MOST_LEAF = 2.0**30  # in whole numbers: what is rounded then is a billionth of the largest leaf
_AT_ONCE = 1024  # records that walk together


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees:
    """Raw outputs = offset + the sum of the leaves reached; with `logits`, class probabilities are their softmax.

    Shapes: attribute (E,), −1 for a leaf, in the order of `taskveil.client.trees.Walk`; threshold (splits,): values up
    to it go to the left; values (leaves, V); output (T,): the tree adds to the outputs from there on; offset (Z,).
    """

    width: int
    attribute: Integers
    threshold: Floats
    values: Floats
    output: Integers
    offset: Floats
    logits: bool

    def __post_init__(self) -> None:
        own_arrays(self)

    @classmethod
    def constant(cls, width: int, offset: Floats, *, logits: bool) -> Trees:
        """A tree that adds nothing to the offset (Z,), for records of so many attributes."""
        return cls(
            width=width,
            attribute=np.array([-1]),
            threshold=np.zeros(0),
            values=np.zeros((1, 1)),
            output=np.zeros(1, dtype=np.int64),
            offset=offset,
            logits=logits,
        )

    @cached_property
    def _ranked(self) -> tuple[Floats, Integers, Integers]:
        """Knots (K,), how many each attribute has (n,), and the rank of every split's (splits,)."""
        looked, threshold = self.attribute[self.attribute >= 0], self.threshold + 0.0  # minus zero is zero
        order = np.lexsort((threshold, looked))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(looked[order]) != 0) | (threshold[order][1:] != threshold[order][:-1])
        counts = np.bincount(looked[order[new]], minlength=self.width)
        if counts.max() > MOST_KNOTS or self.width > 2**15:
            raise DataError(f"devices compare with {MOST_KNOTS:,} thresholds of each of as many attributes at most.")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.cumsum(new) - 1
        return threshold[order[new]], counts, place - (np.cumsum(counts) - counts)[looked]

    @cached_property
    def _walk(self) -> Walk:
        return Walk(self.attribute.astype(np.int16), self._ranked[2].astype(np.int16))

    def __call__(self, X: Floats) -> Floats:
        """Records without NaN (N, n) → raw outputs (N, Z)."""
        knots, counts, _ = self._ranked
        by_attribute = np.split(knots, np.cumsum(counts)[:-1])
        outputs = np.tile(self.offset, (len(X), 1))
        first = self.output[self._walk.order]
        for start in range(0, len(X), _AT_ONCE):
            part = X[start : start + _AT_ONCE]
            ranks = np.stack([np.searchsorted(known, x) for known, x in zip(by_attribute, part.T, strict=True)])
            reached = self.values[self._walk(ranks)]  # (T, B, V)
            for place in range(reached.shape[2]):
                np.add.at(outputs[start : start + _AT_ONCE].T, first + place, reached[:, :, place])
        return outputs

    def first(self, count: int) -> Trees:
        """The first trees alone, with the same offset."""
        if count == 0:
            return self.constant(self.width, self.offset, logits=self.logits)
        leaves = int(self._walk.leaves[:count].sum())
        nodes = 2 * leaves - count  # every tree has a leaf more than splits
        return replace(
            self,
            attribute=self.attribute[:nodes],
            threshold=self.threshold[: nodes - leaves],
            values=self.values[:leaves],
            output=self.output[:count],
        )

    def encoder(self, low: Floats, high: Floats, *, slope: float = 1.0, offset: Floats | None = None) -> TreeEncoder:
        """The device's encoder of slope · raw + offset for records between `low` and `high` (n,), leaves rounded to a
        billionth of the largest.

        Args:
            low: the least value of every attribute.
            high: the largest.
            slope: what raw outputs are multiplied by: below one, a classifier's answers are less sure.
            offset: (Z,), what is added; nothing by default.
        """
        if not (self.attribute >= 0).any():
            return self._with_a_split().encoder(low, high, slope=slope, offset=offset)
        shift = slope * self.offset + (0.0 if offset is None else offset)
        values = slope * self.values
        knots, counts, rank = self._ranked
        latents, per_leaf = len(shift), values.shape[1]
        largest, reach = np.zeros(latents), np.abs(shift)
        starts = np.concatenate([[0], np.cumsum(self._walk.leaves)[:-1]])
        most = np.maximum.reduceat(np.abs(values), starts, axis=0)  # of every tree
        for place in range(per_leaf):
            np.maximum.at(largest, self.output + place, most[:, place])
            np.add.at(reach, self.output + place, most[:, place])
        step = np.maximum(np.maximum(largest / _MOST_LEAF, reach / 2.0**51), 1e-280)
        step = np.clip(2.0 ** np.ceil(np.log2(step)), LEAST_STEP, LARGEST_STEP)
        tree = np.repeat(np.arange(len(self.output)), self._walk.leaves)
        steps = step[self.output[tree][:, None] + np.arange(per_leaf)]
        return TreeEncoder(
            low=low,
            high=high,
            knots=knots,
            counts=counts.astype(np.int64),
            attribute=self.attribute.astype(np.int16),
            rank=rank.astype(np.int16),
            values=np.rint(values / steps).astype(np.int32),
            output=self.output.astype(np.int16),
            offset=np.rint(shift / step).astype(np.int64),
            step=step,
            softmax=self.logits,
        )

    def _with_a_split(self) -> Trees:
        """The same outputs where no tree splits: the first does, with its one leaf on both sides."""
        return replace(
            self,
            attribute=np.concatenate([[0, -1], self.attribute]),
            threshold=np.zeros(1),
            values=np.concatenate([self.values[:1], self.values]),
        )


def together(parts: Sequence[Trees], places: Sequence[Integers], offset: Floats, share: float) -> Trees:
    """One ensemble that adds to `offset` (Z,) a share of what every part does: its outputs are the outputs `places` of
    all. Leaves must have one value."""
    return Trees(
        width=parts[0].width,
        attribute=np.concatenate([part.attribute for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        values=share * np.concatenate([part.values for part in parts]),
        output=np.concatenate([place[part.output] for part, place in zip(parts, places, strict=True)]),
        offset=offset,
        logits=parts[0].logits,
    )
