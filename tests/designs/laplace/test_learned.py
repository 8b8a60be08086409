"""Learned designs: the guarantee is the Laplace mechanism's, the networks become exactly what was trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from torch import nn

import taskveil as tv
from hostile import hostile_records
from taskveil.client.latent_encoders import HiddenEncoder
from taskveil.client.regions import BoxRegion
from taskveil.designs.laplace import gradient
from taskveil.designs.laplace import learned as veils
from taskveil.designs.laplace.gradient import LearningSettings
from taskveil.designs.problem import Problem
from taskveil.errors import DataError, TaskError
from taskveil.peers.learned import design_baselines

RNG = np.random.default_rng(11)
X = RNG.normal(size=(160, 4)) * [1.0, 20.0, 0.05, 3.0] + [0.0, 100.0, 1.0, -7.0]
STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)
Y = np.tanh(STANDARD[:, 0] + 0.5 * STANDARD[:, 1]) + 0.05 * RNG.normal(size=160)
LABEL = (Y > 0.1).astype(int)
QUICK = LearningSettings(
    steps=120, folds=2, checkpoints=4, encoder_hidden=8, head_hidden=8, warm_up=40, inverse_steps=60
)


def model(outputs: int = 1, seed: int = 1) -> nn.Module:
    """A network that takes records in their own units."""
    torch.manual_seed(seed)
    first = nn.Linear(4, 16)
    with torch.no_grad():
        first.weight /= torch.tensor(X.std(axis=0)).float()
        first.bias -= first.weight @ torch.tensor(X.mean(axis=0)).float()
    return nn.Sequential(first, nn.ReLU(), nn.Linear(16, outputs))


@pytest.fixture(scope="module")
def task() -> tv.ModelTask:
    return tv.ModelTask(model())


@pytest.fixture(scope="module")
def veil(task: tv.ModelTask) -> tv.Veil:
    return tv.design(X, task, epsilon=4.0, method="task_aware")


def constant(task: tv.ModelTask, y: object = None) -> float:
    targets = task.truth(X, y)
    return float(((targets - targets.mean(axis=0)) ** 2).mean())


def test_a_model_design_is_worth_its_budget(veil: tv.Veil, task: tv.ModelTask) -> None:
    loss = veil.loss(X)
    assert not loss.exact
    assert loss.mean < 0.6 * constant(task)
    agnostic = tv.design(X, task, epsilon=4.0, method="task_agnostic").loss(X)
    assert loss.mean < agnostic.mean


def test_the_guarantee_is_enforced_for_every_input(veil: tv.Veil) -> None:
    assert 4.0 * (1 - 1e-9) < veil.guarantee.epsilon <= 4.0
    assert isinstance(veil.encoder, HiddenEncoder)
    region = veil.mechanism.region
    assert isinstance(region, BoxRegion)
    assert region.l1_diameter * region.step == pytest.approx(2.0, rel=1e-5)
    hostile = hostile_records(4)
    assert region.contains(region.enforce(veil.encoder(hostile))).all()
    assert np.isfinite(veil.privatize(hostile)).all()


def test_a_release_keeps_everything_but_the_model(veil: tv.Veil, task: tv.ModelTask, tmp_path: Path) -> None:
    veil.save(tmp_path / "r")
    again = tv.Veil.load(tmp_path / "r", task=task)
    reports = veil.privatize(X)
    assert np.array_equal(again.predict(reports), veil.predict(reports))
    assert np.array_equal(again.encode(X), veil.encode(X))
    with pytest.raises(TaskError, match="without its task"):
        tv.Veil.load(tmp_path / "r").predict(reports)


def test_the_veil_computes_what_was_trained(task: tv.ModelTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folding scales into integer weights and merging head and inverse into one network changes nothing."""
    seen = {}
    original = veils.invert

    def spy(answers: object, records: torch.Tensor, **options: object) -> object:
        seen["answers"], seen["inverse"] = answers, original(answers, records, **options)
        return seen["inverse"]

    monkeypatch.setattr(veils, "invert", spy)
    for method in ("task_aware", "privacy_agnostic", "task_agnostic"):
        problem = Problem.of(X, task, y=Y)
        design = veils.design_models if method == "task_aware" else partial(design_baselines, method=method)
        designed = design(problem, epsilons=[2.0, 9.0], seeds=[0, 5], settings=QUICK)
        assert list(designed) == [(2.0, 0), (2.0, 5), (9.0, 0), (9.0, 5)]
        answers, rows = seen["answers"], torch.arange(len(X))
        for place, made in enumerate(designed.values()):
            latents = answers.reports.latents(rows)[place, :, : made.encoder.latent_dim].detach().numpy()
            assert made.encode(X) == pytest.approx(latents, abs=2e-4)
            width = answers.reports.gain.shape[-1]
            reports = torch.zeros(len(answers.reports.replicas), len(X), width)
            drawn = made.privatize(X)
            reports[place, :, : drawn.shape[1]] = torch.tensor(made.mechanism.values(drawn))
            expected = seen["inverse"](answers.of(reports)[place])
            assert made.decode(drawn) == pytest.approx(expected.numpy(), rel=1e-3, abs=1e-3)
            noise = float(answers.reports.noise[place, 0, 0])
            assert made.mechanism.scale * made.mechanism.region.step == pytest.approx(noise, rel=1e-4)


@pytest.mark.usefixtures("quick")
def test_the_same_seed_gives_the_same_design(task: tv.ModelTask) -> None:
    def weights(seed: int) -> np.ndarray:
        made = veils.design_models(Problem.of(X, task, y=Y), epsilons=[3.0], seeds=[seed], settings=QUICK)
        return made[3.0, seed].decoder.layers[0].weights

    torch.manual_seed(99)
    first = weights(4)
    assert np.array_equal(first, weights(4))
    assert not np.array_equal(first, weights(5))


