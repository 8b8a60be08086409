"""Models as tasks see them: frozen functions from records (N, n) to outputs (N, m), with gradients where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import TaskError

if TYPE_CHECKING:
    import torch

ROWS_AT_ONCE = 4096


class FrozenModel:
    """f: records (N, n) → outputs (N, m) that never changes; `module` gives gradients, or is None.

    The number of outputs is learned from a probe, as soon as the number of attributes is known.

    Args:
        function: the outputs (N, m) or (N,) for records (N, n); whatever it raises becomes a TaskError.
        module: the same as a torch module, where gradients exist.
        width: the number of attributes n, if it is known before the data.
        classes: the classes' names in the order of the outputs, for models that name them.
        must_be_logits: refuse a model whose outputs are probabilities, or a single number.
    """

    def __init__(
        self,
        function: Callable[[Floats], Floats],
        *,
        module: torch.nn.Module | None = None,
        width: int | None = None,
        classes: Array | None = None,
        must_be_logits: bool = False,
    ) -> None:
        self._function = function
        self.module = module
        self.classes = classes
        self.must_be_logits = must_be_logits
        self._outputs: int | None = None
        self.width: int | None = None
        if width is not None:
            self.check_width(width)

    @property
    def outputs(self) -> int:
        """The number of outputs m; TaskError before the number of attributes is known."""
        if self._outputs is None:
            raise TaskError("how many attributes this model takes is not known yet: call check_width(n) first.")
        return self._outputs

    def check_width(self, width: int) -> None:
        """Raise TaskError unless records of `width` attributes are answered one by one, with finite rows."""
        if self.width is not None:
            if self.width != width:
                raise TaskError(f"the model takes {self.width} attributes, but the data has {width}.")
            return
        probe = np.linspace(0.0, 1.0, 3 * width).reshape(3, width)
        answer = self._ask(probe)
        alone = [self._ask(row[None]) for row in probe]
        same = all(one.shape == (1, answer.shape[1]) for one in alone)
        if not same or not np.allclose(np.concatenate(alone), answer, rtol=0, atol=0.01 * float(np.abs(answer).max())):
            raise TaskError(
                "the model answers a record differently alone and among others: it mixes records or draws at random."
            )
        if self.must_be_logits and answer.shape[1] < 2:
            raise TaskError(
                "cross_entropy needs one logit per class, but the model has one output: give it two, (0, z), or judge "
                "it by a loss of your own."
            )
        if self.must_be_logits and answer.shape[1] > 1 and (answer >= 0).all() and np.allclose(answer.sum(axis=1), 1.0):
            raise TaskError("cross_entropy needs logits, but the model gives probabilities: take off its last softmax.")
        self.width, self._outputs = width, answer.shape[1]

    def __call__(self, X: Floats) -> Floats:
        """Records (N, n) → outputs (N, m), all finite, or TaskError."""
        if X.ndim != 2:
            raise TaskError(f"records form a table (N, n), got shape {X.shape}.")
        self.check_width(X.shape[1])
        if len(X) == 0:
            return np.empty((0, self.outputs))
        return np.concatenate([self._ask(X[i : i + ROWS_AT_ONCE]) for i in range(0, len(X), ROWS_AT_ONCE)])

    def _ask(self, X: Floats) -> Floats:
        try:
            answer = np.asarray(self._function(X), dtype=np.float64)
        except Exception as error:  # whatever someone else's model raises
            raise TaskError(f"the model cannot take records with {X.shape[1]} attributes: {error}") from error
        answer = answer[:, None] if answer.ndim == 1 else answer
        if answer.ndim != 2 or len(answer) != len(X):
            raise TaskError(f"a model must answer one row per record; {len(X)} records gave shape {answer.shape}.")
        if not np.isfinite(answer).all():
            row = int(np.argwhere(~np.isfinite(answer))[0][0])
            raise TaskError(
                f"the model answers NaN or infinity (record {row} of {len(X)}): mend the model or its inputs."
            )
        return answer
