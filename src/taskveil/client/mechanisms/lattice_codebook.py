"""The codebook mechanism for large budgets: one randomised response over a lattice of codewords too many to list.

**Guarantee.** ε-LDP for every input whatever the encoder computes, ε = ln(a/b).

**Why.** The record is mapped to *one* codeword number below `size` (any floats give one); `Response` with that one
favoured output is ε-LDP in whole numbers. Numbers and codewords correspond one to one, which is public.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import Bools, Integers
from taskveil.client.mechanisms.lattice import Lattice
from taskveil.client.mechanisms.mechanism import NearestCodebook
from taskveil.client.mechanisms.response import Response
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError


@dataclass(frozen=True, kw_only=True, eq=False)
class LatticeCodebook(NearestCodebook):
    """ε-LDP for every input: reports the number of the nearest codeword, or of any other codeword."""

    region: BoxRegion
    lattice: Lattice
    response: Response

    def __post_init__(self) -> None:
        if self.lattice.size != self.response.size or self.response.favoured != 1:
            raise MechanismError("the response must favour one codeword of the whole lattice.")
        wide = (self.region.low < -(2**24)).any() or (self.region.high > 2**24).any()
        if self.lattice.dim != self.region.dim or wide:
            raise MechanismError("the region must match the lattice and lie within ±2^24 grid steps.")

    @cached_property
    def layout(self) -> Layout:
        """Digits of 62 bits, of which only the first has another largest value."""
        later = self.lattice.report_width - 1
        high = ((self.lattice.size - 1) >> 62 * later, *(2**62 - 1,) * later)
        return Layout(low=(0,) * len(high), high=high)

    def places(self, k: Integers) -> list[int]:
        """Latents on the grid (N, d) → the number of the nearest codeword."""
        return [self.lattice.rank(row) for row in self.lattice.nearest(k).tolist()]

    def digits(self, places: list[int]) -> Integers:
        """Numbers of codewords → their digits of 62 bits (N, width)."""
        return self.lattice.digits(places)

    def possible(self, reports: Integers) -> Bools:
        """(N,): whether the digits together number a codeword. Each digit can be in range and the number too large."""
        return self.lattice.holds(reports)

    def fault(self, k: Integers) -> str | None:
        """A latent that is coded by no codeword."""
        numbers = self.lattice.nearest(k)
        spent = sum(lengths[numbers[:, i]] for i, (_, lengths) in enumerate(self.lattice.directions))
        return "A latent is coded by no codeword." if (np.asarray(spent) > self.lattice.budget).any() else None
