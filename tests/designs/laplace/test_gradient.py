"""Stage 1: heads and encoders of all replicas, judged on records they did not learn from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import taskveil as tv
from taskveil.designs.laplace import gradient
from taskveil.designs.laplace.gradient import (
    LearnedAnswers,
    LearningSettings,
    LightEncoder,
    Objective,
    Reports,
    _batches,
    invert,
    learn,
)
from taskveil.designs.laplace.replicas import Grid, Records
from taskveil.peers.learned import _Fixed, _Unclipped
from taskveil.progress import SILENT

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 3))
Y = X[:, :1] + 0.1 * RNG.normal(size=(120, 1))
SETTINGS = LearningSettings(steps=60, folds=2, checkpoints=6, encoder_hidden=8, head_hidden=8)
GRID = Grid(cells=((0.5, 0), (30.0, 0)), latent_dims=(1, 3), folds=2)


@pytest.fixture(scope="module")
def objective() -> Objective:
    torch.manual_seed(0)
    return Objective.of(tv.ModelTask(nn.Linear(3, 1)), X, Y, "cpu")


def reports(grid: Grid = GRID, fixed: np.ndarray | None = None, width: int = 3) -> Reports:
    replicas = grid.replicas("cpu")
    parts = {
        "u": Records.of(X, "cpu"),
        "replicas": replicas,
        "noise": (2 / replicas.epsilon)[:, None, None],
        "gain": torch.ones(len(replicas), 1, width),
    }
    if fixed is None:
        return Reports(**parts, encoder=LightEncoder(3, replicas, 8))
    return _Fixed(**parts, encoder=None, fixed=Records.of(fixed, "cpu"))


def learned(objective: Objective, source: Reports, grid: Grid = GRID, **options: Any) -> LearnedAnswers:
    return learn(source, objective, grid, SETTINGS, **{"seed": 0, "progress": SILENT, "title": "", **options})


def test_latents_share_one_budget_and_padding_is_never_seen() -> None:
    source = reports()
    latents = source.latents(torch.arange(120)).detach()
    assert latents.shape == (12, 120, 3)
    assert (latents.abs().sum(-1) <= 1 + 1e-6).all()  # Δ₁ ≤ 2 whatever the encoder computes
    assert torch.equal(latents[GRID.replicas("cpu").latent_dim == 1][..., 1:], torch.zeros(6, 120, 2))
    loose = _Unclipped(**vars(source)).latents(torch.arange(120)).detach()
    assert loose.abs().max() > latents.abs().max()


def test_noise_is_drawn_anew_for_every_replica_and_draw() -> None:
    source, rows = reports(), torch.tensor([3, 1])
    drawn = source.draw(rows, torch.Generator().manual_seed(0), draws=4000).detach()
    noise = drawn.view(12, 4000, 2, 3) - source.latents(rows).detach()[:, None]
    assert noise.std((1, 2, 3)).numpy() == pytest.approx(np.sqrt(2) * source.noise.flatten().numpy(), rel=0.05)


def test_more_budget_learns_more_and_every_cell_keeps_one_replica(objective: Objective) -> None:
    answers = learned(objective, reports())
    assert answers.reports.replicas.epsilon.tolist() == [0.5, 30.0]
    rows = torch.arange(120)
    drawn = answers.reports.draw(rows, torch.Generator().manual_seed(1), draws=50)
    tight, loose = objective.costs(answers.of(drawn), rows.repeat(50)).mean(1).tolist()
    assert loose < 0.5 < 0.8 < tight < 1.2  # in shares of what the best constant costs
    assert not any(parameter.requires_grad for parameter in answers.head.parameters())


def test_the_best_dimension_at_its_best_step_is_kept(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a made-up curve of held-out losses, what is kept can be foretold, to the weight."""
    seen: list[list[torch.Tensor]] = []
    original = gradient.snapshot

    def spy(module: nn.Module, rows: torch.Tensor) -> list[torch.Tensor]:
        seen.append(original(module, rows))
        return seen[-1]

    curve = torch.full((6, *GRID.shape), 9.0)
    curve[4, 0, 1, :-1] = 1.0  # the first cell: its second dimension at the fifth checkpoint
    curve[2, 1, 0, :-1] = 1.0  # the second cell: its first dimension at the third
    curve[..., -1] = -99.0  # who learned from everything is never judged
    values = iter(curve.flatten(1))
    monkeypatch.setattr(gradient, "snapshot", spy)
    monkeypatch.setattr(gradient, "_held_out", lambda *_: next(values))
    answers = learned(objective, reports())
    assert answers.reports.replicas.latent_dim.tolist() == [3, 1]
    modules = [*answers.reports.encoder.parameters(), *answers.head.parameters()]
    for place, parameter in enumerate(modules):
        assert torch.equal(parameter[0], seen[4][place][1])
        assert torch.equal(parameter[1], seen[2][place][2])


