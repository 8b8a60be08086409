"""ONNX files beyond our reader: black boxes that answer as the original model does, or a refusal that says why."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import skl2onnx.common._container as skl2onnx_nodes
import torch
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import taskveil as tv
from onnx_files import onnx_file
from taskveil.errors import TaskError

RNG = np.random.default_rng(11)
X = RNG.normal(size=(240, 4)).astype(np.float32).astype(np.float64)
NUMBERS = X @ [1.0, -2.0, 0.5, 0.0] + np.abs(X[:, 3])
CLASSES = np.array(["wet", "dry", "icy"])[np.digitize(NUMBERS, [-1.0, 1.0])]


@pytest.fixture
def flags_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """skl2onnx 1.20 writes the flags of histogram trees as truth values, which protobuf 7 no longer takes."""
    make_node = skl2onnx_nodes.make_node

    def with_numbers(*args: Any, **options: Any) -> Any:
        listed = {name: list(v) for name, v in options.items() if isinstance(v, list | np.ndarray)}
        plain = {name: [int(v) if isinstance(v, bool | np.bool_) else v for v in vs] for name, vs in listed.items()}
        return make_node(*args, **(options | plain))

    monkeypatch.setattr(skl2onnx_nodes, "make_node", with_numbers)


def export(path: Path, model: Any, *, zipmap: bool = True, kind: Any = FloatTensorType, width: int | None = 4) -> Path:
    options = None if zipmap else {id(model): {"zipmap": False}}
    path.write_bytes(to_onnx(model, initial_types=[("X", kind([None, width]))], options=options).SerializeToString())
    return path


@pytest.mark.usefixtures("flags_as_numbers")
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        RandomForestClassifier(20, random_state=0),
        GradientBoostingClassifier(n_estimators=5, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
        GaussianNB(),
        # They pick the label from a list; the inner models of the last have classes of their own, 0 and 1.
        MLPClassifier((4,), max_iter=5000, random_state=0),
        StackingClassifier([("a", LogisticRegression())], LogisticRegression()),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("names", [CLASSES, np.where(CLASSES == "wet", 7, -2)], ids=["text", "numbers"])
def test_classifiers_answer_as_scikit_learn_does(model: Any, names: np.ndarray, zipmap: bool, tmp_path: Path) -> None:
    model.fit(X, names)
    task = tv.ModelTask(export(tmp_path / "m.onnx", model, zipmap=zipmap), loss="cross_entropy")
    assert task.torch_module is None
    assert task.width == 4
    assert task.frozen.classes is not None
    assert task.frozen.classes.tolist() == model.classes_.tolist()
    assert task.answers(X) == pytest.approx(model.predict_proba(X), abs=1e-5)
    assert task.predict(X) == pytest.approx(np.log(np.maximum(task.answers(X), 1e-12)), abs=1e-5)
    assert task.labels(names, len(X)) == pytest.approx(np.searchsorted(model.classes_, names))


@pytest.mark.usefixtures("flags_as_numbers")
@pytest.mark.parametrize("kind", [FloatTensorType, DoubleTensorType])
@pytest.mark.parametrize("width", [4, None])
@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(n_estimators=5, random_state=0),
        HistGradientBoostingRegressor(max_iter=5),
        RandomForestRegressor(5, random_state=0),
        make_pipeline(StandardScaler(), LinearRegression()),
        LinearRegression(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_regressors_answer_one_number(model: Any, kind: Any, width: int | None, tmp_path: Path) -> None:
    model.fit(X, NUMBERS)
    task = tv.ModelTask(export(tmp_path / "m.onnx", model, kind=kind, width=width))
    assert task.predict(X).shape == (len(X), 1)
    assert task.predict(X)[:, 0] == pytest.approx(model.predict(X), abs=2e-5)


def test_linear_models_know_their_width_where_the_file_leaves_it_free(tmp_path: Path) -> None:
    """onnxruntime would answer three attributes with the weights of other ones."""
    logistic = LogisticRegression().fit(X, CLASSES)
    for model in (logistic, make_pipeline(StandardScaler(), LogisticRegression()).fit(X, CLASSES)):
        task = tv.ModelTask(export(tmp_path / "m.onnx", model, width=None), loss="cross_entropy")
        with pytest.raises(TaskError, match="takes 4 attributes"):
            task.predict(X[:, :3])


def test_what_our_reader_takes_exactly_keeps_its_gradients(tmp_path: Path) -> None:
    model = MLPRegressor(hidden_layer_sizes=(4,), max_iter=5000, random_state=0).fit(X, NUMBERS)
    task = tv.ModelTask(export(tmp_path / "m.onnx", model))
    assert task.torch_module is not None
    assert task.predict(X)[:, 0] == pytest.approx(model.predict(X), abs=1e-5)


# Graphs by hand.


def classifier(path: Path, classes: list[str], zipped: list[str] | None) -> tuple[Path, np.ndarray]:
    """A LinearClassifier with its weights (3, 4), its classes in the order given, perhaps behind a ZipMap."""
    weights = RNG.normal(size=(3, 4)).astype(np.float32)
    options = {"coefficients": weights.ravel(), "intercepts": [0.0] * 3, "post_transform": "SOFTMAX"}
    options |= {"classlabels_strings": classes, "domain": "ai.onnx.ml"}
    nodes = [helper.make_node("LinearClassifier", ["x"], ["label", "p"], **options)]
    out = helper.make_tensor_value_info("p", TensorProto.FLOAT, ["N", 3])
    if zipped is not None:
        nodes.append(helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_strings=zipped))
        rows = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        out = helper.make_value_info("z", helper.make_sequence_type_proto(rows))
    save(path, nodes, [helper.make_tensor_value_info("label", TensorProto.STRING, ["N"]), out])
    return path, weights


def save(path: Path, nodes: list, outputs: list, weights: dict[str, np.ndarray] | None = None) -> None:
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    given = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", [entry], outputs, given)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.mark.parametrize("zipped", [None, ["zebra", "ant", "mole"]])
def test_classes_are_taken_in_the_order_of_the_file(zipped: list[str] | None, tmp_path: Path) -> None:
    path, weights = classifier(tmp_path / "m.onnx", ["zebra", "ant", "mole"], zipped)
    task = tv.ModelTask(path, loss="cross_entropy")
    scores = X @ weights.T.astype(np.float64)
    assert task.frozen.classes is not None
    assert task.frozen.classes.tolist() == ["zebra", "ant", "mole"]
    assert task.answers(X) == pytest.approx(torch.tensor(scores).softmax(1).numpy(), abs=1e-5)
    assert task.labels(["mole", "zebra"], 2).tolist() == [2, 0]
    with pytest.raises(TaskError, match="none of the model's classes"):
        task.labels(["mole", "whale"], 2)


def test_classes_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    path, _ = classifier(tmp_path / "m.onnx", ["ant", "mole", "ant"], None)
    with pytest.raises(TaskError, match="to which class"):
        tv.ModelTask(path, loss="cross_entropy")


@pytest.mark.parametrize("batch", [1, 7])
def test_a_file_for_some_records_serves_any_number(batch: int, tmp_path: Path) -> None:
    nodes = [helper.make_node("Det", ["a"], ["d"]), helper.make_node("Reshape", ["d", "column"], ["y"])]
    nodes.insert(0, helper.make_node("Reshape", ["x", "square"], ["a"]))
    shapes = {"square": np.array([-1, 2, 2]), "column": np.array([-1, 1])}
    path = onnx_file(tmp_path / "m.onnx", nodes, shapes, [4], 1, batch=batch)
    task = tv.ModelTask(path)
    expected = np.linalg.det(X.reshape(-1, 2, 2))
    for count in (1, 6, 7, 8):
        assert task.predict(X[:count])[:, 0] == pytest.approx(expected[:count], abs=1e-5)


def test_a_softmax_at_the_end_becomes_logits(tmp_path: Path) -> None:
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    path = onnx_file(tmp_path / "m.onnx", nodes, {"axis": np.array(1)}, [4])
    expected = torch.tensor(X).cumsum(1).softmax(1).numpy()
    assert tv.ModelTask(path, loss="cross_entropy").answers(X) == pytest.approx(expected, abs=1e-6)
    assert tv.ModelTask(path).predict(X) == pytest.approx(expected, abs=1e-6)


# What is refused, and how.


def test_a_classifier_needs_a_loss_for_classifiers(tmp_path: Path) -> None:
    forest = RandomForestClassifier(3, random_state=0).fit(X, CLASSES)
    with pytest.raises(TaskError, match='is a classifier: use loss="cross_entropy" or "zero_one"'):
        tv.ModelTask(export(tmp_path / "m.onnx", forest), loss="mse")
    trees = RandomForestRegressor(3, random_state=0).fit(X, NUMBERS)
    with pytest.raises(TaskError, match="one logit per class"):
        tv.ModelTask(export(tmp_path / "m.onnx", trees), loss="cross_entropy")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (LinearSVC(), "do not add up to one"),
        (IsolationForest(n_estimators=3), "to which class"),
        (KMeans(3, n_init=1), "to which class"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scores_are_no_probabilities(model: Any, says: str, tmp_path: Path) -> None:
    model.fit(X, CLASSES)
    onnx_model = to_onnx(model, X[:1].astype(np.float32), target_opset={"": 17, "ai.onnx.ml": 3})
    (tmp_path / "m.onnx").write_bytes(onnx_model.SerializeToString())
    with pytest.raises(TaskError, match=says):
        tv.ModelTask(tmp_path / "m.onnx", loss="cross_entropy")


def random_numbers(path: Path) -> None:
    noise = helper.make_node("RandomNormalLike", ["x"], ["a"], scale=1e-9)
    save(path, [noise, helper.make_node("Add", ["x", "a"], ["y"])], [helper.make_tensor_value_info("y", 1, ["N", 4])])


def rare_dropout(path: Path) -> None:
    nodes = [helper.make_node("Dropout", ["x", "rate", "on"], ["a"]), helper.make_node("CumSum", ["a", "one"], ["y"])]
    given = {"rate": np.array(1e-6, dtype=np.float32), "on": np.array(True), "one": np.array(1)}
    save(path, nodes, [helper.make_tensor_value_info("y", 1, ["N", 4])], given)


def foreign_in_a_branch(path: Path) -> None:
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, ["N", 4])
    branch = helper.make_graph([helper.make_node("Gelu", ["x"], ["b"], domain="my.ops")], "b", [], [out])
    choice = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    save(path, [choice], [helper.make_tensor_value_info("y", 1, ["N", 4])], {"yes": np.array(True)})


def weights_elsewhere(path: Path, *, location: str) -> None:
    (path.parent / "secret").write_bytes(np.ones(4, dtype=np.float32).tobytes())
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node("CumSum", ["a", "one"], ["y"])]
    given = {"w": np.zeros(4, dtype=np.float32), "one": np.array(1)}
    save(path, nodes, [helper.make_tensor_value_info("y", 1, ["N", 4])], given)
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())


def mixed_records(path: Path) -> None:
    nodes = [helper.make_node("CumSum", ["x", "zero"], ["y"])]
    save(path, nodes, [helper.make_tensor_value_info("y", 1, ["N", 4])], {"zero": np.array(0)})


def three_outputs(path: Path) -> None:
    nodes = [helper.make_node("TopK", ["x", "two"], ["y", "i"]), helper.make_node("Relu", ["x"], ["z"])]
    outputs = [helper.make_tensor_value_info(*o, ["N", None]) for o in (("y", 1), ("i", 7), ("z", 1))]
    save(path, nodes, outputs, {"two": np.array([2])})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (random_numbers, "draws at random"),
        (rare_dropout, "training mode"),
        (foreign_in_a_branch, "Gelu of my.ops"),
        (lambda path: weights_elsewhere(path, location="../secret"), "no valid ONNX file"),
        (lambda path: weights_elsewhere(path, location=str(path.parent / "secret")), "no valid ONNX file"),
        (lambda path: weights_elsewhere(path, location="*/_ORT_MEM_ADDR_/*"), "no valid ONNX file"),
        (mixed_records, "mixes records"),
        (three_outputs, "one output, or a label and the probabilities"),
        (lambda path: path.write_bytes(b"\x08\x08broken"), "no valid ONNX file"),
    ],
)
def test_what_is_unsafe_or_unclear_is_refused(
    make: Callable[[Path], None], says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "secret").write_bytes(np.ones(4, dtype=np.float32).tobytes())
    make(tmp_path / "models" / "m.onnx")
    with pytest.raises(TaskError, match=says):
        tv.ModelTask(tmp_path / "models" / "m.onnx")
    assert capfd.readouterr() == ("", "")


def test_weights_beside_the_file_are_its_own(tmp_path: Path) -> None:
    """Read once: what becomes of the files later changes nothing."""
    weights_elsewhere(tmp_path / "m.onnx", location="secret")
    task = tv.ModelTask(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").unlink()
    (tmp_path / "secret").unlink()
    assert task.predict(X) == pytest.approx(X.cumsum(axis=1), abs=1e-5)
    assert copy.deepcopy(task).predict(X) == pytest.approx(task.predict(X))


def test_without_onnxruntime_the_refusal_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forest = export(tmp_path / "m.onnx", RandomForestRegressor(3, random_state=0).fit(X, NUMBERS))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(TaskError, match=r"TreeEnsembleRegressor.*pip install 'taskveil\[onnx\]'"):
        tv.ModelTask(forest)
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    with pytest.raises(TaskError, match="no valid ONNX file"):
        tv.ModelTask(tmp_path / "m.onnx")


def test_a_forest_as_a_file_designs_as_the_forest_does(tmp_path: Path) -> None:
    forest = RandomForestClassifier(10, max_depth=5, random_state=0).fit(X[:100], CLASSES[:100])
    box = tv.ModelTask(export(tmp_path / "m.onnx", forest), loss="cross_entropy")
    options = {"y": CLASSES[100:], "epsilon": 4.0, "method": "codebook"}
    options["on_device"] = tv.OnDevice(encoder="linear")
    veil = tv.design(X[100:], box, **options)
    same = tv.design(X[100:], tv.ModelTask(forest, loss="cross_entropy"), **options)
    assert veil.loss(X, CLASSES).mean == pytest.approx(same.loss(X, CLASSES).mean, rel=1e-3)
    assert veil.loss(X, CLASSES).mean < box.constant_loss(X[100:], CLASSES[100:], X, CLASSES)
    with pytest.raises(TaskError, match="gradients"):
        tv.design(X[100:], box, y=CLASSES[100:], epsilon=4.0, method="task_aware")
