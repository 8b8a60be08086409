"""The codebook mechanism: a report is one small integer, and the guarantee needs no sensitivity.

**Guarantee.** ε-LDP for every input whatever the encoder computes, ε the sum of the stages' budgets.

**Why.** (1) A stage turns the latent into a set of exactly m favoured outputs; any floats give such a set. (2) The
stage's `Response` is ε_s-LDP over all favoured sets, in whole numbers. (3) A later stage's set depends on the record
and on the *realised* earlier outputs, which are public in the report; given them it is ε_s-LDP again. (4) So the
probability of a whole report is a product of factors that differ by at most e^(ε_s) each. (5) Codewords and decoder
are fixed in the release and never depend on the record.

Device arithmetic is in whole numbers: latents are rounded to the region's grid and scores are integer sums, so every
client favours the same outputs.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import Floats, Integers, own_arrays
from taskveil.client.layers import EXACT
from taskveil.client.mechanisms.mechanism import Mechanism
from taskveil.client.mechanisms.response import Response, top
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError

MOST_STAGES = 64
"""Of a codebook: more than any design uses, and few enough to certify while a release is read."""

_RECORDS_AT_A_TIME = 1024  # so that their scores stay in the processor's cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """Favours the m outputs of highest score: score = vectors · k + offsets, for the latent k on the grid.

    Shapes: vectors (K, d), offsets (K,). Once output j is reported, later stages see k − shifts[j]; shifts (K, d).
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
        for start in range(0, len(k), _RECORDS_AT_A_TIME):
            scores = k[start : start + _RECORDS_AT_A_TIME].astype(np.float64) @ vectors
            scores += offsets
            best[start : start + _RECORDS_AT_A_TIME] = top(scores, self.response.favoured)
        return best


@dataclass(frozen=True, kw_only=True, eq=False)
class Codebook(Mechanism):
    """ε-LDP for every input, ε = Σ stages' ln(a/b)."""

    region: BoxRegion
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.stages) <= MOST_STAGES:
            raise MechanismError(f"a codebook has 1 to {MOST_STAGES} stages, got {len(self.stages)}.")
        reach = np.maximum(np.abs(self.region.low), np.abs(self.region.high)).astype(np.float64)
        for stage in self.stages:
            if stage.vectors.shape[1] != self.region.dim:
                raise MechanismError("all stages must take the region's latents.")
            # As doubles first: the absolute value of the integer −2^63 is −2^63.
            vectors, offsets, shifts = (
                np.abs(a.astype(np.float64)) for a in (stage.vectors, stage.offsets, stage.shifts)
            )
            if (vectors @ reach + offsets >= EXACT).any():
                raise MechanismError("scores are too large to be exact; use a coarser grid.")
            reach = reach + shifts.max(axis=0)

    @property
    def responses(self) -> tuple[Response, ...]:
        """The response of every stage."""
        return tuple(stage.response for stage in self.stages)

    @cached_property
    def layout(self) -> Layout:
        """Code numbers from 0 to a stage's size − 1."""
        return Layout(low=(0,) * len(self.stages), high=tuple(response.size - 1 for response in self.responses))

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, d) → reports (N, stages)."""
        k = self.region.enforce(latents)
        reports = np.empty((len(k), len(self.stages)), dtype=np.int64)
        for place, stage in enumerate(self.stages):
            reports[:, place] = stage.response(stage.favoured(k))
            k = k - stage.shifts[reports[:, place]]
        return reports

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): Σ over stages of ln(a/T) where the output is among those the latent favours, else ln(b/T)."""
        return np.stack([self._log_likelihood(reports, k) for k in self.region.enforce(latents)], axis=1)

    def _log_likelihood(self, reports: Integers, k: Integers) -> Floats:
        score = np.zeros(len(reports))
        # The first stages have few possible histories: compute the favoured sets once per history.
        history = np.zeros(len(reports), dtype=np.int64)
        left = k[None, :]
        for place, stage in enumerate(self.stages):
            chosen, response = reports[:, place], stage.response
            among = (stage.favoured(left)[history] == chosen[:, None]).any(axis=1)
            score += response.log_chances(among)
            if place + 1 < len(self.stages):
                pairs, history = np.unique(history * response.size + chosen, return_inverse=True)
                left = left[pairs // response.size] - stage.shifts[pairs % response.size]
        return score

    def contrast(self, latents: Floats) -> Floats:
        """(N, K): which outputs the first stage favours."""
        stage = self.stages[0]
        members = np.zeros((len(latents), stage.response.size))
        np.put_along_axis(members, stage.favoured(self.region.enforce(latents)), 1.0, axis=1)
        return members

    def fault(self, k: Integers) -> str | None:
        """A favoured set without exactly m distinct members."""
        for stage in self.stages:
            sets = np.sort(stage.favoured(k), axis=1)
            distinct = (np.diff(sets, axis=1) > 0).all() and sets.min() >= 0 and sets.max() < stage.response.size
            if not distinct or sets.shape[1] != stage.response.favoured:
                return "A favoured set has not exactly m distinct members."
        return None
