"""Our designers: codebooks, Laplace and Gaussian noise, the constant prediction, and "auto", which compares candidates.

Every candidate has to beat the constant prediction; `selection` chooses.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.designs.codebooks.answers import answered_with
from taskveil.designs.codebooks.linear import linear_candidates, telling_means
from taskveil.designs.codebooks.model import model_candidates
from taskveil.designs.crossfit import FOLDS
from taskveil.designs.means.design import design_means
from taskveil.designs.means.survey import design_survey
from taskveil.designs.moments import LinearProblem
from taskveil.designs.problem import Designer, Problem, Unseeded
from taskveil.designs.selection import MANIFEST, Candidate, bytes_of, choose, folds_of, one_thread, people
from taskveil.errors import BudgetError, NothingToReportWarning, callers_line, installed, needs
from taskveil.progress import SILENT
from taskveil.tasks import LinearTask, MeanTask, ModelTask, SurveyTask, Task, needs_unbiased, take_labels
from taskveil.tasks.model import is_torch_module
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder
from taskveil.veil.losses import expected_losses

MOST = 20_000
"""Volunteers that a design for a model is made from, at most, drawn by the seed: more would change little."""

LEARNING = "a design that learns through a model's gradients"


@runtime_checkable
class Competing(Protocol):
    """A designer that judges its own candidates while it makes them, or has none for some of the tasks it can serve."""

    def candidates(
        self, problem: Problem, epsilons: Sequence[float], seed: int, fold: Integers, *, compared: bool
    ) -> Iterator[tuple[float, list[Candidate]]]:
        """The candidates for every budget; with `compared`, each with its held-out losses."""
        ...


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best of several designers, for every budget by itself; `veil.considered` lists what was tried.

    `otherwise` is taken, with a warning, where no candidate beats it. A single designer that fits needs no judging.
    """

    name: str
    designers: tuple[Designer, ...]
    otherwise: Designer | None = None

    def why_not(self, task: Task) -> str | None:
        """Why none of the designers serves the task; None if one does."""
        reasons = [designer.why_not(task) for designer in self.designers]
        refused = [reason for reason in reasons if reason is not None]
        return " ".join(dict.fromkeys(refused)) if len(refused) == len(reasons) else None

    def seeded(self, task: Task) -> bool:
        """Whether one of the designers depends on the seed."""
        return any(designer.seeded(task) for designer in self._fitting(task))

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed, each as soon as it is there."""
        fitting = self._fitting(problem.task)
        otherwise = None if self.otherwise is None or self.otherwise.why_not(problem.task) else self.otherwise
        if otherwise is None and len(fitting) == 1:
            yield from fitting[0].designs(problem, epsilons, seeds)
            return
        for seed in seeds:
            yield from ((epsilon, seed, veil) for epsilon, veil in _chosen(fitting, otherwise, problem, epsilons, seed))

    def _fitting(self, task: Task) -> list[Designer]:
        return [designer for designer in self.designers if designer.why_not(task) is None]


def best_of(
    designer: Competing, problem: Problem, epsilons: Sequence[float], seed: int
) -> Iterator[tuple[float, Veil]]:
    """(ε, veil): the candidate that the rules of `selection` take, chosen even if it does not beat the constant."""
    problem = volunteers_of(problem, seed)
    fold, person = folds(problem, seed)
    for epsilon, found in designer.candidates(problem, epsilons, seed, fold, compared=False):
        if len(found) == 1:
            yield epsilon, found[0].make()
        else:
            chosen, considered = choose(found, person)
            yield epsilon, replace(chosen.make(), considered=considered)


def volunteers_of(problem: Problem, seed: int) -> Problem:
    """The problem with as many volunteers as a design for a model is made from."""
    if problem.linear is not None or len(problem.X) <= MOST:
        return problem
    return problem.some(np.sort(np.random.default_rng(seed).permutation(len(problem.X))[:MOST]))


def folds(problem: Problem, seed: int) -> tuple[Integers, Integers]:
    """Each volunteer's fold (N,), made once per design, and whose record it is (N,)."""
    person = people(problem.X) if problem.drawn is None else np.unique(problem.drawn, return_inverse=True)[1]
    return folds_of(person, min(FOLDS, int(person.max()) + 1), np.random.default_rng(seed)), person


