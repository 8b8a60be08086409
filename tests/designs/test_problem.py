"""What designers are given is checked once, at the door."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import taskveil as tv
from taskveil.designs.domain import Domain
from taskveil.designs.problem import Problem
from taskveil.errors import DataError, DomainError, TaskError

X = np.random.default_rng(0).normal(size=(40, 3))
LINEAR = tv.LinearTask(np.diag([2.0, 1.0, 0.0]))
MODEL = tv.ModelTask(nn.Linear(3, 1))


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"X": X[:1]}, DataError, "5 volunteers"),
        ({"X": X[:, :2]}, TaskError, "takes 3 attributes"),
        ({"X": np.ones((9, 3))}, DataError, "identical"),
        ({"task": "sum"}, TaskError, "LinearTask"),
        ({"y": X[:9, 0]}, TaskError, "9 labels for 40"),
        ({"X": X[:4]}, DataError, "5 volunteers"),
        ({"domain": tv.Box([0, 0], [1, 1])}, DomainError, "2 attributes"),
        ({"domain": tv.Schema({"a": tv.Number(0, 1)})}, DomainError, "schema= takes"),
        ({"schema": tv.Box(0, 1)}, DomainError, "schema= takes"),
        ({"domain": tv.Box(100, 101)}, DataError, "inside the domain, .* identical"),
        ({"on_device": tv.OnDevice(latent_dim=4)}, TaskError, "between 1 and 3"),
    ],
)
def test_problems_that_make_no_sense(options: dict, error: type, says: str) -> None:
    MODEL.check_width(3)
    with pytest.raises(error, match=says):
        Problem.of(**{"X": X, "task": MODEL, **options})


def test_some_of_the_volunteers() -> None:
    """Labels follow their records; the domain stays where users may be."""
    y = X[:, 0] ** 2
    several = tv.MultiTask([(MODEL, 1.0), (LINEAR, 2.0)])
    rows = np.arange(40) % 3 == 0
    part = Problem.of(X, MODEL, y=y).some(rows)
    assert np.array_equal(part.X, X[rows])
    assert np.array_equal(part.y, y[rows])
    assert np.array_equal(part.domain.records, X)
    first, second = Problem.of(X, several, y=[y, None]).some(rows).y
    assert np.array_equal(first, y[rows])
    assert second is None


def test_only_linear_tasks_have_a_linear_theory() -> None:
    assert Problem.of(X, MODEL).linear is None
    linear = Problem.of(X, LINEAR, on_device=tv.OnDevice(latent_dim=1)).linear
    assert linear is not None
    assert linear.moments.relevant == 2
    assert linear.most == 1
    assert linear.moments is linear.moments  # computed once for all budgets


@pytest.mark.parametrize(
    "domain",
    [tv.Box([-2.0] * 3, [2.0] * 3), tv.Ball(2.0, dim=3), tv.Points(np.clip(X[:20], -1, 1))],
    ids=["box", "ball", "points"],
)
def test_volunteers_are_brought_inside_a_given_domain(domain: Domain) -> None:
    wild = X.copy()
    wild[3] = [1e9, -1e300, 7.0]
    problem = Problem.of(wild, MODEL, domain=domain)
    assert np.array_equal(problem.X, domain.project(wild))
    members = (domain.project(X) == X).all(axis=1)
    members[3] = False
    assert np.array_equal(problem.X[members], X[members])


def test_folds_may_hold_a_single_record() -> None:
    assert len(Problem.of(X[:5], LINEAR).some(np.arange(5) == 2).X) == 1


class Leaning:
    """People of whom those with a large first attribute are many."""

    def weights(self, records: np.ndarray) -> np.ndarray:
        odds = np.exp(1.5 * records[:, 0])
        return np.asarray(odds / odds.mean())


def test_volunteers_who_are_together_like_others() -> None:
    """Each comes as often as it counts, or once more."""
    problem, people = Problem.of(X=X, task=LINEAR), Leaning()
    alike = problem.like(people, seed=0)
    weights = people.weights(X)
    assert alike.drawn is not None
    assert len(alike.X) == len(X)
    np.testing.assert_array_equal(alike.X, problem.X[alike.drawn])
    assert (np.abs(np.bincount(alike.drawn, minlength=len(X)) - weights) < 1).all()


def test_a_design_for_other_people_still_knows_its_volunteers_as_they_came() -> None:
    """People of every round are compared with the same ones, and what they said before cancels in a difference."""
    first = tv.design(X, LINEAR, epsilon=1.0, method="codebook")
    second = tv.design(X, LINEAR, epsilon=1.0, method="codebook", like=Leaning())
    assert first.volunteers is not None
    assert second.volunteers is not None
    assert not np.array_equal(first.decoder.codewords, second.decoder.codewords)  # type: ignore[union-attr]
    one, other = first.volunteers.cells, second.volunteers.cells
    assert one.counts.sum() == other.counts.sum() == len(X)
    np.testing.assert_allclose(other.together(other.means), one.together(one.means))
