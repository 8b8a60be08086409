"""Several stages, each coding what the realised earlier outputs left over, so that later stages correct earlier noise.

One randomised response over all codewords spends the budget better wherever its codewords can be listed or counted
(listed codes and lattices); stages remain for devices that can store only a few codewords.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Codebook
from taskveil.decoders import CodewordDecoder
from taskveil.designs.codebooks.listed import ListedCode, fit_listed, staged_parts

DRAWS = 16
"""Reports drawn per record to estimate the expected loss: it is no finite sum here."""


@dataclass(frozen=True, kw_only=True)
class StagedCode:
    """Listed codes for the residuals of those before them; the estimate is the sum of the reported codewords."""

    stages: tuple[ListedCode, ...]

    def losses(self, latents: Floats) -> Floats:
        """The expected squared error of every record (N,): a mean over draws, exact over the last stage."""
        total = np.zeros(len(latents))
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            residual = latents
            for code in self.stages[:-1]:
                residual = left_over(residual, code, rng)
            total += self.stages[-1].losses(residual)
        return total / DRAWS

    def parts(self, reach: Floats, back: Floats, mean: Floats) -> tuple[Codebook, CodewordDecoder]:
        """Mechanism and decoder on the integer grid; see `staged_parts`."""
        return staged_parts(self.stages, reach, back, mean)


def fit_staged(
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
) -> StagedCode:
    """Equal budgets; every stage is fitted to residuals drawn through the stages before it.

    `stages` counts them; the others are those of `fit_listed`, for each stage.
    """
    codes: list[ListedCode] = []
    residual = np.tile(latents, (max(1, -(-draws // len(latents))), 1))
    for _ in range(stages):
        code = fit_listed(
            residual,
            size=size,
            favoured=favoured,
            dim=dim,
            epsilon=epsilon / stages,
            smoothing=1.0,
            rng=rng,
            draws=draws,
            starts=starts,
        )
        codes.append(code)
        residual = left_over(residual, code, rng)
    return StagedCode(stages=tuple(codes))


def left_over(latents: Floats, code: ListedCode, rng: np.random.Generator) -> Floats:
    """Latents minus the codewords reported for them (design time only: ordinary random numbers)."""
    C, response = code.codewords, code.response
    dim = C.shape[1]
    scores = 2.0 * latents[:, :dim] @ C.T - (C**2).sum(axis=1)
    favoured = np.argpartition(-scores, response.favoured - 1, axis=1)[:, : response.favoured]
    truthful = rng.random(len(latents)) < response.favoured * response.extra
    pick = favoured[np.arange(len(latents)), rng.integers(response.favoured, size=len(latents))]
    outputs = np.where(truthful, pick, rng.integers(response.size, size=len(latents)))
    residual = latents.copy()
    residual[:, :dim] -= C[outputs]
    return residual
