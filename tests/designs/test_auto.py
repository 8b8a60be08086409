"""`auto`: the best of what fits, judged on volunteers that no candidate has seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

import taskveil as tv
from designers import Noisy
from taskveil.designs import Problem
from taskveil.designs.auto import FOLDS, MANY, Best, held_out_losses
from taskveil.designs.codebooks import predictor
from taskveil.designs.learned.gradient import Settings
from taskveil.designs.learned.inverse import fit_inverse
from taskveil.errors import TaskError

RNG = np.random.default_rng(11)
X = RNG.normal(size=(60, 4))
Y = np.tanh(X[:, 0] + 0.5 * X[:, 1])
LINEAR = tv.LinearTask(np.eye(4))


def test_auto_says_what_it_considered(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path) -> None:
    veil = tv.design(volunteers, task, epsilon=2.0)
    assert [c.method for c in veil.considered] == ["codebook", "task_aware"]
    assert veil.considered[0].held_out_loss <= veil.considered[1].held_out_loss
    assert veil.method == veil.considered[0].method
    veil.save(tmp_path / "r")
    assert tv.Veil.load(tmp_path / "r").considered == veil.considered


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    settings = Settings(steps=60, folds=2, checkpoints=4, encoder_hidden=8, head_hidden=8)
    monkeypatch.setattr(Settings, "for_size", classmethod(lambda cls, records: settings))
    monkeypatch.setitem(fit_inverse.__kwdefaults__, "steps", 60)
    monkeypatch.setitem(fit_inverse.__kwdefaults__, "warm_up", 40)
    monkeypatch.setattr(predictor, "STEPS", 100)


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))


@pytest.mark.usefixtures("quick")
def test_auto_chooses_among_what_fits() -> None:
    black_box = tv.ModelTask(RandomForestRegressor(5, random_state=0).fit(X, Y))
    alone = tv.design(X, black_box, epsilon=1.0, y=Y)
    assert (alone.method, alone.considered) == ("codebook", ())
    veil = tv.design(X, tv.ModelTask(model()), epsilon=1.0, y=Y)
    assert {entry.method for entry in veil.considered} == {"codebook", "task_aware"}
    assert veil.method == min(veil.considered, key=lambda entry: entry.held_out_loss).method
    own_loss = tv.ModelTask(model(), loss=lambda out, y: (out[:, 0] - y).abs())
    assert tv.design(X, own_loss, epsilon=1.0, y=Y).method == "task_aware"
    several = tv.MultiTask([(black_box, 1.0)])
    with pytest.raises(TaskError, match="several models"):
        tv.design(X, several, epsilon=3.0, method="codebook")
    with pytest.raises(TaskError, match=r"several models.*gradients"):
        tv.design(X, several, epsilon=3.0)


def test_the_best_is_chosen_for_each_budget_and_given_all_volunteers() -> None:
    full, half = Noisy(name="full"), Noisy(name="half", share=0.5)
    best = Best(name="best", candidates=(half, full))
    veil = tv.design(X, LINEAR, epsilon=8.0, method=best, seed=3)
    assert veil.method == "full"
    assert [entry.method for entry in veil.considered] == ["full", "half"]
    assert veil.loss(X) == tv.design(X, LINEAR, epsilon=8.0, method=Noisy()).loss(X)
    assert full.asked == [(8.0, 3)] * (FOLDS + 1)
    assert half.asked == [(8.0, 3)] * FOLDS


@pytest.mark.parametrize("count", [90, MANY])
def test_held_out_losses_are_those_of_records_never_seen(count: int) -> None:
    records = np.random.default_rng(0).normal(size=(count, 2))
    problem = Problem.of(records, tv.LinearTask(np.eye(2)))
    seen = held_out_losses([Noisy(), Noisy(name="half", share=0.5)], problem, [2.0], 9)
    fold = np.random.default_rng(9).permutation(count) % FOLDS
    losses = []
    for f in range(1 if count >= MANY else FOLDS):  # of thousands, one third says enough
        options = {"epsilon": 2.0, "domain": problem.domain, "method": "task_agnostic"}
        veil = tv.design(records[fold != f], problem.task, **options)
        losses.append((veil.loss(records[fold == f]).mean, (fold == f).sum()))
    expected = sum(loss * size for loss, size in losses) / sum(size for _, size in losses)
    assert {entry.method: entry.held_out_loss for entry in seen[2.0]}["noisy"] == pytest.approx(expected, rel=1e-12)
    assert seen[2.0][0].held_out_loss <= seen[2.0][1].held_out_loss


def test_whether_seeds_matter_is_what_the_candidates_say() -> None:
    assert not Best(name="b", candidates=(Noisy(), Noisy(name="n"))).seeded(LINEAR)
    assert Best(name="b", candidates=(Noisy(), Noisy(name="n", several=True))).seeded(LINEAR)


def test_judging_uses_one_thread_and_gives_the_callers_setting_back() -> None:
    threads = set()

    class Watching(Noisy):
        def designs(self, *asked: object) -> object:
            threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
            return super().designs(*asked)

    with threadpool_limits(2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        held_out_losses([Watching(), Noisy(name="half")], Problem.of(X, LINEAR), [1.0], 0)
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert threads == {1}
