"""Records and networks of many designs side by side, trained as one batched tensor program.

A replica is one (ε, latent dimension, seed). Every parameter has a leading dimension R for the replicas, so one step of
an elementwise optimiser is R independent steps. Latents are padded to the largest dimension and masked. `Grid` says
which replica is which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from taskveil.designs.sensitivity import sign_vectors

_SHARE_OF_MEMORY = 0.25
"""Share of the free memory of a CUDA device that one set of records may take; networks and noise need the rest."""


@dataclass(frozen=True, eq=False)
class Records:
    """(N, n) in single precision; `records[rows]` is a tensor on `device`, wherever the others wait."""

    values: Tensor
    device: torch.device

    @classmethod
    def of(cls, X: NDArray[np.float64], device: str) -> Records:
        """Records (N, n) for a torch device; on it where they fit."""
        values, where = torch.as_tensor(X, dtype=torch.float32), torch.device(device)
        if where.type == "cuda":
            free, _ = torch.cuda.mem_get_info(where)
            values = values.to(where) if values.nbytes <= _SHARE_OF_MEMORY * free else values.pin_memory()
        return cls(values, where)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """The number of attributes."""
        return self.values.shape[-1]

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.values[rows.to(self.values.device)].to(self.device)

    def mean(self) -> Tensor:
        """(n,), on the device."""
        return self.values.mean(0).to(self.device)

    def std(self) -> Tensor:
        """(n,), on the device."""
        return self.values.std(0).to(self.device)


MOST_SIGNS = 12
"""Up to this many latents all sign vectors are tried at once; beyond, all pairs of records."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Replicas:
    """The grid of a sweep, flattened: epsilon, latent_dim and seed, each (R,); `width` latents are held for each."""

    epsilon: Tensor
    latent_dim: Tensor
    seed: Tensor
    width: int

    @classmethod
    def of(cls, cells: Iterable[tuple[float, int, int]], device: str, width: int | None = None) -> Replicas:
        """From (ε, latent dimension, seed) triples."""
        epsilons, dims, seeds = zip(*cells, strict=True)
        return cls(
            epsilon=torch.tensor(epsilons, device=device, dtype=torch.float32),
            latent_dim=torch.tensor(dims, device=device),
            seed=torch.tensor(seeds, device=device),
            width=width or max(dims),
        )

    def __len__(self) -> int:
        return len(self.epsilon)

    def take(self, rows: Tensor) -> Replicas:
        """Some of the replicas."""
        return Replicas(
            epsilon=self.epsilon[rows], latent_dim=self.latent_dim[rows], seed=self.seed[rows], width=self.width
        )

    @property
    def mask(self) -> Tensor:
        """(R, 1, width): 1 where the latent exists."""
        numbers = torch.arange(self.width, device=self.latent_dim.device)
        return (numbers < self.latent_dim[:, None]).float()[:, None]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All replicas of a learned design, in the order cell × latent dimension × fold; only this class knows the order.

    A cell is one (ε, seed). Fold f of `folds` does not learn from its part of the records and is judged on it; one more
    replica learns from everything, last of its group, and is the one to keep.
    """

    cells: tuple[tuple[float, int], ...]
    latent_dims: tuple[int, ...]
    folds: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(cells, latent dimensions, folds + 1), R their product."""
        return len(self.cells), len(self.latent_dims), self.folds + 1

    def replicas(self, device: str) -> Replicas:
        """All R of them."""
        triples = [(e, z, s) for e, s in self.cells for z in self.latent_dims for _ in range(self.folds + 1)]
        return Replicas.of(triples, device)

    def of_cells(self, values: Tensor) -> Tensor:
        """One value per cell (cells, …) → one per replica (R, …)."""
        return values.repeat_interleave(len(self.latent_dims) * (self.folds + 1), dim=0)

    def sum_over_folds(self, values: Tensor) -> Tensor:
        """(…, R) → (…, cells, latent dimensions): without the replicas that learn from everything."""
        return values.view(*values.shape[:-1], *self.shape)[..., :-1].sum(-1)

    def final(self, device: torch.device) -> Tensor:
        """(cells, latent dimensions): the numbers of the replicas that learn from everything."""
        numbers = torch.arange(len(self.cells) * len(self.latent_dims) * (self.folds + 1), device=device)
        return numbers.view(self.shape)[..., -1]

    def held_out(self, count: int, device: torch.device) -> Tensor:
        """(R, N): the records that each replica must not learn from. One seed splits alike in all cells."""
        parts = max(self.folds, 5) if count >= 10 else self.folds
        held = torch.zeros(*self.shape, count, dtype=torch.bool)
        for cell, (_, seed) in enumerate(self.cells):
            order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
            for fold in range(self.folds):
                held[cell, :, fold] = order % parts == fold
        return held.flatten(0, 2).to(device)


