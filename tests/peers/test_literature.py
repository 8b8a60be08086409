"""The literature's ways as formulas, on any domain and in sweeps; tests/statistical compares them with draws."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from taskveil.designs.problem import Problem
from taskveil.errors import TaskError
from taskveil.peers.literature import LITERATURE, Literature, PrivUnit, Scaled, importance
from taskveil.sweeps.frontier import Frontier

RNG = np.random.default_rng(12)
X = RNG.beta(2, 5, size=(80, 3)) * [1.0, 10.0, 2.0]
BOX = tv.Box([0, 0, -1], [1, 10, 2])
TASK = tv.MeanTask(np.diag([1.0, 0.1, 0.5]))
BY_NAME = {way.name: way for way in LITERATURE}


def losses(way: Literature, epsilon: float, records: np.ndarray = X, task: tv.MeanTask = TASK) -> np.ndarray:
    return way.expected_losses(Problem.of(X, task, domain=BOX), epsilon, records)


def test_in_one_dimension_they_are_what_their_papers_say() -> None:
    box, alone = tv.Box([-1.0], [1.0]), tv.MeanTask([[1.0]])
    x = np.linspace(-1, 1, 11)[:, None]
    problem = Problem.of(x, alone, domain=box)
    epsilon = 1.3
    e, root = math.exp(epsilon), math.exp(epsilon / 2)
    duchi = ((e + 1) / (e - 1)) ** 2 - x[:, 0] ** 2
    piecewise = x[:, 0] ** 2 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
    hybrid = (1 - 1 / root) * piecewise + duchi / root
    told = {
        "duchi": duchi,
        "piecewise": piecewise,
        "hybrid": hybrid,
        "privunit": duchi,
        "laplace_split": 8 / epsilon**2,
    }
    for name, expected in told.items():
        assert BY_NAME[name].expected_losses(problem, epsilon, x) == pytest.approx(expected), name


@pytest.mark.parametrize("way", LITERATURE, ids=lambda way: way.name)
def test_units_do_not_matter_and_more_budget_helps(way: Literature) -> None:
    scale = np.array([1e6, 1.0, 1e-3])
    problem = Problem.of(X * scale, tv.MeanTask(TASK.K / scale), domain=tv.Box(BOX.low * scale, BOX.high * scale))
    assert way.expected_losses(problem, 1.0, X * scale) == pytest.approx(losses(way, 1.0))
    means = [losses(way, epsilon).mean() for epsilon in (0.5, 1.0, 2.0, 6.0)]
    assert means == sorted(means, reverse=True)


def test_who_is_outside_is_brought_inside_and_that_costs_too() -> None:
    outside = X + np.array([0.0, 20.0, 0.0])
    inside = BOX.project(outside)
    for way in LITERATURE:
        expected = losses(way, 2.0, inside) + TASK.losses(inside, outside)
        assert losses(way, 2.0, outside) == pytest.approx(expected)


def test_only_what_counts_is_asked() -> None:
    one = tv.MeanTask(np.diag([0.0, 0.1, 0.0]))
    alone = Problem.of(X[:, 1:2], tv.MeanTask([[0.1]]), domain=tv.Box([0.0], [10.0]))
    for way in LITERATURE:
        assert losses(way, 2.0, task=one) == pytest.approx(way.expected_losses(alone, 2.0, X[:, 1:2]))


def test_the_ball_around_the_domain_is_as_small_as_it_can_be() -> None:
    assert Scaled.of(X, TASK.K, BOX).radius == pytest.approx(math.sqrt(3))
    assert Scaled.of(X, TASK.K, tv.Ball(3.0, dim=3)).radius == 1.0
    assert Scaled.of(X, TASK.K, tv.Points(X)).radius <= math.sqrt(3)


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 0.5), (3, 2.0), (8, 4.0), (30, 8.0), (10_000, 2.0)])
def test_privunit_has_its_best_threshold_and_the_moments_of_its_density(dim: int, epsilon: float) -> None:
    """By numerical integration over z·u, and by trying all thresholds."""
    t = (np.arange(200_000) + 0.5) / 100_000 - 1
    density = (1 - t**2) ** ((dim - 3) / 2)

    def moments(threshold: float) -> tuple[float, float]:
        chances = density * np.where(t >= threshold, math.exp(epsilon), 1.0)
        return float((chances * t).sum() / chances.sum()), float((chances * t**2).sum() / chances.sum())

    best = PrivUnit.of(dim, epsilon)
    assert (best.mean, best.square) == pytest.approx(moments(best.threshold), rel=3e-3)
    assert best.mean >= max(
        moments(threshold)[0] for threshold in np.linspace(0, min(0.99, 8 / math.sqrt(dim)), 100)
    ) * (1 - 3e-3)


def test_a_sweep_compares_them_with_the_design(tmp_path: Path) -> None:
    kept = tmp_path / "sweep.json"
    frontier = tv.sweep(X, TASK, epsilons=[1.0, 6.0], test=X[:30], domain=BOX, resume=kept)
    assert frontier.methods == ["means", *BY_NAME]
    for name, way in BY_NAME.items():
        assert frontier.loss(name, 6.0) == pytest.approx(losses(way, 6.0, X[:30]).mean())
        assert frontier.loss("means", 6.0) < frontier.loss(name, 6.0)
    assert "divided by the number of people" in frontier.table()
    assert tv.sweep(X, TASK, epsilons=[1.0, 6.0], test=X[:30], domain=BOX, resume=kept) == frontier
    assert Frontier.from_json(frontier.to_json(tmp_path / "frontier.json")) == frontier
    assert frontier.plot(tmp_path / "means.svg").stat().st_size > 0
    assert "privunit" in frontier.to_html(tmp_path / "means.html").read_text(encoding="utf-8")
    assert not math.isfinite(frontier.epsilon_for(0.9))


def test_no_veil_is_made_of_a_formula() -> None:
    with pytest.raises(TaskError, match=r"privunit is here to be compared with.*tv\.sweep"):
        tv.design(X, TASK, epsilon=1.0, method="privunit")
    with pytest.raises(TaskError, match="for a MeanTask"):
        tv.sweep(X, tv.LinearTask(np.eye(3)), epsilons=[1.0], methods=["codebook", "duchi"])


def test_importance_sampling_is_no_worse_than_even_sampling() -> None:
    """With equal weights and columns that are alike it is the same; halving weights make it better."""
    z = np.random.default_rng(4).uniform(-1, 1, size=(400, 6))
    even = Scaled(z=z, gram=np.eye(6), radius=math.sqrt(6))
    halving = Scaled(z=z, gram=np.diag(0.5 ** np.arange(6)), radius=math.sqrt(6))
    one = BY_NAME["hybrid"].formula
    assert 0.95 * one(even, 1.0).mean() < importance(even, 1.0)[1] < one(even, 1.0).mean()
    assert importance(halving, 1.0)[1] < 0.8 * one(halving, 1.0).mean()
    with pytest.raises(TaskError, match="one by one"):
        importance(Scaled(z=z, gram=np.ones((6, 6)), radius=1.0), 1.0)


def test_importance_sampling_has_the_loss_of_drawn_reports() -> None:
    """Duchi's mechanism for one attribute, drawn: the formula's chances, the reports divided by them."""
    rng, epsilon, weights = np.random.default_rng(5), 0.5, np.array([1.0, 0.25, 0.04])
    z = rng.uniform(-1, 1, size=(200, 3))
    name, loss = importance(Scaled(z=z, gram=np.diag(weights), radius=1.0), epsilon)
    assert name in ("duchi", "hybrid")  # below .61 the hybrid mechanism is Duchi's
    reach = 1 / math.tanh(epsilon / 2)
    chances = np.sqrt(weights) / np.sqrt(weights).sum()
    who = np.repeat(z, 1_000, axis=0)
    place = rng.choice(3, len(who), p=chances)
    own = who[np.arange(len(who)), place]
    sent = np.where(rng.random(len(who)) < 0.5 + own / reach / 2, reach, -reach)
    found = np.zeros_like(who)
    found[np.arange(len(who)), place] = sent / chances[place]
    assert loss == pytest.approx((((found - who) ** 2) @ weights).mean(), rel=0.02)
    assert found.mean(axis=0) == pytest.approx(z.mean(axis=0), abs=0.1)
