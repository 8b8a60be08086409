"""The codebook design for a model: a report is one of K answers, chosen so that the model's expected loss is least.

The loss of an answer is linear in the truth (see `tasks.costs`), so a device needs to know one thing about its
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

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.decoders import CodewordDecoder
from taskveil.designs.codebooks.answers import realise
from taskveil.designs.codebooks.predictor import fit_predictor
from taskveil.designs.domain import Domain
from taskveil.designs.folds import folds_of, people
from taskveil.designs.laplace.build import box_region
from taskveil.designs.threads import one_thread
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask
from taskveil.tasks.costs import LinearInTruth, OwnLoss
from taskveil.veil import Veil

LISTED = 512  # the most codewords
SMOOTHING = 8.0
"""Pseudo-records that draw a codeword's answer towards the mean *prediction* given its report: they keep codewords of
few records calibrated."""

_LARGEST_EPSILON = 28.0  # beyond, a wrong report is rarer than 10^-9: more budget buys nothing
_GROUPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The truth of every volunteer (N, S), what a device would predict of it (N, S), and the loss of answers to it."""

    predicted: Floats
    truth: Floats
    cost: LinearInTruth

    def __getitem__(self, rows: Any) -> Sample:
        return Sample(predicted=self.predicted[rows], truth=self.truth[rows], cost=self.cost)

    def __len__(self) -> int:
        return len(self.truth)


def model_codebooks(
    X: Floats,
    task: ModelTask,
    *,
    y: Any,
    epsilons: Iterable[float],
    domain: Domain,
    seed: int = 0,
    device: str = "cpu",
) -> Iterator[tuple[float, Veil]]:
    """For every budget the codebook of least cross-validated loss, each as soon as it is there.

    Args:
        X: the volunteers' records (N, n).
        task: the model and its loss, which must be linear in the truth.
        y: the volunteers' labels, or None where the model itself is the truth.
        epsilons: the budgets.
        domain: where records may lie.
        seed: of everything random.
        device: where torch computes.
    """
    cost = task.cost
    if isinstance(cost, OwnLoss):
        raise TaskError('codebooks need loss="mse" or "cross_entropy"; use method="task_aware" for a loss of your own.')
    truth = task.truth(X, y)
    # What a record says about the answer does not depend on the budget.
    predictor = fit_predictor(X, truth, cost=cost, seed=seed, device=device)
    sample = Sample(predicted=predictor.held_out, truth=truth, cost=cost)
    person = people(X)
    box = domain.bounding_box
    encoder = predictor.encoder(box.low, box.high)
    made: dict[float, Veil] = {}
    for epsilon in epsilons:
        budget = min(epsilon, _LARGEST_EPSILON)
        if budget not in made:
            rng = np.random.default_rng(seed)
            response, wanted = _wanted_answers(sample, person, budget, rng)
            codewords = realise(task, cost, wanted, X, rng=rng, device=device)
            made[budget] = Veil(
                encoder=encoder,
                mechanism=_mechanism(task.answers(codewords), sample, response),
                decoder=CodewordDecoder(codewords=codewords, sizes=np.array([len(codewords)])),
                task=task,
                method="codebook",
            )
        yield epsilon, made[budget]


@one_thread()
def _wanted_answers(
    sample: Sample, person: Integers, epsilon: float, rng: np.random.Generator
) -> tuple[Response, Floats]:
    """The channel that reports them, and the answers (K, S) that cost least behind it."""
    response = _choose(sample, person, epsilon, rng)
    starts = (_spread_out(sample, response.size, rng) for _ in range(6))
    _, wanted = min((lloyd(sample, response, start) for start in starts), key=lambda found: found[0])
    return response, wanted


def lloyd(sample: Sample, response: Response, start: Floats, steps: int = 40) -> tuple[float, Floats]:
    """(expected cost, wanted answers (K, S)): favour what should cost least, then move answers to mean truths. The
    first K of `start` are where they begin."""
    wanted, last = start[: response.size], math.inf
    outputs = sample.truth.shape[1]
    columns = np.hstack([sample.truth, sample.predicted, np.ones((len(sample), 1))])
    value = last
    for _ in range(steps):
        favoured = _favour(sample.cost.scores(wanted, sample.predicted), response.favoured)
        sums = _given_reports(columns, favoured, response)
        truth, predicted, mass = sums[:, :outputs], sums[:, outputs:-1], sums[:, -1:]
        wanted = sample.cost.cautious((truth + SMOOTHING * predicted / mass) / (mass + SMOOTHING), sample.truth)
        value = float((np.diag(sample.cost.scores(wanted, truth / mass)) * mass[:, 0]).sum() / len(sample))
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
    p, cost = sample.predicted, sample.cost
    soft = cost.softened(p)
    floor = cost.least_scores(p)[:, None]

    def gap(rows: list[int]) -> Floats:
        return np.maximum(cost.scores(soft[rows], p) - floor, 0.0)

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


def _choose(sample: Sample, person: Integers, epsilon: float, rng: np.random.Generator) -> Response:
    """K and m of least cross-validated loss; the fewest codewords among those within a thousandth of it. All
    records of one `person` (N,) are held out together.

    One split of a few hundred records says little, so small samples are split up to four times; of thousands, two
    halves say enough.
    """
    records = len(sample)
    folds = 5 if records < 2000 else 2
    pairs = _candidates(epsilon, records, sample.truth.shape[1])
    loss = dict.fromkeys(pairs, 0.0)
    responses = [Response.calibrated(size=size, favoured=favoured, epsilon=epsilon) for size, favoured in pairs]
    for _ in range(max(1, min(4, 6000 // records))):
        part = folds_of(person, folds, rng)
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
    favoured = _favour(sample.cost.scores(wanted, sample.predicted), response.favoured)
    scores = sample.cost.scores(wanted, sample.truth)
    of_favoured = np.take_along_axis(scores, favoured, axis=1).sum(axis=1)
    expected = response.extra * of_favoured + response.base * scores.sum(axis=1)
    return np.asarray(expected + sample.cost.left_out(sample.truth))


def _candidates(epsilon: float, records: int, outputs: int) -> list[tuple[int, int]]:
    """(K, m) worth trying: K/m from 2 up to what the budget can tell apart and the records can support."""
    most = max(2.0, min(math.exp(epsilon), records / 8, LISTED))
    groups = sorted({g for g in (*_GROUPS, outputs) if 2 <= g <= most})
    pairs = [(g * m, m) for g in groups for m in (1, 2, 4, 8) if g * m <= min(records / 4, LISTED)]
    return pairs or [(2, 1)]


def _mechanism(given: Floats, sample: Sample, response: Response) -> Codebook:
    """Scores in whole numbers: the negative cost of every answer, linear in the predicted truth."""
    region = box_region(*sample.cost.latent_range(sample.predicted))
    vectors, offsets = sample.cost.whole_scores(given, region.step)
    stage = Stage(vectors=vectors, offsets=offsets, shifts=np.zeros_like(vectors), response=response)
    return Codebook(region=region, stages=(stage,))
