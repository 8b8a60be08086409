"""Expected task losses over the randomisation: a formula wherever there is one, real reports otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.decoders import AffineDecoder, CodewordDecoder, LatticeDecoder
from taskveil.mechanisms import Codebook, Laplace, LatticeCodebook
from taskveil.task import LinearTask, Task, take_labels
from taskveil.veil import Veil

Floats = NDArray[np.float64]

REPORTS = 2**14
"""About this many reports are drawn in all where the expectation has no formula, at least 16 and at most 256 a record:
enough that the records' own spread decides the interval, few enough for models that are slow."""

_BLOCK = 2**22  # losses held at a time


def expected_losses(veil: Veil, task: Task, X: Floats, y: Any) -> tuple[Floats, bool]:
    """Expected loss of every record (N,), and whether it is exact."""
    task.labels(y, len(X))  # whatever is wrong with them is said now
    match veil.mechanism, veil.decoder, task:
        case Laplace() as mechanism, AffineDecoder() as decoder, LinearTask():
            return _laplace(veil, mechanism, decoder, task, X), True
        case Codebook(stages=(_,)) as mechanism, CodewordDecoder() as decoder, _:
            return _codewords(veil, mechanism, decoder, task, X, y), True
        case LatticeCodebook() as mechanism, LatticeDecoder() as decoder, LinearTask() if _directions_are_orthogonal(
            decoder, task
        ):
            return _lattice(veil, mechanism, decoder, task, X), True
        case _:
            return _drawn(veil, task, X, y), False


def _laplace(veil: Veil, mechanism: Laplace, decoder: AffineDecoder, task: LinearTask, X: Floats) -> Floats:
    """Noise and error separate: ‖K(D φ + c − x)‖² + σ_w² ‖K D‖_F²."""
    noise = mechanism.noise_variance * float((task.predict(decoder.weights.T) ** 2).sum())
    return task.losses(decoder(veil.encode(X)), X) + noise


def _codewords(veil: Veil, mechanism: Codebook, decoder: CodewordDecoder, task: Task, X: Floats, y: Any) -> Floats:
    """Σ_k P[k | x] · loss(d_k): b/T for every codeword and (a − b)/T more for the favoured."""
    (stage,) = mechanism.stages
    favoured = stage.favoured(mechanism.region.enforce(veil.encoder(X)))
    rows = max(1, _BLOCK // len(decoder.codewords))
    parts = []
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        losses = task.pairwise_losses(decoder.codewords, X[part], take_labels(task, y, part))
        told = np.take_along_axis(losses, favoured[part], axis=1).sum(axis=1)
        parts.append(stage.response.extra * told + stage.response.base * losses.sum(axis=1))
    return np.concatenate(parts)


def _directions_are_orthogonal(decoder: LatticeDecoder, task: LinearTask) -> bool:
    """Whether the task sees the lattice's directions as orthogonal, so that its loss is a sum over directions."""
    gain = task.K @ decoder.weights
    gram = gain.T @ gain
    return bool(np.abs(gram - np.diag(np.diag(gram))).max() <= 1e-9 * np.abs(gram).max())


def _lattice(veil: Veil, mechanism: LatticeCodebook, decoder: LatticeDecoder, task: LinearTask, X: Floats) -> Floats:
    """The nearest codeword is likelier than any other by (a − b)/T; over all codewords alike, the mean loss needs only
    mean and variance of each direction's level in a uniformly drawn codeword, which counting gives."""
    response = mechanism.response
    numbers = mechanism.lattice.nearest(mechanism.region.enforce(veil.encoder(X)))
    told = task.losses(decoder.estimates(numbers), X)
    mean, square = decoder.lattice.level_moments()
    spread = ((task.K @ decoder.weights) ** 2).sum(axis=0) @ (square - mean**2) * decoder.step**2
    anywhere = task.losses((decoder.weights @ mean * decoder.step + decoder.offset)[None, :], X) + float(spread)
    return response.extra * told + response.base * float(response.size) * anywhere


def _drawn(veil: Veil, task: Task, X: Floats, y: Any) -> Floats:
    """The mean over real reports."""
    draws = int(np.clip(REPORTS // len(X), 16, 256))
    latents, total = veil.encoder(X), np.zeros(len(X))
    for _ in range(draws):
        total += task.losses(veil.decode(veil.mechanism(latents)), X, y)
    return total / draws
