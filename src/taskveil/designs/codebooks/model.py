"""The codebook design for a model: a report is one of K answers, chosen so that the expected loss is least.

Predictors of the truth lie in `designs.predictors`; `designs.crossfit` cross-fits them. `alternation` chooses the
number of answers by the predictions, and finds the answers. A predictor's held-out losses are those of the whole design
without the judged fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.latent_encoders import Encoder, MeanEncoder, NamedEncoder, Plain
from taskveil.client.mechanisms import Codebook, Stage
from taskveil.designs.codebooks.alternation import (
    LARGEST_EPSILON,
    STARTS,
    Code,
    CodeShape,
    Halved,
    Sample,
    choose_shape,
    final_code,
    given_reports,
)
from taskveil.designs.codebooks.answers import answered_with
from taskveil.designs.crossfit import Calibrated, Evidence, PredictorFamily, calibrate, cross_fit, on_devices
from taskveil.designs.domain import box_region
from taskveil.designs.predictors.light import Light, Linear
from taskveil.designs.predictors.own import OWN, Given, Own, own_model
from taskveil.designs.predictors.trees import BoostedTrees
from taskveil.designs.problem import OnDevice, Problem
from taskveil.designs.selection import MANIFEST, Candidate, bytes_of, one_thread, people
from taskveil.errors import NamedModelWarning, TaskError, UnusedModelWarning, callers_line
from taskveil.tasks import ModelTask, Task, take_labels
from taskveil.tasks.costs import Learnable, LinearInTruth, OwnLoss
from taskveil.tasks.model import is_torch_module
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder
from taskveil.veil.volunteers import Volunteers, truths

MAX_TREE_SECONDS = 6.0
"""Processor time that the fits of trees may take, about, for trees to be a candidate of encoder="auto". Tables with
many columns and classes take longer. Networks are always a candidate, since pictures need them."""

_ONLY_NAMED = (
    "the chosen encoder is the task's own model, in a form that a release cannot hold, so this release only names it. "
    "Python clients bring the model (Client.load(..., encoder=function)), browsers refuse the release. Leave out "
    'share_model=True for an encoder that the release holds, or say encoder="own" to have no warning.'
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
    """A family with its encoder for devices, calibrated for the final design and for judging every fold."""

    name: str
    encoder: Encoder
    final: Calibrated
    judging: tuple[Calibrated, ...]
    on_devices: Callable[[], Floats]
    """(1 + F, N, S): what devices compute for the volunteers, with the encoder and with those without each fold."""

    @property
    def bytes(self) -> int:
        """What the encoder takes on a device."""
        return bytes_of(self.encoder) + MANIFEST


def model_candidates(
    problem: Problem, epsilons: Sequence[float], seed: int, fold: Integers, *, compared: bool
) -> Iterator[tuple[float, list[Candidate]]]:
    """For every budget the candidates, one for each predictor that fits onto devices.

    Args:
        problem: what to design for.
        epsilons: budgets of one report.
        seed: of predictors and codes.
        fold: each volunteer's fold (N,).
        compared: whether a single candidate, too, is judged, since it competes with other designs.
    """
    task = problem.task
    cost, truth = task.linear_form(problem.X, problem.y)
    evidence = evidence_of(problem, cost, truth, fold, seed)
    found = predictors(problem, evidence, compared=compared)
    problem.progress.begin("judging codes", len(epsilons) * len(found))
    designs = [_Design(problem, each, cost, truth, fold, seed) for each in found]
    made: dict[float, list[Candidate]] = {}
    for epsilon in epsilons:
        budget = min(epsilon, LARGEST_EPSILON)
        if budget not in made:
            made[budget] = [each.candidate(budget) for each in designs]
        yield epsilon, made[budget]


def evidence_of(problem: Problem, cost: LinearInTruth, truth: Floats, fold: Integers, seed: int) -> Evidence:
    """What predictors of the truth (N, S) learn from."""
    box = problem.domain.bounding_box
    return Evidence(
        X=problem.X,
        truth=truth,
        cost=cost.learned_by,
        fold=fold,
        low=box.low,
        high=box.high,
        seed=seed,
        most_bytes=problem.on_device.max_bytes,
        device=problem.torch_device,
    )


@one_thread()
def predictors(problem: Problem, evidence: Evidence, *, compared: bool) -> list[Predictor]:
    """All that compete and fit onto devices; TaskError where none does."""
    competing = families(problem.task, problem.y, evidence, problem.on_device)
    judging = compared or len(competing) > 1
    found = []
    # Fits take longer than codes for one budget.
    problem.progress.begin("fitting predictors", 3 * len(competing))
    for family in competing:
        problem.progress.advance(f"fitting {family.name}", 0)
        try:
            fitted = cross_fit(family, evidence, judging=judging)
        except TaskError as error:
            if not isinstance(family, Own):
                raise
            leave_out(error, problem.on_device)  # its owner's estimator cannot learn from fewer volunteers
            continue
        finally:
            problem.progress.advance(steps=3)
        final = calibrate(fitted.final, evidence)
        encoder = family.encoder(evidence, fitted.fits, final.setting, final.slope, final.shift)
        judged = tuple(calibrate(view, evidence) for view in fitted.judging)
        computed = partial(on_devices, fitted, evidence, final)
        found.append(Predictor(name=family.name, encoder=encoder, final=final, judging=judged, on_devices=computed))
    found += together(found, evidence)
    small = [each for each in found if each.bytes <= problem.on_device.max_bytes]
    large = next((each for each in found if each.name == OWN and each not in small), None)
    if small and large is not None:
        leave_out(TaskError(f"it takes about {large.bytes:,} bytes, above max_bytes."), problem.on_device)
    if not small:
        least = min(each.bytes for each in found)
        raise TaskError(
            f"no encoder fits into max_bytes={problem.on_device.max_bytes}: the smallest takes about {least:,} bytes."
        )
    return small


def families(task: Task, y: Any, evidence: Evidence, allowed: OnDevice) -> list[PredictorFamily]:
    """Everything that may compete.

    Args:
        task: what is to be predicted, and perhaps shared.
        y: the volunteers' labels as they were given.
        evidence: what predictors learn from.
        allowed: what may run on devices.
    """
    if is_torch_module(allowed.encoder):
        from taskveil.designs.predictors.networks import Architecture

        return [Architecture.of(allowed.encoder, evidence)]
    if not isinstance(allowed.encoder, str):
        return [Given.of(allowed.encoder, evidence)]
    found: list[PredictorFamily] = [Linear()] if allowed.allows("linear") else []
    if not (allowed.encoder == "auto" and y is None and isinstance(task, ModelTask) and task.lines is not None):
        # Where a linear model is itself the truth, a linear predictor is enough.
        found += [Light()] if allowed.allows("light") else []
        trees = BoostedTrees()
        quick = allowed.encoder == "trees" or trees.seconds(evidence) <= MAX_TREE_SECONDS
        found += [trees] if allowed.allows("trees") and quick else []
    if allowed.allows("own"):
        found += _own(task, y, evidence, allowed)
    return found


def _own(task: Task, y: Any, evidence: Evidence, allowed: OnDevice) -> list[PredictorFamily]:
    """The task's own model, where it can be judged out-of-fold; TaskError where it was asked for and cannot."""
    if not isinstance(task, ModelTask) or isinstance(task.cost, OwnLoss):
        if allowed.encoder == "own":
            raise TaskError(
                'encoder="own" takes one model and a loss with a name: several models, and a loss of your own, are '
                'served by "auto".'
            )
        return []
    trained_anew = y is not None and not allowed.volunteers_unseen and not hasattr(task.model, "get_params")
    try:
        if trained_anew and (module := task.torch_module if task.differentiable else None) is not None:
            from taskveil.designs.predictors.networks import Architecture

            return [Architecture.of(module, evidence, name="own")]
        return [own_model(task, y, evidence, unseen=allowed.volunteers_unseen)]
    except TaskError as error:
        leave_out(error, allowed)
        return []


