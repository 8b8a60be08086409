"""Categories as one atom: a block response over all values, whose outputs stand for unbiased estimates of all columns.

Column by column, a category of k values would be k latents, each with its own share of the reports. As one digit it is
one group, and its total squared error is that of subset selection (`blocks`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.mechanisms import BlockGroup, Response
from taskveil.designs.means.blocks import best_width, flat_blocks, shares_of, subset_variances
from taskveil.designs.problem import Problem
from taskveil.veil.surveys import GRID_BITS, block_scores


@dataclass(frozen=True, kw_only=True, eq=False)
class Atom:
    """A category whose values are the numbers `columns` of a record, of width n: row 0 is none of them, row i the i-th.
    `width` is the size of its blocks and `cost` the expected squared error of a report."""

    columns: slice
    n: int
    width: int
    cost: float

    @property
    def rows(self) -> int:
        """How many values there are, with the one for all that are not listed."""
        return int(self.columns.stop - self.columns.start + 1)

    @property
    def weights(self) -> Floats:
        """(n,): the encoder's weights of the digit."""
        found = np.zeros(self.n)
        found[self.columns] = np.arange(1.0, self.rows)
        return found

    @property
    def values(self) -> Floats:
        """(rows, n): the numbers of a record in every row, 0 in other columns than those of the category."""
        return np.eye(self.n + 1)[[self.n, *range(self.columns.start, self.columns.stop)], : self.n]

    def group(self, place: int, chance: int, epsilon: float, halvings: int) -> BlockGroup:
        """The group of the latent at a place, with at most 16 base blocks, halved so many times."""
        return BlockGroup(
            places=np.array([place]),
            counts=np.array([self.rows]),
            levels=np.arange(self.rows) << GRID_BITS,
            binned=np.array([False]),
            blocks=np.array(flat_blocks(self.rows, self.width, halvings)),
            response=Response.calibrated(size=self.rows, favoured=self.width, epsilon=epsilon),
            chance=chance,
        )

    def codewords(self, group: BlockGroup, mean: Floats, factor: float) -> Floats:
        """(outputs, n): what outputs of the group stand for if one of `factor` reports is about it: `mean` in all other
        columns."""
        found = np.tile(mean, (group.outputs, 1))
        found[:, self.columns] += (block_scores(group, self.values)[:, self.columns] - mean[self.columns]) * factor
        return found


def atoms_of(problem: Problem, K: Floats, epsilon: float) -> list[Atom]:
    """The categories that a task K (m, n) weighs, with blocks of the size of least cost."""
    schema, found = problem.schema, []
    for field, columns in zip(schema.fields.fields, schema.fields.places, strict=True):
        if not field.exclusive or not K[:, columns].any():
            continue
        count = columns.stop - columns.start
        digit = problem.X[:, columns] @ np.arange(1.0, count + 1.0)
        prior = shares_of(np.rint(digit).astype(np.int64)[:, None], [np.arange(count + 1)], [False])
        values = np.eye(count + 1)[:, 1:] @ K[:, columns].T
        width = best_width(values, np.ones(len(K)), prior, epsilon)
        cost = float(subset_variances(values, prior, epsilon, width).sum())
        found.append(Atom(columns=columns, n=K.shape[1], width=width, cost=cost))
    return found