class Networks(nn.Module):
    """R multi-layer networks side by side: (B, n) or (R, B, n) → (R, B, out); weights (R, in, out).

    They start as torch.nn.Linear does, uniform in ±1/√fan_in, each replica from its own seed.
    """

    def __init__(
        self, sizes: list[int], seeds: Tensor, activation: Callable[[Tensor], Tensor] = torch.sigmoid, salt: int = 0
    ) -> None:
        super().__init__()
        self.activation = activation
        generators = [torch.Generator().manual_seed(1_000_003 * salt + int(seed)) for seed in seeds]

        def uniform(*shape: int, bound: float) -> nn.Parameter:
            draws = torch.stack([torch.rand(*shape, generator=generator) for generator in generators])
            return nn.Parameter(((2 * draws - 1) * bound).to(seeds.device))

        pairs = list(pairwise(sizes))
        self.weights = nn.ParameterList([uniform(i, o, bound=i**-0.5) for i, o in pairs])
        self.biases = nn.ParameterList([uniform(1, o, bound=i**-0.5) for i, o in pairs])

    def forward(self, x: Tensor) -> Tensor:
        """(B, n), the same for all, or (R, B, n) → (R, B, out)."""
        last = len(self.weights) - 1
        for place, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if x.dim() == 2:  # the same records for all: one product
                replicas, inputs, outputs = weights.shape
                flat = x @ weights.transpose(0, 1).reshape(inputs, replicas * outputs)
                x = flat.view(-1, replicas, outputs).transpose(0, 1) + bias
            else:
                x = torch.baddbmm(bias, x, weights)
            if place < last:
                x = self.activation(x)
        return x


def keep(module: nn.Module, snapshots: list[list[Tensor]], at: Tensor, rows: Tensor) -> None:
    """Cut `module` down to the replicas `rows` as they were in the snapshots `at`, both (k,), and freeze it."""
    for place, parameter in enumerate(module.parameters()):
        parameter.data = torch.stack([snapshot[place] for snapshot in snapshots])[at, rows]
    module.requires_grad_(False)


def snapshot(module: nn.Module, rows: Tensor) -> list[Tensor]:
    """The parameters of some replicas, copied."""
    return [parameter.detach()[rows].clone() for parameter in module.parameters()]


def standard_laplace(shape: Iterable[int], generator: torch.Generator) -> Tensor:
    """Laplace draws of scale 1 for training (a difference of two exponentials); reports use exact noise instead."""
    size = tuple(shape)
    u = torch.rand(size, generator=generator, device=generator.device)
    v = torch.rand(size, generator=generator, device=generator.device)
    return (u.clamp_min(1e-30) / v.clamp_min(1e-30)).log()


def l1_diameters(latents: Tensor) -> Tensor:
    """max ‖a − b‖₁ over pairs of records, per replica: (R, N, Z) → (R,)."""
    if latents.shape[-1] <= MOST_SIGNS:
        signs = torch.as_tensor(sign_vectors(latents.shape[-1]), dtype=latents.dtype, device=latents.device)
        low, high = torch.aminmax(latents @ signs.T, dim=1)
        return (high - low).amax(-1)
    return torch.stack(
        [torch.stack([torch.cdist(c, p, p=1).max() for c in torch.split(p, 1024)]).max() for p in latents]
    )


def apply_task(model: nn.Module, estimates: Tensor) -> Tensor:
    """The frozen task on all replicas' estimates at once: (R, B, n) → (R, B, out)."""
    replicas, records, width = estimates.shape
    answers: Tensor = model(estimates.reshape(replicas * records, width))
    return answers.view(replicas, records, -1)
