"""ONNX files beyond our reader as black boxes: onnxruntime runs them, without gradients.

So run what converters of scikit-learn write: scalers, linear models and trees, classifiers with their labels and
probabilities, and tables with one input per column. A file is run from a copy of its bytes, on one thread of the
processor, with the operators of ONNX's own domains alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import TaskError, needs
from taskveil.records.schema import Schema
from taskveil.tasks.costs import Cost
from taskveil.tasks.models.estimators import TINY_PROBABILITY
from taskveil.tasks.models.frozen import FrozenModel
from taskveil.tasks.models.onnx_answers import find_answer
from taskveil.tasks.models.onnx_entries import Entry, as_numbers, find_entries
from taskveil.tasks.models.onnx_files import LEARNING_DOMAIN, OWN_DOMAIN, load_onnx

_ADD_UP = 1e-4  # to one, in single precision and over many trees
_DRAWS = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_STRAIGHT = {
    "Add", "Cast", "Concat", "Constant", "Div", "FeatureVectorizer", "Flatten", "Gather", "Gemm", "Identity",
    "LinearRegressor", "MatMul", "Mul", "Reshape", "Scaler", "Squeeze", "Sub", "Unsqueeze",
}  # fmt: skip
_TO_CHANCES = {"LinearClassifier", "Normalizer", "Softmax"}
_QUIET = 4  # nothing but what ends the process is printed


@dataclass(frozen=True, eq=False)
class SessionModel:
    """A file as onnxruntime runs it: natural values by column (`ask`) or records (`matrix`) → outputs (N, m), which are
    logits for a classifier. The bytes are its own: later changes of the file change nothing."""

    content: bytes = field(repr=False)
    entries: tuple[Entry, ...]
    """What it takes, in the file's order."""
    probabilities: bool
    """It answers with probabilities of classes, which are given on as logits."""
    classes: Array | None
    """The classes' names in the order of the outputs, where the file names them."""
    _session: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_session", _started(self.content))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies start a session of their own: onnxruntime's cannot be copied or sent to other processes."""
        return SessionModel, (self.content, self.entries, self.probabilities, self.classes)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs' names in the file's order."""
        return tuple(entry.name for entry in self.entries)

    @property
    def by_name(self) -> bool:
        """It takes a table, one input per column, rather than one matrix."""
        return len(self.entries) > 1 or self.entries[0].kind == "text"

    @property
    def numeric(self) -> bool:
        """No input takes text."""
        return all(entry.kind != "text" for entry in self.entries)

    @property
    def width(self) -> int | None:
        """The number of attributes; None where only data can tell."""
        return len(self.entries) if self.by_name else self.entries[0].width

    @property
    def may_be_linear(self) -> bool:
        """Every operator on the way from one matrix to the answer can be that of a linear model: none bends or splits,
        but for what makes probabilities of logits at the end."""
        from onnx import load_from_string

        if self.by_name:
            return False
        graph = load_from_string(self.content).graph
        makers = {name: node for node in graph.node for name in node.output}
        wanted, kinds = [graph.output[0].name], set()
        while wanted:
            node = makers.pop(wanted.pop(), None)
            if node is not None:
                kinds.add(node.op_type)
                wanted += node.input
        return kinds <= (_STRAIGHT | _TO_CHANCES if self.probabilities else _STRAIGHT)

    def ask(self, columns: Mapping[str, Array]) -> Floats:
        """Outputs (N, m) for natural values by column name; a model of one matrix takes the columns in the order given.

        Args:
            columns: each (N,): numbers with NaN where missing, flags, texts with None where missing, dates as text or
                datetime64. Others than the inputs are not looked at.
        """
        if not self.by_name:
            return self.matrix(np.column_stack([as_numbers(name, values) for name, values in columns.items()]))
        missing = [name for name in self.inputs if name not in columns]
        if missing:
            raise TaskError(
                f"the model takes the columns {', '.join(self.inputs)}; {', '.join(missing)} are not there."
            )
        return self._run({entry.name: entry.taken(columns[entry.name]) for entry in self.entries})

    def matrix(self, X: Floats) -> Floats:
        """Outputs (N, m) for records (N, n), the columns in the order of `inputs` where these are several."""
        if self.by_name:
            if X.shape[1] != len(self.entries):
                raise TaskError(f"the model takes {len(self.entries)} attributes, but the data has {X.shape[1]}.")
            return self.ask(dict(zip(self.inputs, X.T, strict=True)))
        return self._run({self.entries[0].name: self.entries[0].taken(X)})

    def _run(self, given: dict[str, Array]) -> Floats:
        count, batch = len(next(iter(given.values()))), self.entries[0].batch
        if batch == 0 or count == batch:
            answer = self._answer(given)
        else:  # a file for so many records is run for every so many of them
            places = np.arange(-(-count // batch) * batch).clip(max=count - 1).reshape(-1, batch)
            answer = np.concatenate([self._answer({name: v[some] for name, v in given.items()}) for some in places])
            answer = answer[:count]
        answer = answer[:, None] if answer.ndim == 1 else answer
        if not self.probabilities:
            return answer
        if answer.ndim != 2 or (self.classes is not None and answer.shape[1] != len(self.classes)):
            raise ValueError(f"it answers {count} records with probabilities of shape {answer.shape}, not one a class")
        if not (np.abs(answer.sum(axis=1) - 1.0) <= _ADD_UP).all() or not (answer >= -_ADD_UP).all():
            raise ValueError("its probabilities do not add up to one: scores and several labels are not supported")
        return np.asarray(np.log(np.maximum(answer, TINY_PROBABILITY)))

    def _answer(self, given: dict[str, Array]) -> Floats:
        from onnxruntime import RunOptions

        quietly = RunOptions()
        quietly.log_severity_level = _QUIET
        (answer,) = self._session.run(None, given, quietly)
        return np.asarray(answer, dtype=np.float64)


def read_session(path: Path, cost: Cost) -> SessionModel:
    """The file as a black box with the outputs that `cost` judges; TaskError where it is broken, would need anything
    beyond itself and the weights in its folder, or is not of the kind that `cost` judges."""
    with needs(f"running {path} as a black box", extra="onnx"):
        import onnxruntime  # noqa: F401 - is it there?
    from onnx import ValueInfoProto

    model = load_onnx(path)
    _check_contained(path, model)
    entries = find_entries(path, model.graph)
    answer = find_answer(path, model.graph)
    if cost.logits is False and answer.classes is not None:
        raise TaskError(f'{path} is a classifier: use loss="cross_entropy" or "zero_one", or a loss of your own.')
    # Without the others, onnxruntime does not compute them; a ZipMap would make a dictionary of every row. The type of
    # the numbers follows from the operators: converters promise doubles where trees give singles.
    del model.graph.output[:]
    model.graph.output.append(ValueInfoProto(name=answer.name))
    del model.metadata_props[:]
    # Without names, probabilities are those of a softmax, which our reader takes off as well.
    probabilities = answer.probabilities and (answer.classes is not None or cost.logits is True)
    try:
        return SessionModel(model.SerializeToString(), entries, probabilities, answer.classes)
    except Exception as error:  # whatever onnxruntime and protobuf raise
        raise TaskError(f"{path} cannot be run by onnxruntime: {error}") from error


def from_session(session: SessionModel, cost: Cost, schema: Schema | None = None) -> FrozenModel:
    """The black box as a task sees it, on records (N, n); with a `schema`, on the numbers that records become, of which
    a model of several inputs gets natural values by name. One that takes text takes nothing else."""
    texts = ", ".join(entry.name for entry in session.entries if entry.kind == "text")

    def function(X: Floats) -> Floats:
        if schema:
            return session.ask(schema.natural(X))
        if texts:
            raise ValueError(f"it takes text in {texts}: design it with a table of these columns")
        return session.matrix(X)

    width = None if schema or texts else session.width
    frozen = FrozenModel(
        function,
        width=width,
        classes=session.classes,
        must_be_logits=cost.logits is True,
        may_be_linear=session.may_be_linear,
        from_probabilities=session.probabilities,
    )
    if session.by_name:
        frozen.columns = session.inputs
        frozen.bind = lambda schema: from_session(session, cost, schema)
    return frozen


def _started(content: bytes) -> Any:
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _QUIET
    return InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _check_contained(path: Path, model: Any) -> None:
    """Raise TaskError for what onnxruntime would look up elsewhere, or draw at random."""
    from onnx import NodeProto, TensorProto

    for part in _parts(model):
        if isinstance(part, NodeProto) and part.domain not in (*OWN_DOMAIN, LEARNING_DOMAIN):
            raise TaskError(f"{path} uses {part.op_type} of {part.domain}: only ONNX's own operators are run.")
        if isinstance(part, NodeProto) and part.op_type == "Dropout" and any(part.input[2:]):
            raise TaskError(f"{path} has a Dropout that may be in training mode: export it in evaluation mode.")
        if isinstance(part, NodeProto) and part.op_type in _DRAWS:
            raise TaskError(f"{path} uses {part.op_type}, which draws at random: export a model that does not.")
        if isinstance(part, TensorProto) and part.data_location == TensorProto.EXTERNAL:
            raise TaskError(f"{path} leaves weights in another file: save it with its weights inside.")


def _parts(message: Any) -> Iterator[Any]:
    """Everything in a file, also inside branches, loops and functions."""
    yield message
    for described, value in message.ListFields():
        if described.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _parts(part)
