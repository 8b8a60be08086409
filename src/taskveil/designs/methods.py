"""One table from a method's name to its designer.

A designer of your own takes the same way: see `taskveil.designs.problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from taskveil.arrays import Floats, Integers
from taskveil.designs.auto import Best, best_of, refitted
from taskveil.designs.codebooks.linear import linear_candidates, telling_means
from taskveil.designs.codebooks.model import model_candidates
from taskveil.designs.constant import NothingDesigner
from taskveil.designs.laplace import closed_form
from taskveil.designs.means.design import MeanDesigner
from taskveil.designs.moments import LinearProblem
from taskveil.designs.problem import Designer, Problem
from taskveil.designs.selection import Candidate
from taskveil.errors import TaskError, installed, needs
from taskveil.peers import baselines
from taskveil.peers.laplace import AttributeLaplace, PredictionLaplace
from taskveil.peers.literature import LITERATURE
from taskveil.peers.responses import BinnedResponse, LabelResponse
from taskveil.tasks import LinearTask, MeanTask, ModelTask, Task, needs_unbiased
from taskveil.tasks.models.freezing import is_torch_module
from taskveil.veil import Veil

MethodName = Literal[
    "auto", "codebook", "task_aware", "task_agnostic", "privacy_agnostic", "matrix_factorization", "nothing",
    "label_response", "binned_response", "prediction_laplace", "attribute_laplace",
    "means", "duchi", "piecewise", "hybrid", "privunit", "laplace_split",
]  # fmt: skip
Method = MethodName | Designer
"""What `method` may be: a name of the table, or a designer of your own."""


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
        if isinstance(task, MeanTask):
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
        """Learned designs depend on the seed, formulas do not."""
        return not isinstance(task, LinearTask)

    def at_once(self, task: Task) -> bool:
        """Learned designs are replicas in one training."""
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
        with needs("a design that learns through a model's gradients", extra="torch"):
            from taskveil.designs.laplace.learned import design_models

        veils = design_models(problem, epsilons=epsilons, seeds=seeds, method=self.name)
        yield from ((epsilon, seed, veil) for (epsilon, seed), veil in veils.items())

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
class CodebookDesigner:
    """Randomised response over codewords."""

    name: str

    def why_not(self, task: Task) -> str | None:
        """It serves every task whose loss is of single records: all have a form that is linear in its truth."""
        return needs_unbiased(task, self.name)

    def seeded(self, task: Task) -> bool:
        """Learned predictors depend on the seed; for linear tasks it only starts a search, which ends much alike."""
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
        """For every budget, what may be chosen; with `compared`, each with its held-out losses."""
        if (linear := problem.linear) is None:
            yield from model_candidates(problem, epsilons, seed, fold, compared=compared)
            return
        for epsilon in epsilons:
            found = linear_candidates(linear, epsilon, seed, fold, problem.on_device.client_bytes)
            if not problem.schema.unbounded:
                # Of tables with categories and missing values, reports estimate probabilities.
                found = [replace(each, make=partial(_with_means, each.make, problem.X)) for each in found]
            yield epsilon, found


def _with_means(make: Callable[[], Veil], X: Floats) -> Veil:
    return telling_means(make(), X)


_CODEBOOK = CodebookDesigner(name="codebook")
_TASK_AWARE = LaplaceDesigner(name="task_aware", linear=closed_form.task_aware)
_MEANS = MeanDesigner(name="means")
_NOTHING = NothingDesigner(name="nothing")

DESIGNERS: dict[str, Designer] = {
    "auto": Best(name="auto", designers=(_CODEBOOK, _TASK_AWARE, _MEANS), otherwise=_NOTHING),
    "codebook": _CODEBOOK,
    "task_aware": _TASK_AWARE,
    "task_agnostic": LaplaceDesigner(name="task_agnostic", linear=baselines.task_agnostic),
    "privacy_agnostic": LaplaceDesigner(name="privacy_agnostic", linear=baselines.privacy_agnostic),
    "matrix_factorization": LaplaceDesigner(
        name="matrix_factorization", linear=baselines.matrix_factorization, for_models=False
    ),
    "nothing": _NOTHING,
    "label_response": LabelResponse(name="label_response"),
    "binned_response": BinnedResponse(name="binned_response"),
    "prediction_laplace": PredictionLaplace(name="prediction_laplace"),
    "attribute_laplace": AttributeLaplace(name="attribute_laplace"),
    "means": _MEANS,
    **{way.name: way for way in LITERATURE},
}


def designer_of(method: Method) -> Designer:
    """The designer of that name, or the caller's own."""
    own = f"{', '.join(DESIGNERS)}, or a designer of your own (taskveil.designs.problem.Designer)"
    if isinstance(method, str):
        if method not in DESIGNERS:
            raise TaskError(f"method must be one of {own}; got {method!r}.")
        return DESIGNERS[method]
    if isinstance(method, type) or not isinstance(method, Designer) or not isinstance(method.name, str):
        raise TaskError(
            f"method must be one of {own}: an object with name, why_not, seeded and designs; "
            f"got {type(method).__name__}."
        )
    if DESIGNERS.get(method.name, method) is not method:
        raise TaskError(f"{method.name!r} is the name of a method that exists: give your designer another.")
    return method
