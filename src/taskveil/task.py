"""What the data is for, and what a mistake costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import TaskError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearTask:
    """y = Kx with squared error: the loss of an estimate x̂ is ‖K(x̂ − x)‖₂². K has shape (m, n).

    Estimating weighted means of n attributes from many people is this task with K = diag(weights): the
    variance of the estimates is proportional to the loss.
    """

    K: Floats

    def __post_init__(self) -> None:
        try:
            K = np.array(self.K, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TaskError(f"K must be a matrix of numbers: {error}.") from error
        if K.ndim != 2 or 0 in K.shape or not np.isfinite(K).all():
            raise TaskError(
                f"K must be a finite matrix (outputs, attributes), got shape {K.shape}. "
                "For weights per attribute pass np.diag(weights), for one weighted sum weights[None, :]."
            )
        object.__setattr__(self, "K", K)

    @property
    def width(self) -> int:
        """The number of attributes of a record."""
        return int(self.K.shape[1])

    def check_width(self, width: int) -> None:
        """Raise TaskError unless the task takes records with `width` attributes."""
        if self.width != width:
            raise TaskError(f"K has {self.width} columns, but the data has {width} attributes.")

    def predict(self, X: Any) -> Floats:
        """y = Kx for every record (N, n) → (N, m)."""
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.K.T)

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002 - y is Kx itself
        """‖K(x̂ − x)‖₂² for every record (N,)."""
        error = (estimates - X) @ self.K.T
        return np.asarray(np.einsum("ij,ij->i", error, error))

    def pairwise_losses(self, candidates: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002
        """‖K(d − x)‖₂² for every record x (N, n) and candidate estimate d (k, n) → (N, k)."""
        outputs, truth = self.predict(candidates), self.predict(X)
        squares = np.einsum("ij,ij->i", truth, truth)[:, None] + np.einsum("ij,ij->i", outputs, outputs)
        return np.asarray(np.maximum(squares - 2.0 * truth @ outputs.T, 0.0))


Task = LinearTask
