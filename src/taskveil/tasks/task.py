"""What the data is for, and what a mistake costs: `LinearTask`, `ModelTask`, `MultiTask`.

All three answer the same questions: which records they take (`width`, `check_width`), what they compute (`predict`),
and what it costs to use an estimate in place of a record (`losses`, `pairwise_losses`). Only a ModelTask needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats
from taskveil.errors import TaskError

if TYPE_CHECKING:
    import torch

    from taskveil.tasks.models.frozen import FrozenModel

LossName = Literal["mse", "cross_entropy"]


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

    @property
    def outputs(self) -> int:
        """The number of outputs m."""
        return int(self.K.shape[0])

    def check_width(self, width: int) -> None:
        """Raise TaskError unless the task takes records with `width` attributes."""
        if self.width != width:
            raise TaskError(f"K has {self.width} columns, but the data has {width} attributes.")

    def labels(self, y: Any, count: int) -> None:  # noqa: ARG002 - the truth is Kx itself
        """A linear task needs no labels and ignores them."""
        return

    def predict(self, X: Any) -> Floats:
        """y = Kx for every record (N, n) → (N, m)."""
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.K.T)

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002 - y is Kx itself
        """‖K(x̂ − x)‖₂² for every record (N,)."""
        error = (estimates - X) @ self.K.T
        return np.asarray(np.einsum("ij,ij->i", error, error))

    def pairwise_losses(self, candidates: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002
        """‖K(d − x)‖₂² for every record x (N, n) and candidate estimate d (k, n) → (N, k)."""
        return squared_distances(self.predict(X), self.predict(candidates))


@dataclass(frozen=True, eq=False)
class ModelTask:
    """ŷ = f(x̂) for a frozen model f: a torch module, a scikit-learn estimator or the path of an ONNX file.

    `loss` is "mse" (mean over outputs of the squared error), "cross_entropy" (outputs are logits; scikit-learn
    classifiers and ONNX files that end in a softmax are brought to that form), or a callable on torch tensors,
    loss(outputs (N, m), labels (N, …)) → (N,).

    Without labels the model itself is the truth: mse against f(x), cross-entropy against f's own probabilities.
    The model is copied and frozen here; later changes to yours change nothing.
    """

    model: Any
    loss: LossName | Callable[[Any, Any], Any] = "mse"
    frozen: FrozenModel = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.loss not in ("mse", "cross_entropy") and not callable(self.loss):
            raise TaskError(f'loss must be "mse", "cross_entropy" or a callable, got {self.loss!r}.')
        try:
            from taskveil.tasks.models.frozen import freeze
        except ImportError as error:
            raise TaskError("models need torch: pip install 'taskveil[design]'.") from error
        kind = self.loss if isinstance(self.loss, str) else None
        object.__setattr__(self, "frozen", freeze(self.model, kind))

    @property
    def width(self) -> int | None:
        """The number of attributes of a record; None while nothing has told yet (a torch module before its data)."""
        return self.frozen.width

    @property
    def outputs(self) -> int:
        """The number of outputs of the model."""
        return self.frozen.outputs

    @property
    def torch_module(self) -> torch.nn.Module | None:
        """The frozen copy in evaluation mode that maps (N, n) to (N, outputs); None for black boxes."""
        return self.frozen.module

    def check_width(self, width: int) -> None:
        """Raise TaskError unless the model takes records with `width` attributes and answers one finite row each."""
        self.frozen.check_width(width)

    def labels(self, y: Any, count: int) -> NDArray[Any] | None:
        """y as an array: class numbers (N,) for cross_entropy, floats (N, outputs) for mse; None stays None."""
        if y is None:
            if callable(self.loss):
                raise TaskError(
                    "labels are missing: a loss of your own needs y, only mse and cross_entropy do without."
                )
            return None
        try:
            values = np.asarray(y)
        except ValueError as error:
            raise TaskError(f"labels must form an array: {error}.") from error
        if len(np.atleast_1d(values)) != count or values.ndim == 0:
            raise TaskError(f"{np.atleast_1d(values).shape[0]} labels for {count} records.")
        if callable(self.loss):
            return values
        return self._classes(values) if self.loss == "cross_entropy" else self._numbers(values)

    def _classes(self, values: NDArray[Any]) -> NDArray[np.int64]:
        names = self.frozen.classes
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.ndim != 1:
            raise TaskError(f"cross_entropy needs one class per record, got labels of shape {values.shape}.")
        if names is not None:
            known = np.isin(values, names)
            if not known.all():
                raise TaskError(f"label {values[~known][0]!r} is none of the model's classes {names.tolist()}.")
            order = np.argsort(names)
            return np.asarray(order[np.searchsorted(names, values, sorter=order)])
        if values.dtype.kind not in "iufb" or not (values == np.floor(values.astype(np.float64))).all():
            raise TaskError("labels for cross_entropy must be class numbers 0, 1, 2, …")
        outside = (values < 0) | (values >= self.outputs)
        if outside.any():
            raise TaskError(
                f"label {values[outside][0]} lies outside the model's classes 0 … {self.outputs - 1}: "
                "number the classes from 0, or check which model and labels belong together."
            )
        return values.astype(np.int64)

    def _numbers(self, values: NDArray[Any]) -> Floats:
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TaskError(f"labels for mse must be numbers: {error}.") from error
        numbers = numbers[:, None] if numbers.ndim == 1 else numbers
        if numbers.shape[1:] != (self.outputs,) or not np.isfinite(numbers).all():
            raise TaskError(f"labels for mse must be finite with {self.outputs} per record, got {values.shape}.")
        return numbers

    def predict(self, X: Any) -> Floats:
        """The model's outputs (N, outputs): logits for a classifier judged by cross-entropy."""
        return self.frozen(np.asarray(X, dtype=np.float64))

    def targets(self, X: Floats, y: Any = None) -> Floats:
        """What answers are judged against (N, outputs): values for mse, class probabilities for cross_entropy."""
        values = self.labels(y, len(X))
        if values is None:
            truth = self.predict(X)
            return np.exp(_log_softmax(truth)) if self.loss == "cross_entropy" else truth
        return np.eye(self.outputs)[values] if self.loss == "cross_entropy" else np.asarray(values, dtype=np.float64)

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> Floats:
        """The loss of answering f(x̂) for every record (N,)."""
        outputs = self.predict(estimates)
        if callable(self.loss):
            return self._own(outputs, self.labels(y, len(X)))
        targets = self.targets(X, y)
        if self.loss == "cross_entropy":
            return np.asarray(-(targets * _log_softmax(outputs)).sum(axis=1))
        return np.asarray(((outputs - targets) ** 2).mean(axis=1))

    def pairwise_losses(self, candidates: Floats, X: Floats, y: Any = None) -> Floats:
        """The loss of answering f(d) for every record (N, n) and candidate estimate d (k, n) → (N, k)."""
        outputs = self.predict(candidates)
        if callable(self.loss):
            values = self.labels(y, len(X))
            return np.stack([self._own(np.repeat(row[None], len(X), axis=0), values) for row in outputs], axis=1)
        targets = self.targets(X, y)
        if self.loss == "cross_entropy":
            return np.asarray(-targets @ _log_softmax(outputs).T)
        return squared_distances(targets, outputs) / self.outputs

    def _own(self, outputs: Floats, values: NDArray[Any] | None) -> Floats:
        import torch

        try:
            labels = torch.as_tensor(values)
        except TypeError as error:
            raise TaskError(f"labels for a loss of your own must be numbers: {error}.") from error
        found = self.loss(torch.from_numpy(outputs), labels)  # type: ignore[operator]
        numbers = np.asarray(torch.as_tensor(found).detach().cpu(), dtype=np.float64)
        if numbers.shape != (len(outputs),) or not np.isfinite(numbers).all():
            raise TaskError(f"your loss must give one finite number per record, got shape {numbers.shape}.")
        return numbers


