"""The codebook mechanism: a report is one small integer, and the guarantee needs no sensitivity.

**Guarantee.** ε-LDP for every input whatever the encoder computes, ε = ln(a/b).

**Why.** (1) The stage turns the latent into a set of exactly m favoured outputs; any floats give such a set. (2) Its
`Response` is ε-LDP over all favoured sets, in whole numbers. (3) Codewords and decoder are fixed in the release and
never depend on the record.

Device arithmetic is in whole numbers: latents are rounded to the region's grid and scores are integer sums, so every
client favours the same outputs.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import EXACT, Floats, Integers, blocks, own_arrays
from taskveil.client.mechanisms.base import ResponseMechanism
from taskveil.client.mechanisms.response import Response, top
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """Favours the m outputs of highest score: score = vectors · k + offsets, for the latent k on the grid.

    Shapes: vectors (K, d), offsets (K,). `shifts` (K, d) belongs to the format of release files; no code uses it.
    """

    vectors: Integers
    offsets: Integers
    shifts: Integers
    response: Response

    def __post_init__(self) -> None:
        own_arrays(self)
        size, dim = self.vectors.shape
        if size != self.response.size or self.offsets.shape != (size,) or self.shifts.shape != (size, dim):
            raise MechanismError("a stage needs one vector, offset and shift per output.")
        if any(array.dtype != np.int64 for array in (self.vectors, self.offsets, self.shifts)):
            raise MechanismError("a stage computes in 64-bit integers.")

    def favoured(self, k: Integers) -> Integers:
        """Latents on the grid (N, d) → favoured outputs (N, m)."""
        vectors, offsets = self.vectors.T.astype(np.float64), self.offsets.astype(np.float64)
        best = np.empty((len(k), self.response.favoured), dtype=np.int64)
        for rows in blocks(len(k), len(offsets)):
            scores = k[rows].astype(np.float64) @ vectors
            scores += offsets
            best[rows] = top(scores, self.response.favoured)
        return best


@dataclass(frozen=True, kw_only=True, eq=False)
class Codebook(ResponseMechanism):
    """ε-LDP for every input, ε = ln(a/b) of the response of its one stage."""

    region: BoxRegion
    stages: tuple[Stage]

    def __post_init__(self) -> None:
        if len(self.stages) != 1:
            raise MechanismError(f"a codebook has one stage, got {len(self.stages)}.")
        if self.stage.vectors.shape[1] != self.region.dim:
            raise MechanismError("the stage must take the region's latents.")
        reach = np.maximum(np.abs(self.region.low), np.abs(self.region.high)).astype(np.float64)
        # As doubles first: the absolute value of the integer −2^63 is −2^63.
        vectors, offsets = (np.abs(a.astype(np.float64)) for a in (self.stage.vectors, self.stage.offsets))
        if (vectors @ reach + offsets >= EXACT).any():
            raise MechanismError("scores are too large to be exact; use a coarser grid.")

    @property
    def stage(self) -> Stage:
        """Its one stage. Release files have a list of stages."""
        return self.stages[0]

    @property
    def response(self) -> Response:  # type: ignore[override]
        """The stage's response."""
        return self.stage.response

    @cached_property
    def layout(self) -> Layout:
        """Code numbers from 0 to the number of codewords − 1."""
        return Layout(low=(0,), high=(self.response.size - 1,))

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, d) → reports (N, 1)."""
        return self.response(self.stage.favoured(self.region.enforce(latents)))[:, None]

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): ln(a/T) where the output is among those that the latent favours, else ln(b/T)."""
        return self.response.log_chances(self.contrast(latents).T[reports[:, 0]] > 0)

    def contrast(self, latents: Floats) -> Floats:
        """(N, K): 1 for the outputs that each latent favours, else 0."""
        members = np.zeros((len(latents), self.response.size))
        np.put_along_axis(members, self.stage.favoured(self.region.enforce(latents)), 1.0, axis=1)
        return members

    def fault(self, k: Integers) -> str | None:
        """A sentence if a favoured set has not exactly m distinct members; otherwise None."""
        sets = np.sort(self.stage.favoured(k), axis=1)
        distinct = (np.diff(sets, axis=1) > 0).all() and sets.min() >= 0 and sets.max() < self.response.size
        if not distinct or sets.shape[1] != self.response.favoured:
            return "A favoured set has not exactly m distinct members."
        return None
