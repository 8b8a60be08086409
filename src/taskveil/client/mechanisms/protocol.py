"""What others may ask of a mechanism: it answers for itself, so nobody outside needs to know which kind it is.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from taskveil.arrays import Array, Bools, Floats, Integers
from taskveil.client.mechanisms.response import Response
from taskveil.client.regions import Region
from taskveil.client.wire import Layout


class Mechanism(Protocol):
    """A frozen, checked randomiser: any floats in, whole numbers out, (ε, δ)-LDP for every input.

    Shapes: latents (N, Z) floats, reports (N, width) whole numbers, Z = `latent_dim`, width = `report_width`.
    """

    @property
    def region(self) -> Region:
        """The set of whole-number latents that everything is forced into first."""
        ...

    @property
    def epsilon(self) -> float:
        """The privacy loss between any two inputs, rounded up."""
        ...

    @property
    def delta(self) -> float:
        """With what probability that may fail."""
        ...

    @property
    def exact_epsilon(self) -> Decimal:
        """What the parameters imply, in sixty digits and by other arithmetic than `epsilon`."""
        ...

    @property
    def responses(self) -> tuple[Response, ...]:
        """The randomised responses the mechanism is made of; none where it is no response."""
        ...

    @property
    def enforced_by(self) -> str:
        """How the promise is kept, in words that need no mathematics."""
        ...

    @property
    def latent_dim(self) -> int:
        """How many latents it takes."""
        ...

    @property
    def report_width(self) -> int:
        """How many whole numbers a report has."""
        ...

    @property
    def layout(self) -> Layout:
        """Least and largest value of each number of a report."""
        ...

    def bound(self, latents: Floats) -> Floats:
        """What is randomised: inside the region, on the grid, in the latents' own units."""
        ...

    def __call__(self, latents: Floats) -> Integers:
        """Reports, each with fresh entropy."""
        ...

    def values(self, reports: Integers) -> Array:
        """What the numbers of reports stand for; decoders take these."""
        ...

    def possible(self, reports: Integers) -> Bools:
        """(N,): whether a device can have made the report."""
        ...

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): ln P[report | latent] for every report (N, width) and latent (M, Z)."""
        ...

    def contrast(self, latents: Floats) -> Floats:
        """(N, c): vectors whose ℓ1 distance grows with how well reports tell two latents apart."""
        ...

    def fault(self, k: Integers) -> str | None:
        """What would break the promise for these members of the region (N, Z), or None."""
        ...
