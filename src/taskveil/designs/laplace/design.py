"""The designer of Laplace designs: ours ("task_aware") and the published baselines differ in the linear map only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from taskveil.arrays import Integers
from taskveil.designs.auto import refitted
from taskveil.designs.moments import LinearProblem
from taskveil.designs.problem import Problem
from taskveil.designs.selection import Candidate
from taskveil.errors import installed, needs
from taskveil.tasks import LinearTask, MeanTask, ModelTask, Task, needs_unbiased
from taskveil.tasks.models.freezing import is_torch_module
from taskveil.veil import Veil


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