def _chosen(
    designers: Sequence[Designer], otherwise: Designer | None, problem: Problem, epsilons: Sequence[float], seed: int
) -> Iterator[tuple[float, Veil]]:
    problem = volunteers_of(problem, seed)
    fold, person = folds(problem, seed)
    found: dict[float, list[Candidate]] = {epsilon: [] for epsilon in epsilons}
    for designer in designers:
        competing = (
            designer.candidates(problem, epsilons, seed, fold, compared=True)
            if isinstance(designer, Competing)
            else refitted(designer, problem, epsilons, seed, fold)
        )
        for epsilon, candidates in competing:
            found[epsilon] += candidates
    constants = {} if otherwise is None else dict(refitted(otherwise, problem, epsilons, seed, fold))
    for epsilon in epsilons:
        (constant,) = constants.get(epsilon, [None])
        chosen, considered = choose(found[epsilon], person, constant)
        if chosen is constant:
            warnings.warn(_constant_is_best(epsilon), NothingToReportWarning, stacklevel=callers_line())
        yield epsilon, replace(chosen.make(), considered=considered)


@one_thread()
def refitted(
    designer: Designer, problem: Problem, epsilons: Sequence[float], seed: int, fold: Integers
) -> list[tuple[float, list[Candidate]]]:
    """For every budget the one candidate of any designer, judged by designing again without each fold.

    Expectations that have no formula are simulated from the seed, with the same numbers for all.
    """
    losses = {epsilon: np.full(len(problem.X), np.nan) for epsilon in epsilons}
    progress, problem = problem.progress, replace(problem, progress=SILENT)
    count = int(fold.max()) + 1
    progress.begin(f"judging {designer.name}", count + 1)
    for part in range(count):
        progress.advance(f"judging {designer.name}, fold {part + 1} of {count}", 0)
        held = fold == part
        others = problem.some(~held)
        if np.ptp(others.X, axis=0).max() == 0:  # all alike: nothing can be designed for them
            continue
        for epsilon, _, veil in designer.designs(others, epsilons, [seed]):
            losses[epsilon][held] = _losses(veil, problem, held, seed)
        progress.advance()
    veils = {epsilon: veil for epsilon, _, veil in designer.designs(problem, epsilons, [seed])}
    progress.advance()
    return [
        (
            epsilon,
            [
                Candidate(
                    method=designer.name,
                    encoder=getattr(designer, "encoder", "own"),
                    losses=losses[epsilon],
                    bytes=bytes_of(veil.encoder) + bytes_of(veil.mechanism) + MANIFEST,
                    operations=int(veil.encoder.operations),
                    make=lambda veil=veil: veil,  # type: ignore[misc]
                    delta=veil.mechanism.delta,
                )
            ],
        )
        for epsilon, veil in veils.items()
    ]


def _losses(veil: Veil, problem: Problem, rows: Integers, seed: int) -> Floats:
    """The losses (N,) of a veil for some of the volunteers."""
    found, _ = expected_losses(
        veil.device,
        veil.decoder,
        problem.task,
        problem.X[rows],
        take_labels(problem.task, problem.y, rows),
        answering=veil.answering,
        rng=np.random.default_rng(seed),
    )
    return found


def _constant_is_best(epsilon: float) -> str:
    return (
        f"with these volunteers no design for ε = {epsilon:g} is better than a constant prediction at the 5% level, so "
        "the reports of this veil contain no information and spend no budget. More volunteers, a larger budget or a "
        'model that predicts better can change that. veil.considered lists the losses; with method="codebook" the '
        "reports contain information in any case."
    )


