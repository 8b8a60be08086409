"""The codebook mechanism for large budgets: one randomised response over a lattice of codewords too many to list.

**Guarantee.** ε-LDP for every input whatever the encoder computes, ε = ln(a/b).

**Why.** The record is mapped to *one* codeword number below `size` (any floats give one); `Response` with that one
favoured output is ε-LDP in whole numbers. Numbers and codewords correspond one to one, which is public.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import MechanismError
from taskveil.lattice import Lattice
from taskveil.mechanisms.response import Response
from taskveil.regions import BoxRegion

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LatticeCodebook:
    """ε-LDP for every input: reports the number of the nearest codeword, or of any other."""

    region: BoxRegion
    lattice: Lattice
    response: Response

    def __post_init__(self) -> None:
        if self.lattice.size != self.response.size or self.response.favoured != 1:
            raise MechanismError("the response must favour one codeword of the whole lattice.")
        wide = (self.region.low < -(2**24)).any() or (self.region.high > 2**24).any()
        if self.lattice.dim != self.region.dim or wide:
            raise MechanismError("the region must match the lattice and lie within ±2^24 grid steps.")

    @property
    def epsilon(self) -> float:
        return self.response.epsilon

    @property
    def latent_dim(self) -> int:
        return self.region.dim

    @property
    def report_width(self) -> int:
        return self.lattice.report_width

    def bound(self, latents: Floats) -> Floats:
        """Any floats (N, d) → what is coded: inside the region, on the grid."""
        return np.asarray(self.region.enforce(latents) * self.region.step, dtype=np.float64)

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, d) → reports (N, width): the codeword's number, in digits of 62 bits."""
        numbers = self.lattice.nearest(self.region.enforce(latents))
        places = [self.response.respond([self.lattice.rank(row)]) for row in numbers.tolist()]
        return self.lattice.digits(places)
