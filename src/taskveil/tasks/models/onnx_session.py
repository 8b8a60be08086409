"""ONNX files as black boxes: onnxruntime runs them, without gradients.

This serves every file that `onnx_reader.py` does not turn into a torch module: transformers, what converters of
scikit-learn write (scalers, linear models and trees, classifiers with their labels and probabilities), and tables with
one input per column. A file is run from a copy of its bytes, on one thread of the processor, with the operators of
ONNX's own domains alone.

Converters of scikit-learn write two outputs for a classifier: the label and the probabilities of all classes. These are
a tensor (N, classes), or a ZipMap makes a map from class to probability for every row. The tensor that goes into the
ZipMap holds the same numbers, and it is used instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import MissingExtraError, TaskError, needs
from taskveil.records.schema import Schema
from taskveil.tasks.costs import Cost
from taskveil.tasks.models.estimators import TINY_PROBABILITY
from taskveil.tasks.models.frozen import SINGLE, FrozenModel

OWN_DOMAIN = ("", "ai.onnx")
LEARNING_DOMAIN = "ai.onnx.ml"  # trees, scalers and the like, as converters of scikit-learn write them

HOW_TO_RUN = "pip install 'taskveil[onnx]' runs ONNX files, pip install 'taskveil[torch]' gives their gradients too"


def from_file(path: Path, cost: Cost) -> FrozenModel:
    """An ONNX file: with gradients where torch is installed and our reader takes all of it exactly, else a black box
    that onnxruntime runs."""
    model = load_onnx(path)
    try:
        import torch  # noqa: F401 - is it there?
    except ModuleNotFoundError as absent:
        try:
            return from_session(read_session(path, cost), cost)
        except MissingExtraError:
            raise MissingExtraError(f"ONNX files need onnxruntime or torch: {HOW_TO_RUN}", name=absent.name) from None
    from taskveil.tasks.models.modules import from_module
    from taskveil.tasks.models.onnx_reader import read_onnx

    logits = cost.logits is True
    try:
        return from_module(*read_onnx(model, logits=logits), must_be_logits=logits)
    except TaskError as refusal:
        try:
            return from_session(read_session(path, cost), cost)
        except MissingExtraError as missing:
            raise TaskError(f"{path}: {refusal} Or have onnxruntime run the file: {missing}.") from refusal


def load_onnx(path: Path) -> Any:
    """The file's content, valid by onnx's own checker, with weights that lie beside it in its folder; TaskError where
    it would need anything beyond that, or draws at random."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"ONNX files need onnx: {HOW_TO_RUN}", name=error.name) from None
    if not path.is_file():
        raise TaskError(
            f"there is no file {path}; a model is an ONNX file, a torch module or a scikit-learn estimator."
        )
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except Exception as error:
        raise TaskError(f"{path} is no valid ONNX file: {error}") from error
    _check_contained(path, model)
    return model


