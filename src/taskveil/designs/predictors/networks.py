"""A network of the user's architecture, trained anew: cross-fitted copies, which devices run side by side.

One copy per fold, with fresh weights, learns from the other folds. What it says of its own fold is what a device would
say of a stranger. The mean of their outputs is better than any of them; where a device cannot carry them all, it gets
one more, trained on everybody.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from taskveil.arrays import Floats, Integers
from taskveil.client.networks import LayeredEncoder
from taskveil.designs.learned.batches import Records
from taskveil.designs.on_device import MANIFEST
from taskveil.designs.predictors.honesty import steepness
from taskveil.designs.predictors.layer_models import as_layers
from taskveil.designs.predictors.predictor import Evidence, Predictor, bytes_of
from taskveil.designs.predictors.whole_layers import Layers, averaged
from taskveil.designs.threads import one_thread
from taskveil.errors import DataError, TaskError
from taskveil.tasks.models.modules import rows_of

STEPS, BATCH, RATE, DECAY, AVERAGING = 2500, 64, 3e-3, 0.1, 0.995
DROPOUT = 0.3
"""Of what hidden layers see of pictures, while they learn, unless the architecture has dropout of its own."""
LOOKS = 1  # at the held-out volunteers in an epoch, at least every …
_SELDOM = 50  # … steps
_EARLIEST = 300  # steps before learning may end
_PATIENCE = 1.5  # times the steps of the best look
_AT_ONCE = 2**11  # records asked about together


@one_thread()
def fit_architecture(module: nn.Module, evidence: Evidence, name: str = "network") -> Predictor:
    """What networks of the module's architecture, trained anew to the evidence's cost, know of the truth.

    TaskError where the architecture is not made of layers that devices run, or has weights that cannot be made anew.

    Args:
        module: the architecture, from records (B, n) to values or logits (B, S); its weights are not used.
        evidence: records and truth of the volunteers; copies are judged on the part that they did not see.
        name: what the predictor is called.
    """
    X, truth, cost = evidence.X, evidence.truth, evidence.cost
    found = as_layers(module, X.shape[1])
    if found is None or not _can_start_anew(module):
        raise TaskError(
            f"the network cannot be trained anew for devices: it must take records of {X.shape[1]} attributes and be "
            "made of linear, convolution, ReLU, pooling, flatten, dropout and batch normalisation layers only."
        )
    if found.outputs != truth.shape[1]:
        raise TaskError(f"the network has {found.outputs} outputs where {truth.shape[1]} are to be predicted.")
    try:
        found.encoder(evidence.low, evidence.high, X[:100], softmax=bool(cost.logits))
    except DataError as error:  # before anything is learnt
        raise TaskError(f"the network cannot run on devices: {error}") from error
    learning = _Learning(module, found.sees_pictures, evidence)
    parts = [np.flatnonzero(evidence.fold == part) for part in range(int(evidence.fold.max()) + 1)]
    copies, held_out, steps = learning.cross_fit(parts)
    slope = steepness(held_out, truth, logits=bool(cost.logits), cost=cost)
    middle = np.zeros(truth.shape[1]) if cost.logits else held_out.mean(axis=0)
    calibrated = middle + slope * (held_out - middle)

    def encoder(layers: Layers) -> LayeredEncoder:
        start = slope * learning.shift + (1 - slope) * middle
        return layers.encoder(
            evidence.low,
            evidence.high,
            X,
            slope=slope * learning.spread,
            offset=start,
            softmax=bool(cost.logits),
        )

    made = None
    with suppress(DataError):  # side by side they may be more than a device should run
        side_by_side = averaged([learning.as_layers(each) for each in copies])
        made = None if side_by_side is None else encoder(side_by_side)
    if made is None or bytes_of(made) + MANIFEST > evidence.most_bytes:
        made = encoder(learning.as_layers(learning.fit(steps)))
    return Predictor(name=name, encoder=made, held_out=cost.answers(calibrated))


def _can_start_anew(module: nn.Module) -> bool:
    """Whether whatever holds weights knows how to draw them again."""
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
    """The volunteers as networks see them, and how networks learn from them. Outputs are learned in the unit that
    `spread` and `shift` (S,) translate to the truth's."""

    def __init__(self, module: nn.Module, pictures: bool, evidence: Evidence) -> None:
        X, truth, cost, device = evidence.X, evidence.truth, evidence.cost, evidence.device
        self.cost, self.module, self.seed, self.device = cost, module, evidence.seed, device
        own = any(isinstance(part, _DropoutNd) for part in module.modules())
        self._dropout = pictures and not own
        self.records = Records.of(X, device)
        goal = torch.as_tensor(truth, dtype=torch.float32, device=device)
        shift, spread = cost.standard(goal)
        self.goal, self.truth = (goal - shift) / spread, truth
        self.shift, self.spread = (np.asarray(v.double().cpu()) for v in (shift, spread))
        # All points of pictures are scaled alike, and black stays black: the edges are padded with it.
        size = np.full(X.shape[1], math.sqrt(float((X**2).mean()))) if pictures else X.std(axis=0)
        center = np.zeros(X.shape[1]) if pictures else X.mean(axis=0)
        slope = 1.0 / np.where(size > 0, size, 1.0)
        self._scaler = [torch.as_tensor(v, dtype=torch.float32, device=device) for v in (center, slope)]

    def as_layers(self, network: nn.Module) -> Layers:
        """A trained network, scaler and all."""
        layers = as_layers(network, self.records.width)
        if layers is None:
            raise TaskError("the network computes something else than its layers.")
        return layers

    def cross_fit(self, parts: list[Integers]) -> tuple[list[nn.Module], Floats, int]:
        """One network per part that did not see it, their outputs (N, S) for these parts, and the steps they took: all
        as many, those of least pooled held-out loss after calibration."""
        with self._own_randomness():
            return self._cross_fit(parts)

    def _cross_fit(self, parts: list[Integers]) -> tuple[list[nn.Module], Floats, int]:
        everyone = np.arange(len(self.records))
        runs = [self._run(np.setdiff1d(everyone, part), self.seed + place) for place, part in enumerate(parts)]
        seen = len(everyone) - min(len(part) for part in parts)
        every = max(1, min(_SELDOM, math.ceil(seen / BATCH / LOOKS)))
        best, best_step, chosen, held = math.inf, 0, [], np.zeros(self.truth.shape)
        for step in range(every, STEPS + 1, every):
            networks = [_after(run, every) for run in runs]
            outputs = np.zeros(self.truth.shape)
            for network, part in zip(networks, parts, strict=True):
                outputs[part] = self._outputs(network, part)
            slope = steepness(outputs, self.truth, logits=bool(self.cost.logits), cost=self.cost)
            middle = 0.0 if self.cost.logits else outputs.mean(axis=0)
            value = float(self.cost.losses(middle + slope * (outputs - middle), self.truth).mean())
            if value < best:
                best, best_step, held = value, step, outputs
                chosen = [copy.deepcopy(network) for network in networks]
            if step > max(_EARLIEST, _PATIENCE * best_step):
                break
        return chosen, held, best_step

    def fit(self, steps: int) -> nn.Module:
        """One network that learned from everybody, for so many steps."""
        with self._own_randomness():
            return _after(self._run(np.arange(len(self.records)), self.seed), steps)

    def _own_randomness(self) -> AbstractContextManager[None]:
        """First weights and dropout come from torch's own generators, which the caller finds as they were."""
        return torch.random.fork_rng(devices=None if self.device.startswith("cuda") else [])

    def _run(self, rows: Integers, seed: int) -> Iterator[nn.Module]:
        """Endless learning from some records: after every step the average of the latest networks."""
        torch.manual_seed(seed)
        network = _Scaled(self.module, *self._scaler, dropout=self._dropout).to(self.device)
        parameters = list(network.parameters())
        groups = [{"params": [p], "weight_decay": DECAY if p.dim() > 1 else 0.0} for p in parameters]
        optimizer = torch.optim.AdamW(groups, lr=RATE)
        average, taken = copy.deepcopy(network).requires_grad_(False), 0
        random = torch.Generator().manual_seed(seed)
        mine = torch.as_tensor(rows)
        while True:
            # A last batch of one would leave batch normalisation without a spread.
            for pick in torch.split(mine[torch.randperm(len(mine), generator=random)], BATCH):
                if len(pick) == 1 and len(mine) > 1:
                    continue
                network.train()
                losses = self.cost.tensor_losses(network(self.records[pick]), self.goal[pick.to(self.goal.device)])
                optimizer.zero_grad(set_to_none=True)
                losses.mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                taken += 1
                _average(average, network, 1 - min(AVERAGING, taken / (taken + 10)))
                yield average

    def _outputs(self, network: nn.Module, rows: Integers) -> Floats:
        """(rows, S), in the truth's unit."""
        network.eval()
        with torch.no_grad():
            parts = [network(self.records[part]) for part in torch.split(torch.as_tensor(rows), _AT_ONCE)]
        return np.asarray(np.asarray(torch.cat(parts).double().cpu()) * self.spread + self.shift)


@torch.no_grad()
def _average(average: nn.Module, network: nn.Module, share: float) -> None:
    """Move an average of networks, weights and statistics, by that share towards the latest."""
    latest = network.state_dict()
    for name, mean in average.state_dict().items():
        mean.lerp_(latest[name], share) if mean.is_floating_point() else mean.copy_(latest[name])


def _after(run: Iterator[nn.Module], steps: int) -> nn.Module:
    for _ in range(steps - 1):
        next(run)
    return next(run)