@pytest.mark.usefixtures("quick")
def test_learning_leaves_the_callers_generator_alone(task: tv.ModelTask) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    veils.design_models(Problem.of(X, task, y=Y), epsilons=[3.0], seeds=[0], settings=QUICK)
    assert torch.equal(torch.rand(3), expected)


def test_classifiers_with_named_classes() -> None:
    names = np.where(LABEL == 1, "ill", "healthy")
    task = tv.ModelTask(LogisticRegression(max_iter=5000).fit(X, names), loss="cross_entropy")
    veil = tv.design(X, task, epsilon=20.0, y=names, on_device=tv.OnDevice(latent_dim=1), method="task_aware")
    assert veil.encoder.latent_dim == 1
    share = LABEL.mean()
    nothing = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert veil.loss(X, names).mean < 0.7 * nothing


def test_tasks_that_share_a_report() -> None:
    parts = [(tv.ModelTask(model(2, 3), loss="cross_entropy"), 1.0), (tv.LinearTask(np.eye(4)[:1]), 0.2)]
    both = tv.MultiTask(parts)
    veil = tv.design(X, both, epsilon=30.0, y=[LABEL, None], method="task_aware")
    middle = np.broadcast_to(X.mean(axis=0), X.shape)
    assert veil.loss(X, [LABEL, None]).mean < both.losses(middle, X, [LABEL, None]).mean()
    stacked = tv.MultiTask([(tv.LinearTask(np.eye(4)), 1.0), (tv.LinearTask(np.eye(4)[:1]), 3.0)])
    veil = tv.design(X, stacked, epsilon=2.0, method="task_aware")
    alone = tv.design(X, stacked.stacked(), epsilon=2.0, method="task_aware")
    assert np.array_equal(veil.encode(X), alone.encode(X))
    assert veil.predict(veil.privatize(X)).shape == (160, 5)


def test_a_loss_of_your_own() -> None:
    task = tv.ModelTask(model(), loss=lambda out, y: (out[:, 0] - y).abs())
    veil = tv.design(X, task, epsilon=50.0, y=Y, method="task_aware")
    assert veil.loss(X, Y).mean < np.abs(Y - np.median(Y)).mean()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"torch_device": "cuda"}, "no CUDA device"),
        ({"torch_device": "abacus"}, "^torch_device must be"),
        ({"torch_device": "mps"}, "^torch_device must be"),
        ({"method": "matrix_factorization"}, "linear tasks"),
        ({"y": Y[:9]}, "9 labels for 160"),
        ({"on_device": tv.OnDevice(latent_dim=5)}, "latent_dim"),
        ({"method": "magic"}, "method must be one of"),
    ],
)
def test_what_cannot_be_learned_is_refused_at_once(
    options: dict, says: str, task: tv.ModelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(veils, "learn", lambda *_, **__: pytest.fail("training started"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TaskError, match=says):
        tv.design(X, task, epsilon=1.0, **options)


class Careless(nn.Module):
    """Fine on small inputs, NaN on some volunteers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(120.0 - x[:, 1:2])


def test_black_boxes_and_wrong_widths_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(veils, "learn", lambda *_, **__: pytest.fail("training started"))
    forest = tv.ModelTask(RandomForestRegressor(3, random_state=0).fit(X, Y))
    with pytest.raises(TaskError, match=r"gradients.*codebook"):
        tv.design(X, forest, epsilon=1.0, method="task_aware")
    with pytest.raises(TaskError, match="takes 4 attributes"):
        tv.design(X[:, :3], tv.ModelTask(model()), epsilon=1.0)
    with pytest.raises(TaskError, match="labels are missing"):
        tv.design(X, tv.ModelTask(model(), loss=lambda a, b: a[:, 0] - b), epsilon=1.0)
    with pytest.raises(TaskError, match="NaN or infinity"):
        tv.design(X, tv.ModelTask(Careless()), epsilon=1.0, y=Y, method="task_aware")
    monkeypatch.setattr(gradient, "module_device", lambda _: torch.device("cuda", 0))
    with pytest.raises(TaskError, match=r"the model is on cuda:0, the design on cpu"):
        tv.design(X, tv.ModelTask(model()), epsilon=1.0, method="task_aware")
    with pytest.raises(DataError, match="identical"):
        tv.design(np.ones((9, 4)), tv.ModelTask(model()), epsilon=1.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    monkeypatch.setattr(LearningSettings, "for_size", classmethod(lambda cls, records: QUICK))


@pytest.mark.usefixtures("quick")
def test_one_thread_and_the_callers_setting_afterwards() -> None:
    """Two threads gave no speed, and beside other work made learning at least eight times slower."""
    threads = set()

    def loss(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if outputs.requires_grad:
            threads.add(torch.get_num_threads())
        return (outputs[:, 0] - y) ** 2

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        tv.design(X, tv.ModelTask(model(), loss=loss), epsilon=3.0, y=Y, method="task_aware")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == {1}


def test_no_method_means_another(task: tv.ModelTask) -> None:
    with pytest.raises(TaskError, match="no learned baseline is named 'codebook'"):
        design_baselines(Problem.of(X, task), epsilons=[1.0], seeds=[0], method="codebook")


@pytest.mark.usefixtures("quick")
def test_constant_attributes_are_normal() -> None:
    records = np.column_stack([X[:, :3], np.full(160, 7.0)])
    veil = tv.design(records, tv.ModelTask(model()), epsilon=5.0, method="task_aware")
    assert np.isfinite(veil.loss(records).mean)