_KINDS = {1: "float32", 10: "float16", 11: "float64", 7: "int64", 6: "int32", 9: "bool", 8: "text"}
"""Types of inputs and outputs, by TensorProto's numbering."""
_FLOATS = ("float16", "float32", "float64")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One input: its name, the type of its values, and its shape with 0 where the file leaves a dimension free."""

    name: str
    kind: str
    """The name of a numpy type, or "text"."""
    shape: tuple[int, ...]
    """Of one record."""
    batch: int
    """For how many records at once; 0 for any number."""

    @property
    def width(self) -> int | None:
        """How many attributes a record has; None where the file leaves it free."""
        return math.prod(self.shape) or None

    def taken(self, values: Array) -> Array:
        """Values of records (N,) or (N, n) in this input's type and shape; ValueError where they are of another kind.

        Missing numbers are NaN, missing texts empty; whole numbers are rounded to, and cannot be missing.
        """
        found = _as_texts(self.name, values) if self.kind == "text" else _as_numbers(self.name, values)
        shape = (len(found), *self.shape) if self.width is not None else (len(found), -1)
        return _cast(found, self).reshape(shape)


def find_entries(path: Path, graph: Any) -> tuple[Entry, ...]:
    """The inputs of the file `path`; TaskError unless they are one matrix of floating numbers, or columns."""
    stated = {t.name for t in graph.initializer}  # defaults, as old files list them
    entries = tuple(_entry(path, i, graph) for i in graph.input if i.name not in stated)
    if not entries:
        raise TaskError(f"{path} takes no input: a model answers records.")
    if len({entry.batch for entry in entries}) > 1:
        raise TaskError(f"{path} states different numbers of records for its inputs: leave that dimension free.")
    columns = len(entries) > 1 or entries[0].kind == "text"
    for entry in entries:
        if columns and entry.width != 1:
            raise TaskError(f"{path} has several inputs: each must be one column, but {entry.name} is {entry.shape}.")
        if not columns and entry.kind not in _FLOATS:
            raise TaskError(f"{path} must take a matrix of floating numbers: FLOAT, DOUBLE or FLOAT16.")
    return entries


def _entry(path: Path, proto: Any, graph: Any) -> Entry:
    tensor = proto.type.tensor_type
    batch, *shape = [d.dim_value for d in tensor.shape.dim] or [0]
    if len(shape) > 1 and 0 in shape:
        raise TaskError(f"{path} must state the shape of its input {proto.name}; it says {shape} for a record.")
    if tensor.elem_type not in _KINDS:
        raise TaskError(f"{path} has an input {proto.name} that is neither numbers nor text.")
    if shape == [0]:
        shape = [_first_width(proto.name, graph)]
    return Entry(name=proto.name, kind=_KINDS[tensor.elem_type], shape=tuple(shape), batch=batch)


def _first_width(name: str, graph: Any) -> int:
    """How many attributes the first node takes where the file does not say, 0 where that node does not say either.

    onnxruntime would answer fewer without an error.
    """
    for node in graph.node:
        if node.input[:1] == [name] and node.op_type in ("Scaler", "LinearClassifier", "LinearRegressor"):
            options = _options(node)
            # A classifier has a row for every class, which its intercepts count.
            rows = options.get("targets", len(options.get("intercepts", ()))) or node.op_type != "LinearClassifier"
            return len(options.get("coefficients", options.get("offset", ()))) // rows if rows else 0
    return 0


def _options(node: Any) -> dict[str, Any]:
    """The options of a node by their names."""
    from onnx.helper import get_attribute_value

    return {option.name: get_attribute_value(option) for option in node.attribute}


def _as_numbers(name: str, values: Array) -> Floats:
    """Numbers and flags of the column `name` as doubles, missing ones NaN; ValueError where it holds anything else."""
    found = np.asarray(values)
    try:
        if found.dtype.kind in "biufO":
            return found.astype(np.float64)
    except (TypeError, ValueError):  # whose words would quote a value
        pass
    raise ValueError(f"its input {name} takes numbers")


def _as_texts(name: str, values: Array) -> Array:
    """Texts, flags and dates of the column `name` (N,) as text, missing ones empty; ValueError for numbers."""
    found = np.asarray(values)
    if found.dtype.kind == "M":
        return np.where(np.isnat(found), "", np.datetime_as_string(found)).astype(object)
    if found.dtype.kind not in "OSUTb":
        raise ValueError(f"its input {name} takes text")
    return np.array(["" if v is None or v != v else str(v) for v in found.ravel()], dtype=object)


def _cast(values: Array, entry: Entry) -> Array:
    """Values in the input's type; whole numbers to the nearest that it has."""
    if entry.kind == "text":
        return values
    if entry.kind in _FLOATS:
        with np.errstate(over="ignore"):  # beyond single precision lies infinity
            return values.astype(entry.kind)
    if np.isnan(values).any():
        raise ValueError(f"its input {entry.name} takes whole numbers, which cannot be missing")
    if entry.kind == "bool":
        return values >= 0.5
    limits = np.iinfo(entry.kind)
    # The largest double below 2⁶³ is the largest that fits.
    return np.rint(values).clip(float(limits.min), np.nextafter(float(limits.max) + 1.0, 0.0)).astype(entry.kind)


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
    labels = [o for o in graph.output if _kind(o) in ("int64", "text")]
    others = [o for o in graph.output if _kind(o) not in ("int64", "text")]
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
    if _kind(found) not in _FLOATS:
        raise TaskError(f"{path} must answer with floating numbers in its output {found.name}.")
    if labels:
        classes = _distinct(path, _carried(labels[0].name, makers, graph))
        return Answer(name=found.name, probabilities=True, classes=classes)
    last = maker is not None and maker.op_type == "Softmax"
    return Answer(name=found.name, probabilities=last, classes=None)


