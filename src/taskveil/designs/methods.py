"""The table from a method's name to its designer: the five that we recommend, and the peers to compare them with.

You can pass a designer of your own instead of a name: see `taskveil.designs.problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from taskveil.arrays import Floats, Integers
from taskveil.designs.auto import Best, ConstantDesigner, best_of
from taskveil.designs.codebooks.linear import linear_candidates, telling_means
from taskveil.designs.codebooks.model import model_candidates
from taskveil.designs.laplace import closed_form
from taskveil.designs.laplace.design import LaplaceDesigner
from taskveil.designs.means.design import MeanDesigner
from taskveil.designs.problem import Designer, Problem
from taskveil.designs.selection import Candidate
from taskveil.errors import RENAMED, TaskError
from taskveil.peers import PEERS
from taskveil.tasks import LinearTask, Task, needs_unbiased
from taskveil.veil import Veil

Method = str | Designer
"""What `method` may be: one of `OURS`, the name of a peer (`taskveil.peers`), or a designer of your own."""


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
        """The candidates for every budget; with `compared`, each with its held-out losses."""
        if (linear := problem.linear) is None:
            yield from model_candidates(problem, epsilons, seed, fold, compared=compared)
            return
        for epsilon in epsilons:
            found = linear_candidates(linear, epsilon, seed, fold, problem.on_device.max_bytes)
            if problem.schema is not None:
                # Of tables with categories and missing values, reports estimate probabilities.
                found = [replace(each, make=partial(_with_means, each.make, problem.X)) for each in found]
            yield epsilon, found


def _with_means(make: Callable[[], Veil], X: Floats) -> Veil:
    return telling_means(make(), X)


_CODEBOOK = CodebookDesigner(name="codebook")
_TASK_AWARE = LaplaceDesigner(name="task_aware", linear=closed_form.task_aware)
_MEANS = MeanDesigner(name="means")
_CONSTANT = ConstantDesigner(name="constant")

OURS: dict[str, Designer] = {
    "auto": Best(name="auto", designers=(_CODEBOOK, _TASK_AWARE, _MEANS), otherwise=_CONSTANT),
    "codebook": _CODEBOOK,
    "task_aware": _TASK_AWARE,
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
