"""The designed thing: what runs on the device, what runs on the server, and what is promised in between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.decoders import AffineDecoder
from taskveil.encoders import LinearEncoder
from taskveil.errors import DataError
from taskveil.guarantee import Guarantee
from taskveil.mechanisms import Laplace
from taskveil.records import as_records
from taskveil.task import LinearTask

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The expected task loss: `mean` over records and noise, and a 95% interval for other records like these.

    `exact` says that the expectation over the noise is a formula, not a simulation.
    """

    mean: float
    low: float
    high: float
    exact: bool

    @classmethod
    def of(cls, per_record: Floats, *, exact: bool) -> Loss:
        mean = float(per_record.mean())
        spread = 1.96 * float(per_record.std(ddof=1)) / math.sqrt(len(per_record)) if len(per_record) > 1 else math.nan
        return cls(mean=mean, low=mean - spread, high=mean + spread, exact=exact)


@dataclass(frozen=True, kw_only=True)
class LossBounds:
    """Between these two lies the least loss any linear encoder and decoder with Laplace noise can have.

    They hold on the design data for encoders that do not clip; a design that clips may go below `lower`.
    """

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Veil:
    """Encoder and mechanism for the device, decoder and task for the server. Made by `taskveil.design`."""

    encoder: LinearEncoder
    mechanism: Laplace
    decoder: AffineDecoder
    task: LinearTask
    method: str
    columns: tuple[str, ...] | None = None
    bounds: LossBounds | None = None

    def __post_init__(self) -> None:
        n, z = self.encoder.width, self.encoder.latent_dim
        self.task.check_width(n)
        if self.mechanism.latent_dim != z or self.decoder.weights.shape != (n, z):
            raise DataError("encoder, mechanism and decoder of a veil must agree on attributes and latents.")
        if self.columns is not None and len(self.columns) != n:
            raise DataError(f"{len(self.columns)} column names for {n} attributes.")

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.mechanism.epsilon,
            enforced_by="Every latent is forced into a fixed region in integer arithmetic, then receives exact "
            "discrete Laplace noise from the operating system's entropy.",
        )

    def encode(self, X: Any) -> Floats:
        """Latents (N, Z) before noise, after bounding."""
        return self.mechanism.bound(self.encoder(as_records(X, width=self.encoder.width)))

    def privatize(self, X: Any) -> Floats:
        """Reports, one row per record, with fresh operating-system entropy."""
        return self.mechanism(self.encoder(as_records(X, width=self.encoder.width)))

    def decode(self, reports: Any) -> Floats:
        """Estimates x̂ (N, n) of the records behind the reports."""
        return self.decoder(as_records(reports, width=self.mechanism.latent_dim))

    def predict(self, reports: Any) -> Floats:
        """The task's output ŷ for every report."""
        return self.task.predict(self.decode(reports))

    def loss(self, X: Any, y: Any = None) -> Loss:  # noqa: ARG002 - a linear task is judged against Kx itself
        """The expected task loss over the noise on the records X.

        For a linear task and an affine decoder noise and error separate: ‖K(D φ + c − x)‖² + σ_w² ‖K D‖_F².
        """
        records = as_records(X, width=self.encoder.width)
        if len(records) == 0 or not np.isfinite(records).all():
            raise DataError("the loss is measured on at least one record of finite numbers.")
        systematic = self.task.losses(self.decoder(self.encode(records)), records)
        noise = self.mechanism.noise_variance * float((self.task.predict(self.decoder.weights.T) ** 2).sum())
        return Loss.of(systematic + noise, exact=True)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the release: `client/` for devices, `server/` for the collector. All of it or nothing."""
        from taskveil.release import save

        save(self, Path(folder), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Veil:
        """Read a release, refusing anything altered, truncated, malformed or newer than this version."""
        from taskveil.release import load

        return load(Path(folder))
