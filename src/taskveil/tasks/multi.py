"""Several tasks that share one report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import TaskError, needs
from taskveil.records.schema import Schema
from taskveil.tasks.costs import LinearInTruth, WeightedCost
from taskveil.tasks.linear import LinearTask, MeanTask
from taskveil.tasks.model import ModelTask

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class MultiTask:
    """A weighted sum of tasks that share one report: Σ weightᵢ · lossᵢ. Labels come as one entry per task, or None.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> first, second = tv.LinearTask([[1.0, 0.0]]), tv.LinearTask([[0.0, 1.0]])
        >>> task = tv.MultiTask([(first, 1.0), (second, 2.0)])  # errors of the second count twice
        >>> tv.design(X, task, epsilon=2.0, method="task_aware").guarantee.epsilon
        2.0
    """

    parts: tuple[tuple[LinearTask | ModelTask, float], ...]

    by_class: ClassVar[None] = None
    """Several tasks have several classes, or none."""

    def __init__(self, parts: Sequence[tuple[LinearTask | ModelTask, float]]) -> None:
        try:
            pairs = tuple((task, float(weight)) for task, weight in parts)
        except (TypeError, ValueError) as error:
            raise TaskError(f"MultiTask takes pairs (task, weight): {error}.") from error
        if any(isinstance(task, MeanTask) for task, _ in pairs):
            raise TaskError(
                "a MeanTask shares no report with other tasks: its reports are about many people together, theirs "
                "about single ones. Design for it by itself; several matrices of means stack into one."
            )
        if not pairs or not all(isinstance(task, LinearTask | ModelTask) for task, _ in pairs):
            raise TaskError("MultiTask needs at least one (task, weight) with a LinearTask or ModelTask.")
        if not all(np.isfinite(weight) and weight > 0 for _, weight in pairs):
            raise TaskError("the weights of a MultiTask must be finite and above zero; leave out what does not count.")
        widths = {task.width for task, _ in pairs if task.width is not None}
        if len(widths) > 1:
            raise TaskError(f"all tasks of a MultiTask must take the same records, got widths {sorted(widths)}.")
        for task, _ in pairs:
            if widths and not (isinstance(task, ModelTask) and task.takes_tables):
                task.check_width(max(widths))
        object.__setattr__(self, "parts", pairs)

    @property
    def width(self) -> int | None:
        """The number of attributes of a record."""
        return self.parts[0][0].width

    @property
    def outputs(self) -> int:
        """The outputs of all tasks together."""
        return sum(task.outputs for task, _ in self.parts)

    @property
    def differentiable(self) -> bool:
        """Whether `torch_module` is a module and not None; torch is not needed to say so."""
        return all(task.differentiable for task, _ in self.parts)

    @property
    def torch_module(self) -> torch.nn.Module | None:
        """All outputs side by side, (N, n) → (N, outputs); None when one of the models is a black box."""
        if not self.differentiable:
            return None
        with needs("torch_module", extra="torch"):
            from taskveil.tasks.models.modules import side_by_side

        return side_by_side([task.torch_module for task, _ in self.parts])

    def parted(self, y: Any = None) -> tuple[tuple[LinearTask | ModelTask, float, Any], ...]:
        """The tasks whose weighted sum this is, with weights and labels; TaskError unless y has one entry per task."""
        entries = (None,) * len(self.parts) if y is None else y
        if not isinstance(entries, list | tuple) or len(entries) != len(self.parts):
            raise TaskError(f"labels of a MultiTask come as a list of {len(self.parts)}, one entry per task (or None).")
        return tuple((task, weight, values) for (task, weight), values in zip(self.parts, entries, strict=True))

    def fitted_again(self, X: Floats, y: Any) -> MultiTask | None:
        """The same with every model that can be (`ModelTask.fitted_again`) fitted to nobody but X (N, n) with labels y;
        None where none can."""
        again = [
            task.fitted_again(X, labels) if isinstance(task, ModelTask) else None for task, _, labels in self.parted(y)
        ]
        if all(task is None for task in again):
            return None
        return MultiTask([(new or task, weight) for new, (task, weight) in zip(again, self.parts, strict=True)])

    def stacked(self) -> LinearTask | None:
        """The one LinearTask with the same loss, K = (√weightᵢ Kᵢ) stacked; None when a model is among the tasks."""
        rows = [np.sqrt(weight) * task.K for task, weight in self.parts if isinstance(task, LinearTask)]
        return LinearTask(np.vstack(rows)) if len(rows) == len(self.parts) else None

    def check_width(self, width: int) -> None:
        """Raise TaskError unless all tasks take records with `width` attributes."""
        for task, _ in self.parts:
            task.check_width(width)

    def on(self, schema: Schema) -> MultiTask:
        """The same tasks on the numbers that records of a schema become."""
        parts = [(task.on(schema), weight) for task, weight in self.parts]
        same = all(task is own for (task, _), (own, _) in zip(parts, self.parts, strict=True))
        return self if same else MultiTask(parts)

    def labels(self, y: Any, count: int) -> tuple[Any, ...]:
        """The entries of y for `count` records, one per task, each as that task wants it."""
        return tuple(task.labels(values, count) for task, _, values in self.parted(y))

    def predict(self, X: Any) -> Floats:
        """The outputs of all tasks side by side (N, outputs)."""
        return np.hstack([task.predict(X) for task, _ in self.parts])

    def linear_form(self, X: Floats, y: Any = None) -> tuple[LinearInTruth, Floats]:
        """A cost that is linear in its truth, and the truth (N, S) of the records X (N, n) with labels y, that of all
        tasks side by side. The loss is that cost."""
        forms = [(*task.linear_form(X, values), weight * task.scale) for task, weight, values in self.parted(y)]
        return WeightedCost.of([(cost, weight, truth) for cost, truth, weight in forms])

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> Floats:
        """Σ weightᵢ · lossᵢ (N,) of `estimates` (N, n) in place of the records X (N, n) with labels y."""
        return np.asarray(sum(w * task.losses(estimates, X, values) for task, w, values in self.parted(y)))

    def pairwise_losses(self, candidates: Floats, X: Floats, y: Any = None) -> Floats:
        """Σ weightᵢ · lossᵢ (N, k) of every one of `candidates` (k, n) in place of every record of X (N, n), y."""
        return np.asarray(sum(w * task.pairwise_losses(candidates, X, values) for task, w, values in self.parted(y)))

    def output_losses(self, outputs: Floats, X: Floats, y: Any = None) -> Floats:
        """Σ weightᵢ · lossᵢ (N,) of the answers `outputs` (N, outputs) to the records X (N, n) with labels y."""
        return np.asarray(
            sum(w * task.output_losses(own, X, values) for own, (task, w, values) in self._shared(outputs, y))
        )

    def pairwise_output_losses(self, outputs: Floats, X: Floats, y: Any = None) -> Floats:
        """Σ weightᵢ · lossᵢ (N, k) of each of the answers `outputs` (k, outputs) to every record of X (N, n), y."""
        return np.asarray(
            sum(
                w * task.pairwise_output_losses(part, X, values) for part, (task, w, values) in self._shared(outputs, y)
            )
        )

    def _shared(self, outputs: Floats, y: Any) -> Iterator[tuple[Floats, tuple[LinearTask | ModelTask, float, Any]]]:
        """Every task's own columns of `outputs`, with the task, its weight and its labels."""
        ends = np.cumsum([task.outputs for task, _ in self.parts])[:-1]
        return zip(np.split(outputs, ends, axis=1), self.parted(y), strict=True)

    def constant_output(self, X: Floats, y: Any = None) -> Floats:
        """The answers (outputs,) that are best for all the records X (N, n) with labels y, side by side."""
        return np.concatenate([task.constant_output(X, values) for task, _, values in self.parted(y)])

    def constant_losses(self, X: Floats, y: Any, X_test: Floats, y_test: Any) -> Floats:
        """The loss (N,) on X_test and y_test of the answers that are best for the design records X and y."""
        terms = zip(self.parted(y), self.parted(y_test), strict=True)
        return np.asarray(sum(w * task.constant_losses(X, a, X_test, b) for (task, w, a), (_, _, b) in terms))

    def constant_loss(self, X: Floats, y: Any, X_test: Floats, y_test: Any) -> float:
        """The mean of `constant_losses` on X_test and y_test for the design records X and y."""
        return float(self.constant_losses(X, y, X_test, y_test).mean())
