"""Models by name: an ONNX file, or an object of a module that Python can import. Nothing is ever unpickled here."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import taskveil as tv
from taskveil.errors import TaskError


def load_model(name: str) -> Any:
    """What `--model` names: the path of an ONNX file, or the model behind package.module:object."""
    if name.lower().endswith(".onnx"):
        return Path(name)
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise TaskError(
            f"--model takes an .onnx file, or package.module:object, got {name!r}. Files of pickles (.pkl, .joblib, "
            ".pt) can run whatever they like and are not opened: write a module that makes or loads the model."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found if is_model(found) or isinstance(found, type) or not callable(found) else found()
    except (Exception, SystemExit) as error:  # whatever somebody else's module raises
        raise TaskError(f"--model {name} cannot be had: {type(error).__name__}: {error}") from error


def is_model(found: Any) -> bool:
    """Whether an object is a model itself, and no function that returns one."""
    return not isinstance(found, type) and (is_estimator(found) or hasattr(found, "named_parameters"))


def is_estimator(model: Any) -> bool:
    """Whether a model is scikit-learn's, or like one of its: it takes tables."""
    return hasattr(model, "predict") and hasattr(model, "get_params")


def as_task(model: Any, loss: str | None) -> tv.ModelTask:
    """The model's task, judged by `loss`; without one as far as the model itself tells (`settled` decides)."""
    if loss is None and is_estimator(model):
        loss = "cross_entropy" if hasattr(model, "predict_proba") else "mse"
    if loss is not None:
        return tv.ModelTask(model, loss=loss)  # type: ignore[arg-type]
    try:
        return tv.ModelTask(model)
    except TaskError:  # a file that names its classes is a classifier, and refuses to be anything else
        return tv.ModelTask(model, loss="cross_entropy")


def settled(task: tv.ModelTask, loss: str | None, schema: tv.Schema) -> tv.ModelTask:
    """The task on records of a schema. Without a loss, one output is an estimate, and several are classes."""
    bound = task.on(schema)
    if loss is None and task.loss == "mse" and not is_estimator(task.model) and bound.outputs > 1:
        return tv.ModelTask(task.model, loss="cross_entropy")
    return task
