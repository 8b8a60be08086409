"""A loss of one's own: a callable that has no formula for the best answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import TaskError
from taskveil.tasks.costs.anchored import Anchored, drawn_together
from taskveil.tasks.costs.labels import Answering
from taskveil.tasks.costs.squared_error import positive

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class OwnLoss:
    """A callable: function(outputs (N, m), labels (N, …)) → (N,). Its labels are its truth.

    It is called with numpy arrays, and with torch tensors where these do not suit it.
    """

    function: Callable[[Any, Any], Any]
    name: ClassVar[str] = "a loss of your own"
    logits: ClassVar[bool | None] = None
    needs_labels: ClassVar[bool] = True

    def labels(self, values: Array, model: Answering) -> Array:  # noqa: ARG002 - only the callable knows
        """Labels of N records, as they are, in memory that torch can take too."""
        return np.array(values, order="C")

    def truth(self, labels: Array, model: Answering) -> Array:  # noqa: ARG002 - only the callable knows
        """Labels of N records, as they are."""
        return labels

    def own_truth(self, outputs: Floats) -> Array:  # noqa: ARG002 - what it would be, only the callable knows
        """Nothing: a TaskError."""
        raise TaskError(f"labels are missing: {self.name} needs y.")

    def answers(self, outputs: Floats) -> Floats:
        """Outputs, as they are."""
        return outputs

    def losses(self, outputs: Floats, truth: Array) -> Floats:
        """(N, m), labels of N records → (N,); TaskError unless the callable gives one finite number per record."""
        if truth.dtype.kind not in "biuf":
            raise TaskError(f"labels for {self.name} must be numbers, got {truth.dtype}.")
        try:
            with np.errstate(all="ignore"):  # what is not finite is said below
                found = _numbers(self.function(outputs, truth))
            refusal = None
        except (AttributeError, TypeError) as error:
            found, refusal = None, error
        if found is None or found.shape != (len(outputs),):
            found = self._of_tensors(outputs, truth, refusal, found)
        if found.shape != (len(outputs),) or not np.isfinite(found).all():
            raise TaskError(f"your loss must give one finite number per record, got shape {found.shape}.")
        return found

    def _of_tensors(self, outputs: Floats, truth: Array, refusal: Exception | None, found: Floats | None) -> Floats:
        """What the callable gives for torch tensors; what it gave for arrays where torch is not installed, or a
        TaskError that says what to type if it gave nothing."""
        try:
            import torch
        except ModuleNotFoundError:
            if found is not None:
                return found
            raise TaskError(
                f"your loss does not take numpy arrays ({refusal}). Write it for numpy, or if it is written for torch: "
                "pip install 'taskveil[torch]'"
            ) from refusal
        try:
            return _numbers(self.function(torch.from_numpy(outputs), torch.as_tensor(truth)))
        except Exception as error:  # whatever somebody else's function raises; both refusals are shown
            raise error from refusal

    def pairwise_losses(self, outputs: Floats, truth: Array) -> Floats:
        """(k, m), labels of N records → (N, k): every answer for every record."""
        return np.stack([self.losses(np.repeat(row[None], len(truth), axis=0), truth) for row in outputs], axis=1)

    def best_constant(self, truth: Array, outputs: Callable[[], Floats]) -> Floats:
        """Of the model's `outputs()` (k, m) on some records, as they are and drawn towards their mean, those (m,) of
        least mean loss: what codebooks choose from too."""
        candidates = drawn_together(outputs())
        return np.asarray(candidates[self.pairwise_losses(candidates, truth).mean(axis=0).argmin()])

    def linear_form(self, truth: Array, outputs: Callable[[], Floats]) -> tuple[Anchored, Floats]:
        """A loss that is linear in its truth, and that truth (N, S): over a list of answers there is one."""
        return Anchored.among(self.pairwise_losses, outputs(), truth)

    def replica_losses(self, outputs: Tensor, truth: Tensor) -> Tensor:
        """`losses` in every replica: (R, B, m), labels of B records → (R, B)."""
        replicas, records = outputs.shape[:2]
        repeated = truth.expand(replicas, *truth.shape).flatten(0, 1)
        try:
            found: Tensor = self.function(outputs.flatten(0, 1), repeated)
            return found.view(replicas, records)
        except (AttributeError, RuntimeError, TypeError) as error:
            raise TaskError(
                f"your loss does not take torch tensors with gradients ({error}), and this design learns through them: "
                'write it with methods that tensors have, or use method="codebook".'
            ) from error

    def mismatch(self, outputs: Tensor, wanted: Tensor, spread: Tensor) -> Tensor:
        """How far `outputs` (B, m) are from those `wanted` (B, m), squared, measured in the outputs' spread (m,)."""
        return ((outputs - wanted) / spread).square().mean()

    def frame(self, truth: Array, outputs: Callable[[], Floats]) -> tuple[Floats, Floats, Floats]:  # noqa: ARG002
        """Where learned outputs start (m,), how far they move (m,), and the matrix (m, m) that takes out what the loss
        does not see: as the model's own outputs."""
        values = outputs()
        return values.mean(axis=0), positive(values.std(axis=0)), np.eye(values.shape[1])


def _numbers(found: Any) -> Floats:
    """What a callable returned, a tensor or anything like an array, in double precision."""
    return np.asarray(found.detach().cpu() if hasattr(found, "detach") else found, dtype=np.float64)
