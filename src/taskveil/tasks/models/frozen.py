"""Models as tasks use them: frozen functions from records (N, n) to outputs (N, m), with gradients where possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import TaskError
from taskveil.records.schema import Schema
from taskveil.tasks.models.layered import CLOSE, Layered, Lines, probed_lines

if TYPE_CHECKING:
    import torch

ROWS_AT_ONCE = 4096  # records in one call of a model
PROBES = 3  # records that a new model is asked about
SINGLE = float(np.finfo(np.float32).eps)  # the rounding of models that do not say how they round
DOUBLE = float(np.finfo(np.float64).eps)


class FrozenModel:
    """f: records (N, n) → outputs (N, m) that never changes; `module` gives gradients in torch, or is None.

    The number of outputs is learned from a probe, as soon as the number of attributes is known.

    Args:
        function: the outputs (N, m) or (N,) for records (N, n); whatever it raises becomes a TaskError.
        module: the same as a torch module, where it is one.
        layered: the same as layers of numbers, where it is an estimator of a known kind.
        make_module: makes a torch module of those layers; called when somebody asks for it.
        may_be_linear: records of many sizes may show that a model that is neither is linear.
        logits: its outputs up to a number that is added to all those of a record, where these are logarithms of
            probabilities and so of little precision; a TaskError means that there are none.
        width: the number of attributes n, if it is known before the data.
        classes: the classes' names in the order of the outputs, for models that name them.
        must_be_logits: refuse a model whose outputs are probabilities, or a single number.
        frame: what the model itself takes for records (N, n), where that is not the matrix.
        rounding: the relative error of one operation in the model's precision.
    """

    probes = PROBES

    def __init__(
        self,
        function: Callable[[Floats], Floats],
        *,
        module: torch.nn.Module | None = None,
        layered: Layered | None = None,
        make_module: Callable[[Layered], torch.nn.Module] | None = None,
        may_be_linear: bool = False,
        logits: Callable[[Floats], Floats] | None = None,
        width: int | None = None,
        classes: Array | None = None,
        must_be_logits: bool = False,
        rounding: float = SINGLE,
        frame: Callable[[Floats], Any] | None = None,
    ) -> None:
        self._function = function
        self._rounding = rounding
        self._module = module
        self.layered = layered
        self._make_module = make_module
        self._may_be_linear = may_be_linear or module is not None
        self._logits = logits
        self.classes = classes
        self.must_be_logits = must_be_logits
        self.frame = frame
        self.columns: tuple[str, ...] | None = None
        """The columns' names in the order the model takes them, for models that were fitted to a table."""
        self.bind: Callable[[Schema], FrozenModel] | None = None
        """The same model on the numbers of a schema, for models that take tables of natural values."""
        self.takes_numbers = True
        """Whether the model itself takes the records' numbers, and no table of natural values."""
        self._outputs: int | None = None
        self.width: int | None = None
        if width is not None:
            self.check_width(width)

    @property
    def differentiable(self) -> bool:
        """Whether `module` is not None; torch is not needed to say so."""
        return self._module is not None or self._make_module is not None

    @cached_property
    def module(self) -> torch.nn.Module | None:
        """The same as a torch module (N, n) → (N, m), or None for black boxes. That of a layered model is made when
        it is first asked for; MissingExtraError where torch is not installed."""
        if self._module is not None or self.layered is None or self._make_module is None:
            return self._module
        return self._make_module(self.layered)

    @property
    def relu_layers(self) -> tuple[tuple[Floats, Floats], ...] | None:
        """Of a multi-layer estimator of scikit-learn with ReLU or no activation: weights (out, in) and offset (out,) of
        every dense layer of a network with ReLU between its layers, which gives the same outputs. Else None."""
        return None if self.layered is None else self.layered.relu_layers

    @property
    def lines(self) -> Lines | None:
        """Weights (m, n) and offset (m,) of a model that is linear in its records; None for any other, and as long as
        their width is not known. Logits count up to a number that is added to all those of a record."""
        if self.layered is not None:
            return self.layered.lines
        return self._probed_lines if self.width is not None and self._may_be_linear else None

    @cached_property
    def _probed_lines(self) -> Lines | None:
        asked = self._logits if self._logits is not None and self.must_be_logits else self
        return probed_lines(asked, self.width or 0, self._rounding, up_to_shift=self.must_be_logits)

    @property
    def outputs(self) -> int:
        """The number of outputs m; TaskError before the number of attributes is known."""
        if self._outputs is None:
            raise TaskError("how many attributes this model takes is not known yet: call check_width(n) first.")
        return self._outputs

    def check_width(self, width: int, probe: Floats | None = None) -> None:
        """Raise TaskError unless records of `width` attributes are answered one by one, with finite rows.

        Args:
            width: how many attributes the data has.
            probe: records (PROBES, n) to ask about, where not all numbers are records.
        """
        if self.width is not None:
            if self.width != width:
                raise TaskError(f"the model takes {self.width} attributes, but the data has {width}.")
            return
        if probe is None:
            # Between 0 and 1, but neither: there logarithms and quotients may have no value.
            probe = ((np.arange(PROBES * width) + 0.5) / (PROBES * width)).reshape(PROBES, width)
        answer = self._ask(probe)
        if not self._answers_one_by_one(probe, answer):
            raise TaskError(
                "the model answers a record differently alone and among others: it mixes records or draws at random."
            )
        if self.must_be_logits and answer.shape[1] < 2:
            raise TaskError(
                "a classifier needs one logit per class, but the model has one output: give it two, (0, z), or judge "
                "it by a loss of your own."
            )
        if self.must_be_logits and answer.shape[1] > 1 and (answer >= 0).all() and np.allclose(answer.sum(axis=1), 1.0):
            raise TaskError("a classifier needs logits, but the model gives probabilities: take off its last softmax.")
        self.width, self._outputs = width, answer.shape[1]

    def trust(self, checked: FrozenModel) -> None:
        """Take the width and the number of outputs from a model with the same settings that was checked. A classifier
        knows the classes that it has seen."""
        self.width = checked.width
        self._outputs = checked._outputs if self.classes is None else len(self.classes)

    def _answers_one_by_one(self, probe: Floats, answer: Floats) -> bool:
        """Whether each record is answered the same among copies of itself, alone, and elsewhere in a larger batch.

        At its place among as many copies, a model that answers record by record does the very same operations, and
        nothing but the order of threads can change a digit. So the difference must be small against how much answers
        differ from record to record. In batches of other sizes sums are taken in another order, which costs some
        digits: half of them are left.
        """
        same = [self._ask(np.repeat(row[None], PROBES, axis=0))[[place]] for place, row in enumerate(probe)]
        alone = [self._ask(row[None]) for row in probe]
        longer = self._ask(np.tile(probe[::-1], (PROBES, 1)))[-PROBES:][::-1]
        little = CLOSE * np.ptp(answer, axis=0) + 4 * self._rounding * np.abs(answer)
        half = np.sqrt(self._rounding) * np.abs(answer).max()
        return all(
            found.shape == answer.shape and bool((np.abs(found - answer) <= tolerance).all())
            for found, tolerance in ((np.concatenate(same), little), (np.concatenate(alone), half), (longer, half))
        )

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
