"""Many designs side by side: each is what it would be alone, and the grid knows which is which."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from taskveil.designs.laplace.replicas import (
    Grid,
    Networks,
    Replicas,
    keep,
    snapshot,
    standard_laplace,
)  # fmt: skip
from taskveil.designs.sensitivity import l1_diameter
from taskveil.experiments.published_algorithm import apply_task, l1_diameters

RNG = np.random.default_rng(2)
TENSOR = torch.tensor(RNG.random((60, 3))).float()
GRID = Grid(cells=((1.0, 7), (1.0, 8), (5.0, 7)), latent_dims=(1, 2), folds=3)


def test_diameters_are_exact_for_few_and_many_latents() -> None:
    for dims in (1, 3, 14):
        latents = torch.tensor(RNG.normal(size=(2, 40, dims)))
        assert l1_diameters(latents).numpy() == pytest.approx([l1_diameter(part) for part in latents.numpy()])


def test_networks_side_by_side_are_networks() -> None:
    many = Networks([3, 4, 2], torch.tensor([0, 1, 0]), salt=9)
    out = many(TENSOR)
    assert torch.equal(out[0], out[2])
    assert not torch.equal(out[0], out[1])
    hidden = torch.sigmoid(TENSOR @ many.weights[0][1] + many.biases[0][1])
    assert torch.allclose(out[1], hidden @ many.weights[1][1] + many.biases[1][1], atol=1e-6)
    assert torch.allclose(many(TENSOR.expand(3, -1, -1)), out, atol=1e-6)


def test_training_noise_is_standard_laplace() -> None:
    draws = standard_laplace((200_000,), torch.Generator().manual_seed(0))
    assert float(draws.var()) == pytest.approx(2.0, rel=0.02)
    assert float(draws.abs().mean()) == pytest.approx(1.0, rel=0.01)


def test_replicas_lie_in_the_order_of_the_grid() -> None:
    replicas = GRID.replicas("cpu")
    assert len(replicas) == np.prod(GRID.shape) == 24
    for values, axis in ((replicas.epsilon, [1.0, 1.0, 5.0]), (replicas.seed, [7, 8, 7])):
        assert values.view(GRID.shape)[:, 0, 0].tolist() == axis
        assert torch.equal(values, GRID.of_cells(torch.tensor(axis)))
    assert (replicas.latent_dim.view(GRID.shape) == torch.tensor([1, 2])[None, :, None]).all()
    assert replicas.mask.shape == (24, 1, 2)
    assert replicas.mask.sum(-1)[:, 0].tolist() == replicas.latent_dim.tolist()
    few = replicas.take(torch.tensor([0, 20]))
    assert (few.epsilon.tolist(), few.latent_dim.tolist(), few.width) == ([1.0, 5.0], [1, 2], 2)


def test_sums_over_folds_leave_out_who_learned_from_everything() -> None:
    values = torch.arange(24.0)
    sums = GRID.sum_over_folds(torch.stack([values, 10 * values]))
    assert sums.shape == (2, 3, 2)
    assert sums[0].flatten().tolist() == [sum(range(start, start + 3)) for start in range(0, 24, 4)]
    assert torch.equal(sums[1], 10 * sums[0])
    assert GRID.final(torch.device("cpu")).flatten().tolist() == list(range(3, 24, 4))


@pytest.mark.parametrize(("count", "parts"), [(40, 5), (9, 3)])
def test_every_fold_is_held_out_of_one_replica_and_of_no_final_one(count: int, parts: int) -> None:
    held = GRID.held_out(count, torch.device("cpu")).view(*GRID.shape, count)
    assert not held[:, :, -1].any()
    assert (held.sum(2) <= 1).all()  # no record is judged twice
    assert (held[0, 0, :-1].sum(1) - count / parts).abs().max() < 1
    assert torch.equal(held[0], held[2])  # one seed, one split
    assert not torch.equal(held[0], held[1])
    assert torch.equal(held[:, 0], held[:, 1])


def test_replicas_are_kept_as_they_were_at_their_checkpoint() -> None:
    networks = Networks([2, 1], torch.tensor([0, 1, 2]))
    first = snapshot(networks, torch.tensor([0, 1, 2]))
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter += 1.0
    second = snapshot(networks, torch.tensor([0, 1, 2]))
    keep(networks, [first, second], torch.tensor([1, 0]), torch.tensor([2, 0]))
    assert torch.equal(networks.weights[0], torch.stack([second[0][2], first[0][0]]))
    assert not any(parameter.requires_grad for parameter in networks.parameters())


def test_the_task_sees_all_replicas_at_once() -> None:
    estimates = torch.tensor(RNG.random((4, 5, 3)))
    answers = apply_task(torch.nn.Flatten(), estimates)
    assert torch.equal(answers, estimates)


def test_padding_may_be_wider_than_any_replica() -> None:
    assert Replicas.of([(1.0, 2, 0)], "cpu", width=4).mask.flatten().tolist() == [1.0, 1.0, 0.0, 0.0]
