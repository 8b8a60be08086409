"""A light predictor of what the task is judged by: one hidden layer, cross-fitted.

One network per fold is trained on the other folds, all side by side. Their average is itself one hidden layer (the
neurons side by side) and becomes the device's encoder; the prediction of every record by the network that never saw it
is what codebooks are fitted to, so that nothing is calibrated on scores that memorised their labels. What those
predictions cost also decides on which scale attributes with heavy tails are seen.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import HiddenEncoder, TabledEncoder
from taskveil.client.levels import LEVELS, MonotoneTables
from taskveil.designs.codebooks.scales import scales
from taskveil.designs.folds import people
from taskveil.designs.learned.batches import Records
from taskveil.designs.threads import one_thread
from taskveil.tasks.costs import LinearInTruth

HIDDEN, FOLDS, STEPS, BATCH = 32, 5, 1500, 256
RATE, DECAY, DROPOUT, AVERAGING = 3e-3, 0.1, 0.2, 0.98
_JUDGES = 10_000  # records that decide on a scale; more would hardly decide better
_EVERY = 20  # steps between looks at the held-out records
_AT_ONCE = 2**16  # records looked at together
_FLOOR = 0.5  # keeps near-constant attributes from being blown up by scaling


Rows = slice | NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """φ = weights · relu(hidden_weights · x + hidden_offset) + offset, its softmax where outputs are `logits`.

    `held_out` (N, S) is the truth predicted for every volunteer by the network that did not see it, and `losses` (N,)
    what that costs, in a unit that is the same for all predictors of one truth. With `tables`, x are their levels.
    `dropout` is the share of attributes that were left out at random while it learnt.
    """

    hidden_weights: Floats
    hidden_offset: Floats
    weights: Floats
    offset: Floats
    logits: bool
    held_out: Floats
    losses: Floats
    dropout: float
    tables: MonotoneTables | None = None

    def encoder(self, low: Floats, high: Floats) -> HiddenEncoder | TabledEncoder:
        """The predictor as a device runs it, for records between `low` and `high` (n,)."""
        if self.tables is None:
            return self._network(low, high)
        full = np.full(self.tables.width, float(LEVELS))
        return TabledEncoder(tables=self.tables, encoder=self._network(0.0 * full, full))

    def _network(self, low: Floats, high: Floats) -> HiddenEncoder:
        return HiddenEncoder.of(
            low=low,
            high=high,
            hidden_weights=self.hidden_weights,
            hidden_offset=self.hidden_offset,
            weights=self.weights,
            offset=self.offset,
            softmax=self.logits,
        )


@one_thread()
def fit_predictor(X: Floats, truth: Floats, *, cost: LinearInTruth, seed: int, device: str = "cpu") -> Predictor:
    """The predictor of least `cost`, on the scale on which records predict best.

    Attributes are taken as they are, unless some have heavy tails and the best of the other scales lowers the mean
    held-out loss by two standard errors of the differences, record by record: the networks of all scales have the same
    folds, first weights and batches. On another scale nobody is far out, so learning may go without dropout, if that is
    better by one.

    Args:
        X: the volunteers' records (N, n).
        truth: what is to be predicted of them (N, S).
        cost: the loss that decides what a good prediction is.
        seed: of first weights, folds, batches and dropout.
        device: where torch computes.
    """
    everyone: Rows = slice(None)
    person = people(X)

    def fitted(tables: MonotoneTables | None, dropout: float, rows: Rows) -> Predictor:
        inputs = X[rows] if tables is None else tables(X[rows])
        return replace(_fit(inputs, truth[rows], person[rows], cost, dropout, seed, device), tables=tables)

    tried = scales(X).values()
    if not tried:
        return fitted(None, DROPOUT, everyone)
    some = np.random.default_rng(seed).permutation(len(X))[:_JUDGES] if len(X) > _JUDGES else everyone
    bent = min((fitted(tables, DROPOUT, some) for tables in tried), key=lambda found: float(found.losses.mean()))
    chosen = _better(fitted(None, DROPOUT, some), bent, errors=2.0)  # the best of three leads by about one by chance
    if chosen is bent:
        chosen = _better(bent, fitted(bent.tables, 0.0, some), errors=1.0)
    return chosen if some is everyone else fitted(chosen.tables, chosen.dropout, everyone)


def _better(first: Predictor, rival: Predictor, *, errors: float) -> Predictor:
    """The first, unless the rival's losses are lower by more than so many standard errors of their mean difference."""
    gains = first.losses - rival.losses
    return rival if gains.mean() > errors * gains.std() / np.sqrt(len(gains)) else first


def _fit(
    X: Floats, truth: Floats, person: Integers, cost: LinearInTruth, dropout: float, seed: int, device: str
) -> Predictor:
    """The predictor that takes attributes as they are given; all records of one `person` (N,) are in the same fold."""
    random = torch.Generator(device).manual_seed(seed)
    goal = torch.as_tensor(truth, dtype=torch.float32, device=device)
    width, outputs = X.shape[1], goal.shape[1]
    magnitude = magnitudes(X)
    variance = (X / magnitude).var(axis=0)
    # Rows of about length one; a constant attribute is harmless.
    scale = magnitude * np.sqrt((variance + _FLOOR * variance.mean() + 1e-30) * width)
    center = X.mean(axis=0)
    scaled = Records.of((X - center) / scale, device)
    shift, spread = cost.standard(goal)
    mixed = torch.randperm(int(person.max()) + 1, generator=random, device=device)
    fold = (mixed % FOLDS)[torch.as_tensor(person, device=device)]
    networks = _Networks(width, outputs, random, device)
    average, held_out = networks.train(scaled, (goal - shift) / spread, fold, cost, dropout, random)

    def numbers(value: Tensor) -> Floats:
        return np.asarray(value.double().cpu().numpy())

    first = numbers(average[0]) / scale[:, None]
    hidden_offset = numbers(average[1]) - (center @ first)[:, None]
    return Predictor(
        hidden_weights=first.transpose(0, 2, 1).reshape(-1, width),
        hidden_offset=hidden_offset.reshape(-1),
        weights=numbers((average[2] / FOLDS * spread).reshape(-1, outputs).T),
        offset=numbers(average[3].mean(0)[0] * spread + shift),
        logits=bool(cost.logits),
        held_out=numbers(cost.tensor_answers(held_out * spread + shift)),
        dropout=dropout,
        losses=numbers(cost.tensor_losses(held_out, (goal - shift) / spread)),
    )


def magnitudes(X: Floats) -> Floats:
    """(n,): the power of ten that every attribute spans. Divided by it all span about one, and grams count as kilograms
    do; attributes that were scaled already stay as they are, and constant ones."""
    extent = np.ptp(X, axis=0)
    return np.asarray(10.0 ** np.round(np.log10(np.where(extent > 0, np.minimum(extent, 1e300), 1.0))))


class _Networks:
    """FOLDS networks of one hidden layer, as batched matrices."""

    def __init__(self, width: int, outputs: int, random: torch.Generator, device: str) -> None:
        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=random, device=device)

        self.parameters = [
            normal(FOLDS, width, HIDDEN) * 2**0.5,
            normal(FOLDS, 1, HIDDEN) * 0.1,
            normal(FOLDS, HIDDEN, outputs) * 0.5 * HIDDEN**-0.5,
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
        self, x: Records, truth: Tensor, fold: Tensor, cost: LinearInTruth, dropout: float, random: torch.Generator
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
