"""The spy: a predictor that memorises the labels it was given must never win on random labels.

First by what users see: designs for labels that mean nothing, with models that know every label of the volunteers by
heart. Then part by part: labels of one fold are changed, and whatever judges that fold must stay the same bit for bit.
Each check is also shown something that peeks, and must object.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import taskveil as tv
from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import Encoder, NamedEncoder
from taskveil.designs import auto
from taskveil.designs.codebooks import model as codebooks
from taskveil.designs.codebooks.alternation import Code
from taskveil.designs.crossfit import Evidence, Fit, PredictorFamily, calibrate
from taskveil.designs.predictors import light
from taskveil.designs.predictors.light import Linear
from taskveil.designs.predictors.own import own_model
from taskveil.designs.predictors.trees import BoostedTrees
from taskveil.designs.problem import OnDevice, Problem
from taskveil.errors import TaskError

DRAWS = 12
MOST = 2
"""Draws in which noise may look like something: at the 5% level, more would happen once in fifty."""

SIZES = pytest.mark.parametrize(
    ("count", "most"), [pytest.param(5, 1, id="small"), pytest.param(DRAWS, MOST, id="full", marks=pytest.mark.slow)]
)
"""How many draws: a few at the same level (more than one of five would happen once in forty), or all."""


# What users see.


@dataclass(frozen=True)
class Seen:
    """In how many draws of random labels a report was sent, and the most that a design cost strangers, in constants."""

    chosen: int
    worst: float


def draws(
    estimator: Any, loss: str, *epsilons: float, people: Sequence[int] = range(60), count: int = DRAWS, **options: Any
) -> Seen:
    """Designs for labels that mean nothing, for volunteers some of whom may stand in the table several times."""
    chosen, worst = 0, 0.0
    for draw in range(count):
        rng = np.random.default_rng(draw)
        records, strangers = rng.normal(size=(60, 4)), rng.normal(size=(1000, 4))
        labels, theirs = (
            rng.normal(size=size) if loss == "mse" else rng.integers(2, size=size)  # type: ignore[attr-defined]
            for size in (60, 1000)
        )
        X, y = records[list(people)], labels[list(people)]
        task = tv.ModelTask(estimator.fit(X, y), loss)  # type: ignore[arg-type]
        constant = task.constant_loss(X, y, strangers, theirs)
        for epsilon in epsilons:
            veil = tv.design(X, task, epsilon=epsilon, y=y, seed=draw, **options)
            chosen += veil.method != "constant"
            worst = max(worst, float(veil.losses(strangers, theirs).mean()) / constant)
    return Seen(chosen, worst)


@pytest.mark.filterwarnings("ignore::taskveil.errors.NothingToReportWarning")
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(
    ("estimator", "loss", "encoder"),
    [
        (LogisticRegression(), "cross_entropy", "linear"),
        (LinearRegression(), "mse", "linear"),
        (DecisionTreeClassifier(random_state=0), "cross_entropy", "own"),
        (DecisionTreeClassifier(random_state=0), "zero_one", "own"),
        (KNeighborsClassifier(1), "cross_entropy", "own"),
        (DecisionTreeRegressor(random_state=0), "mse", "own"),
        (KNeighborsRegressor(1), "mse", "own"),
    ],
    ids=["logistic", "ridge", "tree", "tree's labels", "neighbour", "tree of values", "neighbour's value"],
)
@SIZES
def test_models_that_know_the_labels_do_not_win(
    estimator: Any, loss: str, encoder: str, epsilon: float, count: int, most: int
) -> None:
    allowed = OnDevice(encoder=encoder, share_model=encoder == "own")
    seen = draws(estimator, loss, epsilon, count=count, on_device=allowed)
    assert seen.chosen <= most
    assert seen.worst <= 1.05


@pytest.mark.filterwarnings("ignore::taskveil.errors.NothingToReportWarning")
@pytest.mark.parametrize(
    ("estimator", "loss", "epsilon"),
    [
        (DecisionTreeClassifier(random_state=0), "cross_entropy", 1.0),
        (DecisionTreeRegressor(random_state=0), "mse", 4.0),
    ],
    ids=["classes", "values"],
)
@SIZES
def test_many_candidates_do_not_win_either(estimator: Any, loss: str, epsilon: float, count: int, most: int) -> None:
    seen = draws(estimator, loss, epsilon, count=count, on_device=OnDevice(share_model=True))
    assert seen.chosen <= most
    assert seen.worst <= 1.05


# A family that memorises.


@dataclass(frozen=True, eq=False)
class Memory:
    """The truth of every record it was fitted to, with full confidence; of others the mean, or a wild guess."""

    known: dict[bytes, Floats]
    mean: Floats
    logits: bool
    guesses: bool

    def __call__(self, X: Floats) -> Floats:
        return np.stack([self._said(row.tobytes()) for row in X])

    def outputs(self, X: Floats) -> Floats:
        return self(X)[None]

    def _said(self, record: bytes) -> Floats:
        said = self.known.get(record)
        if said is None:
            values = list(self.known.values())
            said = values[zlib.crc32(record) % len(values)] if self.guesses else self.mean
        return np.log(np.maximum(said, 1e-4)) if self.logits else said


@dataclass(frozen=True, kw_only=True)
class Memorising:
    """The family of such models; one that `peeks` is fitted to everybody, whatever the rows."""

    averaged: bool
    guesses: bool = False
    as_it_is: bool = False
    peeks: bool = False
    name: str = "memorising"
    logits: bool = True

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> list[Memory]:
        every = np.arange(len(evidence))
        return [self._memory(evidence, every if self.peeks else own) for own in rows]

    def _memory(self, evidence: Evidence, rows: Integers) -> Memory:
        known = {evidence.X[row].tobytes(): evidence.truth[row] for row in rows}
        return Memory(known, evidence.truth[rows].mean(axis=0), bool(evidence.cost.logits), self.guesses)

    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:
        def predicted(X: Floats) -> Floats:
            outputs = slope * np.mean([fit.outputs(X)[setting] for fit in fits], axis=0) + shift
            return evidence.cost.answers(outputs)

        outputs = evidence.truth.shape[1]
        return NamedEncoder.of(predicted, name="memory", low=evidence.low, high=evidence.high, latents=outputs)


SPIES = [
    Memorising(averaged=True),
    Memorising(averaged=True, guesses=True),
    Memorising(averaged=False),
    Memorising(averaged=False, guesses=True, as_it_is=True),
]


def only(monkeypatch: pytest.MonkeyPatch, *competing: PredictorFamily) -> None:
    """Of all predictors these alone compete."""
    monkeypatch.setattr(codebooks, "families", lambda *_: list(competing))


@pytest.mark.filterwarnings("ignore::taskveil.errors.NothingToReportWarning")
@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("spy", SPIES, ids=["averaged", "averaged guesses", "one", "one as it is"])
@SIZES
def test_a_predictor_that_memorises_does_not_win(
    spy: Memorising, loss: str, count: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, spy)
    model = LinearRegression() if loss == "mse" else LogisticRegression()
    for epsilon in (1.0, 4.0):
        seen = draws(model, loss, epsilon, count=count, on_device=OnDevice(encoder="linear"))
        assert seen.chosen <= most
        assert seen.worst <= 1.05


@pytest.mark.filterwarnings("ignore::taskveil.errors.NothingToReportWarning")
@pytest.mark.parametrize("spy", SPIES[:3:2], ids=["averaged", "one"])
def test_nor_does_it_win_by_copies_of_a_record(spy: Memorising, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thirty people who each stand in the table twice, a model without the one would know the other."""
    only(monkeypatch, spy)
    seen = draws(
        LogisticRegression(),
        "cross_entropy",
        4.0,
        people=[*range(30), *range(30)],
        on_device=OnDevice(encoder="linear"),
    )
    assert seen.chosen <= MOST
    apart = draws_with_copies_apart(monkeypatch)
    assert apart.chosen >= 10


