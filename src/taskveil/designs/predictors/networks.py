"""A network of the user's architecture, trained anew: copies with fresh weights, which devices run side by side.

Each copy learns from some of the volunteers, and its predictions for the others are out-of-fold. The mean of the copies
is better than any of them. Where a device cannot store all copies, it gets one network trained on all volunteers.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from taskveil.arrays import Floats, Integers
from taskveil.client.networks import LayeredEncoder
from taskveil.designs.crossfit import Evidence, Fit, PredictorFamily
from taskveil.designs.laplace.replicas import Records
from taskveil.designs.predictors.layer_models import as_layers
from taskveil.designs.predictors.light import Pace
from taskveil.designs.predictors.whole_layers import Layers, averaged
from taskveil.designs.selection import MANIFEST, bytes_of
from taskveil.errors import DataError, TaskError
from taskveil.tasks.models.frozen import ROWS_AT_ONCE
from taskveil.tasks.models.modules import rows_of

PACE = Pace(batch=64, rate=3e-3, decay=0.1, averaging=0.995)
LOOKS = (60, 100, 160, 250, 400, 630, 1000, 1600)
"""Numbers of steps after which networks are kept; held-out losses choose between them."""
DROPOUT = 0.3
"""The share of inputs that hidden layers of pictures leave out in training, unless the architecture has dropout."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A network after each look; `shift` and `unit` (S,) lead from its outputs to the truth's unit."""

    networks: list[nn.Module]
    device: str
    shift: Floats
    unit: Floats

    def outputs(self, X: Floats) -> Floats:
        """(H, N, S)."""
        records, found = Records.of(X, self.device), []
        with torch.no_grad():
            for network in self.networks:
                rows = torch.split(torch.arange(len(X)), ROWS_AT_ONCE)
                said = torch.cat([network(records[part]) for part in rows]).double().cpu()
                found.append(np.asarray(said) * self.unit + self.shift)
        return np.stack(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Architecture(PredictorFamily):
    """The family of networks of one architecture, from records (B, n) to values or logits (B, S)."""

    module: nn.Module
    pictures: bool
    name: str

    @classmethod
    def of(cls, module: nn.Module, evidence: Evidence, name: str = "network") -> Architecture:
        """TaskError where the module is not made of layers that devices run, or has weights that cannot be made anew;
        its weights are not used."""
        X, truth, cost = evidence.X, evidence.truth, evidence.cost
        found = as_layers(module, X.shape[1])
        if found is None or not _can_start_anew(module):
            raise TaskError(
                f"the network cannot be trained anew for devices: it must take records of {X.shape[1]} attributes and "
                "be made of linear, convolution, ReLU, pooling, flatten, dropout and batch normalisation layers only."
            )
        if found.outputs != truth.shape[1]:
            raise TaskError(f"the network has {found.outputs} outputs where {truth.shape[1]} are to be predicted.")
        try:
            found.encoder(evidence.low, evidence.high, X[:100], softmax=bool(cost.logits))
        except DataError as error:  # before anything is learnt
            raise TaskError(f"the network cannot run on devices: {error}") from error
        return cls(module=module, pictures=found.sees_pictures, name=name)

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        """One model for each set of rows, fitted to these volunteers and to no others."""
        learning = _Learning(self.module, self.pictures, evidence)
        return [learning.fit(own, evidence.seed + place) for place, own in enumerate(rows)]

    def encoder(
        self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats
    ) -> LayeredEncoder:
        """The device's encoder of slope · mean outputs + shift (S,)."""

        def made(trained: Sequence[Trained], layers: Layers) -> LayeredEncoder:
            unit = np.mean([each.unit for each in trained], axis=0)
            start = np.mean([each.shift for each in trained], axis=0)
            return layers.encoder(
                evidence.low,
                evidence.high,
                evidence.X,
                slope=slope * unit,
                offset=slope * start + shift,
                softmax=bool(evidence.cost.logits),
            )

        copies = [fit for fit in fits if isinstance(fit, Trained)]
        found = None
        with suppress(DataError):  # side by side they may be more than a device should run
            layers = [self._layers(each, setting, evidence) for each in copies]
            side_by_side = averaged(layers)
            found = None if side_by_side is None else made(copies, side_by_side)
        if found is None or bytes_of(found) + MANIFEST > evidence.most_bytes:
            (alone,) = self.fit(evidence, [np.arange(len(evidence))])
            assert isinstance(alone, Trained)  # noqa: S101 - its own fit
            found = made([alone], self._layers(alone, setting, evidence))
        return found

    def _layers(self, trained: Trained, setting: int, evidence: Evidence) -> Layers:
        """A trained network, scaler and all."""
        layers = as_layers(trained.networks[setting], evidence.X.shape[1])
        if layers is None:
            raise TaskError("the network computes something else than its layers.")
        return layers


def _can_start_anew(module: nn.Module) -> bool:
    """Whether every layer with weights can draw them again."""
    return all(
        hasattr(part, "reset_parameters")
        for part in module.modules()
        if next(part.parameters(recurse=False), None) is not None
    ) and any(True for _ in module.parameters())


class _Scaled(nn.Module):
    """The architecture behind a scaler, with weights of its own."""

    center: Tensor
    slope: Tensor

    def __init__(self, module: nn.Module, center: Tensor, slope: Tensor, *, dropout: bool) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).float().requires_grad_(True)
        for part in self.module.modules():
            if callable(draw := getattr(part, "reset_parameters", None)):
                draw()
        weighted = [part for part in self.module.modules() if isinstance(part, nn.Linear | _ConvNd)]
        for part in weighted[1:] if dropout else []:
            part.register_forward_pre_hook(_drop)
        self.register_buffer("center", center)
        self.register_buffer("slope", slope)

    def forward(self, x: Tensor) -> Tensor:
        return rows_of(self.module((x - self.center) * self.slope))


