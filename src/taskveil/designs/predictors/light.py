"""The light predictor of what the task is judged by: one hidden layer, cross-fitted.

One network per fold is trained on the other folds, all side by side. Their average is itself one hidden layer (the
neurons side by side) and becomes the device's encoder; the prediction of every record by the network that never saw it
is what codebooks are fitted to, so that nothing is calibrated on scores that memorised their labels. What those
predictions cost also decides on which scale attributes with heavy tails are seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from taskveil.arrays import Floats
from taskveil.client.encoders import Encoder, HiddenEncoder, TabledEncoder
from taskveil.client.levels import LEVELS, MonotoneTables
from taskveil.client.networks import LayeredEncoder
from taskveil.designs.learned.batches import Records
from taskveil.designs.on_device import MANIFEST
from taskveil.designs.predictors.predictor import FOLDS, Evidence, Predictor, bytes_of
from taskveil.designs.predictors.scales import scales
from taskveil.designs.predictors.whole_layers import Dense, Layers
from taskveil.designs.threads import one_thread
from taskveil.tasks.costs import Learnable

HIDDEN, NARROWER, WIDER, STEPS, BATCH = 32, 8, 96, 1500, 256
RATE, DECAY, DROPOUT, AVERAGING = 3e-3, 0.1, 0.2, 0.98
_JUDGES = 10_000  # records that decide on a scale; more would hardly decide better
_EVERY = 20  # steps between looks at the held-out records
_AT_ONCE = 2**16  # records looked at together
TURNS = 3
"""Times that small samples are learnt from."""
_WIDE_FROM = 1000  # records from which on a wider network may be tried; below, a narrower one
_FLOOR = 0.5  # keeps near-constant attributes from being blown up by scaling


@dataclass(frozen=True, kw_only=True)
class Network:
    """φ = weights · relu(hidden_weights · x + hidden_offset) + offset, its softmax where outputs are `logits`.

    `said` (N, S) are the outputs for every volunteer of the network that did not see it, and `losses` (N,) what they
    cost, in a unit that is the same for all networks of one truth. With `tables`, x are their levels.
    """

    hidden_weights: Floats
    hidden_offset: Floats
    weights: Floats
    offset: Floats
    logits: bool
    said: Floats
    losses: Floats
    tables: MonotoneTables | None = None

    @classmethod
    def mean(cls, networks: Sequence[Network]) -> Network:
        """Of networks with the same tables: all their neurons side by side."""
        count = len(networks)
        return replace(
            networks[0],
            hidden_weights=np.concatenate([each.hidden_weights for each in networks]),
            hidden_offset=np.concatenate([each.hidden_offset for each in networks]),
            weights=np.concatenate([each.weights for each in networks], axis=1) / count,
            offset=np.mean([each.offset for each in networks], axis=0),
            said=np.mean([each.said for each in networks], axis=0),
            losses=np.mean([each.losses for each in networks], axis=0),
        )

    def encoder(self, low: Floats, high: Floats) -> HiddenEncoder | TabledEncoder:
        """The network as a device runs it, for records between `low` and `high` (n,)."""
        if self.tables is None:
            return self._encoder(low, high)
        full = np.full(self.tables.width, float(LEVELS))
        return TabledEncoder(tables=self.tables, encoder=self._encoder(0.0 * full, full))

    def coarse_encoder(self, evidence: Evidence) -> LayeredEncoder:
        """The same in weights of a byte or two, for pictures and other records of very many attributes."""
        layers = Layers(
            layers=(
                Dense(weights=self.hidden_weights, offset=self.hidden_offset, relu=True),
                Dense(weights=self.weights, offset=self.offset),
            ),
            width=self.hidden_weights.shape[1],
            outputs=len(self.offset),
        )
        return layers.encoder(evidence.low, evidence.high, evidence.X, softmax=self.logits)

    def _encoder(self, low: Floats, high: Floats) -> HiddenEncoder:
        return HiddenEncoder.of(
            low=low,
            high=high,
            hidden_weights=self.hidden_weights,
            hidden_offset=self.hidden_offset,
            weights=self.weights,
            offset=self.offset,
            softmax=self.logits,
        )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a network is made: `tables` that attributes are seen through, the share of them left out at random while it
    learns, and the neurons of each fold's network."""

    tables: MonotoneTables | None = None
    dropout: float = DROPOUT
    hidden: int = HIDDEN