def draws_with_copies_apart(monkeypatch: pytest.MonkeyPatch) -> Seen:
    monkeypatch.setattr(auto, "people", lambda X: np.arange(len(X)))
    return draws(
        LogisticRegression(),
        "cross_entropy",
        4.0,
        people=[*range(30), *range(30)],
        on_device=OnDevice(encoder="linear"),
    )


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("spy", SPIES[:3:2], ids=["averaged", "one"])
def test_one_that_peeks_would_win(spy: Memorising, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the tests above can fail."""
    only(monkeypatch, replace(spy, peeks=True))
    model = LinearRegression() if loss == "mse" else LogisticRegression()
    assert draws(model, loss, 4.0, count=3, on_device=OnDevice(encoder="linear")).chosen == 3


# Part by part.


@dataclass(frozen=True, eq=False)
class Peeking:
    """Any family, but its models are fitted to everybody."""

    family: PredictorFamily
    name: str = "peeking"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.family, name)

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        return self.family.fit(evidence, [np.arange(len(evidence))] * len(rows))


Families = Callable[[tv.ModelTask, Any, Evidence], list[PredictorFamily]]

FAMILIES: dict[str, Families] = {
    "linear": lambda *_: [Linear()],
    "light": lambda *_: [light.Light()],
    "trees": lambda *_: [BoostedTrees()],
    "own": lambda task, y, evidence: [own_model(task, y, evidence, unseen=False)],
    "together": lambda *_: [Linear(), light.Light(), BoostedTrees()],
}
LOSSES = pytest.mark.parametrize("loss", ["cross_entropy", "mse", "zero_one"])


@dataclass
class Trial:
    """Volunteers whose labels are learnable, and everything that judges one fold of them."""

    monkeypatch: pytest.MonkeyPatch
    loss: str
    make: Families
    peeking: bool = False
    answers: str = "direct"
    fixed: bool = False
    """Whether the task's model stays the same, whatever the labels."""
    X: Floats = field(default_factory=lambda: np.random.default_rng(2).normal(size=(50, 3)))

    @property
    def labels(self) -> Floats:
        values = self.X @ [1.0, -0.5, 0.0] + 0.3 * np.random.default_rng(3).normal(size=len(self.X))
        return values if self.loss == "mse" else (values > 0).astype(int)

    def judging(self, y: Any, part: int) -> list[list[Any]]:
        """Of each predictor, all that the losses of this fold come from besides its labels."""
        estimator: Any = DecisionTreeRegressor(random_state=0)
        if self.loss != "mse":
            estimator = DecisionTreeClassifier(random_state=0)
        model = estimator.fit(self.X, self.labels if self.fixed else y)
        task = tv.ModelTask(model, self.loss, self.answers)  # type: ignore[arg-type]
        problem = Problem.of(self.X, task, y=y, on_device=OnDevice(encoder="own", share_model=True))
        fold, _ = auto.folds(problem, 0)
        cost, truth = task.linear_form(problem.X, problem.y)
        evidence = codebooks.evidence_of(problem, cost, truth, fold, 0)
        competing = self.make(task, y, evidence)
        only(self.monkeypatch, *([Peeking(each) for each in competing] if self.peeking else competing))
        found = []
        for predictor in codebooks.predictors(problem, evidence, compared=True):
            calibrated = predictor.judging[part]
            code, records = self._code(problem, predictor, cost, truth, fold, part)
            held = replace(calibrated, predicted=calibrated.predicted[fold == part])
            favoured = code.favoured(codebooks.Sample(predicted=held.predicted, truth=held.predicted, cost=cost))
            found.append([
                calibrated.setting, calibrated.slope, calibrated.shift, calibrated.predicted,
                code.response.size, code.response.favoured, code.aims, code.answers, favoured, *records,
            ])  # fmt: skip
        return found

    def _code(
        self, problem: Problem, predictor: codebooks.Predictor, cost: Any, truth: Floats, fold: Integers, part: int
    ) -> tuple[Code, list[Floats]]:
        """What `_judged` makes: its code, and the records that its reports are answered with."""
        codes: list[Code] = []
        records: list[Floats] = []
        real_code, real_records = codebooks.final_code, codebooks.answered_with
        with self.monkeypatch.context() as watched:
            watched.setattr(codebooks, "final_code", lambda *a, **k: codes.append(real_code(*a, **k)) or codes[-1])
            watched.setattr(
                codebooks, "answered_with", lambda *a, **b: records.append(real_records(*a, **b)) or records[-1]
            )
            codebooks._Design(problem, predictor, cost, truth, fold, 0)._judged(2.0, part)
        (code,) = codes
        assert len(records) == (self.answers == "record")
        return code, records

    def check(self, part: int) -> None:
        """AssertionError unless the labels of a fold leave whatever judges it alone, bit for bit."""
        y = self.labels
        fold, _ = auto.folds(Problem.of(self.X, tv.LinearTask(np.eye(3))), 0)
        changed = y.copy()
        changed[fold == part] = -y[fold == part] if self.loss == "mse" else 1 - y[fold == part]
        one, other = self.judging(y, part), self.judging(changed, part)
        assert len(one) == len(other) > 0
        for mine, theirs in zip(one, other, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that learn little: it matters from whom, not how well."""
    monkeypatch.setattr(light, "LOOKS", (30, 50))


@LOSSES
@pytest.mark.parametrize("kind", FAMILIES)
def test_labels_of_a_fold_leave_whatever_judges_it_alone(kind: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(monkeypatch, loss, FAMILIES[kind])
    for part in (0, 3):
        trial.check(part)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_that_peeks_is_found(kind: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="not equal"):
        Trial(monkeypatch, loss, FAMILIES[kind], peeking=True).check(0)


@LOSSES
def test_records_that_answer_are_made_without_the_judged(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Trial(monkeypatch, loss, FAMILIES["linear"], answers="record", fixed=True).check(1)


@LOSSES
def test_calibration_that_peeks_is_found(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(view: Any, evidence: Evidence) -> Any:
        return calibrate(replace(view, judged=np.zeros_like(view.judged)), evidence)

    monkeypatch.setattr(codebooks, "calibrate", careless)
    with pytest.raises(AssertionError, match="not equal"):
        Trial(monkeypatch, loss, FAMILIES["linear"]).check(0)


@LOSSES
def test_codes_that_peek_are_found(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = codebooks._Design._sample
    monkeypatch.setattr(codebooks._Design, "_sample", lambda self, calibrated, _: real(self, calibrated, slice(None)))
    with pytest.raises(AssertionError, match="not equal"):
        Trial(monkeypatch, loss, FAMILIES["linear"]).check(0)


def test_a_mean_of_predictors_that_peeks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which predictors a mean has may not be chosen by those whom it judges."""
    real = codebooks.together

    def careless(found: Any, evidence: Evidence) -> Any:
        return real(found, replace(evidence, fold=np.full(len(evidence), -1)))

    monkeypatch.setattr(codebooks, "together", careless)
    with pytest.raises(AssertionError, match="not equal"):
        Trial(monkeypatch, "cross_entropy", FAMILIES["together"]).check(0)


@pytest.mark.parametrize("frozen", ["bare", "calibrated", "in a pipeline"])
def test_a_copy_that_keeps_what_it_learnt_is_refused(frozen: str) -> None:
    """scikit-learn's `clone` keeps what a FrozenEstimator holds: "without the fold" would still know every label."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(2, size=60)
    tree = FrozenEstimator(DecisionTreeClassifier().fit(X, y))
    model = {
        "bare": tree,
        "calibrated": CalibratedClassifierCV(tree),
        "in a pipeline": make_pipeline(StandardScaler(), tree),
    }[frozen].fit(X, y)
    task = tv.ModelTask(model, "cross_entropy")
    with pytest.raises(TaskError, match=r"a copy of the .* keeps a fitted"):
        tv.design(X, task, y=y, epsilon=4.0, on_device=tv.OnDevice(share_model=True, encoder="own"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        veil = tv.design(X, task, y=y, epsilon=4.0, on_device=tv.OnDevice(share_model=True))
    assert "own" not in {found.encoder for found in veil.considered}