def _kind(output: Any) -> str | None:
    """The type of an output's values, None where it is no tensor or of a type that is not known."""
    tensor = output.type.WhichOneof("value") == "tensor_type"
    return _KINDS.get(output.type.tensor_type.elem_type) if tensor else None


def _stated(node: Any) -> Array | None:
    """The classes' names in a node's own options: texts or whole numbers."""
    options = _options(node)
    return next((_names(options[name]) for name in _NAMES if options.get(name)), None)


def _names(values: Any) -> Array:
    return np.array([value.decode(errors="replace") if isinstance(value, bytes) else value for value in values])


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
    return _names(np.ravel(to_array(lists[name])).tolist())


def _distinct(path: Any, classes: Array | None) -> Array:
    if classes is None or len(set(classes.tolist())) != len(classes):
        raise TaskError(
            f"{path} gives labels, but does not say to which class each of its other numbers belongs: a classifier "
            "needs probabilities with the classes' names. Export it with ZipMap."
        )
    return classes


_DRAWS = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_FATAL_ONLY = 4  # onnxruntime's level of messages: only those that end the process


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
    def width(self) -> int | None:
        """The number of attributes; None where only data can tell."""
        return len(self.entries) if self.by_name else self.entries[0].width

    def ask(self, columns: Mapping[str, Array]) -> Floats:
        """Outputs (N, m) for natural values by column name.

        Args:
            columns: each (N,): numbers with NaN where missing, flags, texts with None where missing, dates as text or
                datetime64. Others than the inputs are not looked at.
        """
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

    def logits(self, X: Floats) -> Floats:
        """Scores (N, m) of records (N, n), whose softmax are the probabilities; TaskError where the file has none."""
        return self._scores(X)

    @cached_property
    def _scores(self) -> Callable[[Floats], Floats]:
        """The same file, cut before the softmax at its end."""
        from onnx import load_from_string

        model = load_from_string(self.content)
        makers = {name: node for node in model.graph.node for name in node.output}
        last = makers.get(model.graph.output[0].name)
        while last is not None and last.op_type in ("Cast", "Identity", "Normalizer"):
            last = makers.get(last.input[0])
        if last is not None and last.op_type == "Softmax":
            return SessionModel(_asked_for(model, last.input[0]), self.entries, False, None).matrix
        options = {option.name: option for option in last.attribute} if last is not None else {}
        if last is None or last.op_type != "LinearClassifier" or "post_transform" not in options:
            raise TaskError("the file has no logits.")
        link = options["post_transform"].s
        options["post_transform"].s = b"NONE"
        raw = SessionModel(_asked_for(model, last.output[1]), self.entries, False, None).matrix
        if link == b"SOFTMAX":
            return raw
        numbers = [np.array(options[name].floats) for name in ("coefficients", "intercepts") if name in options]
        if link != b"LOGISTIC" or not all((n == -np.roll(n, len(n) // 2)).all() for n in numbers):
            raise TaskError("the file has no logits.")
        return lambda X: raw(X) / 2.0  # the scores of the two classes are −z and z, with the odds e^z

    def _run(self, given: dict[str, Array]) -> Floats:
        count = len(next(iter(given.values())))
        # A file for so many records is run for every so many of them. One for any number gets at least two: the axis of
        # a single one could be mistaken for others of length 1.
        batch = self.entries[0].batch or max(count, 2)
        places = np.arange(-(-count // batch) * batch).clip(max=count - 1).reshape(-1, batch)
        answer = np.concatenate([self._rows({name: v[some] for name, v in given.items()}, batch) for some in places])
        answer = answer[:count]
        if not self.probabilities:
            return answer
        if self.classes is not None and answer.shape[1] != len(self.classes):
            raise ValueError(f"it answers {count} records with probabilities of shape {answer.shape}, not one a class")
        rounding = np.sqrt(SINGLE)  # half of the digits are left after sums over many trees
        if not (np.abs(answer.sum(axis=1) - 1.0) <= rounding).all() or not (answer >= -rounding).all():
            raise ValueError("its probabilities do not add up to one: scores and several labels are not supported")
        return np.asarray(np.log(np.maximum(answer, TINY_PROBABILITY)))

    def _rows(self, given: dict[str, Array], records: int) -> Floats:
        """One row per record; whatever a file answers to a single record is its row."""
        from onnxruntime import RunOptions

        quietly = RunOptions()
        quietly.log_severity_level = _FATAL_ONLY
        (answer,) = self._session.run(None, given, quietly)
        if records > 1 and (np.ndim(answer) == 0 or len(answer) != records):
            raise ValueError(f"{records} records gave answers of shape {np.shape(answer)}")
        return np.asarray(answer, dtype=np.float64).reshape(records, -1)


def read_session(path: Path, cost: Cost) -> SessionModel:
    """The file as a black box with the outputs that `cost` judges; TaskError where it is broken, would need anything
    beyond itself and the weights in its folder, or is not of the kind that `cost` judges."""
    with needs(f"running {path} as a black box", extra="onnx"):
        import onnxruntime  # noqa: F401 - is it there?
    model = load_onnx(path)
    entries = find_entries(path, model.graph)
    answer = find_answer(path, model.graph)
    if cost.logits is False and answer.classes is not None:
        raise TaskError(f'{path} is a classifier: use loss="cross_entropy" or "zero_one", or a loss of your own.')
    # Without names, probabilities are those of a softmax, which our reader takes off as well.
    probabilities = answer.probabilities and (answer.classes is not None or cost.logits is True)
    try:
        return SessionModel(_asked_for(model, answer.name), entries, probabilities, answer.classes)
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
        may_be_linear=not session.by_name,
        logits=session.logits if session.probabilities else None,
    )
    if session.by_name:
        frozen.columns = session.inputs
        frozen.bind = lambda schema: from_session(session, cost, schema)
    return frozen


def _asked_for(model: Any, name: str) -> bytes:
    """A copy of the file that answers with this tensor alone, so that onnxruntime computes nothing else; a ZipMap would
    make a dictionary of every row. The type of the numbers follows from the operators: converters promise doubles where
    trees give singles."""
    from onnx import ModelProto, ValueInfoProto

    asked = ModelProto()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    asked.graph.output.append(ValueInfoProto(name=name))
    del asked.metadata_props[:]
    return bytes(asked.SerializeToString())


def _started(content: bytes) -> Any:
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    return InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _check_contained(path: Path, model: Any) -> None:
    """Raise TaskError for what onnxruntime would look up elsewhere, or draw at random."""
    from onnx import NodeProto, TensorProto
    from onnx.numpy_helper import to_array

    stated = {t.name: t for t in model.graph.initializer}
    stated |= {n.output[0]: n.attribute[0].t for n in model.graph.node if n.op_type == "Constant"}
    off = {name for name, t in stated.items() if t.data_type == TensorProto.BOOL and not to_array(t).any()}
    for part in _parts(model):
        if isinstance(part, NodeProto) and part.domain not in (*OWN_DOMAIN, LEARNING_DOMAIN):
            raise TaskError(f"{path} uses {part.op_type} of {part.domain}: only ONNX's own operators are run.")
        if isinstance(part, NodeProto) and _trains(part, off):
            raise TaskError(f"{path} has a {part.op_type} in training mode: export it in evaluation mode.")
        if isinstance(part, NodeProto) and part.op_type in _DRAWS:
            raise TaskError(f"{path} uses {part.op_type}, which draws at random: export a model that does not.")
        if isinstance(part, TensorProto) and part.data_location == TensorProto.EXTERNAL:
            raise TaskError(f"{path} leaves weights in another file: save it with its weights inside.")


def _trains(node: Any, off: set[str]) -> bool:
    """Whether a node may drop at random or look at the batch: unless its switch is one of those that are `off`."""
    if node.op_type == "Dropout":
        return any(name not in off for name in node.input[2:3] if name)
    return node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute)


def _parts(message: Any) -> Iterator[Any]:
    """Everything in a file, also inside branches, loops and functions."""
    yield message
    for described, value in message.ListFields():
        if described.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _parts(part)
