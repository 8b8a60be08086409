"""Several stages, each coding what the realised earlier outputs left over, so that later stages correct earlier noise.

One randomised response over all codewords spends the budget better wherever its codewords can be listed or counted
(tables and lattices); stages remain for devices that can store only a few codewords.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.designs.codebooks.listed import Table, fit_table

DRAWS = 16
"""Reports drawn per record to estimate the expected loss: it is no finite sum here."""


@dataclass(frozen=True, kw_only=True)
class FittedStages:
    """Tables for the residuals of the tables before them; the estimate is the sum of the reported codewords."""

    tables: tuple[Table, ...]

    def losses(self, latents: Floats) -> Floats:
        """The expected squared error of every record (N,): a mean over draws, exact over the last stage."""
        total = np.zeros(len(latents))
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            residual = latents
            for table in self.tables[:-1]:
                residual = left_over(residual, table, rng)
            total += self.tables[-1].losses(residual)
        return total / DRAWS


def fit_stages(
    latents: Floats,
    *,
    stages: int,
    size: int,
    favoured: int,
    dim: int,
    epsilon: float,
    rng: np.random.Generator,
    draws: int = 4000,
    starts: int = 1,
) -> FittedStages:
    """Equal budgets; every stage is fitted to residuals drawn through the stages before it."""
    tables: list[Table] = []
    residual = np.tile(latents, (max(1, -(-draws // len(latents))), 1))
    for _ in range(stages):
        table = fit_table(
            residual,
            size=size,
            favoured=favoured,
            dim=dim,
            epsilon=epsilon / stages,
            smooth=True,
            rng=rng,
            draws=draws,
            starts=starts,
        )
        tables.append(table)
        residual = left_over(residual, table, rng)
    return FittedStages(tables=tuple(tables))


def left_over(latents: Floats, table: Table, rng: np.random.Generator) -> Floats:
    """Latents minus the codewords reported for them (design time only: ordinary random numbers)."""
    C, response = table.codewords, table.response
    dim = C.shape[1]
    scores = 2.0 * latents[:, :dim] @ C.T - (C**2).sum(axis=1)
    favoured = np.argpartition(-scores, response.favoured - 1, axis=1)[:, : response.favoured]
    told = rng.random(len(latents)) < response.favoured * response.extra
    pick = favoured[np.arange(len(latents)), rng.integers(response.favoured, size=len(latents))]
    outputs = np.where(told, pick, rng.integers(response.size, size=len(latents)))
    residual = latents.copy()
    residual[:, :dim] -= C[outputs]
    return residual