@dataclass(frozen=True, eq=False)
class MultiTask:
    """A weighted sum of tasks that share one report: Σ weightᵢ · lossᵢ. Labels come as one entry per task, or None."""

    parts: tuple[tuple[LinearTask | ModelTask, float], ...]

    def __init__(self, parts: Sequence[tuple[LinearTask | ModelTask, float]]) -> None:
        try:
            pairs = tuple((task, float(weight)) for task, weight in parts)
        except (TypeError, ValueError) as error:
            raise TaskError(f"MultiTask takes pairs (task, weight): {error}.") from error
        if not pairs or not all(isinstance(task, LinearTask | ModelTask) for task, _ in pairs):
            raise TaskError("MultiTask needs at least one (task, weight) with a LinearTask or ModelTask.")
        if not all(np.isfinite(weight) and weight > 0 for _, weight in pairs):
            raise TaskError("the weights of a MultiTask must be finite and above zero; leave out what does not count.")
        widths = {task.width for task, _ in pairs if task.width is not None}
        if len(widths) > 1:
            raise TaskError(f"all tasks of a MultiTask must take the same records, got widths {sorted(widths)}.")
        for task, _ in pairs:
            if widths:
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
    def torch_module(self) -> torch.nn.Module | None:
        """All outputs side by side, (N, n) → (N, outputs); None when one of the models is a black box."""
        from taskveil.tasks.models.frozen import side_by_side

        return side_by_side([task for task, _ in self.parts])

    def stacked(self) -> LinearTask | None:
        """The one LinearTask with the same loss, K = (√weightᵢ Kᵢ) stacked; None when a model is among the tasks."""
        rows = [np.sqrt(weight) * task.K for task, weight in self.parts if isinstance(task, LinearTask)]
        return LinearTask(np.vstack(rows)) if len(rows) == len(self.parts) else None

    def check_width(self, width: int) -> None:
        """Raise TaskError unless all tasks take records with `width` attributes."""
        for task, _ in self.parts:
            task.check_width(width)

    def labels(self, y: Any, count: int) -> tuple[Any, ...]:
        """One entry per task, each as that task wants it."""
        entries = self._entries(y)
        return tuple(task.labels(values, count) for (task, _), values in zip(self.parts, entries, strict=True))

    def _entries(self, y: Any) -> Sequence[Any]:
        """One entry per task, as given."""
        if y is None:
            return (None,) * len(self.parts)
        if not isinstance(y, list | tuple) or len(y) != len(self.parts):
            raise TaskError(f"labels of a MultiTask come as a list of {len(self.parts)}, one entry per task (or None).")
        return y

    def predict(self, X: Any) -> Floats:
        """The outputs of all tasks side by side (N, outputs)."""
        return np.hstack([task.predict(X) for task, _ in self.parts])

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> Floats:
        """Σ weightᵢ · lossᵢ for every record (N,)."""
        terms = zip(self.parts, self._entries(y), strict=True)
        return np.asarray(sum(w * task.losses(estimates, X, values) for (task, w), values in terms))

    def pairwise_losses(self, candidates: Floats, X: Floats, y: Any = None) -> Floats:
        """Σ weightᵢ · lossᵢ for every record and candidate → (N, k)."""
        terms = zip(self.parts, self._entries(y), strict=True)
        return np.asarray(sum(w * task.pairwise_losses(candidates, X, values) for (task, w), values in terms))