def test_replicas_do_not_learn_from_their_held_out_records(objective: Objective) -> None:
    """Labels that only held-out records have cannot change a replica."""
    held = GRID.held_out(120, torch.device("cpu"))
    hidden = held[0]  # the first fold's records; one seed splits alike in all cells
    spoilt = np.where(hidden[:, None].numpy(), 50.0, Y)
    torch.manual_seed(0)
    other = Objective.of(tv.ModelTask(nn.Linear(3, 1)), X, spoilt, "cpu")
    other = replace(other, centre=objective.centre, spread=objective.spread, scale=objective.scale)
    weights = []
    for one in (objective, other):
        source = reports()
        head = gradient.Networks([3, 8, 1], source.replicas.seed, activation=torch.tanh, salt=3)
        training = LearnedAnswers(reports=source, head=head, objective=one)
        for _ in gradient._steps(training, nn.ModuleList([source.encoder, head]), held, SETTINGS, 0):
            pass
        weights.append(head.weights[0].detach())
    same = torch.isclose(weights[0], weights[1]).flatten(1).all(1).view(GRID.shape)
    assert same[:, :, 0].all()
    assert not same[:, :, 1:].any()


@pytest.mark.parametrize("per_replica", [False, True])
def test_fixed_latents_stay_as_they_are(objective: Objective, per_replica: bool) -> None:
    grid = Grid(cells=((1.0, 0), (9.0, 1)), latent_dims=(2,), folds=2)
    fixed = RNG.normal(size=(120, 6, 2)) if per_replica else X[:, :2]
    answers = learned(objective, reports(grid, fixed, width=2), grid)
    latents = answers.reports.latents(torch.arange(120)).numpy()
    expected = fixed[:, [2, 5]].transpose(1, 0, 2) if per_replica else np.stack([fixed, fixed])
    assert latents == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("count", "size", "epoch"), [(10, 4, 2), (3, 4, 1), (8, 4, 2)])
def test_batches_are_of_one_size_and_without_repetition(count: int, size: int, epoch: int) -> None:
    batches = _batches(count, size, torch.Generator().manual_seed(0))
    for _ in range(3):
        rows = [next(batches) for _ in range(epoch)]
        assert {len(part) for part in rows} == {min(size, count)}
        assert len(torch.cat(rows).unique()) == sum(map(len, rows))


@pytest.mark.parametrize(("records", "folds"), [(3, 2), (8, 4), (500, 5), (2000, 1)])
def test_settings_follow_the_number_of_records(records: int, folds: int) -> None:
    assert LearningSettings.for_size(records).folds == folds


def test_stage_two_is_asked_what_the_heads_ask_for(objective: Objective) -> None:
    answers = learned(objective, reports())
    inverse = invert(answers, Records.of(X, "cpu"), seed=0, steps=200, warm_up=100)
    wanted = answers.of(answers.reports.draw(torch.arange(120), torch.Generator().manual_seed(3))).flatten(0, 1)
    given = objective.model(inverse(wanted))
    assert float(objective.mismatch(given, wanted)) < 0.05 * float(objective.mismatch(given.roll(7, 0), wanted))
