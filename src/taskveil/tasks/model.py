"""A task with a model: ŷ = f(x̂), judged by any loss."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import TaskError, needs
from taskveil.records.schema import Schema
from taskveil.tasks.costs import Cost, CrossEntropy, LinearInTruth, LossName, ZeroOne, as_cost

if TYPE_CHECKING:
    import torch

    from taskveil.tasks.models.frozen import FrozenModel

_MAX_CONSTANTS = 256  # answers that are tried as the constant one, for a loss without a formula


@dataclass(frozen=True, eq=False)
class ModelTask:
    """ŷ = f(x̂) for a frozen model f: a torch module, a scikit-learn estimator or the path of an ONNX file.

    `loss` is "mse" (mean over outputs of the squared error), "cross_entropy" (outputs are logits; scikit-learn
    classifiers and ONNX files that end in a softmax are brought to that form), "zero_one" (the same classifiers, judged
    by the class of the highest logit alone: designs for accuracy), or a callable, loss(outputs (N, m), labels (N, …)) →
    (N,). It is called with numpy arrays, and if these do not suit it (a TypeError, an AttributeError, another shape),
    with torch tensors. Designs that learn in torch ("task_aware") call it with tensors alone.

    Torch is needed for torch modules and for designs that learn in torch. scikit-learn estimators need none, and ONNX
    files need either torch or onnxruntime.

    `answering` says how a report is answered: "direct", with the best answer given the report; or "record", with the
    model's answer to the estimated record, for when a record must be passed to the model.

    Without labels the model itself is the truth: mse against f(x), cross_entropy against f's own probabilities,
    zero_one against f's own class.
    The model is copied and frozen here; later changes to yours change nothing.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> from sklearn.linear_model import LogisticRegression
        >>> y = (X[:, 0] > 0).astype(int)
        >>> task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
        >>> veil = tv.design(X, task, epsilon=2.0, y=y, on_device=tv.OnDevice(encoder="linear"))
        >>> veil.predict(veil.privatize(X)).shape  # logits
        (200, 2)
    """

    model: Any
    loss: LossName | Callable[[Any, Any], Any] = "mse"
    answering: Literal["direct", "record"] = "direct"
    frozen: FrozenModel = field(init=False, repr=False)
    cost: Cost = field(init=False, repr=False)
    """The object that `loss` names."""
    schema: Schema | None = field(init=False, repr=False, default=None)
    """What records consist of, for a task on natural values."""

    scale: ClassVar[float] = 1.0
    """The loss is `scale` times `cost`."""

    def __post_init__(self) -> None:
        if self.answering not in ("direct", "record"):
            raise TaskError(f'answering must be "direct" or "record", got {self.answering!r}.')
        cost = as_cost(self.loss)
        object.__setattr__(self, "cost", cost)
        object.__setattr__(self, "frozen", freeze(self.model, cost))

    @property
    def width(self) -> int | None:
        """The number of attributes of a record; None until the data shows it (a torch module of one's own)."""
        return self.frozen.width

    @property
    def outputs(self) -> int:
        """The number of outputs of the model."""
        return self.frozen.outputs

    @property
    def differentiable(self) -> bool:
        """Whether `torch_module` is a module and not None; torch is not needed to say so."""
        return self.frozen.differentiable

    @property
    def torch_module(self) -> torch.nn.Module | None:
        """The frozen copy in evaluation mode that maps (N, n) to (N, outputs); None for black boxes. MissingExtraError
        for an estimator that could become one where torch is not installed."""
        return self.frozen.module

    @property
    def lines(self) -> tuple[Floats, Floats] | None:
        """Weights (outputs, n) and offset (outputs,) of a model that is linear in the numbers its records become, in
        its values or its logits; logits up to a number that is added to all those of a record. None for other models,
        for those that take tables, and before the number of attributes is known.

        Estimators of scikit-learn are known by their type. Torch modules and ONNX files are asked about records of all
        sizes; the answer is kept.
        """
        return self.frozen.lines if self.takes_numbers else None

    def parted(self, y: Any = None) -> tuple[tuple[ModelTask, float, Any], ...]:
        """The tasks whose weighted sum this is, with weights and labels: itself."""
        return ((self, 1.0, y),)

    def check_width(self, width: int) -> None:
        """Raise TaskError unless the model takes records with `width` attributes and answers one finite row each."""
        self.frozen.check_width(width)

    def check_columns(self, names: tuple[str, ...] | None) -> None:
        """Raise TaskError unless a table with these column `names` is what the model was fitted to, as far as known."""
        expected = self.frozen.columns
        # LightGBM knows its columns without the blanks in their names.
        if (
            names is not None
            and expected is not None
            and ([name.replace(" ", "_") for name in names] != [name.replace(" ", "_") for name in expected])
        ):
            raise TaskError(
                f"the model was fitted to the columns {', '.join(expected)}, in this order; the table has "
                f"{', '.join(names)}. Select them: X[list(model.feature_names_in_)]."
            )

    def on(self, schema: Schema) -> ModelTask:
        """The same task on the numbers that records of a schema become. A model fitted to tables gets tables like the
        volunteers'; one that takes numbers must take as many."""
        if schema.unbounded:
            self.check_width(schema.width)
            self.check_columns(schema.names if schema.named else None)
            return self
        if self.schema:
            if self.schema != schema:
                raise TaskError("this task is for records of another schema: pass the task that it was made from.")
            return self
        frozen = self.frozen
        if frozen.bind is not None and not (frozen.differentiable and self._matches(schema)):
            frozen = frozen.bind(schema)
        if frozen.width not in (None, schema.width):
            raise TaskError(
                f"the model takes {frozen.width} attributes; the records have {len(schema)} fields, which become "
                f"{schema.width} numbers (schema.columns): one more where values are missing, several for a category "
                "or a date. Fill and convert them first, or pass a pipeline that was fitted to the table."
            )
        try:
            frozen.check_width(schema.width, schema.typical(frozen.probes))
        except TaskError as error:
            absent = ", ".join(sorted({*(frozen.columns or ())} - {known for name in schema for known in _spelt(name)}))
            if not absent:
                raise
            raise TaskError(
                f"the model needs columns that records do not have: {absent}. Fit it without them, or say in a schema "
                f"what they are if they were left out of the table's. {error}"
            ) from error
        same = copy.copy(self)
        object.__setattr__(same, "frozen", frozen)
        object.__setattr__(same, "schema", schema)
        return same

    def fitted_again(self, X: Floats, y: Any) -> ModelTask | None:
        """The task with a copy of its scikit-learn model, fitted to X (N, n) and labels y alone, for out-of-fold
        predictions. None for other models, without labels, and where the copy would not know all classes."""
        if y is None or not hasattr(self.model, "get_params"):
            return None
        from taskveil.tasks.models.estimators import unfitted

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit of the model itself has warned already
                model = unfitted(self.model).fit(X if self.frozen.frame is None else self.frozen.frame(X), y)
                copied = ModelTask(model, loss=self.loss, answering=self.answering)
                known = copied.on(self.schema) if self.schema else copied
                known.check_width(X.shape[1])
        except Exception:  # an estimator may raise anything; then the model is judged as it is
            return None
        return known if known.outputs == self.outputs else None

    @property
    def encoder_name(self) -> str:
        """The model's name in a release that names its encoder and does not contain it."""
        return f"{type(self.model).__name__}: {'class probabilities' if self.cost.logits else 'predictions'}"

    @property
    def takes_numbers(self) -> bool:
        """Whether the model itself takes the records' numbers, and no table of natural values."""
        return self.frozen.takes_numbers

    @property
    def takes_tables(self) -> bool:
        """Whether the model takes no numbers as they are, but may take a table of natural values: its schema tells."""
        return self.frozen.width is None and self.frozen.bind is not None

    def _matches(self, schema: Schema) -> bool:
        """Whether the numbers that records become are the very columns that the model was fitted to."""
        return self.frozen.columns is None or (schema.plain and self.frozen.columns == schema.names)

    def labels(self, y: Any, count: int) -> Array | None:
        """y of `count` records as an array: class numbers (N,) for cross_entropy and zero_one, floats (N, outputs) for
        mse; None stays None."""
        if y is None:
            if self.cost.needs_labels:
                raise TaskError(
                    f"labels are missing: {self.cost.name} needs y, only mse, cross_entropy and zero_one do without."
                )
            return None
        try:
            values = np.asarray(y)
        except ValueError as error:
            raise TaskError(f"labels must form an array: {error}.") from error
        if values.ndim == 0 or len(values) != count:
            raise TaskError(
                f"{np.atleast_1d(values).shape[0]} labels for {count} records: pass one label for each record."
            )
        return self.cost.labels(values, self.frozen)

    def truth(self, X: Floats, y: Any = None) -> Array:
        """What answers are judged against: values (N, outputs) for mse, class probabilities (N, outputs) for
        cross_entropy and zero_one, labels for a loss of one's own. Without labels y, what the model itself says of X
        (N, n)."""
        labels = self.labels(y, len(X))
        if labels is None:
            return self.cost.own_truth(self.predict(X))
        return self.cost.truth(labels, self.frozen)

    def predict(self, X: Any) -> Floats:
        """The model's outputs (N, outputs): logits for a classifier judged by cross_entropy or zero_one."""
        return self.frozen(np.asarray(X, dtype=np.float64))

    def answers(self, X: Any) -> Floats:
        """The model's answers (N, outputs): values, or class probabilities of a classifier."""
        return self.cost.answers(self.predict(X))

    def linear_form(self, X: Floats, y: Any = None) -> tuple[LinearInTruth, Floats]:
        """A cost that is linear in its truth, and the truth (N, S) of the records X (N, n) with labels y: what
        codebooks ask for. The loss is `scale` times that cost."""
        return self.cost.linear_form(self.truth(X, y), lambda: self.predict(X))

    @property
    def by_class(self) -> ModelTask | None:
        """The same classifier judged by zero_one, so that the loss is the share of wrong classes; None for models whose
        outputs are no classes."""
        if not isinstance(self.cost, CrossEntropy):
            return None
        if isinstance(self.cost, ZeroOne):
            return self
        same = copy.copy(self)
        object.__setattr__(same, "loss", ZeroOne.name)
        object.__setattr__(same, "cost", ZeroOne())
        return same

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> Floats:
        """The loss (N,) of answering f(x̂) with `estimates` x̂ (N, n) where the truth is that of X (N, n) and y."""
        return self.output_losses(self.predict(estimates), X, y)

    def pairwise_losses(self, candidates: Floats, X: Floats, y: Any = None) -> Floats:
        """The loss (N, k) of answering f(d) with every d of `candidates` (k, n) for every record of X (N, n) and y."""
        return self.pairwise_output_losses(self.predict(candidates), X, y)

    def output_losses(self, outputs: Floats, X: Floats, y: Any = None) -> Floats:
        """The loss (N,) of `outputs` (N, outputs), however they were found, where the truth is that of X and y."""
        return self.cost.losses(outputs, self.truth(X, y))

    def pairwise_output_losses(self, outputs: Floats, X: Floats, y: Any = None) -> Floats:
        """The loss (N, k) of each of the answers `outputs` (k, outputs) for every record of X (N, n) and y."""
        return self.cost.pairwise_losses(outputs, self.truth(X, y))

    def constant_output(self, X: Floats, y: Any = None) -> Floats:
        """The one answer (outputs,) that is best for all the records X (N, n) with labels y."""
        some = X[:: max(1, len(X) // _MAX_CONSTANTS)]
        return self.cost.best_constant(self.truth(X, y), lambda: self.predict(some))

    def constant_losses(self, X: Floats, y: Any, X_test: Floats, y_test: Any) -> Floats:
        """The loss (N,) on X_test and y_test of the one answer that is best for the design records X and y."""
        return self.pairwise_output_losses(self.constant_output(X, y)[None], X_test, y_test)[:, 0]

    def constant_loss(self, X: Floats, y: Any, X_test: Floats, y_test: Any) -> float:
        """The mean of `constant_losses` on X_test and y_test for the design records X and y."""
        return float(self.constant_losses(X, y, X_test, y_test).mean())


def _spelt(name: str) -> tuple[str, str]:
    """A column's name, and how LightGBM writes it."""
    return name, name.replace(" ", "_")


def freeze(model: Any, cost: Cost) -> FrozenModel:
    """A frozen copy of a torch module, scikit-learn estimator or ONNX file, with the outputs that `cost` judges;
    TaskError for anything else."""
    with needs("a ModelTask"):
        from taskveil.tasks.models.estimators import from_estimator
        from taskveil.tasks.models.onnx_session import from_file

    if is_torch_module(model):
        from taskveil.tasks.models.modules import check_module, first_width, from_module

        check_module(model)
        return from_module(model, first_width(model), must_be_logits=cost.logits is True)
    if isinstance(model, str | Path):
        return from_file(Path(model), cost)
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        return from_estimator(model, cost)
    raise TaskError(
        "a model must be a torch module, a fitted scikit-learn estimator or the path of an ONNX file, "
        f"got {type(model).__name__}."
    )


def is_torch_module(model: Any) -> bool:
    """Whether a model is a torch module: there is none where nobody imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