def leave_out(error: TaskError, allowed: OnDevice) -> None:
    """Warn that the shared model cannot compete; TaskError where it was asked for."""
    if allowed.encoder == "own":
        raise TaskError(f"{error} If the model never saw the volunteers, say volunteers_unseen=True.") from error
    said = f"the shared model takes no part in the design: {error}"
    warnings.warn(said, UnusedModelWarning, stacklevel=callers_line())


def together(found: Sequence[Predictor], evidence: Evidence) -> list[Predictor]:
    """The mean of several predictors, since what errs in different ways errs less together: of those that costs least,
    in every view, for the volunteers whom the view does not judge. None where fewer than two can be parts of a mean."""
    members = [each for each in found if isinstance(each.encoder, Plain)]
    groups = [group for size in range(2, len(members) + 1) for group in combinations(members, size)]
    if not groups:
        return []

    def mean(views: Sequence[Calibrated]) -> Floats:
        return np.asarray(np.mean([view.predicted for view in views], axis=0))

    def loss(views: Sequence[Calibrated], known: Bools) -> float:
        return float(evidence.cost.paired_scores(mean(views)[known], evidence.truth[known]).mean())

    everyone = np.ones(len(evidence), dtype=bool)
    best = min(groups, key=lambda group: loss([each.final for each in group], everyone))
    judging = []
    for part in range(len(members[0].judging)):
        known = evidence.fold != part
        views = [[each.judging[part] for each in group] for group in groups]
        judging.append(mean(min(views, key=lambda same: loss(same, known))))
    encoders = tuple(each.encoder for each in best if isinstance(each.encoder, Plain))
    return [
        Predictor(
            name=" and ".join(each.name for each in best),
            encoder=MeanEncoder(encoders=encoders, weights=np.full(len(encoders), 1.0 / len(encoders))),
            final=Calibrated.given(mean([each.final for each in best])),
            judging=tuple(map(Calibrated.given, judging)),
            on_devices=lambda: np.asarray(np.mean([each.on_devices() for each in best], axis=0)),
        )
    ]


