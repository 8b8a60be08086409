"""`method="nothing"`: reports that say nothing, answered alike for everybody. What every design has to beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.designs.codebooks.answers import answered_with
from taskveil.designs.problem import Problem, Unseeded
from taskveil.tasks import LinearTask, Task, needs_unbiased
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder

LEAST_EPSILON = 2.0**-36
"""The budget such a report states: it spends none, but a release must state one above zero."""


@dataclass(frozen=True, kw_only=True)
class NothingDesigner(Unseeded):
    """A fair coin for a report, whatever the record, and the one answer that is best for all volunteers."""

    name: str
    encoder: str = "none"

    def why_not(self, task: Task) -> str | None:
        """It serves every task but means of other people than the volunteers."""
        return needs_unbiased(task, self.name)

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

    def everybody(numbers: Floats) -> Floats:
        return np.asarray(numbers.sum(axis=0, keepdims=True))

    output, rng = task.constant_output(X, problem.y)[None], np.random.default_rng(seed)
    (answer,) = answered_with(task, output, X, problem.y, everybody, rng=rng, device=problem.device)
    return np.asarray(answer)
