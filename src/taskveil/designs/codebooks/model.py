"""The codebook design for a model: a report is one of K answers, chosen so that the model's expected loss is least.

The loss of an answer is linear in the truth (see `designs.codewords`), so a device needs to know one thing about its
record: the expected truth, which a light predictor estimates. It favours the m answers of least predicted cost; the
best answer to a report is the mean truth given the report under the exact channel; Lloyd's alternation finds both, K
and m by cross-validation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.decoders import CodewordDecoder
from taskveil.designs.codebooks.answers import LEAST, answers, costs, own_cost, realise
from taskveil.designs.codebooks.predictor import fit_predictor
from taskveil.designs.domain import Domain
from taskveil.designs.laplace.build import box_region
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask
from taskveil.veil import Veil

LISTED = 512  # the most codewords
SMOOTHING = 8.0
"""Pseudo-records that draw a codeword's answer towards the mean *prediction* given its report: they keep codewords of
few records calibrated."""

_LARGEST_EPSILON = 28.0  # beyond, a wrong report is rarer than 10^-9: more budget buys nothing
_GROUPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Predicted and true statistic of every volunteer (N, S), and whether they are class probabilities."""

    predicted: Floats
    truth: Floats
    classes: bool

    def __getitem__(self, rows: Any) -> Sample:
        return Sample(predicted=self.predicted[rows], truth=self.truth[rows], classes=self.classes)

    def __len__(self) -> int:
        return len(self.truth)


def model_codebooks(
    X: Floats,
    task: ModelTask,
    epsilons: Iterable[float],
    domain: Domain,
    y: Any = None,
    seed: int = 0,
    device: str = "cpu",
) -> Iterator[tuple[float, Veil]]:
    """For every budget the codebook of least cross-validated loss, each as soon as it is there."""
    if callable(task.loss):
        raise TaskError('codebooks need loss="mse" or "cross_entropy"; use method="task_aware" for a loss of your own.')
    classes, truth = task.loss == "cross_entropy", task.targets(X, y)
    if not np.isfinite(truth).all():
        raise TaskError("the task's answers or labels are not finite on the volunteers' records.")
    # What a record says about the answer does not depend on the budget.
    predictor = fit_predictor(X, truth, classes=classes, seed=seed, device=device)
    sample = Sample(predicted=predictor.held_out, truth=truth, classes=classes)
    box = domain.bounding_box
    encoder = predictor.encoder(box.low, box.high)
    made: dict[float, Veil] = {}
    for epsilon in epsilons:
        budget = min(epsilon, _LARGEST_EPSILON)
        if budget not in made:
            codewords, response = _fit(task, sample, budget, X, np.random.default_rng(seed), device)
            made[budget] = Veil(
                encoder=encoder,
                mechanism=_mechanism(answers(task, codewords), sample, response),
                decoder=CodewordDecoder(codewords=codewords, sizes=np.array([len(codewords)])),
                task=task,
                method="codebook",
            )
        yield epsilon, made[budget]


def _fit(
    task: ModelTask, sample: Sample, epsilon: float, X: Floats, rng: np.random.Generator, device: str
) -> tuple[Floats, Response]:
    """Codewords (K, n) and the channel that reports them."""
    response = _choose(sample, epsilon, rng)
    starts = (_spread_out(sample, response.size, rng) for _ in range(6))
    _, wanted = min((lloyd(sample, response, start) for start in starts), key=lambda found: found[0])
    codewords = realise(task, wanted, X, rng, device)
    if not np.isfinite(answers(task, codewords)).all():
        raise TaskError(
            "the model answers NaN at a codeword; does it cope with all inputs inside the volunteers' range?"
        )
    return codewords, response


def lloyd(sample: Sample, response: Response, start: Floats, steps: int = 40) -> tuple[float, Floats]:
    """(expected cost, wanted answers (K, S)): favour what should cost least, then move answers to mean truths. The
    first K of `start` are where they begin."""
    wanted, last = start[: response.size], math.inf
    outputs = sample.truth.shape[1]
    columns = np.hstack([sample.truth, sample.predicted, np.ones((len(sample), 1))])
    value = last
    for _ in range(steps):
        favoured = _favour(costs(wanted, sample.predicted, classes=sample.classes), response.favoured)
        sums = _given_reports(columns, favoured, response)
        truth, predicted, mass = sums[:, :outputs], sums[:, outputs:-1], sums[:, -1:]
        wanted = (truth + SMOOTHING * predicted / mass) / (mass + SMOOTHING)
        value = float((np.diag(costs(wanted, truth / mass, classes=sample.classes)) * mass[:, 0]).sum() / len(sample))
        if value > last - 1e-4 * abs(last):
            break
        last = value
    return value, wanted


