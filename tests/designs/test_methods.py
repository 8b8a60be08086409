"""One table of methods, open to designers of one's own, who must keep what they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from torch import nn

import taskveil as tv
from designers import Noisy
from taskveil.designs.designing import DESIGNERS, OURS, design_many, designer_of
from taskveil.designs.problem import Problem
from taskveil.errors import BudgetError, TaskError
from taskveil.peers import PEERS

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 3))
LINEAR = tv.LinearTask(np.diag([2.0, 1.0, 0.5]))
MODEL = tv.ModelTask(nn.Linear(3, 1))


def test_every_name_has_its_designer_and_no_other() -> None:
    assert tuple(OURS) == ("auto", "codebook", "task_aware", "gaussian", "means", "constant")
    assert {*OURS, *PEERS} == set(DESIGNERS)
    assert len(OURS) + len(PEERS) == len(DESIGNERS)
    for name, designer in DESIGNERS.items():
        assert designer.name == name
        assert designer_of(name) is designer  # type: ignore[arg-type]
        assert designer_of(designer) is designer


@pytest.mark.parametrize("name", ["magic", "Auto", "", "task-aware"])
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    for call in (
        lambda: tv.design(X, LINEAR, epsilon=1.0, method=name),  # type: ignore[arg-type]
        lambda: tv.sweep(X, LINEAR, epsilons=[1.0], methods=[name]),  # type: ignore[list-item]
    ):
        with pytest.raises(TaskError) as refused:
            call()
        assert all(known in str(refused.value) for known in DESIGNERS)
        assert repr(name) in str(refused.value)


OWN_MODEL = {"label_response", "binned_response", "prediction_laplace"}
"""Methods that run the task's model on the device."""


MEANS = {"means", "duchi", "piecewise", "hybrid", "privunit", "laplace_split"}
"""Methods for means of a population."""


@pytest.mark.parametrize("name", [name for name in DESIGNERS if name not in OWN_MODEL | MEANS])
def test_every_method_designs_a_linear_task_within_its_budget(name: str) -> None:
    veils = list(design_many(DESIGNERS[name], Problem.of(X, LINEAR, delta=1e-6), epsilons=[0.5, 3.0], seeds=[0, 7]))
    assert {(epsilon, seed) for epsilon, seed, _ in veils} == {(0.5, 0), (0.5, 7), (3.0, 0), (3.0, 7)}
    assert all(veil.guarantee.epsilon <= epsilon for epsilon, _, veil in veils)
    assert all(veil.method == name or name == "auto" for _, _, veil in veils)


def test_who_serves_which_task() -> None:
    forest = tv.ModelTask(RandomForestRegressor(2, random_state=0).fit(X, X[:, 0]))
    own_loss = tv.ModelTask(nn.Linear(3, 1), loss=lambda out, y: (out[:, 0] - y) ** 2)
    several = tv.MultiTask([(MODEL, 1.0), (LINEAR, 1.0)])
    gradient = {"task_aware", "gaussian", "task_agnostic", "privacy_agnostic"}
    any_task, one_number = {"constant", "attribute_laplace"}, {"binned_response", "prediction_laplace"}
    for task, serving in (
        (LINEAR, set(DESIGNERS) - OWN_MODEL - MEANS),
        (tv.MeanTask(np.eye(3)), {"auto"} | MEANS),
        (MODEL, {"auto", "codebook", *any_task, *one_number, *gradient}),
        (forest, {"auto", "codebook", *any_task, *one_number}),
        (own_loss, {"auto", "codebook", *any_task, *gradient}),
        (several, {"auto", "codebook", *any_task, *gradient}),
        (tv.MultiTask([(forest, 1.0)]), {"auto", "codebook", *any_task}),
    ):
        assert {name for name, designer in DESIGNERS.items() if designer.why_not(task) is None} == serving