Task = LinearTask | ModelTask | MultiTask


def check_task(task: Any) -> Task:
    """`task` itself, or a TaskError that says what a task is."""
    if not isinstance(task, LinearTask | ModelTask | MultiTask):
        raise TaskError(f"task must be a LinearTask, ModelTask or MultiTask, got {type(task).__name__}.")
    return task


def as_linear(task: Task) -> LinearTask | None:
    """The LinearTask with the same loss, where there is one."""
    if isinstance(task, MultiTask):
        return task.stacked()
    return task if isinstance(task, LinearTask) else None


def take_labels(task: Task, y: Any, rows: slice | NDArray[Any]) -> Any:
    """The labels of some records, as they were given: None, one array, or one entry per task of a MultiTask."""
    if y is None:
        return None
    if isinstance(task, MultiTask):
        return tuple(take_labels(part, values, rows) for (part, _), values in zip(task.parts, y, strict=True))
    return np.asarray(y)[rows]


def squared_distances(a: Floats, b: Floats) -> Floats:
    """‖aᵢ − bⱼ‖² for rows of a (N, m) and b (k, m) → (N, k), about a's mean: values far from zero keep their digits."""
    center = a.mean(axis=0)
    a, b = a - center, b - center
    squares = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b)
    return np.asarray(np.maximum(squares - 2.0 * a @ b.T, 0.0))


def _log_softmax(outputs: Floats) -> Floats:
    """Logits (N, classes) → log-probabilities; scipy's, which this module does without to stay light."""
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
