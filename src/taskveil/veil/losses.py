"""What a veil costs its task: expected losses over the randomisation, and what is known about them.

A formula wherever there is one, real reports otherwise.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.device import Device
from taskveil.errors import FewRecordsWarning
from taskveil.tasks import Task
from taskveil.veil.channels import Encoded, channel_of
from taskveil.veil.decoders import Decoder
from taskveil.veil.loss_intervals import few_leaders, loss_interval

REPORTS = 2**14
"""About this many reports are drawn in all where the expectation has no formula, at least 16 and at most 256 a record:
enough that the records' own spread decides the interval, few enough for models that are slow."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The expected task loss: `mean` over records and noise, and a 95% interval for other records like these.

    The interval allows for skewness and, where asked to, for records that follow each other in time:
    `veil/loss_intervals.py` says what it assumes. `exact` says that the expectation over the noise is a formula, not a
    simulation. `accuracy`, of a classifier, is the expected share of records answered with the right class, as exact as
    the loss.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> loss = veil.loss(X)
        >>> loss.low < loss.mean < loss.high
        True
    """

    mean: float
    low: float
    high: float
    exact: bool
    accuracy: float | None = None

    @classmethod
    def of(cls, per_record: Floats, *, exact: bool, block: int = 1, accuracy: float | None = None) -> Loss:
        """The mean of the records' expected losses (N,), with its interval; `block` neighbours in time belong
        together. `accuracy` is stated as it is."""
        low, high = loss_interval(per_record, block=block)
        return cls(mean=float(per_record.mean()), low=float(low), high=float(high), exact=exact, accuracy=accuracy)


def warn_of_few(per_record: Floats) -> None:
    """Warn the caller with a FewRecordsWarning if few of the records (N,) carry half of the losses' variation."""
    few = few_leaders(per_record)
    uncertain = per_record.std() > 0.01 * abs(per_record.mean()) * math.sqrt(len(per_record))
    if few is not None and uncertain:  # a percent more or less harms nobody
        who, those = ("1 record carries", "it") if few == 1 else (f"{few} records carry", "them")
        message = (
            f"of {len(per_record)}, {who} half of what the losses differ. The mean's interval rests on {those} and may "
            "be too narrow or too low: so few records do not show whether such records are rare. Check their units, or "
            "measure on more records."
        )
        warnings.warn(message, FewRecordsWarning, stacklevel=3)


@dataclass(frozen=True, kw_only=True)
class LossBounds:
    """Lower and upper bound of the least loss of any linear encoder and decoder with noise of the same kind.

    They hold on the design data for encoders that do not clip; a design that clips may go below `lower`.
    """

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Considered:
    """A design that was tried: method and encoder, its expected loss on volunteers who had no part in it, and what it
    takes on a device.

    `standard_error` is that of its difference from the chosen design, record by record (0 for the chosen one itself).
    `bytes` are those of the client folder, about; `operations` are the products and comparisons for one record.
    """

    method: str
    encoder: str
    held_out_loss: float
    standard_error: float
    bytes: int
    operations: int


@dataclass(frozen=True, kw_only=True)
class ConsideredPanel:
    """A number of reports per person that was tried, with the ε of one report, and what it costs the task.

    For answers, `error` is the mean held-out loss over all people and rounds, where the constant prediction answers for
    those who are silent. For surveys and means, it is the variance of a round's estimate times the number of people,
    summed over the statistics with their weights.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=tv.OverTime(lifetime=4.0, rounds=4))
        >>> best, *others = veil.considered_panels
        >>> all(best.error <= other.error for other in others)
        True
    """

    reports: int
    epsilon: float
    error: float


def expected_losses(
    device: Device,
    decoder: Decoder,
    task: Task,
    X: Floats,
    y: Any,
    *,
    answering: Decoder | None = None,
    latents: Floats | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[Floats, bool]:
    """Expected loss of every record (N,), and whether it is exact.

    Args:
        device: what makes the reports.
        decoder: what becomes of them.
        task: what they are for.
        X, y: records (N, n) and their labels.
        answering: from reports straight to answers; without it, the task answers for the decoder's estimates.
        latents: what the device's encoder makes of X (N, Z), where that is known already.
        rng: where the expectation has no formula, draw from this instead of making real reports: designs that are
            compared on the same draws are compared alike, and another day again.
    """
    task.labels(y, len(X))  # whatever is wrong with them is said now
    latents = device.encoder(X) if latents is None else latents
    channel = channel_of(device.mechanism, decoder)
    formula = channel.losses(task, Encoded(X, latents, y), answering)
    if formula is not None:
        return formula, True
    draws = int(np.clip(REPORTS // len(X), 16, 256))
    total = np.zeros(len(X))
    for _ in range(draws):
        values = device.mechanism.values(device.mechanism(latents) if rng is None else channel.simulate(latents, rng))
        outputs = task.predict(decoder(values)) if answering is None else answering(values)
        total += task.output_losses(outputs, X, y)
    return total / draws, False
