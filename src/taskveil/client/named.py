"""A model that a release names but does not contain: whoever runs the client in Python brings it along.

For models that no part of a release can hold. Nothing about the guarantee depends on it: a mechanism bounds whatever
it computes. Browsers cannot run it and refuse such a release.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.arrays import Floats, check_arrays, own_arrays
from taskveil.errors import DataError

Function = Callable[[Floats], Any]
"""Records (N, n) inside the ranges → latents (N, Z)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedEncoder:
    """φ = function(x) for records brought inside `low` and `high` (n,), where NaN counts as the middle.

    A function that raises, or gives something else than `latents` numbers, says nothing about that record: its latents
    are NaN, which mechanisms bring inside, so that no value ever shows as an error.

    It may get many records at once and must answer each for itself: one that mixes records (batch normalisation in
    training mode) or remembers them carries a record into its neighbours' reports, which the guarantee does not count.
    A `Client` asks about one record of one person.
    """

    name: str
    low: Floats
    high: Floats
    latents: int
    _function: Function | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        own_arrays(self)
        check_arrays(low=(self.low, self.low.shape), high=(self.high, self.low.shape))
        if self.low.ndim != 1 or not (self.low <= self.high).all() or not 1 <= self.latents <= 2**16:
            raise DataError("a named encoder needs a range for every attribute, and 1 to 65,536 latents.")
        if not (self.name and self.name.isprintable() and len(self.name) <= 200):
            raise DataError("a named encoder needs a name of 1 to 200 printable characters.")

    @classmethod
    def of(cls, function: Function, *, name: str, low: Floats, high: Floats, latents: int) -> NamedEncoder:
        """An encoder that runs `function`, known to releases by its `name`; the others are the fields."""
        return cls(name=name, low=low, high=high, latents=latents).running(function)

    def running(self, function: Function) -> NamedEncoder:
        """The same encoder with the function that its name stands for."""
        if not callable(function):
            raise DataError(f"an encoder must be callable, got {type(function).__name__}.")
        bound = NamedEncoder(name=self.name, low=self.low, high=self.high, latents=self.latents)
        object.__setattr__(bound, "_function", function)
        return bound

    @property
    def runs(self) -> bool:
        """Whether it has its function."""
        return self._function is not None

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return len(self.low)

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return self.latents

    @property
    def operations(self) -> int:
        """Not known of a function."""
        return 0

    @np.errstate(all="ignore")  # whatever the caller asked numpy to raise, no value is an error here
    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        if self._function is None:
            raise DataError(f"this release runs the model {self.name!r}, which it does not contain: {HOW}.")
        inside = np.clip(np.where(np.isnan(X), self.low + (self.high - self.low) / 2, X), self.low, self.high)
        found = self._ask(inside)
        if found is None:  # one record must not cost its neighbours
            rows = [self._ask(row[None]) for row in inside]
            silent = np.full((1, self.latents), np.nan)
            found = np.concatenate([silent if row is None else row for row in rows] or [silent[:0]])
        return found

    def _ask(self, inside: Floats) -> Floats | None:
        """What the function gives for some records; None where that is no answer."""
        try:
            found = np.array(self._function(inside.copy()), dtype=np.float64)  # type: ignore[misc]
        except (Exception, SystemExit):  # whatever someone else's model raises; a person's own interruption passes
            return None
        found = found[:, None] if found.ndim == 1 else found
        return found if found.shape == (len(inside), self.latents) else None


HOW = "pass it as Client.load(folder, encoder=function) or Veil.load(folder, encoder=function)"


def bring(encoder: Any, function: Function | None, named: str) -> Any:
    """The encoder of a release just read, with the `function` that it names; DataError if one is missing or not needed.

    `named` is what the release is called in the message.
    """
    if not isinstance(encoder, NamedEncoder):
        if function is not None:
            raise DataError(f"{named} contains its encoder: leave out encoder=.")
        return encoder
    if function is None:
        raise DataError(f"{named} runs the model {encoder.name!r}, which it does not contain: {HOW}.")
    return encoder.running(function)