@dataclass(frozen=True, kw_only=True)
class CodebookDesigner:
    """Randomised response over codewords."""

    name: str

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None for each task with a loss of single records."""
        return needs_unbiased(task, self.name)

    def seeded(self, task: Task) -> bool:
        """Whether designs vary much with the seed: learned predictors do, searches for linear tasks hardly."""
        return not isinstance(task, LinearTask)

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        for seed in seeds:
            yield from ((epsilon, seed, veil) for epsilon, veil in best_of(self, problem, epsilons, seed))

    def candidates(
        self, problem: Problem, epsilons: Sequence[float], seed: int, fold: Integers, *, compared: bool
    ) -> Iterator[tuple[float, list[Candidate]]]:
        """The candidates for every budget; with `compared`, each with its held-out losses."""
        if (linear := problem.linear) is None:
            yield from model_candidates(problem, epsilons, seed, fold, compared=compared)
            return
        for epsilon in epsilons:
            found = linear_candidates(linear, epsilon, seed, fold, problem.on_device.max_bytes)
            if not problem.schema.unbounded:
                # Of tables with categories and missing values, reports estimate probabilities.
                found = [replace(each, make=partial(_with_means, each.make, problem.X)) for each in found]
            yield epsilon, found


def _with_means(make: Callable[[], Veil], X: Floats) -> Veil:
    return telling_means(make(), X)


@dataclass(frozen=True, kw_only=True)
class LaplaceDesigner:
    """Laplace noise on a few numbers: found by formula for linear tasks, by gradients for models that have them."""

    name: str
    linear: Callable[[LinearProblem, float], Veil]
    for_models: bool = True
    encoder: str = "linear"

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None if it can."""
        if isinstance(task, LinearTask):
            return None
        if isinstance(task, MeanTask | SurveyTask):
            return needs_unbiased(task, self.name)
        if not self.for_models:
            return f"{self.name} is a design for linear tasks; a model has no matrix to factorise."
        if not task.differentiable:
            return (
                f"{self.name} learns through the model's gradients, which a black box does not give: pass a torch "
                'module or an ONNX file, or use method="codebook".'
            )
        if not installed("torch"):
            return f"{self.name} learns through the model's gradients, which takes torch: pip install 'taskveil[torch]'"
        return None

    def seeded(self, task: Task) -> bool:
        """Whether designs vary with the seed: learned ones do, formulas do not."""
        return not isinstance(task, LinearTask)

    def at_once(self, task: Task) -> bool:
        """Whether all designs are made in one call: learned ones are replicas in one training."""
        return not isinstance(task, LinearTask)

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        if (linear := problem.linear) is not None:
            for epsilon in epsilons:
                veil = self.linear(linear, epsilon)
                yield from ((epsilon, seed, veil) for seed in seeds)
            return
        veils = self.learned(problem, epsilons, seeds)
        yield from ((epsilon, seed, veil) for (epsilon, seed), veil in veils.items())

    def learned(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> dict[tuple[float, int], Veil]:
        """A veil for every (ε, seed) of a model."""
        with needs(LEARNING, extra="torch"):
            from taskveil.designs.laplace.learned import design_models

        return design_models(problem, epsilons=epsilons, seeds=seeds)

    def candidates(
        self,
        problem: Problem,
        epsilons: Sequence[float],
        seed: int,
        fold: Integers,
        *,
        compared: bool,  # noqa: ARG002 - there is one for every budget, which is always judged
    ) -> Iterator[tuple[float, list[Candidate]]]:
        """For every budget the one design; none for other models than torch's, which take too long to learn through."""
        parts = [part for part, _, _ in problem.task.parted()]
        if all(not isinstance(part, ModelTask) or is_torch_module(part.model) for part in parts):
            yield from refitted(self, problem, epsilons, seed, fold)


@dataclass(frozen=True, kw_only=True)
class GaussianDesigner(LaplaceDesigner):
    """The same with Gaussian noise, whose ε may fail with the problem's probability δ. It does not compete at δ = 0."""

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        if problem.delta == 0:
            raise BudgetError(
                f"{self.name} is a design for delta > 0: pass delta=1e-6, for example, or choose another method."
            )
        yield from super().designs(problem, epsilons, seeds)

    def learned(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> dict[tuple[float, int], Veil]:
        """A veil for every (ε, seed) of a model."""
        with needs(LEARNING, extra="torch"):
            from taskveil.designs.laplace.learned import design_models, with_gaussian_noise

        return design_models(problem, epsilons=epsilons, seeds=seeds, method=self.name, parts=with_gaussian_noise)

    def candidates(
        self, problem: Problem, epsilons: Sequence[float], seed: int, fold: Integers, *, compared: bool
    ) -> Iterator[tuple[float, list[Candidate]]]:
        """For every budget the one design, or none."""
        if problem.delta > 0:
            yield from super().candidates(problem, epsilons, seed, fold, compared=compared)


LEAST_EPSILON = 2.0**-36
"""The budget that a release of a constant states: reports spend none, but a release must state one above zero."""


@dataclass(frozen=True, kw_only=True)
class ConstantDesigner(Unseeded):
    """Reports are fair coins whatever the record, and every report gets the answer that is best for all volunteers."""

    name: str
    encoder: str = "none"

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None for all tasks but means and surveys, whose answers must be unbiased."""
        return needs_unbiased(task, self.name)

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed; the budget is left unspent."""
        for seed in seeds:
            if problem.answering == "record" or isinstance(problem.task, LinearTask):
                answer, output = constant_record(problem, seed), None
            else:
                answer, output = problem.X.mean(axis=0), problem.task.constant_output(problem.X, problem.y)
            yield from ((epsilon, seed, self._veil(problem, answer, output, epsilon)) for epsilon in epsilons)

    def _veil(self, problem: Problem, answer: Floats, output: Floats | None, epsilon: float) -> Veil:
        box, width = problem.domain.bounding_box, problem.X.shape[1]
        none = np.zeros((1, width), dtype=np.int64)
        encoder = LinearEncoder(low=box.low, high=box.high, weights=none, offset=none[:, 0], step=np.ones(1))
        scores = np.zeros((2, 1), dtype=np.int64)
        stage = Stage(
            vectors=scores,
            offsets=scores[:, 0],
            shifts=scores,
            response=Response.calibrated(size=2, favoured=1, epsilon=min(epsilon, LEAST_EPSILON)),
        )
        return Veil(
            encoder=encoder,
            mechanism=Codebook(region=BoxRegion(step=1.0, low=none[0, :1], high=none[0, :1] + 1), stages=(stage,)),
            decoder=_twice(answer),
            answering=None if output is None else _twice(output),
            task=problem.task,
            method=self.name,
        )


def _twice(row: Floats) -> CodewordDecoder:
    """A decoder that answers both reports with the same row."""
    return CodewordDecoder(codewords=np.stack([row, row]), sizes=np.array([2]))


def constant_record(problem: Problem, seed: int) -> Floats:
    """The record (n,) whose answer serves all volunteers best: for a linear task their mean, for others the best that
    can be found (see `codebooks.answers`)."""
    X, task = problem.X, problem.task
    if isinstance(task, LinearTask):
        return np.asarray(X.mean(axis=0))

    def everybody(numbers: Floats) -> Floats:
        return np.asarray(numbers.sum(axis=0, keepdims=True))

    output, rng = task.constant_output(X, problem.y)[None], np.random.default_rng(seed)
    (answer,) = answered_with(task, output, X, problem.y, everybody, rng=rng, device=problem.torch_device)
    return np.asarray(answer)


@dataclass(frozen=True, kw_only=True)
class MeanDesigner(Unseeded):
    """A report is about some latents at random, rounded at random to levels, by the unbiased channel of least variance.

    A report of group g, drawn with chance p_g, decodes to mean + v/p_g in its latents and to the volunteers' mean in
    all others, so that its expectation is x. It costs Σ_g E‖v_g‖²/p_g − ‖K(x − mean)‖², least for p_g ∝ √E‖v_g‖².
    """

    name: str

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None for means and surveys."""
        if isinstance(task, MeanTask | SurveyTask):
            return None
        return (
            f"{self.name} estimates population means and nothing of single records: it serves a MeanTask or a "
            "SurveyTask."
        )

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        for epsilon in epsilons:
            design = design_survey if isinstance(problem.task, SurveyTask) else design_means
            veil = design(problem, epsilon, self.name)
            yield from ((epsilon, seed, veil) for seed in seeds)
