"""What codebooks are fitted to: a device's encoder with honest predictions of the volunteers' truth, and what those
predictions may be learnt from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import Encoder
from taskveil.designs.folds import folds_of
from taskveil.tasks.costs import Learnable

FOLDS = 5
"""Parts of the volunteers, each predicted by models that did not see it."""


CLEARLY = 2.0
"""Standard errors that are evidence: by which one predictor must lead another to be clearly better."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What a predictor learns from: records X (N, n), the truth about them (N, S), and the cost that decides what a
    good prediction is.

    `fold` (N,) are parts 0 … FOLDS − 1 that take turns in being held out, all records of one person in the same; `low`
    and `high` (n,) are where records may lie; `most_bytes` is what devices can store; torch computes on `device`. With
    `person` (N,), who is who, volunteers can be parted in other ways.
    """

    X: Floats
    truth: Floats
    cost: Learnable
    fold: Integers
    low: Floats
    high: Floats
    seed: int
    most_bytes: int
    device: str = "cpu"
    person: Integers | None = None

    def __len__(self) -> int:
        return len(self.X)

    def some(self, count: int) -> Evidence:
        """That of so many of the volunteers, drawn by the seed."""
        rows = np.random.default_rng(self.seed).permutation(len(self))[:count]
        person = None if self.person is None else self.person[rows]
        return replace(self, X=self.X[rows], truth=self.truth[rows], fold=self.fold[rows], person=person)

    def again(self, turn: int) -> Evidence:
        """The same with another seed and, where it is known who is who, other parts."""
        seed = self.seed + 1000 * turn
        if self.person is None:
            return replace(self, seed=seed)
        return replace(self, seed=seed, fold=folds_of(self.person, FOLDS, np.random.default_rng(seed)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
    """What a device can know of the truth: an encoder, and what its like said of volunteers they had not seen.

    `encoder` gives (N, n) → (N, S): values, or class probabilities. `held_out` (N, S) is for every volunteer the
    prediction of a model that did not see it, so that nothing is calibrated on scores that memorised their labels. One
    may be `preferred` to the others until evidence against it is clear.
    """

    name: str
    encoder: Encoder
    held_out: Floats
    preferred: bool = False

    @property
    def bytes(self) -> int:
        """What the encoder's numbers take in a release."""
        return bytes_of(self.encoder)


def standard_error(values: Floats) -> float:
    """Of the mean of values (N,)."""
    return float(values.std()) / math.sqrt(len(values))


def bytes_of(part: Any) -> int:
    """What the numbers of a part, and of the parts in it, take in a release."""
    if isinstance(part, np.ndarray):
        return int(part.nbytes)
    if isinstance(part, tuple):
        return sum(map(bytes_of, part))
    return sum(bytes_of(getattr(part, field.name)) for field in fields(part)) if is_dataclass(part) else 0
