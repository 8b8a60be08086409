"""The codebook design for a model: a report is one of K answers, chosen so that the expected loss is least.

What a device can know of the truth is a predictor's business (`designs.predictors`); what becomes of it, the answers
and the channel that reports them, is found by alternation (`alternation`); which predictor, how many answers and how
many of them favoured is chosen by cross-validation (`choosing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Codebook, Stage
from taskveil.decoders import CodewordDecoder
from taskveil.designs.codebooks.alternation import Code, Sample, given_reports
from taskveil.designs.codebooks.answers import realise
from taskveil.designs.codebooks.choosing import choose, final_code
from taskveil.designs.folds import folds_of, people
from taskveil.designs.laplace.build import box_region
from taskveil.designs.predictors.candidates import predictors
from taskveil.designs.predictors.predictor import FOLDS, Evidence, Predictor
from taskveil.designs.problem import Problem
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask
from taskveil.tasks.costs import OwnLoss
from taskveil.veil import Veil

_LARGEST_EPSILON = 28.0  # beyond, a wrong report is rarer than 10^-9: more budget buys nothing


def model_codebooks(problem: Problem, epsilons: Sequence[float], seed: int = 0) -> Iterator[tuple[float, Veil, Floats]]:
    """For every budget the codebook of least cross-validated loss, each as soon as it is there, with the loss of every
    volunteer (N,) when it was held out."""
    task = problem.task
    if not isinstance(task, ModelTask) or isinstance(task.cost, OwnLoss):
        raise TaskError('codebooks need loss="mse" or "cross_entropy"; use method="task_aware" for a loss of your own.')
    truth, box, person = task.truth(problem.X, problem.y), problem.domain.bounding_box, people(problem.X)
    evidence = Evidence(
        X=problem.X,
        truth=truth,
        cost=task.cost,
        fold=folds_of(person, FOLDS, np.random.default_rng(seed)),
        low=box.low,
        high=box.high,
        seed=seed,
        most_bytes=problem.on_device.client_bytes,
        device=problem.device,
    )
    # What a record says about the answer does not depend on the budget.
    found = predictors(task, problem.y, evidence, problem.on_device)
    samples = [Sample(predicted=p.held_out, truth=truth, cost=task.cost) for p in found]
    made: dict[float, tuple[Veil, Floats]] = {}
    for epsilon in epsilons:
        budget = min(epsilon, _LARGEST_EPSILON)
        if budget not in made:
            rng = np.random.default_rng(seed)
            chosen = choose(samples, person, budget, seed)
            code = final_code(samples[chosen.place], chosen.shape, budget, rng)
            veil = _veil(problem, found[chosen.place], samples[chosen.place], code, rng)
            made[budget] = veil, chosen.losses
        yield epsilon, *made[budget]


def _veil(problem: Problem, predictor: Predictor, sample: Sample, code: Code, rng: np.random.Generator) -> Veil:
    """The code as a device and a server run it. Answered directly, the estimate of a record is the mean of the
    volunteers given the report; answered by the model, it is an input at which the model gives the wanted answer."""
    task, cost = problem.task, sample.cost
    answering = None
    if problem.answers == "record" and isinstance(task, ModelTask):
        codewords = realise(task, cost, code.answers, problem.X, rng=rng, device=problem.device)
        aims = task.answers(codewords)
    else:
        columns = np.hstack([problem.X, np.ones((len(sample), 1))])
        sums = given_reports(columns, code.favoured(sample), code.response)
        codewords = sums[:, :-1] / sums[:, -1:]
        answering, aims = _table(cost.outputs(code.answers)), code.aims
    region = box_region(*cost.latent_range(sample.predicted))
    vectors, offsets = cost.whole_scores(aims, region.step)
    stage = Stage(vectors=vectors, offsets=offsets, shifts=np.zeros_like(vectors), response=code.response)
    return Veil(
        encoder=predictor.encoder,
        mechanism=Codebook(region=region, stages=(stage,)),
        decoder=_table(codewords),
        answering=answering,
        task=task,
        method="codebook",
    )


def _table(rows: Floats) -> CodewordDecoder:
    """What each report of one code number stands for."""
    return CodewordDecoder(codewords=rows, sizes=np.array([len(rows)]))