def fit_light(evidence: Evidence) -> Predictor:
    """The network of least held-out loss as a predictor; see `fit_network`."""
    network = fit_network(evidence)
    encoder: Encoder = network.encoder(evidence.low, evidence.high)
    if network.tables is None and bytes_of(encoder) + MANIFEST > evidence.most_bytes:
        encoder = network.coarse_encoder(evidence)
    return Predictor(name="light", encoder=encoder, held_out=evidence.cost.answers(network.said))


@one_thread()
def fit_network(evidence: Evidence) -> Network:
    """The network of least held-out loss among a few recipes, each of which must have a lead over what is simpler.

    Attributes are taken as they are, unless some have heavy tails and the best of the other scales lowers the mean
    held-out loss by two standard errors of the differences, record by record: the networks of all recipes have the same
    folds and batches. Learning without dropout, and networks of another width, need a lead of one.

    What a few hundred records teach depends on how they are parted and where learning starts, so small samples are
    learnt several times, and the mean is taken.
    """
    some = evidence if len(evidence) <= _JUDGES else evidence.some(_JUDGES)

    def fitted(recipe: Recipe, of: Evidence = some) -> Network:
        inputs = of.X if recipe.tables is None else recipe.tables(of.X)
        return replace(_fit(inputs, of, recipe), tables=recipe.tables)

    recipe = Recipe()
    network = fitted(recipe)

    def challenge(rival: Recipe, found: Network, errors: float) -> None:
        nonlocal recipe, network
        if _better(found, network, errors=errors):
            recipe, network = rival, found

    bent = [Recipe(tables=tables) for tables in scales(evidence.X).values()]
    if bent:  # the best of three leads by about one standard error by chance
        challenge(*min(((rival, fitted(rival)) for rival in bent), key=_mean_loss), errors=2.0)
    for change in ({"dropout": 0.0}, {"hidden": WIDER if len(evidence) >= _WIDE_FROM else NARROWER}):
        rival = replace(recipe, **change)
        if 8 * FOLDS * rival.hidden * evidence.X.shape[1] <= evidence.most_bytes:
            challenge(rival, fitted(rival), errors=1.0)
    network = network if some is evidence else fitted(recipe, evidence)
    turns = TURNS if len(evidence) < _WIDE_FROM else 1
    while turns > 1 and 8 * turns * FOLDS * recipe.hidden * evidence.X.shape[1] > evidence.most_bytes // 2:
        turns -= 1
    return Network.mean([network, *(fitted(recipe, evidence.again(turn)) for turn in range(1, turns))])


def _mean_loss(tried: tuple[Recipe, Network]) -> float:
    return float(tried[1].losses.mean())


def _better(rival: Network, than: Network, *, errors: float) -> bool:
    """Whether the rival's losses are lower by more than so many standard errors of their mean difference."""
    gains = than.losses - rival.losses
    return bool(gains.mean() > errors * gains.std() / np.sqrt(len(gains)))


def _fit(X: Floats, evidence: Evidence, recipe: Recipe) -> Network:
    """One network that takes the attributes X (N, n) as they are given here."""
    cost, device = evidence.cost, evidence.device
    random = torch.Generator(device).manual_seed(evidence.seed)
    goal = torch.as_tensor(evidence.truth, dtype=torch.float32, device=device)
    width, outputs = X.shape[1], goal.shape[1]
    magnitude = magnitudes(X)
    variance = (X / magnitude).var(axis=0)
    # Rows of about length one; a constant attribute is harmless.
    scale = magnitude * np.sqrt((variance + _FLOOR * variance.mean() + 1e-30) * width)
    center = X.mean(axis=0)
    scaled = Records.of((X - center) / scale, device)
    shift, spread = cost.standard(goal)
    fold = torch.as_tensor(evidence.fold, device=device)
    networks = _Networks(width, recipe.hidden, outputs, random, device)
    average, held_out = networks.train(scaled, (goal - shift) / spread, fold, cost, recipe.dropout, random)

    def numbers(value: Tensor) -> Floats:
        return np.asarray(value.double().cpu().numpy())

    first = numbers(average[0]) / scale[:, None]
    hidden_offset = numbers(average[1]) - (center @ first)[:, None]
    return Network(
        hidden_weights=first.transpose(0, 2, 1).reshape(-1, width),
        hidden_offset=hidden_offset.reshape(-1),
        weights=numbers((average[2] / FOLDS * spread).reshape(-1, outputs).T),
        offset=numbers(average[3].mean(0)[0] * spread + shift),
        logits=bool(cost.logits),
        said=numbers(held_out * spread + shift),
        losses=numbers(cost.tensor_losses(held_out, (goal - shift) / spread)),
    )


