"""A method of your own, compared with ours on data that ships with scikit-learn, and on the paper's household data.

    python examples/own_method.py                        # seconds
    TASKVEIL_DATA=folder python examples/own_method.py   # the paper's experiment too

A designer is any object with `name`, `why_not`, `seeded` and `designs`. It puts encoder, mechanism and decoder
together; what is promised to people is checked by the mechanism itself, whatever the designer does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.designs.domain import box_region
from taskveil.designs.problem import Problem
from taskveil.tasks import LinearTask, Task
from taskveil.veil.decoders import CodewordDecoder


@dataclass(frozen=True)
class SignOfFirstDirection:
    """Randomised response on which side of the mean a record lies, along the direction in which records vary most."""

    name: str = "sign"

    def why_not(self, task: Task) -> str | None:
        return None if isinstance(task, LinearTask) else "the sign is a report for linear tasks only."

    def seeded(self, task: Task) -> bool:  # noqa: ARG002 - no task makes it depend on chance
        return False

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        X, box = problem.X, problem.domain.bounding_box
        mean = X.mean(axis=0)
        direction = np.linalg.svd(X - mean, full_matrices=False)[2][:1]
        encoder = LinearEncoder.of(low=box.low, high=box.high, weights=direction, offset=-direction @ mean)
        above = encoder(X)[:, 0] > 0
        for epsilon in epsilons:
            # Two outputs: 0 is favoured above the mean, 1 below. Their scores are φ and −φ.
            response = Response.calibrated(size=2, favoured=1, epsilon=epsilon)
            scores = np.array([[1], [-1]], dtype=np.int64)
            stage = Stage(vectors=scores, offsets=np.zeros(2, np.int64), shifts=0 * scores, response=response)
            reach = np.abs(encoder(X)).max(axis=0)
            # The best answer to a report is the mean of the records given that report.
            chance = np.where(above == [[True], [False]], response.base + response.extra, response.base)
            codewords = chance @ X / chance.sum(axis=1, keepdims=True)
            veil = tv.Veil(
                encoder=encoder,
                mechanism=Codebook(region=box_region(-reach, reach), stages=(stage,)),
                decoder=CodewordDecoder(codewords=codewords, sizes=np.array([2])),
                task=problem.task,
                method=self.name,
            )
            yield from ((epsilon, seed, veil) for seed in seeds)


def main() -> None:
    own = SignOfFirstDirection()
    X = StandardScaler().fit_transform(load_diabetes().data)
    task = tv.LinearTask(np.eye(10) / np.sqrt(10))
    print("Diabetes patients, ten measurements:")
    print(tv.sweep(X, task, epsilons=[0.5, 1, 2, 4], methods=[own, "codebook", "task_agnostic"]).table())
    print(tv.design(X, task, epsilon=1.0, method=own).guarantee.statement)

    if "TASKVEIL_DATA" in os.environ:
        # For designers of models: real_estate, breast_cancer and mnist have X, y, X_test, y_test and task.
        from taskveil.experiments import household

        days, test, task = household.problem()
        frontier = tv.sweep(
            days, task, test=test, epsilons=household.EPSILONS[:3], methods=[own, "codebook", "task_agnostic"]
        )
        print("\nThe paper's household experiment:")
        print(frontier.table())


if __name__ == "__main__":
    main()
