"""A veil from volunteers, a task and a budget: `design`, `design_many` for a sweep, and the table of methods.

The table leads from a method's name to its designer: the six that we recommend, and the peers to compare them with.
You can pass a designer of your own instead of a name: see `taskveil.designs.problem`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from taskveil.designs import gaussian
from taskveil.designs.auto import (
    Best,
    CodebookDesigner,
    ConstantDesigner,
    GaussianDesigner,
    LaplaceDesigner,
    MeanDesigner,
)
from taskveil.designs.domain import Domain
from taskveil.designs.laplace import closed_form
from taskveil.designs.over_time import Budget, OverTime, budget_of, chosen_over_time, without_delta
from taskveil.designs.problem import Designer, OnDevice, Population, Problem
from taskveil.designs.selection import people
from taskveil.errors import RENAMED, BudgetError, DataError, TaskError, refusing_old_arguments
from taskveil.peers import PEERS
from taskveil.progress import Progress, Show
from taskveil.records.even import even_records
from taskveil.records.schema import Schema
from taskveil.records.tables import column_names, name_of
from taskveil.tasks import MeanTask, SurveyTask, Task
from taskveil.veil import Veil
from taskveil.veil.veil import as_delta
from taskveil.veil.volunteers import Volunteers, truths

Method = str | Designer
"""What `method` may be: one of `OURS`, the name of a peer (`taskveil.peers`), or a designer of your own."""


_CODEBOOK = CodebookDesigner(name="codebook")
_TASK_AWARE = LaplaceDesigner(name="task_aware", linear=closed_form.task_aware)
_GAUSSIAN = GaussianDesigner(name="gaussian", linear=gaussian.clipped)
_MEANS = MeanDesigner(name="means")
_CONSTANT = ConstantDesigner(name="constant")

OURS: dict[str, Designer] = {
    "auto": Best(name="auto", designers=(_CODEBOOK, _TASK_AWARE, _GAUSSIAN, _MEANS), otherwise=_CONSTANT),
    "codebook": _CODEBOOK,
    "task_aware": _TASK_AWARE,
    "gaussian": _GAUSSIAN,
    "means": _MEANS,
    "constant": _CONSTANT,
}
DESIGNERS: dict[str, Designer] = {**OURS, **PEERS}


def designer_of(method: Method) -> Designer:
    """The designer of that name, or the caller's own."""
    own = f"{', '.join(DESIGNERS)}, or a designer of your own (taskveil.designs.problem.Designer)"
    if isinstance(method, str):
        if method not in DESIGNERS:
            known = RENAMED.get(f'method="{method}"')
            raise TaskError(f'method="{method}" {known}' if known else f"method must be one of {own}; got {method!r}.")
        return DESIGNERS[method]
    if isinstance(method, type) or not isinstance(method, Designer) or not isinstance(method.name, str):
        raise TaskError(
            f"method must be one of {own}: an object with name, why_not, seeded and designs; "
            f"got {type(method).__name__}."
        )
    if DESIGNERS.get(method.name, method) is not method:
        raise TaskError(f"{method.name!r} is the name of a method that exists: give your designer another.")
    return method


