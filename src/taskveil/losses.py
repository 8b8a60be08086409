"""What a veil costs its task: expected losses over the randomisation, and what is known about them.

A formula wherever there is one, real reports otherwise.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.device import Device
from taskveil.client.mechanisms import Codebook, Laplace, LatticeCodebook
from taskveil.decoders import AffineDecoder, CodewordDecoder, Decoder, LatticeDecoder
from taskveil.errors import FewRecordsWarning
from taskveil.intervals import few_leaders, interval
from taskveil.tasks import LinearTask, Task, take_labels

REPORTS = 2**14
"""About this many reports are drawn in all where the expectation has no formula, at least 16 and at most 256 a record:
enough that the records' own spread decides the interval, few enough for models that are slow."""

_BLOCK = 2**22  # losses held at a time


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The expected task loss: `mean` over records and noise, and a 95% interval for other records like these.

    The interval allows for skewness and, where asked to, for records that follow each other in time: `intervals.py`
    says what it assumes. `exact` says that the expectation over the noise is a formula, not a simulation.
    """

    mean: float
    low: float
    high: float
    exact: bool

    @classmethod
    def of(cls, per_record: Floats, *, exact: bool, block: int = 1) -> Loss:
        """The mean of the records' expected losses (N,), with its interval; `block` neighbours in time belong
        together."""
        low, high = interval(per_record, block=block)
        return cls(mean=float(per_record.mean()), low=float(low), high=float(high), exact=exact)


def warn_of_few(per_record: Floats) -> None:
    """A FewRecordsWarning to whoever asked for the loss, if few of the records (N,) carry half of it."""
    few = few_leaders(per_record)
    if few is not None:
        who = "1 record carries" if few == 1 else f"{few} records carry"
        message = (
            f"of {len(per_record)}, {who} half of the mean loss. Its interval rests on them and may be too narrow or "
            "too low: whether such records are rare cannot be told from so few. Measure on more records."
        )
        warnings.warn(message, FewRecordsWarning, stacklevel=3)


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


def expected_losses(device: Device, decoder: Decoder, task: Task, X: Floats, y: Any) -> tuple[Floats, bool]:
    """Expected loss of every record (N,), and whether it is exact."""
    task.labels(y, len(X))  # whatever is wrong with them is said now
    latents = device.encoder(X)
    match device.mechanism, decoder, task:
        case Laplace() as laplace, AffineDecoder() as affine, LinearTask() as linear:
            return _laplace(laplace, affine, latents, linear, X), True
        case Codebook(stages=(_,)) as codebook, CodewordDecoder() as codewords, _:
            return _codewords(codebook, codewords, latents, task, X, y), True
        case LatticeCodebook() as codebook, LatticeDecoder() as points, LinearTask() as linear if _orthogonal(
            points, linear
        ):
            return _lattice(codebook, points, latents, linear, X), True
        case mechanism, _, _:
            draws = int(np.clip(REPORTS // len(X), 16, 256))
            total = np.zeros(len(X))
            for _ in range(draws):
                total += task.losses(decoder(mechanism.values(mechanism(latents))), X, y)
            return total / draws, False


def _laplace(mechanism: Laplace, decoder: AffineDecoder, latents: Floats, task: LinearTask, X: Floats) -> Floats:
    """Noise and error separate: ‖K(D φ + c − x)‖² + σ_w² ‖K D‖_F²."""
    noise = mechanism.noise_variance * float((task.predict(decoder.weights.T) ** 2).sum())
    return task.losses(decoder(mechanism.bound(latents)), X) + noise


def _codewords(mechanism: Codebook, decoder: CodewordDecoder, latents: Floats, task: Task, X: Floats, y: Any) -> Floats:
    """Σ_k P[k | x] · loss(d_k): b/T for every codeword and (a − b)/T more for the favoured."""
    (stage,) = mechanism.stages
    favoured = stage.favoured(mechanism.region.enforce(latents))
    rows = max(1, _BLOCK // len(decoder.codewords))
    parts = []
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        losses = task.pairwise_losses(decoder.codewords, X[part], take_labels(task, y, part))
        favoured_losses = np.take_along_axis(losses, favoured[part], axis=1).sum(axis=1)
        parts.append(stage.response.extra * favoured_losses + stage.response.base * losses.sum(axis=1))
    return np.concatenate(parts)


def _orthogonal(decoder: LatticeDecoder, task: LinearTask) -> bool:
    """Whether the task sees the lattice's directions as orthogonal, so that its loss is a sum over directions."""
    gain = task.K @ decoder.weights
    gram = gain.T @ gain
    return bool(np.abs(gram - np.diag(np.diag(gram))).max() <= 1e-9 * np.abs(gram).max())


def _lattice(
    mechanism: LatticeCodebook, decoder: LatticeDecoder, latents: Floats, task: LinearTask, X: Floats
) -> Floats:
    """The nearest codeword is likelier than any other by (a − b)/T; over all codewords alike, the mean loss needs only
    mean and variance of each direction's level in a uniformly drawn codeword, which counting gives."""
    response = mechanism.response
    numbers = mechanism.lattice.nearest(mechanism.region.enforce(latents))
    favoured_losses = task.losses(decoder.estimates(numbers), X)
    mean, square = decoder.lattice.level_moments()
    spread = ((task.K @ decoder.weights) ** 2).sum(axis=0) @ (square - mean**2) * decoder.step**2
    anywhere = task.losses((decoder.weights @ mean * decoder.step + decoder.offset)[None, :], X) + float(spread)
    return response.extra * favoured_losses + response.base * float(response.size) * anywhere
