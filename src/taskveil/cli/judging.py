"""What a design is worth, on volunteers that it never saw, beside sending nothing and having no privacy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.cli.jobs import Job
from taskveil.errors import NothingToReportWarning
from taskveil.records.tables import take_rows
from taskveil.tasks import LinearTask, take_labels
from taskveil.veil.losses import Loss

PARTS = 4
"""One of so many parts of the volunteers is held out."""

FEWEST = 40
"""Volunteers of whom some can be held out: the mean loss of fewer than ten says nothing."""

FEWEST_TO_NAME = 30
"""Volunteers held out, that are needed before a column is reported as having no signal: with fifteen, one useful column
in six would be."""

NO_SIGNAL = 0.01
"""The share of a column's variance that reports tell, up to which they tell nothing of it."""

_REPORTS = 2**14  # drawn to see what they tell of each column


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The expected loss of the twin's reports, of one answer for everybody (`nothing`) and of answers to the records
    themselves (`clear`), all on the same held-out volunteers; `silent` names columns that reports tell nothing of.

    `unseen` says that no model in it was fitted to them, as far as is known: without it, what a model says of them is
    what it has learned by heart."""

    twin: tv.Veil
    held_out: int
    loss: Loss
    nothing: float
    clear: float
    silent: tuple[str, ...]
    unseen: bool

    @property
    def kept(self) -> float | None:
        """The share of what records could tell that reports tell; None where records tell nothing."""
        gain = self.nothing - self.clear
        return None if gain <= 0 else (self.nothing - self.loss.mean) / gain

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "held_out": self.held_out,
            "loss": self.loss.mean,
            "low": self.loss.low,
            "high": self.loss.high,
            "accuracy": self.loss.accuracy,
            "nothing_sent": self.nothing,
            "no_privacy": self.clear,
            "kept": self.kept,
            "no_signal": list(self.silent),
            "unseen_by_model": self.unseen,
        }


def judge(job: Job, *, seed: int, **options: Any) -> Judgement | None:
    """Design a twin with three quarters of the volunteers, and judge it by the others; None where these would be too
    few. Copies of a record stay together. A scikit-learn model is fitted again without those held out: it may have seen
    them all.

    Args:
        job: records and task.
        seed: of the split and of the design.
        options: of `tv.design`.
    """
    from taskveil.designs.selection import folds_of, people

    records = job.numbers()
    if len(records) < FEWEST:
        return None
    held = folds_of(people(records), PARTS, np.random.default_rng(seed)) == 0
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    y = take_labels(job.task, job.y, train)
    with warnings.catch_warnings():  # what there is to say of the volunteers is said when all of them are taken
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("always", NothingToReportWarning)
        copy = None
        if isinstance(job.task, tv.ModelTask):
            bound = job.task.on(job.schema).fitted_again(records[train], y)
            copy = None if bound is None else tv.ModelTask(bound.model, loss=bound.loss, answering=bound.answering)
        twin = tv.design(take_rows(job.X, train), copy or job.task, y=y, schema=job.schema, seed=seed, **options)
        X, labels = records[test], take_labels(job.task, job.y, test)
        loss = twin.loss(X, labels)
    task, enough = twin.task or job.task, len(test) >= FEWEST_TO_NAME
    return Judgement(
        twin=twin,
        held_out=len(test),
        loss=loss,
        nothing=task.constant_loss(records[train], y, X, labels),
        clear=float(task.losses(X, X, labels).mean()),
        silent=_silent(twin, task, job, records[train], X) if isinstance(task, LinearTask) and enough else (),
        unseen=copy is not None or job.y is None or not isinstance(job.task, tv.ModelTask),
    )


def _silent(twin: tv.Veil, task: LinearTask, job: Job, train: Floats, X: Floats) -> tuple[str, ...]:
    """The columns of which reports tell at most `NO_SIGNAL`: R² of the estimates of X (N, n), over as many reports as
    are needed, against the means of `train`."""
    draws = int(np.clip(_REPORTS // len(X), 1, 256))
    wrong = np.mean([((twin.estimates(twin.privatize(X)) - X) ** 2).mean(axis=0) for _ in range(draws)], axis=0)
    constant = ((X - train.mean(axis=0)) ** 2).mean(axis=0)
    places = job.schema.fields.places
    weighted = np.any(task.K, axis=0)
    silent = []
    for name, place in zip(job.names, places, strict=True):
        told = np.asarray(weighted[place])
        spread = float(constant[place][told].sum())  # of a column that is the same for everybody, all is known
        if spread > 0 and wrong[place][told].sum() >= (1.0 - NO_SIGNAL) * spread:
            silent.append(name)
    return tuple(silent)
