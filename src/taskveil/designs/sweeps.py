"""Loss against budget for several designs: what helps to choose ε, which is what people find hardest."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats
from taskveil.designs.bounds import heaviest, warn_of
from taskveil.designs.domain import Domain
from taskveil.designs.folds import people
from taskveil.designs.frontier import Frontier, Point
from taskveil.designs.methods import Method, design_many, designer_of
from taskveil.designs.on_device import CLIENT_BYTES, Answers, OnDevice
from taskveil.designs.problem import Designer, Formula, Problem
from taskveil.designs.resuming import FinishedPoints, fingerprint
from taskveil.errors import DataError, TaskError
from taskveil.guarantee import as_epsilon
from taskveil.intervals import check_block
from taskveil.records import as_records, as_volunteers, column_names
from taskveil.schema import Schema
from taskveil.tables import take_rows
from taskveil.tasks import MeanTask, ModelTask, Task, as_linear, check_task, take_labels

TEST_SHARE = 0.3

USUAL: tuple[Method, ...] = (
    "codebook", "task_aware", "task_agnostic", "means", "duchi", "piecewise", "hybrid", "privunit", "laplace_split",
)  # fmt: skip
"""What is compared if nobody says which methods: those of them that can serve the task."""


def sweep(
    X: Any,
    task: Task,
    *,
    epsilons: Iterable[float],
    methods: Sequence[Method] | None = None,
    y: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    seeds: int | Sequence[int] = 3,
    encoder: Any = "auto",
    answers: Answers = "direct",
    share_model: bool = False,
    volunteers_unseen: bool = False,
    client_bytes: int = CLIENT_BYTES,
    latent_dim: int | None = None,
    domain: Domain | Schema | None = None,
    device: str = "cpu",
    progress: bool = False,
    block: int = 1,
    resume: str | Path | None = None,
) -> Frontier:
    """The expected test loss of every method at every budget.

    Args:
        X, y: volunteers' records (N, n) and labels. Without `X_test` a random 30% of them is held out for the test,
            copies of a record together (`designs.folds`), and a scikit-learn model is fitted again without them.
        task: what the data is for.
        epsilons: the budgets to try.
        methods: the designs to compare, as in `design`: names, or designers of your own. By default "codebook", and
            "task_aware" and "task_agnostic" where these can serve the task: both need a model with gradients. For a
            MeanTask, "means" and the literature's ways (`designs.means.literature`), which are formulas and no veils.
        X_test, y_test: records (M, n) and labels that losses are measured on. Tables are matched by column name. A
            model that was fitted to them looks too good without privacy, and where it runs on devices itself; so does
            any other than scikit-learn's that was fitted to X, without `X_test`.
        seeds: how many, or which; designs that hardly depend on one have the first.
        block: for records in the order of time: so many neighbours belong together. Without `X_test`, the last 30% are
            then held out instead of random ones.
        resume: a file that keeps every finished design; a sweep that was interrupted goes on from there. It also keeps
            the losses of single test records.
        encoder, answers, share_model, volunteers_unseen, client_bytes: as in `design`; the simple ways ship the model.
        latent_dim, domain, device, progress: as in `design`. Test records, too, are brought inside a given domain.

    Returns:
        One point for every method, budget and seed, and the losses without privacy and with a constant answer; all
        with the losses of single test records behind them, so that a budget can be chosen with confidence.
    """
    designers, budgets, chosen = _asked_for(USUAL if methods is None else methods, epsilons, seeds)
    check_block(block)
    names, rows, test = column_names(X), None, None
    if X_test is None:
        train, test = _split(_checked(X, task, y, domain), in_time=block > 1)
        X = X if names is not None else as_volunteers(X)
        X_test, y_test = take_rows(X, test), take_labels(task, y, test)
        X, y, rows = take_rows(X, train), take_labels(task, y, train), train
    problem = Problem.of(
        X,
        task,
        y=y,
        domain=domain,
        latent_dim=latent_dim,
        device=device,
        progress=progress,
        on_device=OnDevice(
            encoder=encoder, share_model=share_model, volunteers_unseen=volunteers_unseen, client_bytes=client_bytes
        ),
        answers=answers,
        rows=rows,
    )
    if test is not None and isinstance(problem.task, ModelTask) and not volunteers_unseen:
        # Or "no privacy", and whatever runs the model on devices, would know the test records by heart.
        problem = replace(problem, task=problem.task.fitted_again(problem.X, problem.y) or problem.task)
    task, schema = problem.task, problem.schema
    held = as_records(X_test, width=problem.X.shape[1], columns=names) if schema is None else schema.expand(X_test)
    task.labels(y_test, len(held))
    if domain is not None and not np.isnan(held).any():  # devices bring inside whatever lies outside a given domain
        held = problem.domain.project(held)
    if schema is None and np.isfinite(held).all():  # one that decides all losses hides what the designs are worth
        warn_of(heaviest(held), bounded=False, columns=names, rows=test, whose="test records'", stacklevel=3)
    served = as_linear(task) or task
    if methods is None:
        designers = [designer for designer in designers if designer.why_not(served) is None]
    wanted = [(d, e, s) for d in designers for e in budgets for s in (chosen if d.seeded(served) else chosen[:1])]
    reasons = [reason for reason in (designer.why_not(served) for designer in designers) if reason is not None]
    if reasons:  # now, and not after hours with the methods before
        raise TaskError(" ".join(reasons))
    done = FinishedPoints(resume, fingerprint(problem, held, y_test, block), designers)
    for designer in designers:
        missing = [(e, s) for d, e, s in wanted if d is designer and (d.name, e, s) not in done.points]
        if isinstance(designer, Formula):
            for epsilon, seed in missing:
                losses = designer.expected_losses(problem, epsilon, held)
                done.add(Point.of(designer.name, epsilon, seed, losses, block=block))
        elif missing:
            veils = design_many(
                designer, problem, epsilons=sorted({e for e, _ in missing}), seeds=sorted({s for _, s in missing})
            )
            for epsilon, seed, veil in veils:
                losses = veil.losses(held, y_test)
                done.add(Point.of(designer.name, epsilon, seed, losses, block=block, size=veil.size))
    clear = task.losses(held, held, y_test)
    # One answer for everybody is no estimate of a mean: what it loses does not shrink with the number of people.
    constant = clear if isinstance(task, MeanTask) else task.constant_losses(problem.X, problem.y, held, y_test)
    return Frontier(
        points=tuple(done.points[d.name, e, s] for d, e, s in wanted),
        clear=float(clear.mean()),
        constant=float(constant.mean()),
        block=block,
        clear_per_record=clear,
        constant_per_record=constant,
    )


def _checked(X: Any, task: Task, y: Any, domain: Domain | Schema | None) -> Floats:
    """All volunteers' records as numbers (N, n), to tell copies of a record by; whatever is wrong is said here."""
    check_task(task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to warn of is said of the records to design with
        schema = Schema.for_volunteers(X, domain if isinstance(domain, Schema) else None)
    records = as_volunteers(X if schema is None else schema.expand(X))
    if schema is None:
        task.check_width(records.shape[1])
        task.check_columns(column_names(X))
    else:
        task = task.on(schema)
    task.labels(y, len(records))
    return records


def _asked_for(
    methods: Sequence[Method], epsilons: Iterable[float], seeds: int | Sequence[int]
) -> tuple[list[Designer], list[float], list[int]]:
    """Designers, budgets and seeds, at least one of each and none twice."""
    if isinstance(methods, str) or not isinstance(methods, Iterable) or not isinstance(epsilons, Iterable):
        raise TaskError('methods and epsilons come as lists: methods=["codebook"], epsilons=[1.0, 2.0].')
    designers = [designer_of(method) for method in methods]
    budgets = sorted({as_epsilon(epsilon) for epsilon in epsilons})
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(dict.fromkeys(seeds))
    if not budgets or not designers or not chosen:
        raise TaskError(
            "a sweep needs at least one budget, seed and method; "
            f"got {len(budgets)} budgets, {len(chosen)} seeds, {len(designers)} methods."
        )
    names = [designer.name for designer in designers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TaskError(f"two methods of the sweep are named {twice!r}: give each a name of its own.")
    return designers, budgets, chosen


def _split(records: Floats, *, in_time: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The numbers of the records to design with, and of those to test on: drawn at random, but no copy of a record is
    on the other side; or the last ones in time."""
    count = len(records)
    person = np.arange(count) if in_time else people(records)
    everybody = int(person.max()) + 1
    order = np.arange(count) if in_time else np.random.default_rng(0).permutation(everybody)
    kept = max(2, round(everybody * (1 - TEST_SHARE)))
    if everybody - kept < 1:
        raise DataError("too few records to hold some out: pass X_test.")
    held_out = np.isin(person, order[kept:])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
