"""`method="nothing"`: reports that say nothing, answered alike for everybody. What every design has to beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.decoders import CodewordDecoder
from taskveil.designs.auto import FOLDS, SelfJudged
from taskveil.designs.folds import folds_of, people
from taskveil.designs.problem import Problem
from taskveil.tasks import LinearTask, Task, needs_unbiased, take_labels
from taskveil.veil import Veil

LEAST_EPSILON = 2.0**-36
"""The budget such a report states: it spends none, but a release must state one above zero."""


@dataclass(frozen=True, kw_only=True)
class NothingDesigner:
    """A fair coin for a report, whatever the record, and the one answer that is best for all volunteers."""

    name: str

    def why_not(self, task: Task) -> str | None:
        """It serves every task but means of other people than the volunteers."""
        return needs_unbiased(task, self.name)

    def seeded(self, task: Task) -> bool:  # noqa: ARG002 - the seed only starts a search, which ends much alike
        """One seed is enough."""
        return False

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed; the budget is left unspent."""
        for seed in seeds:
            if problem.answers == "record" or isinstance(problem.task, LinearTask):
                answer, output = constant_record(problem, seed), None
            else:
                answer, output = problem.X.mean(axis=0), problem.task.constant_output(problem.X, problem.y)
            yield from ((epsilon, seed, self._veil(problem, answer, output, epsilon)) for epsilon in epsilons)

    def judged(self, problem: Problem, epsilons: Sequence[float], seed: int) -> Iterator[SelfJudged]:
        """One for every budget; what one answer for everybody costs each volunteer who had no part in it."""
        X, y, task, person = problem.X, problem.y, problem.task, people(problem.X)
        fold = folds_of(person, min(FOLDS, int(person.max()) + 1), np.random.default_rng(seed))
        losses = np.empty(len(X))
        for part in range(int(fold.max()) + 1):
            held = fold == part
            mine, theirs = (take_labels(task, y, rows) for rows in (~held, held))
            losses[held] = task.constant_losses(X[~held], mine, X[held], theirs)
        for epsilon, _, veil in self.designs(problem, epsilons, [seed]):
            # A record says the best answer only as well as the model can: what that costs is the same for all folds.
            said = veil.decoder(np.zeros((1, 1)))
            costs = losses if veil.answering is not None else task.pairwise_losses(said, X, y)[:, 0]
            yield SelfJudged(epsilon, veil, costs, skilled=False)

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
    """The same for both reports."""
    return CodewordDecoder(codewords=np.stack([row, row]), sizes=np.array([2]))


def constant_record(problem: Problem, seed: int) -> Floats:
    """The record (n,) whose answer serves all volunteers best: for a linear task their mean, for others the best that
    can be found (see `codebooks.answers`)."""
    X, task = problem.X, problem.task
    if isinstance(task, LinearTask):
        return np.asarray(X.mean(axis=0))
    from taskveil.designs.codebooks.answers import answered_with

    def everybody(numbers: Floats) -> Floats:
        return np.asarray(numbers.sum(axis=0, keepdims=True))

    output, rng = task.constant_output(X, problem.y)[None], np.random.default_rng(seed)
    (answer,) = answered_with(task, output, X, problem.y, everybody, rng=rng, device=problem.device)
    return np.asarray(answer)
