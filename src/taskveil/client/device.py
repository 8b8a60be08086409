"""The part of a veil that runs on the user's device: the fields of a record, the encoder and the mechanism.

The `client/` half of a release holds it; `client.reading` reads it.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import Encoder
from taskveil.client.mechanisms import Mechanism
from taskveil.client.record import Fields
from taskveil.errors import DataError

_NUMBERS_AT_A_TIME = 1 << 15  # numbers encoded at a time, so that the work arrays stay in the processor's cache
_REPORTS_AT_A_TIME = 1 << 13  # reports randomised at a time, so that asking the operating system costs little


@dataclass(frozen=True, kw_only=True, eq=False)
class Device:
    """Record in, randomised report out. `columns` and `units` name the attributes in order.

    With `fields`, a record has natural values, which the fields turn into numbers. Without, it consists of numbers.
    """

    encoder: Encoder
    mechanism: Mechanism
    columns: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    fields: Fields | None = None

    def __post_init__(self) -> None:
        if self.mechanism.latent_dim != self.encoder.latent_dim:
            raise DataError("encoder and mechanism of a veil must agree on the latents.")
        if self.fields is not None:
            if self.fields.width != self.encoder.width:
                raise DataError(f"the fields make {self.fields.width} numbers, the encoder takes {self.encoder.width}.")
            if (self.columns, self.units) != (self.fields.names, self.fields.units):
                raise DataError("columns and units must be those of the fields.")
        for what, names in (("column names", self.columns), ("units", self.units)):
            if names is not None and len(names) != self.attributes:
                raise DataError(f"{len(names)} {what} for {self.attributes} attributes.")
            if names is not None and not all(isinstance(name, str) for name in names):
                raise DataError(f"{what} must be text.")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise DataError("column names must differ from each other.")

    @property
    def attributes(self) -> int:
        """How many values a record has."""
        return self.encoder.width if self.fields is None else len(self.fields.names)

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def privatize(self, X: Floats) -> Integers:
        """Records of any quality as numbers (N, n) → reports (N, width), each with fresh entropy."""
        if len(X) <= _REPORTS_AT_A_TIME:
            return self.mechanism(self._encode(X))
        return np.concatenate(
            [self.privatize(X[start : start + _REPORTS_AT_A_TIME]) for start in range(0, len(X), _REPORTS_AT_A_TIME)]
        )

    def _encode(self, X: Floats) -> Floats:
        rows = max(1, _NUMBERS_AT_A_TIME // max(self.encoder.width, self.encoder.latent_dim))
        if len(X) <= rows:
            return self.encoder(X)
        return np.concatenate([self.encoder(X[start : start + rows]) for start in range(0, len(X), rows)])