def _given_reports(columns: Floats, favoured: NDArray[np.intp], response: Response) -> Floats:
    """(K, C): sums over records of P[report k | record] times each column."""
    records, count = favoured.shape
    marks = csr_array(
        (np.ones(records * count), favoured.ravel(), np.arange(0, records * count + 1, count)),
        shape=(records, response.size),
    )
    return np.asarray(response.base * columns.sum(axis=0) + response.extra * (marks.T @ columns))


def _favour(cost: Floats, count: int) -> NDArray[np.intp]:
    return cost.argmin(axis=1)[:, None] if count == 1 else np.argpartition(cost, count - 1, axis=1)[:, :count]


def _spread_out(sample: Sample, size: int, rng: np.random.Generator) -> Floats:
    """(size, S): k-means++ among the predictions, in the loss's own divergence, the best of four tries at each step.
    Its first K are a start of K."""
    p = sample.predicted
    soft = 0.9 * p + 0.1 * p.mean(axis=0) if sample.classes else p
    floor = own_cost(p, classes=sample.classes)[:, None]

    def gap(rows: list[int]) -> Floats:
        return np.maximum(costs(soft[rows], p, classes=sample.classes) - floor, 0.0)

    chosen = [int(rng.integers(len(p)))]
    least = gap(chosen)[:, 0]
    while len(chosen) < size:
        total = least.sum()
        tries = rng.choice(len(p), 4, p=least / total if total > 0 else None).tolist()
        after = np.minimum(least[:, None], gap(tries))
        best = int(after.sum(axis=0).argmin())
        chosen.append(tries[best])
        least = after[:, best]
    return np.asarray(soft[chosen])


def _choose(sample: Sample, epsilon: float, rng: np.random.Generator) -> Response:
    """K and m of least cross-validated loss; the fewest codewords among those within a thousandth of it.

    One split of a few hundred records says little, so small samples are split up to four times; of thousands, two
    halves say enough.
    """
    records = len(sample)
    folds = 5 if records < 2000 else 2
    pairs = _candidates(epsilon, records, sample.truth.shape[1])
    loss = dict.fromkeys(pairs, 0.0)
    responses = [Response.calibrated(size=size, favoured=favoured, epsilon=epsilon) for size, favoured in pairs]
    for _ in range(max(1, min(4, 6000 // records))):
        part = rng.permutation(records) % folds
        for fold in range(folds):
            rest, held = sample[part != fold], sample[part == fold]
            start = _spread_out(rest, max(size for size, _ in pairs), rng)
            for response in responses:
                _, wanted = lloyd(rest, response, start)
                loss[response.size, response.favoured] += float(_expected(held, wanted, response).sum())
    least = min(loss.values())
    slack = 1e-3 * abs(least)
    size, favoured = min(
        (pair for pair in pairs if loss[pair] <= least + slack), key=lambda pair: (pair[0], loss[pair])
    )
    return Response.calibrated(size=size, favoured=favoured, epsilon=epsilon)


def _expected(sample: Sample, wanted: Floats, response: Response) -> Floats:
    """The exact expected loss of every record."""
    favoured = _favour(costs(wanted, sample.predicted, classes=sample.classes), response.favoured)
    values = costs(wanted, sample.truth, classes=sample.classes)
    told = np.take_along_axis(values, favoured, axis=1).sum(axis=1)
    own = 0.0 if sample.classes else (sample.truth**2).mean(axis=1)
    return np.asarray(response.extra * told + response.base * values.sum(axis=1) + own)


def _candidates(epsilon: float, records: int, outputs: int) -> list[tuple[int, int]]:
    """(K, m) worth trying: K/m from 2 up to what the budget can tell apart and the records can support."""
    most = max(2.0, min(math.exp(epsilon), records / 8, LISTED))
    groups = sorted({g for g in (*_GROUPS, outputs) if 2 <= g <= most})
    pairs = [(g * m, m) for g in groups for m in (1, 2, 4, 8) if g * m <= min(records / 4, LISTED)]
    return pairs or [(2, 1)]


def _mechanism(given: Floats, sample: Sample, response: Response) -> Codebook:
    """Scores in whole numbers: the negative cost of every answer, linear in the predicted truth."""
    if sample.classes:
        region = box_region(np.zeros(given.shape[1]), np.ones(given.shape[1]))
        vectors = np.rint(np.log(np.maximum(given, LEAST)) * 2.0**20).astype(np.int64)
        offsets = np.zeros(len(given), dtype=np.int64)
    else:
        low, high = sample.predicted.min(axis=0), sample.predicted.max(axis=0)
        reach = 0.5 * (high - low) + 1e-9
        region = box_region(low - reach, high + reach)
        points = np.rint(given / region.step).astype(np.int64)
        vectors, offsets = 2 * points, -(points**2).sum(axis=1)
    stage = Stage(vectors=vectors, offsets=offsets, shifts=np.zeros_like(vectors), response=response)
    return Codebook(region=region, stages=(stage,))
