"""Labels as losses want them, checked once; whatever is wrong is said without quoting anyone's label."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.errors import TaskError


class Answering(Protocol):
    """What a loss asks of a model: how many outputs it has, and its classes' names, in their order, if it has any."""

    classes: Array | None

    @property
    def outputs(self) -> int:
        """How many outputs."""


def finite_numbers(values: Array, model: Answering, loss: str) -> Floats:
    """Any array of N rows → finite numbers (N, outputs), or a TaskError that names the `loss` they are for."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise TaskError(f"labels for {loss} must be numbers, got an array of {values.dtype}.") from None
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if numbers.shape[1:] != (model.outputs,) or not np.isfinite(numbers).all():
        raise TaskError(f"labels for {loss} must be finite with {model.outputs} per record, got {values.shape}.")
    return numbers


def class_numbers(values: Array, model: Answering, loss: str) -> Integers:
    """Class names or numbers of N records → class numbers (N,), or a TaskError that names the `loss` they are for."""
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise TaskError(f"{loss} needs one class per record, got labels of shape {values.shape}.")
    if model.classes is not None:
        known = np.isin(values, model.classes)
        if not known.all():
            raise TaskError(
                f"{_first(~known)} has a label that is none of the model's classes {model.classes.tolist()}: "
                "check which model and labels belong together."
            )
        order = np.argsort(model.classes)
        return np.asarray(order[np.searchsorted(model.classes, values, sorter=order)])
    if values.dtype.kind not in "iufb" or not (values == np.floor(values.astype(np.float64))).all():
        raise TaskError(f"labels for {loss} must be class numbers 0, 1, 2, …")
    outside = (values < 0) | (values >= model.outputs)
    if outside.any():
        raise TaskError(
            f"{_first(outside)} has a label outside the model's classes 0 … {model.outputs - 1}: "
            "number the classes from 0, or check which model and labels belong together."
        )
    return values.astype(np.int64)


def _first(wrong: Array) -> str:
    """Names the first record of which something is wrong, without quoting it."""
    return f"record {int(np.flatnonzero(wrong)[0])} of {len(wrong)}"