def magnitudes(X: Floats) -> Floats:
    """(n,): the power of ten that every attribute spans. Divided by it all span about one, and grams count as kilograms
    do; attributes that were scaled already stay as they are, and constant ones."""
    extent = np.ptp(X, axis=0)
    return np.asarray(10.0 ** np.round(np.log10(np.where(extent > 0, np.minimum(extent, 1e300), 1.0))))


class _Networks:
    """FOLDS networks of one hidden layer, as batched matrices."""

    def __init__(self, width: int, hidden: int, outputs: int, random: torch.Generator, device: str) -> None:
        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=random, device=device)

        self.parameters = [
            normal(FOLDS, width, hidden) * 2**0.5,
            normal(FOLDS, 1, hidden) * 0.1,
            normal(FOLDS, hidden, outputs) * 0.5 * hidden**-0.5,
            torch.zeros(FOLDS, 1, outputs, device=device),
        ]
        # Inputs have length one and the first layer entries of order one, so its steps must be larger.
        rates = [RATE * width**0.5, RATE, RATE, RATE]
        groups = [
            {"params": [p.requires_grad_()], "lr": rate, "weight_decay": DECAY if p.shape[1] > 1 else 0.0}
            for p, rate in zip(self.parameters, rates, strict=True)
        ]
        self.optimizer = torch.optim.AdamW(groups)

    @staticmethod
    def forward(x: Tensor, parameters: list[Tensor]) -> Tensor:
        """(B, width) → (FOLDS, B, outputs)."""
        first, first_offset, second, second_offset = parameters
        hidden = torch.baddbmm(first_offset, x.expand(FOLDS, *x.shape), first).relu()
        return torch.baddbmm(second_offset, hidden, second)

    def _held_out(self, x: Records, parameters: list[Tensor], fold: Tensor) -> Tensor:
        """(N, outputs): for every record the network that does not see it."""
        parts = torch.split(torch.arange(len(x), device=x.device), _AT_ONCE)
        return torch.cat(
            [self.forward(x[p], parameters)[fold[p], torch.arange(len(p), device=x.device)] for p in parts]
        )

    def train(
        self, x: Records, truth: Tensor, fold: Tensor, cost: Learnable, dropout: float, random: torch.Generator
    ) -> tuple[list[Tensor], Tensor]:
        """Averaged parameters at the step of least pooled held-out loss, and the held-out outputs (N, S) there."""
        keep = (fold[None] != torch.arange(FOLDS, device=x.device)[:, None]).float()
        average = [p.detach().clone() for p in self.parameters]
        best, best_step, chosen, held = float("inf"), 0, average, truth
        batches = _batches(len(x), random, x.device)
        for step in range(1, STEPS + 1):
            pick = next(batches)
            mask = torch.rand(len(pick), x.width, generator=random, device=x.device) > dropout
            weight = keep[:, pick]
            outputs = self.forward(x[pick] * mask / (1 - dropout), self.parameters)
            losses = cost.tensor_losses(outputs, truth[pick])
            self.optimizer.zero_grad(set_to_none=True)
            (FOLDS * (losses * weight).sum() / weight.sum()).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            with torch.no_grad():
                for mean, parameter in zip(average, self.parameters, strict=True):
                    mean.lerp_(parameter, 1 - min(AVERAGING, step / (step + 10)))
                if step % _EVERY == 0:
                    outputs = self._held_out(x, average, fold)
                    value = float(cost.tensor_losses(outputs, truth).mean())
                    if value < best:
                        best, best_step, held = value, step, outputs
                        chosen = [mean.clone() for mean in average]
            if step > 300 and step > 2.5 * best_step:
                break
        return chosen, held


def _batches(count: int, random: torch.Generator, device: torch.device) -> itertools.chain[Tensor]:
    """Endless random mini-batches, epoch after epoch."""
    epochs = (torch.split(torch.randperm(count, generator=random, device=device), BATCH) for _ in itertools.count())
    return itertools.chain.from_iterable(epochs)
