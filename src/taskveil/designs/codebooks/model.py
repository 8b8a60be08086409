"""The codebook design for a model: a report is one of K answers, chosen so that the expected loss is least.

What a device can know of the truth is a predictor's business (`designs.predictors`); what becomes of it, the answers
and the channel that reports them, is found by alternation (`alternation`); which predictor, how many answers and how
many of them favoured is chosen by cross-validation (`choosing`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Codebook, Stage
from taskveil.client.named import NamedEncoder
from taskveil.decoders import CodewordDecoder
from taskveil.designs.codebooks.alternation import LARGEST_EPSILON, Code, Sample, given_reports
from taskveil.designs.codebooks.answers import answered_with
from taskveil.designs.codebooks.choosing import choose, final_code, is_skilled
from taskveil.designs.folds import folds_of, people
from taskveil.designs.laplace.build import box_region
from taskveil.designs.on_device import MANIFEST
from taskveil.designs.predictors.candidates import predictors
from taskveil.designs.predictors.predictor import FOLDS, Evidence, Predictor
from taskveil.designs.problem import Problem
from taskveil.errors import NamedModelWarning, callers_line
from taskveil.losses import expected_losses
from taskveil.reference import Reference
from taskveil.tasks.costs import Learnable
from taskveil.veil import Veil

_ONLY_NAMED = (
    "the best encoder is the task's own model, which is neither trees nor a network of layers that a release can hold: "
    "this one only names it. Python clients bring it (Client.load(..., encoder=function)), browsers refuse the "
    'release. Choose encoder="light" or "trees" for one that holds all it needs, or encoder="own" to have no warning.'
)


def model_codebooks(
    problem: Problem, epsilons: Sequence[float], seed: int = 0
) -> Iterator[tuple[float, Veil, Floats, bool]]:
    """For every budget the codebook of least cross-validated loss, each as soon as it is there, with the loss of every
    volunteer (N,) when it was held out, and whether its predictor is clearly better than one answer for everybody."""
    task, box, person = problem.task, problem.domain.bounding_box, people(problem.X)
    cost, truth = task.linear_form(problem.X, problem.y)
    evidence = Evidence(
        X=problem.X,
        truth=truth,
        cost=cost.learned_by,
        fold=folds_of(person, FOLDS, np.random.default_rng(seed)),
        low=box.low,
        high=box.high,
        seed=seed,
        most_bytes=problem.on_device.client_bytes,
        device=problem.device,
        person=person,
    )
    # What a record says about the answer does not depend on the budget.
    found = predictors(task, problem.y, evidence, problem.on_device)
    preferred = next((place for place, each in enumerate(found) if each.preferred), None)
    samples = [
        Sample(
            predicted=np.clip(each.held_out, *cost.latent_range(each.held_out)),
            truth=truth,
            cost=cost,
            most=int((problem.on_device.client_bytes - each.bytes - MANIFEST) // (16 * truth.shape[1] + 8)),
        )
        for each in found
    ]
    made: dict[float, tuple[Veil, Floats, bool]] = {}
    for epsilon in epsilons:
        budget = min(epsilon, LARGEST_EPSILON)
        if budget not in made:
            rng = np.random.default_rng(seed)
            chosen = choose(samples, person, budget, seed, preferred=preferred)
            sample = samples[chosen.place]
            code = final_code(sample, chosen.shape, budget, rng)
            veil, losses = _veil(problem, found[chosen.place], sample, code, rng), chosen.losses
            if isinstance(veil.encoder, NamedEncoder) and problem.on_device.encoder == "auto":
                warnings.warn(_ONLY_NAMED, NamedModelWarning, stacklevel=callers_line())
            if veil.answering is None:
                losses = losses + _lost_by_records(problem, veil, sample, code)
            made[budget] = veil, losses, is_skilled(sample) and veil.answering is not None
        yield epsilon, *made[budget]


def _veil(problem: Problem, predictor: Predictor, sample: Sample, code: Code, rng: np.random.Generator) -> Veil:
    """The code as a device and a server run it. Answered directly, the estimate of a record is the mean of the
    volunteers given the report; answered by the task, it is an input at which the task gives the wanted answer."""
    task, cost, X = problem.task, sample.cost, problem.X
    outputs = cost.outputs(code.answers)
    sums = partial(given_reports, favoured=code.favoured(sample), response=code.response)
    if problem.answers == "record":
        codewords = answered_with(task, outputs, X, problem.y, sums, rng=rng, device=problem.device)
        # What the task says there may differ from what was wanted; devices should know, where that can be written.
        aims = cost.answers(task.predict(codewords)) if isinstance(cost, Learnable) else code.aims
        answering = None
    else:
        codewords = sums(X) / sums(np.ones((len(sample), 1)))
        aims, answering = code.aims, _table(outputs)
    # The grid must suit what is compared on it: predictions, and the answers that they are nearest to.
    region = box_region(*cost.latent_range(np.concatenate([sample.predicted, aims])))
    vectors, offsets = cost.whole_scores(aims, region.step)
    stage = Stage(vectors=vectors, offsets=offsets, shifts=np.zeros_like(vectors), response=code.response)
    return Veil(
        encoder=predictor.encoder,
        mechanism=Codebook(region=region, stages=(stage,)),
        decoder=_table(codewords),
        answering=answering,
        task=task,
        method="codebook",
        reference=Reference.of(task, X, problem.y, sample.predicted, problem.drawn),
    )


def _lost_by_records(problem: Problem, veil: Veil, sample: Sample, code: Code) -> Floats:
    """By how much what the task says of estimated records costs every volunteer (N,) more than the answers that were
    wanted: no record may be answered that way."""
    said, _ = expected_losses(veil.device, veil.decoder, problem.task, problem.X, problem.y, latents=sample.predicted)
    return said - code.losses(sample)


def _table(rows: Floats) -> CodewordDecoder:
    """What each report of one code number stands for."""
    return CodewordDecoder(codewords=rows, sizes=np.array([len(rows)]))
