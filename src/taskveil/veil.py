"""The designed thing: what runs on the device, what runs on the server, and what is promised in between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.decoders import Decoder
from taskveil.device import Device
from taskveil.encoders import Encoder
from taskveil.errors import DataError, TaskError
from taskveil.guarantee import Guarantee
from taskveil.mechanisms import Laplace, Mechanism
from taskveil.records import as_records, as_reports
from taskveil.task import Task

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


@dataclass(frozen=True, kw_only=True)
class Considered:
    """A method that `method="auto"` tried, and its expected loss on volunteers it was not fitted to."""

    method: str
    held_out_loss: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Veil:
    """Encoder and mechanism for the device, decoder and task for the server. Made by `taskveil.design`.

    `task` is None for a loaded release whose task is a model: models are not stored, pass yours to `Veil.load`.
    """

    encoder: Encoder
    mechanism: Mechanism
    decoder: Decoder
    task: Task | None
    method: str
    columns: tuple[str, ...] | None = None
    bounds: LossBounds | None = None
    units: tuple[str, ...] | None = None
    considered: tuple[Considered, ...] = ()

    def __post_init__(self) -> None:
        n, z = self.encoder.width, self.encoder.latent_dim
        if self.task is not None:
            self.task.check_width(n)
        if self.mechanism.latent_dim != z or self.decoder.shape != (n, self.mechanism.report_width):
            raise DataError("encoder, mechanism and decoder of a veil must agree on attributes and latents.")
        _ = self.device  # checks names and units

    @property
    def device(self) -> Device:
        """The part that runs at the user's end."""
        return Device(encoder=self.encoder, mechanism=self.mechanism, columns=self.columns, units=self.units)

    @property
    def guarantee(self) -> Guarantee:
        if isinstance(self.mechanism, Laplace):
            enforced = (
                "Every latent is forced into a fixed region in integer arithmetic, then receives exact discrete "
                "Laplace noise from the operating system's entropy."
            )
        else:
            enforced = (
                "The report is a code number, drawn in exact integer arithmetic from the operating system's entropy; "
                "the record only decides which numbers are favoured."
            )
        return Guarantee(epsilon=self.mechanism.epsilon, enforced_by=enforced)

    def encode(self, X: Any) -> Floats:
        """Latents (N, Z) before randomisation, after bounding."""
        return self.mechanism.bound(self.encoder(as_records(X, width=self.encoder.width)))

    def privatize(self, X: Any) -> NDArray[Any]:
        """Reports, one row per record, with fresh operating-system entropy."""
        return self.device.privatize(as_records(X, width=self.encoder.width))

    def decode(self, reports: Any) -> Floats:
        """Estimates x̂ (N, n) of the records behind the reports."""
        return self.decoder(as_reports(reports, width=self.mechanism.report_width))

    def predict(self, reports: Any) -> Floats:
        """The task's output ŷ for every report."""
        return self._task.predict(self.decode(reports))

    def loss(self, X: Any, y: Any = None) -> Loss:
        """The expected task loss over the randomisation on the records X (and labels y where the task needs them)."""
        from taskveil.evaluate import expected_losses

        records = as_records(X, width=self.encoder.width)
        if len(records) == 0 or not np.isfinite(records).all():
            raise DataError("the loss is measured on at least one record of finite numbers.")
        per_record, exact = expected_losses(self, self._task, records, y)
        return Loss.of(per_record, exact=exact)

    @property
    def _task(self) -> Task:
        if self.task is None:
            raise TaskError("this veil was loaded without its task: use Veil.load(folder, task=...).")
        return self.task

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the release: `client/` for devices, `server/` for the collector. All of it or nothing."""
        from taskveil.release import save

        save(self, Path(folder), overwrite=overwrite)

    @classmethod
    def load(
        cls, folder: str | Path, *, task: Task | None = None, verify_key: str | Path | bytes | None = None
    ) -> Veil:
        """Read a release, refusing anything altered, truncated, malformed or newer than this version.

        `task` is needed to predict when the task is a model; releases hold no models. With `verify_key` (a PEM file
        or its bytes) the release must be signed by that key.
        """
        from taskveil.release import load
        from taskveil.signing import read_key

        return load(Path(folder), task, read_key(verify_key))
