"""The base of all mechanisms: what the other packages may ask, and the answers that most mechanisms share.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import ClassVar

import numpy as np

from taskveil.arrays import Array, Bools, Floats, Integers
from taskveil.client.mechanisms.response import Response
from taskveil.client.regions import Region
from taskveil.client.wire import Layout


class Mechanism(ABC):
    """A frozen randomiser, checked when it is built: any floats in, whole numbers out, (ε, δ)-LDP for every input.

    Shapes: latents (N, Z) floats, reports (N, width) whole numbers, Z = `latent_dim`, width = `report_width`.
    """

    region: Region
    """The set of whole-number latents that every input is brought into first."""
    delta: float = 0.0
    """The probability with which the bound ε may fail."""
    enforced_by: ClassVar[str] = (
        "The report is a code number, drawn in exact integer arithmetic from the operating system's entropy; the "
        "record only decides which numbers are favoured."
    )
    """How the promise is kept, in words that need no mathematics. Releases contain this text."""

    @property
    def responses(self) -> tuple[Response, ...]:
        """The randomised response that the mechanism consists of; empty if it does not consist of one."""
        return ()

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The privacy loss between any two inputs, rounded up."""

    @property
    @abstractmethod
    def exact_epsilon(self) -> Decimal:
        """The ε that the parameters imply, in sixty digits and by other arithmetic than `epsilon`."""

    @property
    def latent_dim(self) -> int:
        """How many latents it takes."""
        return self.region.dim

    @property
    def report_width(self) -> int:
        """How many whole numbers a report has."""
        return len(self.layout.low)

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Least and largest value of each number of a report."""

    def bound(self, latents: Floats) -> Floats:
        """Any floats (N, Z) → what is randomised: inside the region, on the grid, in the latents' own units."""
        return np.asarray(self.region.enforce(latents) * self.region.step, dtype=np.float64)

    @abstractmethod
    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → reports (N, width), each with fresh entropy."""

    def values(self, reports: Integers) -> Array:
        """The values that decoders take. Code numbers are such values themselves."""
        return reports

    def possible(self, reports: Integers) -> Bools:
        """(N,): whether a device can have made the report."""
        return self.layout.holds(reports)

    @abstractmethod
    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): ln P[report | latent] for every report (N, width) and latent (M, Z)."""

    def contrast(self, latents: Floats) -> Floats:
        """(N, c): vectors whose ℓ1 distance grows with how well reports distinguish two latents."""
        return self.bound(latents)

    @abstractmethod
    def fault(self, k: Integers) -> str | None:
        """A sentence on what breaks the promise for these members of the region (N, Z); None if nothing does."""


class ResponseMechanism(Mechanism):
    """A mechanism that draws its report by one randomised response."""

    response: Response

    @property
    def responses(self) -> tuple[Response, ...]:
        """The one response."""
        return (self.response,)

    @property
    def epsilon(self) -> float:
        """The ε of the response."""
        return self.response.epsilon

    @property
    def exact_epsilon(self) -> Decimal:
        """The ε of the response, in sixty digits and by other arithmetic."""
        return self.response.exact_epsilon


class NearestCodebook(ResponseMechanism):
    """Favours one codeword, near the latent, of so many that they are numbered and not listed."""

    @abstractmethod
    def places(self, k: Integers) -> list[int]:
        """Latents on the grid (N, d) → the number of the codeword that each favours."""

    @abstractmethod
    def digits(self, places: list[int]) -> Integers:
        """Numbers of codewords (N,) → reports (N, width)."""

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, d) → reports (N, width): the digits of the number that was drawn."""
        return self.digits([self.response.respond([place]) for place in self.places(self.region.enforce(latents))])

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): ln(a/T) where the report is the codeword that the latent favours, else ln(b/T)."""
        nearest = self.digits(self.places(self.region.enforce(latents)))
        return self.response.log_chances((reports[:, None, :] == nearest[None, :, :]).all(axis=2))