def test_a_designer_of_ones_own_is_a_method_like_any_other() -> None:
    own = Noisy(name="mine")
    veil = tv.design(X, LINEAR, epsilon=2.0, method=own, seed=5)
    assert veil.method == "mine"
    assert own.asked == [(2.0, 5)]
    theirs = tv.design(X, LINEAR, epsilon=2.0, method="task_agnostic")
    assert veil.loss(X) == theirs.loss(X)
    frontier = tv.sweep(X, LINEAR, epsilons=[1.0, 2.0], methods=["task_agnostic", own], test=X[:20])
    assert frontier.methods == ["task_agnostic", "mine"]
    assert [row["loss"] for row in frontier.rows()[:2]] == [row["loss"] for row in frontier.rows()[2:]]


def test_only_designers_that_depend_on_seeds_get_several() -> None:
    one, several = Noisy(name="one"), Noisy(name="several", several=True)
    tv.sweep(X, LINEAR, epsilons=[1.0], methods=[one, several], seeds=3)
    assert [seed for _, seed in one.asked] == [0]
    assert [seed for _, seed in several.asked] == [0, 1, 2]


def test_several_linear_tasks_arrive_as_one_and_leave_as_they_came() -> None:
    several = tv.MultiTask([(LINEAR, 1.0), (tv.LinearTask(np.eye(3)), 3.0)])
    veil = tv.design(X, several, epsilon=2.0, method=Noisy())
    assert veil.task is several
    assert veil.predict(veil.privatize(X)).shape == (90, 6)


def test_a_task_that_a_designer_does_not_serve() -> None:
    with pytest.raises(TaskError, match=r"^noise is for linear tasks\.$"):
        tv.design(X, MODEL, epsilon=1.0, y=X[:, 0], method=Noisy())


def test_a_linear_model_that_is_itself_the_truth_is_a_linear_task() -> None:
    """With squared error and without labels, nothing but lines is to be told."""
    lines = tv.LinearTask(MODEL.lines[0])
    veil = tv.design(X, MODEL, epsilon=3.0, method=Noisy())
    assert veil.task is MODEL
    simulated, exact = veil.loss(X).mean, tv.design(X, lines, epsilon=3.0, method=Noisy()).loss(X).mean
    assert simulated == pytest.approx(exact, rel=0.03)  # drawn reports: a standard deviation of 0.3%
    direct = tv.design(X, MODEL, epsilon=3.0, method="codebook")
    assert direct.losses(X).mean() < 0.7 * MODEL.constant_loss(X, None, X, None)
    light = tv.design(X, MODEL, epsilon=3.0, method="codebook", on_device=tv.OnDevice(encoder="trees"))
    assert type(light.encoder) is not type(direct.encoder)


@dataclass(frozen=True)
class Careless(Noisy):
    """Gives its veils back in ways that would make a comparison worthless."""

    fault: str = ""

    def designs(self, *asked: Any) -> Iterator[tuple[float, int, tv.Veil]]:
        for epsilon, seed, veil in super().designs(*asked):
            match self.fault:
                case "constant":
                    return
                case "twice":
                    yield epsilon, seed, veil
                    yield epsilon, seed, veil
                case "another seed":
                    yield epsilon, seed + 1, veil


@pytest.mark.parametrize("fault", ["nothing", "twice", "another seed"])
def test_designers_must_give_what_they_are_asked_for(fault: str) -> None:
    for call in (
        lambda own: tv.design(X, LINEAR, epsilon=1.0, method=own),
        lambda own: tv.sweep(X, LINEAR, epsilons=[1.0, 2.0], methods=[own]),
    ):
        with pytest.raises(TaskError, match="noisy made"):
            call(Careless(fault=fault))


def test_designers_must_keep_the_budget_they_are_given() -> None:
    assert tv.design(X, LINEAR, epsilon=1.0, method=Noisy(share=0.5)).guarantee.epsilon <= 0.5
    with pytest.raises(BudgetError, match="must keep the budget"):
        tv.design(X, LINEAR, epsilon=1.0, method=Noisy(share=1.01))


def test_what_is_no_designer() -> None:
    for method in (7, None, object(), Noisy, replace(Noisy(), name=3)):
        with pytest.raises(TaskError, match="method must be one of"):
            tv.design(X, LINEAR, epsilon=1.0, method=method)  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="'codebook' is the name of a method that exists"):
        tv.design(X, LINEAR, epsilon=1.0, method=Noisy(name="codebook"))
