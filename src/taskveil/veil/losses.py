"""What a veil costs its task: expected losses over the randomisation, and what is known about them.

A formula wherever there is one, real reports otherwise.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.device import Device
from taskveil.client.mechanisms import (
    Codebook,
    Laplace,
    LatticeCodebook,
    LevelResponse,
    Mechanism,
    Response,
    SumCodebook,
)
from taskveil.errors import FewRecordsWarning
from taskveil.tasks import LinearTask, ModelTask, Task, take_labels
from taskveil.tasks.costs import SquaredError
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder, Decoder, LatticeDecoder
from taskveil.veil.intervals import few_leaders, loss_interval

REPORTS = 2**14
"""About this many reports are drawn in all where the expectation has no formula, at least 16 and at most 256 a record:
enough that the records' own spread decides the interval, few enough for models that are slow."""

_BLOCK = 2**22  # losses held at a time


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The expected task loss: `mean` over records and noise, and a 95% interval for other records like these.

    The interval allows for skewness and, where asked to, for records that follow each other in time:
    `veil/intervals.py` says what it assumes. `exact` says that the expectation over the noise is a formula, not a
    simulation. `accuracy`, of a classifier, is the expected share of records answered with the right class, as exact as
    the loss.
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
    """A FewRecordsWarning to whoever asked for the loss, if few of the records (N,) carry half of what the
    losses differ."""
    few = few_leaders(per_record)
    uncertain = per_record.std() > 0.01 * abs(per_record.mean()) * math.sqrt(len(per_record))
    if few is not None and uncertain:  # a percent more or less harms nobody
        who, those = ("1 record carries", "it") if few == 1 else (f"{few} records carry", "them")
        message = (
            f"of {len(per_record)}, {who} half of what the losses differ. The mean's interval rests on {those} and may "
            "be too narrow or too low: whether such records are rare cannot be told from so few. Check their units, or "
            "measure on more records."
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
    match device.mechanism, answering or decoder, task:
        case Codebook(stages=(_,)) as codebook, CodewordDecoder() as codewords, _:
            outputs = task.predict(codewords.codewords) if answering is None else codewords.codewords
            return _codewords(codebook, outputs, latents, task, X, y), True
        case LevelResponse() as levels, CodewordDecoder() as codewords, _:
            outputs = task.predict(codewords.codewords) if answering is None else codewords.codewords
            return _levels(levels, outputs, latents, task, X, y), True
        case Laplace() as laplace, AffineDecoder() as affine, LinearTask() as linear if answering is None:
            return _laplace(laplace, affine, latents, linear, X), True
        case Laplace() as laplace, AffineDecoder() as affine, ModelTask(cost=SquaredError()) as model if answering:
            # Noise and error separate here too: E|ŷ − y|² = |D φ + c − y|² + σ_w² ‖D‖_F², the mean over outputs.
            noise = laplace.noise_variance * float((affine.weights**2).mean(axis=0).sum())
            return model.output_losses(affine(laplace.bound(latents)), X, y) + noise, True
        case LatticeCodebook() as codebook, LatticeDecoder() as points, LinearTask() as linear if _orthogonal(
            points, linear
        ):
            return _lattice(codebook, points, latents, linear, X), True
        case SumCodebook() as codebook, CodewordDecoder() as codewords, LinearTask() as linear:
            return _sums(codebook, codewords, latents, linear, X), True
        case mechanism, _, _:
            draws = int(np.clip(REPORTS // len(X), 16, 256))
            total = np.zeros(len(X))
            for _ in range(draws):
                reports = mechanism(latents) if rng is None else _simulated(mechanism, latents, rng)
                values = mechanism.values(reports)
                outputs = task.predict(decoder(values)) if answering is None else answering(values)
                total += task.output_losses(outputs, X, y)
            return total / draws, False


def _laplace(mechanism: Laplace, decoder: AffineDecoder, latents: Floats, task: LinearTask, X: Floats) -> Floats:
    """Noise and error separate: ‖K(D φ + c − x)‖² + σ_w² ‖K D‖_F²."""
    noise = mechanism.noise_variance * float((task.predict(decoder.weights.T) ** 2).sum())
    return task.losses(decoder(mechanism.bound(latents)), X) + noise


def _codewords(mechanism: Codebook, outputs: Floats, latents: Floats, task: Task, X: Floats, y: Any) -> Floats:
    """Σ_k P[k | x] · loss(answer k) for the answers `outputs` (K, m): b/T for every one and (a − b)/T more for the
    favoured."""
    (stage,) = mechanism.stages
    favoured = stage.favoured(mechanism.region.enforce(latents))
    rows = max(1, _BLOCK // len(outputs))
    parts = []
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        losses = task.pairwise_output_losses(outputs, X[part], take_labels(task, y, part))
        favoured_losses = np.take_along_axis(losses, favoured[part], axis=1).sum(axis=1)
        parts.append(stage.response.extra * favoured_losses + stage.response.base * losses.sum(axis=1))
    return np.concatenate(parts)


def _levels(mechanism: LevelResponse, outputs: Floats, latents: Floats, task: Task, X: Floats, y: Any) -> Floats:
    """Σ_r P[r | x] · loss(answer r) for the answers `outputs` (R, m)."""
    rows = max(1, _BLOCK // len(outputs))
    parts = []
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        losses = task.pairwise_output_losses(outputs, X[part], take_labels(task, y, part))
        parts.append((mechanism.chances(latents[part]) * losses).sum(axis=1))
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


def _sums(mechanism: SumCodebook, decoder: CodewordDecoder, latents: Floats, task: LinearTask, X: Floats) -> Floats:
    """The sum found is likelier than any other by (a − b)/T; over all sums alike, the terms are independent, so the
    mean loss needs only mean and variance of every stage's codewords."""
    told = mechanism.response.extra
    favoured_losses = task.losses(decoder(mechanism.nearest(mechanism.region.enforce(latents))), X)
    stages = np.split(decoder.codewords, np.cumsum(decoder.sizes)[:-1])
    middle = np.sum([stage.mean(axis=0) for stage in stages], axis=0)
    spread = sum(float(task.predict(stage).var(axis=0).sum()) for stage in stages)
    return told * favoured_losses + (1.0 - told) * (task.losses(middle[None, :], X) + spread)


def _simulated(mechanism: Mechanism, latents: Floats, rng: np.random.Generator) -> Integers:
    """Reports (N, width) with the mechanism's probabilities, from ordinary random numbers: for judging designs, never
    for a person. A mechanism that is not known here makes real ones."""
    match mechanism:
        case Laplace():
            # Two geometric variables differ by a discrete Laplace one.
            k = mechanism.region.enforce(latents)
            one, other = rng.geometric(-math.expm1(-1.0 / mechanism.scale), size=(2, *k.shape))
            return np.asarray(np.clip(k + one - other, mechanism.layout.low, mechanism.layout.high))
        case Codebook():
            k = mechanism.region.enforce(latents)
            reports = np.empty((len(k), len(mechanism.stages)), dtype=np.int64)
            for place, stage in enumerate(mechanism.stages):
                reports[:, place] = _responses(stage.response, stage.favoured(k), rng)
                k = k - stage.shifts[reports[:, place]]
            return reports
        case LatticeCodebook(response=response, lattice=lattice):
            nearest = lattice.nearest(mechanism.region.enforce(latents)).tolist()
            truthful = rng.random(len(nearest)) < response.extra
            anywhere = rng.random(len(nearest))
            return lattice.digits(
                [
                    lattice.rank(row) if true else int(share * 2.0**53) * response.size >> 53
                    for row, true, share in zip(nearest, truthful, anywhere, strict=True)
                ]
            )
        case SumCodebook(response=response, sizes=sizes):
            nearest_sum = mechanism.nearest(mechanism.region.enforce(latents))
            truthful = rng.random((len(latents), 1)) < response.extra
            return np.where(truthful, nearest_sum, rng.integers(sizes, size=nearest_sum.shape))
        case LevelResponse(layout=layout):
            rows = max(1, _BLOCK // (layout.high[0] + 1))
            starts = range(0, len(latents), rows)
            chances = (mechanism.chances(latents[start : start + rows]) for start in starts)
            drawn = [(np.cumsum(some, axis=1)[:, :-1] <= rng.random((len(some), 1))).sum(axis=1) for some in chances]
            return np.concatenate(drawn)[:, None]
        case _:
            return mechanism(latents)


def _responses(response: Response, favoured: Integers, rng: np.random.Generator) -> Integers:
    """Favoured sets (N, m) → outputs (N,): a favoured one with probability m · extra, else any."""
    rows = np.arange(len(favoured))
    picked = favoured[rows, rng.integers(response.favoured, size=len(rows))]
    anything = rng.integers(response.size, size=len(rows))
    return np.where(rng.random(len(rows)) < response.favoured * response.extra, picked, anything)
