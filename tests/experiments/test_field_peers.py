"""The responses on our predictor: with the user's model in its place they are the simple methods themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from taskveil.arrays import Floats
from taskveil.designs.designing import design_many, designer_of
from taskveil.designs.problem import Problem
from taskveil.experiments import field_peers
from taskveil.experiments.field_data import Split, Table, load, split
from taskveil.experiments.field_models import MODELS
from taskveil.peers.own_model import held_out_answers
from taskveil.tasks import ModelTask

EPSILONS = (0.5, 4.0)


def problem_of(table: Table, model: str = "linear") -> tuple[Problem, Split]:
    """The volunteers of the first split with a model fitted to them, and the whole split."""
    records = split(table, 0)
    task = ModelTask(MODELS[model](records.X, records.y, table.loss, 0), table.loss)
    return Problem.of(records.X, task, y=records.y), records


@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")  # losses are only compared
@pytest.mark.parametrize(
    ("data", "peers"),
    [
        ("iris", {"label_response"}),
        ("breast_cancer", {"label_response", "binned_response"}),
        ("diabetes", {"binned_response"}),
    ],
)
def test_on_the_users_model_they_are_the_simple_methods(
    data: str, peers: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, records = problem_of(load(data))

    def users(problem: Problem, seed: int) -> tuple[Callable[[Floats], Floats], Floats]:
        low, high = problem.X.min(axis=0), problem.X.max(axis=0)
        return lambda X: problem.task.answers(np.clip(X, low, high)), held_out_answers(problem, seed)

    monkeypatch.setattr(field_peers, "our_predictor", users)
    found = {
        (name.removesuffix("_ours"), epsilon): (loss, accuracy)
        for name, epsilon, loss, accuracy in field_peers.measured(problem, EPSILONS, records.X_test, records.y_test)
    }
    assert {name for name, _ in found} == peers
    for name in peers:
        for epsilon, _, veil in design_many(designer_of(name), problem, epsilons=EPSILONS, seeds=[0]):
            simple = veil.loss(records.X_test, records.y_test)
            loss, accuracy = found[name, epsilon]
            assert loss == pytest.approx(simple.mean, rel=1e-6)
            assert accuracy == (None if simple.accuracy is None else pytest.approx(simple.accuracy))


def test_our_predictor_is_honest_about_the_volunteers() -> None:
    problem, records = problem_of(load("iris"))
    encoder, held_out = field_peers.our_predictor(problem, 0)
    assert held_out.shape == (90, 3)
    assert encoder(records.X_test).shape == (60, 3)
    assert np.mean(encoder(records.X_test).argmax(axis=1) == records.y_test) > 0.9
    # Predictions of the volunteers are not those of the encoder, which saw them.
    assert not np.allclose(held_out, encoder(records.X))
