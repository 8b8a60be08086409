"""What a release keeps of the volunteers, so that many reports can be read by comparison with them.

It lies in `server/`, never in `client/`: numbers of real people, as private as the volunteers' table itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers, Integers8, check_arrays, own_arrays
from taskveil.errors import DataError
from taskveil.tasks import ModelTask, Task

MOST_VOLUNTEERS = 2000
"""Kept at most: beyond them it is the reports that decide how sure an estimate is."""
MOST_NUMBERS = 2**18
"""Kept of all volunteers together, 2 MB."""
MOST_EVERYBODY = 2**53
"""Volunteers of a design: as many as doubles tell apart."""
FARTHEST = 1e150
"""Of a number that is kept: squares of what is larger overflow, and no design is made of it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reference:
    """Some volunteers, a row each. Shapes: records (V, n) as numbers, latents (V, Z), answers (V, m), shares (m,).

    `latents` are what a device makes of the record; where encoders were learned from the volunteers, by one that had
    not seen the record, so that volunteers are to the reports as anybody else. `answers` are the task's truth: Kx, the
    labels or, without labels, what the model says; those marked by 1 in `shares` are probabilities of classes.
    """

    records: Floats
    latents: Floats
    answers: Floats
    shares: Integers8
    names: tuple[str, ...]
    """Of the answers."""
    everybody: int
    """How many volunteers the design was made with, kept here or not."""

    def __post_init__(self) -> None:
        own_arrays(self)
        count, outputs = self.answers.shape
        check_arrays(
            records=(self.records, (count, *self.records.shape[1:])),
            latents=(self.latents, (count, *self.latents.shape[1:])),
            answers=(self.answers, (count, outputs)),
        )
        kept = self.records, self.latents, self.answers
        if self.shares.shape != (outputs,) or len(self.names) != outputs or {array.ndim for array in kept} != {2}:
            raise DataError("a reference has a row for every volunteer, and says of every answer what it is.")
        if not ((self.shares == 0) | (self.shares == 1)).all():
            raise DataError(
                "answers of a reference are marked by 1 where they are probabilities of classes, else by 0."
            )
        if not 2 <= count <= self.everybody < MOST_EVERYBODY:
            raise DataError("a reference holds two volunteers or more, and no more than there were.")
        if max(float(np.abs(array).max()) for array in kept) > FARTHEST:
            raise DataError(f"volunteers' numbers must lie within ±{FARTHEST:g}: say them in larger units.")

    def __repr__(self) -> str:
        return f"<Reference of {self.count} volunteers>"  # whose numbers belong in no notebook, log or traceback

    @classmethod
    def of(cls, task: Task, X: Floats, y: Any, latents: Floats, drawn: Integers | None = None) -> Reference:
        """As many volunteers as a release keeps, by lot.

        Args:
            task: what the data is for.
            X, y: the volunteers' records (N, n) and labels.
            latents: what an encoder that had not seen them makes of them (N, Z).
            drawn: which volunteer each row is (N,), where some came several times: each is kept once.
        """
        answers, shares, names = truths(task, X, y)
        once = np.arange(len(X)) if drawn is None else np.unique(drawn, return_index=True)[1]
        numbers = X.shape[1] + latents.shape[1] + answers.shape[1]
        count = min(len(once), MOST_VOLUNTEERS, max(2, MOST_NUMBERS // numbers))
        kept = np.sort(np.random.default_rng(0).permutation(once)[:count])
        return cls(
            records=X[kept],
            latents=latents[kept],
            answers=answers[kept],
            shares=shares,
            names=names,
            everybody=len(X),
        )

    @property
    def count(self) -> int:
        """How many volunteers are kept."""
        return len(self.records)


def truths(task: Task, X: Floats, y: Any) -> tuple[Floats, Integers8, tuple[str, ...]]:
    """The truth (N, m) of the task for every record, which of its columns are probabilities of classes (m,), and
    names."""
    parts = [_truth(part, X, labels) for part, _, labels in task.parted(y)]
    shares = [np.full(len(names), by_class, dtype=np.int8) for _, by_class, names in parts]
    several = len(parts) > 1  # whose outputs may have the same names
    names = [f"{place}.{name}" if several else name for place, part in enumerate(parts) for name in part[2]]
    return np.hstack([values for values, _, _ in parts]), np.concatenate(shares), tuple(names)


def _truth(task: Any, X: Floats, y: Any) -> tuple[Floats, bool, list[str]]:
    model = task if isinstance(task, ModelTask) else None
    if model is not None and model.cost.logits is None:  # only the callable knows what labels mean
        values = model.predict(X)
    else:
        values = np.asarray(task.truth(X, y), dtype=np.float64).reshape(len(X), -1)
    by_class = model is not None and model.cost.logits is True
    known = model.frozen.classes if by_class and model is not None else None
    if known is not None and len(known) == values.shape[1]:
        return values, by_class, [str(label) for label in known.tolist()]
    return values, by_class, [f"y{place}" for place in range(values.shape[1])]