@refusing_old_arguments
def design(
    X: Any,
    task: Task,
    *,
    epsilon: Budget,
    delta: float = 0.0,
    y: Any = None,
    method: Method = "auto",
    on_device: OnDevice | None = None,
    domain: Domain | None = None,
    schema: Schema | None = None,
    like: Population | None = None,
    seed: int = 0,
    progress: bool | Show | Progress | None = None,
    torch_device: str = "cpu",
) -> Veil:
    """Design a veil: encoder and randomiser for the device, decoder for the server.

    Args:
        X: volunteers' records: an array (N, n) of finite numbers, or a pandas, polars or Arrow table, whose columns may
            be numbers, text, flags and dates, and may have missing values. A design for a model uses at most 20,000
            records, drawn at random with the seed. For a survey or means, a `Schema` alone is enough: the design is
            then for even shares and numbers spread over their bounds, and nobody is compared with volunteers.
        task: what the data is for.
        epsilon: the privacy budget of one report. Smaller is more private. Or a
            `tv.OverTime`, a budget for all reports of a person in planned rounds. The design then also chooses in how
            many rounds a person reports, and `veil.considered_panels` says what other numbers would cost.
        delta: the probability with which ε may fail, for example 1e-6. The default 0 is the stronger promise: then
            nothing is excepted. With a larger one, Gaussian noise may be used (see docs/theory/gaussian.md).
        y: the volunteers' labels, for a task that is a model. Without them the model's own answers are the truth.
        method: "auto" compares designs by nested cross-validation: codebooks with several encoders, Laplace noise
            ("task_aware") for linear tasks and torch models, and Gaussian noise ("gaussian") if there is a `delta`. A
            design is chosen only if it beats the constant prediction at the 5% level; of the designs within 1% of the
            lowest held-out loss, the smallest on the device is chosen. If none beats the constant, the method is
            "constant": reports contain no information, and a NothingToReportWarning says so. `veil.considered` lists
            all that were compared. Other names ask for one method: "codebook", "task_aware", "gaussian", "constant",
            "means" for a MeanTask or a SurveyTask, or a peer (`taskveil.peers`). Or a `Designer` of your own.
        on_device: limits for what runs on people's devices: which encoder, how large, and whether the task's own model
            may be used. See docs/guides/models.md.
        domain: where records may lie: a `Box`, a `Ball` or `Points`. Values outside are brought inside, for volunteers
            and users alike. By default the range of the volunteers; single cells that are far out of line with all
            others are brought back, with a warning.
        schema: the fields of a table's records. By default it is inferred from the table.
        like: the result of `taskveil.estimate(..., assume="cells")` for the people who answered a first round. The
            volunteers are reweighted by cell to be like them, so that a second round fits them.
        seed: of the search for a design. The same seed on the same machine gives the same design; reports are never
            seeded.
        progress: None shows a progress bar after two seconds of work, on a terminal or in a notebook. True and False
            force it. Or a function, which is called with a description and the share that is done. Or an open
            `Progress`.
        torch_device: "cpu" or "cuda", where torch trains. Releases need neither.

    Returns:
        A veil whose `guarantee` holds for every user and every input.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> bool(veil.loss(X).mean < X.sum(axis=1).var())  # better than one answer for everybody
        True
    """
    budget, designer = without_delta(budget_of(epsilon), as_delta(delta)), designer_of(method)
    if alone := isinstance(X, Schema):
        if not isinstance(task, MeanTask | SurveyTask):
            raise DataError(
                f"a {type(task).__name__} is designed from volunteers' records. A schema alone is enough for surveys "
                "and for means."
            )
        schema, X = X, even_records(X)
    with Progress.of(progress) as bar:
        bar.begin(f"designing ({designer.name})", 0.0)  # the designer adds the amount of work
        problem = Problem.of(
            X, task, y=y, domain=domain, schema=schema, on_device=on_device, torch_device=torch_device, progress=bar,
            delta=delta,
        )  # fmt: skip
        volunteers = problem
        if like is not None:
            if not callable(getattr(like, "weights", None)):
                raise TaskError(f"like must be an estimate of taskveil.estimate, got {type(like).__name__}.")
            problem = problem.like(like, seed)

        def made(one: float) -> Veil:
            ((_, _, veil),) = design_many(designer, problem, epsilons=[one], seeds=[seed])
            return veil

        if isinstance(budget, OverTime):  # noqa: SIM108
            veil = chosen_over_time(budget, designer, problem, seed, made)
        else:
            veil = made(budget)
        # The volunteers as they were passed, not reweighted: people are compared with the same ones in every round.
        veil = finished(veil, volunteers, column_names(X), name_of(y))
        return replace(veil, volunteers=None) if alone else veil


def design_many(
    designer: Designer, problem: Problem, *, epsilons: Sequence[float], seeds: Sequence[int]
) -> Iterator[tuple[float, int, Veil]]:
    """A veil for every (ε, seed), in no particular order, each as soon as it is there.

    Args:
        designer: who makes them.
        problem: what for, checked by `Problem.of`.
        epsilons: budgets of one report, checked.
        seeds: of the search for designs; reports are never seeded.
    """
    task = problem.task
    problem = replace(problem, task=problem.served)
    reason = designer.why_not(problem.task)
    if reason is not None:
        raise TaskError(reason)
    missing = {(epsilon, seed) for epsilon in epsilons for seed in seeds}
    for epsilon, seed, veil in designer.designs(problem, epsilons, seeds):
        if (epsilon, seed) not in missing:
            raise TaskError(f"{designer.name} made a veil for ε = {epsilon}, seed {seed}: not asked for, or twice.")
        missing.remove((epsilon, seed))
        promised = veil.guarantee
        if promised.epsilon > epsilon or promised.delta > problem.delta:
            raise BudgetError(
                f"{designer.name} was given ε = {epsilon:g}, δ = {problem.delta:g} and made a veil of "
                f"ε = {promised.epsilon:g}, δ = {promised.delta:g}: a designer must keep the budget it is given."
            )
        yield epsilon, seed, veil if veil.task is task else replace(veil, task=task)
    if missing:
        raise TaskError(f"{designer.name} made no veil for {len(missing)} of the budgets and seeds it was given.")


def finished(veil: Veil, problem: Problem, columns: tuple[str, ...] | None, target: str | None = None) -> Veil:
    """The veil with what it needs beyond its design, from the volunteers of `problem` as they came, whose attributes
    are called `columns` and whose label is called `target`."""
    answers = truths(problem.task, problem.X, problem.y, target)
    if veil.volunteers is None:  # designs that learn from labels bring sums of their own, by models fitted without them
        latents, person = veil.encoder(problem.X), people(problem.X)
        volunteers = Volunteers.of(
            veil.mechanism, veil.decoder, latents, problem.X, problem.task, answers, problem.schema, person=person
        )
        veil = replace(veil, volunteers=volunteers)
    outputs = answers[1] if answers[1].names else None  # a survey has no answers for single records
    return _named(replace(veil, outputs=outputs), problem.schema, columns)


def _named(veil: Veil, schema: Schema, columns: tuple[str, ...] | None) -> Veil:
    """The veil with the names and units of what it takes."""
    if not schema.unbounded:
        return replace(veil, schema=schema, columns=schema.names, units=schema.fields.units)
    units = schema.fields.units if any(schema.fields.units) else None
    return replace(veil, schema=schema, columns=columns, units=units)