def _drop(part: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return (F.dropout(given[0], DROPOUT, part.training), *given[1:])


class _Learning:
    """The volunteers as inputs of networks, and the training."""

    def __init__(self, module: nn.Module, pictures: bool, evidence: Evidence) -> None:
        X, device = evidence.X, evidence.device
        self.cost, self.module, self.truth, self.device = evidence.cost, module, evidence.truth, device
        own = any(isinstance(part, _DropoutNd) for part in module.modules())
        self._dropout = pictures and not own
        self.records = Records.of(X, device)
        # All points of pictures are scaled alike, and black stays black: the edges are padded with it.
        size = np.full(X.shape[1], math.sqrt(float((X**2).mean()))) if pictures else X.std(axis=0)
        center = np.zeros(X.shape[1]) if pictures else X.mean(axis=0)
        slope = 1.0 / np.where(size > 0, size, 1.0)
        self._scaler = [torch.as_tensor(v, dtype=torch.float32, device=device) for v in (center, slope)]

    def fit(self, rows: Integers, seed: int) -> Trained:
        """A network that learnt from these volunteers alone, after each look."""
        shift, unit = self.cost.standard(self.truth[rows])
        if self.cost.logits:
            shift = np.zeros_like(shift)  # the last layer's offset learns where to start
        goal = torch.as_tensor((self.truth - shift) / unit, dtype=torch.float32, device=self.device)
        with self._own_randomness():
            run = self._run(rows, goal, seed)
            kept = [copy.deepcopy(network).eval() for step, network in zip(range(1, LOOKS[-1] + 1), run, strict=False)
                    if step in LOOKS]  # fmt: skip
        return Trained(networks=kept, device=self.device, shift=shift, unit=unit)

    def _own_randomness(self) -> AbstractContextManager[None]:
        """A context in which torch's own generators may be used; afterwards they are as they were before."""
        return torch.random.fork_rng(devices=None if self.device.startswith("cuda") else [])

    def _run(self, rows: Integers, goal: Tensor, seed: int) -> Iterator[nn.Module]:
        """Endless learning from some records: after every step the average of the latest networks."""
        torch.manual_seed(seed)
        network = _Scaled(self.module, *self._scaler, dropout=self._dropout).to(self.device)
        parameters = list(network.parameters())
        groups = [{"params": [p], "weight_decay": PACE.decay if p.dim() > 1 else 0.0} for p in parameters]
        optimizer = torch.optim.AdamW(groups, lr=PACE.rate)
        average, taken = copy.deepcopy(network).requires_grad_(False), 0
        random = torch.Generator().manual_seed(seed)
        mine = torch.as_tensor(rows)
        while True:
            # A last batch of one would leave batch normalisation without a spread.
            for pick in torch.split(mine[torch.randperm(len(mine), generator=random)], PACE.batch):
                if len(pick) == 1 and len(mine) > 1:
                    continue
                network.train()
                losses = self.cost.tensor_losses(network(self.records[pick]), goal[pick.to(goal.device)])
                optimizer.zero_grad(set_to_none=True)
                losses.mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                taken += 1
                _average(average, network, 1 - min(PACE.averaging, taken / (taken + 10)))
                yield average


@torch.no_grad()
def _average(average: nn.Module, network: nn.Module, share: float) -> None:
    """Move an average of networks, weights and statistics, by that share towards the latest."""
    latest = network.state_dict()
    for name, mean in average.state_dict().items():
        mean.lerp_(latest[name], share) if mean.is_floating_point() else mean.copy_(latest[name])
