"""Which output of an ONNX file is its answer: values, logits, or a classifier's probabilities with the classes' names.

Converters of scikit-learn write two outputs for a classifier, the label and the probabilities of all classes. These are
a tensor (N, classes), or a ZipMap makes a map from class to probability of every row; the tensor that goes into it says
the same and is what we ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Array
from taskveil.errors import TaskError

_FLOAT, _INT64, _STRING, _DOUBLE = 1, 7, 8, 11  # by TensorProto's numbering

_NAMES = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
_CARRIES_NAMES = ("ArrayFeatureExtractor", "Cast", "Identity", "Reshape", "Squeeze")  # in their first input


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The tensor to ask a file for, and what it says."""

    name: str
    probabilities: bool
    """Of classes; else values or logits."""
    classes: Array | None
    """Their names in the order of the columns, where the file names them."""


def find_answer(path: Any, graph: Any) -> Answer:
    """What the file `path` answers, or TaskError where that is not one row of numbers for each record."""
    makers = {name: node for node in graph.node for name in node.output}
    labels = [o for o in graph.output if _kind(o) in (_INT64, _STRING)]
    others = [o for o in graph.output if _kind(o) not in (_INT64, _STRING)]
    if len(labels) > 1 or len(others) != 1:
        raise TaskError(
            f"{path} must have one output, or a label and the probabilities of all classes; it has "
            f"{len(graph.output)}, of which {len(labels)} could be labels. Export it with one task, and with "
            "probabilities as one tensor or ZipMap."
        )
    (found,) = others
    maker = makers.get(found.name)
    if maker is not None and maker.op_type == "ZipMap":
        return Answer(name=maker.input[0], probabilities=True, classes=_distinct(path, _stated(maker)))
    if _kind(found) not in (_FLOAT, _DOUBLE):
        raise TaskError(f"{path} must answer with floating numbers, FLOAT or DOUBLE, in its output {found.name}.")
    if labels:
        classes = _distinct(path, _carried(labels[0].name, makers, graph))
        return Answer(name=found.name, probabilities=True, classes=classes)
    last = maker is not None and maker.op_type == "Softmax"
    return Answer(name=found.name, probabilities=last, classes=None)


def _kind(output: Any) -> int:
    """The type of an output's numbers, 0 where it is no tensor."""
    return int(output.type.tensor_type.elem_type) if output.type.WhichOneof("value") == "tensor_type" else 0


def _stated(node: Any) -> Array | None:
    """The classes' names in a node's own options: texts or whole numbers."""
    options = {option.name: option for option in node.attribute}
    for name in _NAMES:
        if name in options and (options[name].strings or options[name].ints):
            texts = [text.decode(errors="replace") for text in options[name].strings]
            return np.array(texts) if texts else np.array(options[name].ints, dtype=np.int64)
    return None


def _carried(name: str, makers: dict[str, Any], graph: Any) -> Array | None:
    """The classes' names in what makes the label `name`: an option of the classifier, or a list from which it picks."""
    from onnx.numpy_helper import to_array

    lists = {t.name: t for t in graph.initializer}
    while name not in lists:
        node = makers.get(name)
        if node is None or (found := _stated(node)) is not None:
            return None if node is None else found
        if node.op_type not in _CARRIES_NAMES:
            return None
        name = node.input[0]
    values = np.ravel(to_array(lists[name]))
    if values.dtype.kind in "OSU":
        return np.array([v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values])
    return values.astype(np.int64)


def _distinct(path: Any, classes: Array | None) -> Array:
    if classes is None or len(set(classes.tolist())) != len(classes):
        raise TaskError(
            f"{path} gives labels, but does not say to which class each of its other numbers belongs: a classifier "
            "needs probabilities with the classes' names. Export it with ZipMap."
        )
    return classes
