"""Tasks with a matrix: y = Kx with squared error for each person, or its mean over a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from taskveil.arrays import Floats, own_arrays
from taskveil.errors import TaskError, needs
from taskveil.records.inference import harmless_range
from taskveil.records.schema import Schema
from taskveil.tasks.costs import Cost, LinearInTruth, SquaredError
from taskveil.tasks.costs.named import squared_distances

if TYPE_CHECKING:
    import torch

LEAST_WEIGHT = 1e-150
"""The least size of a weight in K. Squares of smaller weights, and of weights above the inverse, overflow a double."""


@dataclass(frozen=True, eq=False)
class MatrixTask:
    """What `LinearTask` and `MeanTask` have in common: y = Kx and the squared error ‖K(x̂ − x)‖₂². K has shape (m, n).

    K is copied here and cannot be written to: a task that a design was made for stays the task it was made for.
    """

    K: Floats

    cost: ClassVar[Cost] = SquaredError()
    by_class: ClassVar[None] = None
    """Values are no classes that could be right or wrong."""
    differentiable: ClassVar[bool] = True
    """Whether `torch_module` is a module and not None; torch is not needed to say so."""

    def __post_init__(self) -> None:
        try:
            K = np.asarray(self.K, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TaskError(f"K must be a matrix of numbers: {error}.") from error
        if K.ndim != 2 or 0 in K.shape or not np.isfinite(K).all():
            raise TaskError(
                f"K must be a finite matrix (outputs, attributes), got shape {K.shape}. "
                "For weights per attribute pass np.diag(weights), for one weighted sum weights[None, :]."
            )
        sizes = np.abs(K[K != 0])
        if len(sizes) and (sizes.min() < LEAST_WEIGHT or sizes.max() > 1 / LEAST_WEIGHT):
            raise TaskError(
                f"the weights in K must lie between {LEAST_WEIGHT:g} and {1 / LEAST_WEIGHT:g}: use other units."
            )
        object.__setattr__(self, "K", K)
        own_arrays(self)

    @property
    def width(self) -> int:
        """The number of attributes of a record."""
        return int(self.K.shape[1])

    @property
    def outputs(self) -> int:
        """The number of outputs m."""
        return int(self.K.shape[0])

    @property
    def scale(self) -> float:
        """The loss is `scale` times `cost`: squared errors are added up here, where the cost is their mean."""
        return float(self.outputs)

    @property
    def torch_module(self) -> torch.nn.Module:
        """The layer x ↦ Kx in double precision, (N, n) → (N, m)."""
        with needs("torch_module", extra="torch"):
            from taskveil.tasks.models.modules import affine

        return affine(self.K, None)

    def parted(self, y: Any = None) -> tuple[tuple[Self, float, Any], ...]:
        """The tasks whose weighted sum this is, with weights and labels: itself."""
        return ((self, 1.0, y),)

    def check_width(self, width: int) -> None:
        """Raise TaskError unless the task takes records with `width` attributes."""
        if self.width != width:
            raise TaskError(f"K has {self.width} columns, but the data has {width} attributes.")

    def on(self, schema: Schema) -> Self:
        """The same task on the numbers that records of a schema become.

        A K with a column for every field is about the fields' values: those of a category, where K is diagonal, are the
        chances of its values, each with the field's weight. A K with a column for every number stays as it is.
        """
        if schema.unbounded:
            self.check_width(schema.width)
        if self.width == schema.width:
            return self
        if self.width != len(schema):
            raise TaskError(
                f"K has {self.width} columns; the records have {len(schema)} fields, which become {schema.width} "
                "numbers (schema.columns)."
            )
        diagonal = self.outputs == self.width and bool((np.diag(np.diag(self.K)) == self.K).all())
        wide = np.zeros((self.outputs, schema.width))
        rows = []
        for place, (name, columns) in enumerate(zip(schema, schema.weighed, strict=True)):
            if schema[name].exclusive and not diagonal and self.K[:, place].any():
                raise TaskError(f"{name!r} is a category: K can weigh it on its diagonal, but not mix it with others.")
            wide[:, columns.start] = self.K[:, place]
            rows += list(np.eye(schema.width)[columns] * self.K[place, place]) if diagonal else []
        return type(self)(np.array(rows) if diagonal else wide)

    def labels(self, y: Any, count: int) -> None:  # noqa: ARG002 - the truth is Kx itself
        """Labels y of `count` records are not needed and not looked at: the truth is Kx."""
        return

    def truth(self, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002 - no labels
        """What answers are judged against (N, m): Kx itself for records X (N, n), whatever the labels y."""
        return self.predict(X)

    def predict(self, X: Any) -> Floats:
        """y = Kx for every record (N, n) → (N, m)."""
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.K.T)

    def linear_form(self, X: Floats, y: Any = None) -> tuple[LinearInTruth, Floats]:
        """A cost that is linear in its truth, and the truth (N, m) of the records X (N, n), whatever the labels y. The
        loss is `scale` times that cost."""
        return self.cost.linear_form(self.truth(X, y), lambda: self.predict(X))

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002 - y is Kx itself
        """‖K(x̂ − x)‖₂² (N,) for `estimates` x̂ and records X, both (N, n); labels y do not matter."""
        error = (estimates - X) @ self.K.T
        return np.asarray(np.einsum("ij,ij->i", error, error))

    def pairwise_losses(self, candidates: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002
        """‖K(d − x)‖₂² (N, k) for every record of X (N, n) and every d of `candidates` (k, n); y does not matter."""
        return squared_distances(self.predict(X), self.predict(candidates))

    def output_losses(self, outputs: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002
        """‖ŷ − Kx‖₂² (N,) of the answers `outputs` ŷ (N, m) to records X (N, n); labels y do not matter."""
        return np.asarray(((outputs - self.predict(X)) ** 2).sum(axis=1))

    def pairwise_output_losses(self, outputs: Floats, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002
        """‖ŷ − Kx‖₂² (N, k) of each of the answers `outputs` (k, m) to every record of X (N, n); y does not matter."""
        return squared_distances(self.predict(X), outputs)

    def constant_output(self, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002 - no labels
        """The one answer (m,) that is best for all the records X (N, n): that to their mean; y does not matter."""
        return self.predict(X.mean(axis=0))

    def constant_losses(self, X: Floats, y: Any, X_test: Floats, y_test: Any) -> Floats:  # noqa: ARG002 - no labels
        """The loss (N,) on X_test of the one answer that is best for the design records X; y, y_test do not matter."""
        return self.losses(np.broadcast_to(X.mean(axis=0), X_test.shape), X_test)

    def constant_loss(self, X: Floats, y: Any, X_test: Floats, y_test: Any) -> float:
        """The mean of `constant_losses` on X_test for the design records X; labels y and y_test do not matter."""
        return float(self.constant_losses(X, y, X_test, y_test).mean())


@dataclass(frozen=True, eq=False)
class LinearTask(MatrixTask):
    """y = Kx with squared error: the loss of an estimate x̂ is ‖K(x̂ − x)‖₂². K has shape (m, n).

    Its designs answer for every person as well as they can, which means shrinking what is mostly noise towards the
    volunteers: such answers must not be added up to a mean. `MeanTask` is the task of estimating means.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> veil.predict(veil.privatize(X)).shape  # the best guess of each person's sum
        (200, 1)
    """


def spreads(X: Floats, schema: Schema) -> Floats:
    """The standard deviation of every field, 0 for one that is constant but for its last digits. Weights are divided by
    it, so that metres and millimetres are the same task.

    Args:
        X: records as numbers (N, n).
        schema: of the records; the spread of a category is that of all its values together.
    """
    each = X.std(axis=0)
    each = np.where(each <= 1e-12 * np.abs(X).max(axis=0, initial=0.0), 0.0, each)
    parts = [each[place] for place in schema.weighed]
    return np.array([part[0] if len(part) == 1 else np.linalg.norm(part) for part in parts])


@dataclass(frozen=True, eq=False)
class MeanTask(MatrixTask):
    """The population's mean of Kx, unbiased for any population inside the domain. K has shape (m, n); without K, every
    field counts in units of its standard deviation among the volunteers, as in `taskveil design --means`.

    Designs for it never shrink: the mean of what reports decode to is, in expectation, the mean of Kx over the people
    who sent them, however they differ from the volunteers. Single reports say next to nothing.

    The loss of a report that decodes to v is ‖K(v − x)‖₂². A veil's expected loss, divided by the number of people N,
    is the expected squared error of their mean. K = diag(weights) weighs the means of single attributes; an attribute
    of weight zero is never asked for and decodes to the volunteers' mean.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> [row.name for row in tv.estimate(veil, veil.privatize(X)).attributes]
        ['x0', 'x1']
    """

    K: Floats = None  # type: ignore[assignment]  # `scaled` makes one of the volunteers' spreads

    def __post_init__(self) -> None:
        if self.K is not None:
            super().__post_init__()

    def scaled(self, X: Floats, schema: Schema) -> MeanTask:
        """The task itself if it has a K; else with 1/spread of every field of the records X (N, n) of a `schema`. A
        field that is the same for everybody keeps a weight: its mean is that value, not 0."""
        if self.K is not None:
            return self
        if schema.unbounded:  # single values that are out of line must not make all others count for nothing
            X = np.column_stack([np.clip(column, *harmless_range(column)) for column in X.T])
        spread = spreads(X, schema)
        return MeanTask(np.diag(1.0 / np.where(spread > 0, spread, 1.0)))

    def on(self, schema: Schema) -> Self:
        """The same task on the numbers that records of a schema become.

        A mean is that of the people who *have* a value, so a K that weighs fields one by one also asks how many have
        none: with a quarter of the field's range for a whole share, about what a wrong share can do to the mean.
        """
        if self.K is None:
            raise TaskError("a MeanTask without K is scaled by volunteers' records: pass it to tv.design or tv.sweep.")
        wide = super().on(schema)
        if self.width != len(schema) or self.outputs != self.width or (np.diag(np.diag(self.K)) != self.K).any():
            return wide
        flags = np.zeros((0, schema.width))
        for weight, field, place in zip(np.diag(self.K), schema.fields.fields, schema.fields.places, strict=True):
            if field.flagged and weight != 0:
                low, high = field.box
                flags = np.vstack([flags, np.zeros(schema.width)])
                flags[-1, place.stop - 1] = abs(weight) * max(float(high[0] - low[0]), 1e-300) / 4
        return type(self)(np.vstack([wide.K, flags])) if len(flags) else wide