class _Design:
    """One predictor's codebooks, judged and made."""

    def __init__(
        self, problem: Problem, predictor: Predictor, cost: LinearInTruth, truth: Floats, fold: Integers, seed: int
    ) -> None:
        self.problem, self.predictor, self.cost, self.truth, self.seed = problem, predictor, cost, truth, seed
        self.fold = fold
        self._codeword_bytes = 16 * truth.shape[1] + 8
        self.most = int((problem.on_device.max_bytes - predictor.bytes) // self._codeword_bytes)
        self.everyone = Halved(self._sample(predictor.final, slice(None)), seed)
        # Whom each view judges, the others, and the judged: the same for all budgets.
        self.views = [
            (fold == part, Halved(self._sample(view, fold != part), seed), self._sample(view, fold == part))
            for part, view in enumerate(predictor.judging)
        ]

    @one_thread()
    def candidate(self, epsilon: float) -> Candidate:
        """With its held-out losses, where its predictor can be judged."""
        predictor = self.predictor
        self.problem.progress.advance(f"ε = {epsilon:g}: codes for {predictor.name}", 0)
        losses = np.full(len(self.truth), np.nan)
        for part, (held, _, _) in enumerate(self.views):
            losses[held] = self._judged(epsilon, part)
        shape = choose_shape(self.everyone, epsilon)
        self.problem.progress.advance()
        # A model that the release only names is brought along by each device: nobody knows how large it is.
        named = isinstance(predictor.encoder, NamedEncoder)
        whole = predictor.bytes + self._codeword_bytes * shape.size
        return Candidate(
            method="codebook",
            encoder=predictor.name,
            losses=losses,
            bytes=self.problem.on_device.max_bytes if named else whole,
            operations=int(predictor.encoder.operations),
            make=partial(self.veil, epsilon, shape),
        )

    def _sample(self, calibrated: Calibrated, rows: Any) -> Sample:
        predicted = np.clip(calibrated.predicted, *self.cost.latent_range(calibrated.predicted))
        return Sample(predicted=predicted[rows], truth=self.truth[rows], cost=self.cost, most=self.most)

    def _judged(self, epsilon: float, part: int) -> Floats:
        """The expected losses of the volunteers of this fold, by a code that is made from the others alone."""
        held, others, judged = self.views[part]
        # The shape is chosen without labels, the answers with those of the others.
        code = final_code(others.sample, choose_shape(others, epsilon), epsilon, self.seed, starts=1)
        if self.problem.answering == "direct":
            return code.losses(judged)
        records, code = _by_records(self.problem.some(~held), others.sample, code, self.seed)
        task = self.problem.task
        losses = task.pairwise_losses(records, self.problem.X[held], take_labels(task, self.problem.y, held))
        favoured_losses = np.take_along_axis(losses, code.favoured(judged), axis=1).sum(axis=1)
        return np.asarray(code.response.extra * favoured_losses + code.response.base * losses.sum(axis=1))

    @one_thread()
    def veil(self, epsilon: float, shape: CodeShape) -> Veil:
        """The code as a device and a server run it, made from all volunteers. Answered directly, the estimate of a
        record is the mean of the volunteers given the report; answered by the task, it is an input at which the task
        gives the wanted answer."""
        problem, cost, sample = self.problem, self.cost, self.everyone.sample
        code = final_code(sample, shape, epsilon, self.seed, STARTS).without_copies()
        answering = None
        if problem.answering == "record":
            codewords, code = _by_records(problem, sample, code, self.seed)
        else:
            sums = partial(given_reports, favoured=code.favoured(sample), response=code.response)
            codewords = sums(problem.X) / sums(np.ones((len(sample), 1)))
            answering = _table(cost.outputs(code.answers))
        # The grid must suit what is compared on it: predictions, and the answers that they are nearest to.
        region = box_region(*cost.latent_range(np.concatenate([sample.predicted, code.aims])))
        vectors, offsets = cost.whole_scores(code.aims, region.step)
        stage = Stage(vectors=vectors, offsets=offsets, shifts=np.zeros_like(vectors), response=code.response)
        if isinstance(self.predictor.encoder, NamedEncoder) and problem.on_device.encoder == "auto":
            warnings.warn(_ONLY_NAMED, NamedModelWarning, stacklevel=callers_line())
        mechanism, decoder = Codebook(region=region, stages=(stage,)), _table(codewords)
        answers = truths(problem.task, problem.X, problem.y)
        computed = self.predictor.on_devices()
        return Veil(
            encoder=self.predictor.encoder,
            mechanism=mechanism,
            decoder=decoder,
            answering=answering,
            task=problem.task,
            method="codebook",
            volunteers=Volunteers.of(
                mechanism,
                decoder,
                computed[0],
                problem.X,
                problem.task,
                answers,
                problem.schema,
                problem.drawn,
                refits=(computed[1:], self.fold),
                person=people(problem.X),
            ),
        )


def _by_records(problem: Problem, sample: Sample, code: Code, seed: int) -> tuple[Floats, Code]:
    """Records (K, n) at which the task gives the code's answers, as nearly as can be found, and the code whose devices
    know what the task says there, where that can be written."""
    cost, task = sample.cost, problem.task
    sums = partial(given_reports, favoured=code.favoured(sample), response=code.response)
    records = answered_with(
        task,
        cost.outputs(code.answers),
        problem.X,
        problem.y,
        sums,
        rng=np.random.default_rng(seed),
        device=problem.torch_device,
    )
    return records, replace(code, aims=cost.answers(task.predict(records))) if isinstance(cost, Learnable) else code


def _table(rows: Floats) -> CodewordDecoder:
    """What each report of one code number stands for."""
    return CodewordDecoder(codewords=rows, sizes=np.array([len(rows)]))
