"""The codebook design for a linear task: how many codewords, how many favoured, listed, sums or on a lattice.

Works on the latents zᵢ = √λᵢ tᵢ, the task's outputs in its principal directions, where the loss is ‖ẑ − z‖². One
formula plans how fine a code the budget pays for. Cross-validation on the design data decides what it leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.designs.codebooks.alternation import given_reports
from taskveil.designs.codebooks.codes import JUDGED, REACH, Choice, LatticeChoice, ListedChoice, SumChoice
from taskveil.designs.moments import LinearProblem, gaussian_distortion, water_level
from taskveil.designs.selection import MANIFEST, Candidate, one_thread
from taskveil.errors import DataError
from taskveil.tasks import LinearTask
from taskveil.veil import Veil
from taskveil.veil.channels import channel_of
from taskveil.veil.decoders import CodewordDecoder

LISTED = 1024
"""The most codewords a device is asked to store."""

TERMS = (32, 128)
"""Codewords in each list of a sum: shorter lists need fewer volunteers, longer ones follow clusters."""

FINE = 2.5  # nats a direction from which on a lattice is better: levels need no volunteers to place them
FEW = 64  # codewords or fewer follow no clusters worth less smoothing
CLUSTERED = 0.3  # times Silverman's bandwidth, for records that are far from Gaussian
SMOOTH = 10.0  # volunteers that the estimate of a smooth density counts as, beside those whom a codeword is for


@dataclass(frozen=True, kw_only=True)
class CodePlan:
    """How fine a code the budget pays for: ln(K/m) nats, the distortion allowed per direction, directions above it."""

    nats: float
    level: float
    active: int

    @classmethod
    def of(cls, variances: Floats, epsilon: float) -> CodePlan:
        """The rate R that minimises σ² − p(R)² (σ² − D(R)).

        D is the Gaussian distortion at R; p = (e^ε − 1)/(e^ε + e^R − 1) is the chance that the report is about the
        record; p² is what the best shrinkage keeps of the explained variance.
        """
        total, best_gain, nats = float(variances.sum()), -1.0, math.log(2)
        for rate in np.linspace(0.0, epsilon, 400)[1:]:
            truthful = -math.expm1(-epsilon) / (1.0 + math.exp(rate - epsilon) - math.exp(-epsilon))
            gain = truthful**2 * (total - gaussian_distortion(variances, rate))
            if gain > best_gain:
                best_gain, nats = gain, float(rate)
        nats = max(nats, math.log(2))
        level = water_level(variances, nats)
        return cls(nats=nats, level=level, active=max(1, int((variances > level).sum())))


@dataclass(frozen=True, kw_only=True, eq=False)
class Latents:
    """The task's outputs in its principal directions: z = weights (x − mean), and the loss that they do not see.

    Shapes: variances (r,), weights (r, n), back (n, r) from latents to records, mean (n,).
    """

    variances: Floats
    weights: Floats
    back: Floats
    mean: Floats

    @classmethod
    def of(cls, problem: LinearProblem) -> Latents:
        """Those of the problem's volunteers."""
        moments, count = problem.moments, problem.most
        variances = moments.eigenvalues[:count]
        return cls(
            variances=variances,
            weights=np.sqrt(variances)[:, None] * moments.principal_map[:count],
            back=moments.factor @ moments.directions[:, :count] / np.sqrt(np.maximum(variances, 1e-300)),
            mean=moments.mean,
        )

    def __call__(self, X: Floats) -> Floats:
        """Records (N, n) → latents (N, r)."""
        return np.asarray((X - self.mean) @ self.weights.T)

    def unseen(self, X: Floats, task: LinearTask) -> Floats:
        """(N,): the squared output that no latent tells, of records (N, n)."""
        outputs = ((X - self.mean) @ task.K.T) ** 2
        return np.asarray(np.maximum(outputs.sum(axis=1) - (self(X) ** 2).sum(axis=1), 0.0))


def linear_candidates(
    problem: LinearProblem, epsilon: float, seed: int, fold: Integers, most_bytes: int
) -> list[Candidate]:
    """The codebooks that the plan leaves open, each with what it costs the volunteers of every fold (N,) when it is
    made without them. `JUDGED` of them judge; of the others it is NaN."""
    latents = Latents.of(problem)
    width = problem.X.shape[1]
    # A listed codeword takes a vector and a shift of whole numbers; the encoder takes a weight for every attribute.
    each, rest = 16 * len(latents.variances) + 8, MANIFEST + 8 * (len(latents.variances) + 3) * (width + 2)
    most = min(LISTED, max(2, (most_bytes - rest) // each))
    options = candidates(latents(problem.X), latents.variances, epsilon, most=most)
    judged = _judged(problem, options, epsilon, seed, fold)
    return [
        Candidate(
            method="codebook",
            encoder="linear",
            losses=judged[option],
            bytes=rest + each * option.listed,
            operations=(width + option.listed) * len(latents.variances),
            make=partial(_veil, problem, option, epsilon, seed),
        )
        for option in options
    ]


@one_thread()
def _judged(
    problem: LinearProblem, options: Sequence[Choice], epsilon: float, seed: int, fold: Integers
) -> dict[Choice, Floats]:
    """The held-out losses (N,) of every option."""
    rows = np.random.default_rng(seed).permutation(len(problem.X))[:JUDGED]
    losses = {option: np.full(len(problem.X), np.nan) for option in options}
    for part in range(int(fold.max()) + 1):
        held, others = rows[fold[rows] == part], rows[fold[rows] != part]
        try:
            latents = Latents.of(replace(problem, X=problem.X[others]))
        except DataError:  # the others are all alike: nothing can be designed for them
            continue
        mine, theirs = latents(problem.X[others]), latents(problem.X[held])
        unseen = latents.unseen(problem.X[held], problem.task)
        for option in options:
            code = option.fit(mine, epsilon, np.random.default_rng(seed))
            losses[option][held] = code.losses(theirs) + unseen
    return losses


@one_thread()
def _veil(problem: LinearProblem, option: Choice, epsilon: float, seed: int) -> Veil:
    """The codebook of that option, fitted to all volunteers."""
    latents = Latents.of(problem)
    rng = np.random.default_rng(seed)
    z = latents(problem.X[rng.permutation(len(problem.X))])
    code = option.fit(z, epsilon, rng, final=True)
    mechanism, decoder = code.parts(REACH * np.abs(z).max(axis=0) + 1e-300, latents.back, latents.mean)
    box = problem.domain.bounding_box
    offset = -latents.weights @ latents.mean
    encoder = LinearEncoder.of(low=box.low, high=box.high, weights=latents.weights, offset=offset)
    return Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method="codebook")


def telling_means(veil: Veil, X: Floats) -> Veil:
    """The same reports, each estimated by the mean of the volunteers' records X (N, n) given it.

    A codebook's own estimates are linear in the directions that it codes. These are good means, but the probabilities
    of categories and of missing values are not linear. Lattices and sums stay as they are: they would need more
    volunteers.
    """
    own, favoured = veil.decoder, channel_of(veil.mechanism, veil.decoder).favoured(veil.encoder(X))
    if favoured is None or not isinstance(own, CodewordDecoder):
        return veil
    sums = given_reports(np.column_stack([X, np.ones(len(X))]), favoured, veil.mechanism.responses[0])
    means = (sums[:, :-1] + SMOOTH * own.codewords) / (sums[:, -1:] + SMOOTH)
    return replace(veil, decoder=replace(own, codewords=means))


def candidates(latents: Floats, variances: Floats, epsilon: float, *, most: int = LISTED) -> list[Choice]:
    """Codebooks to compare: those for the whole budget, and smaller ones planned for half of it. Lists have
    `most` codewords."""
    if variances[0] <= 0.0:  # a task that nothing matters to: report anything
        return [ListedChoice(size=2, favoured=1, dim=1, smoothing=0.0)]
    plan, smaller = (CodePlan.of(variances, share * epsilon) for share in (1.0, 0.5))
    options: list[Choice] = []
    if plan.nats < math.log(8 * LISTED):
        listed = [_listed(plan, favoured, factor) for factor in (0.75, 1.0, 1.33) for favoured in (1, 2, 4)]
        listed.append(_listed(smaller, 1, 1.0))
        if plan.nats > math.log(FEW):
            listed += [_listed(plan, favoured, 1.0, CLUSTERED) for favoured in (1, 2, 4)]
        # Where the plan is beyond what can be listed, the most that can is worth a try, but not with several favoured.
        listed = [choice for choice in listed if choice.size < LISTED or choice.favoured == 1]
        options += [choice for choice in listed if choice.size <= most] or [_listed(plan, 1, 1.0, most=most)]
    if plan.nats > math.log(LISTED / 4):
        options += [_lattice(plan, factor, more) for factor in (1.0, 1.4, 2.0) for more in (-1.5, 0.0, 0.7)]
        options.append(_lattice(smaller, 1.4, 0.0))
        if plan.nats < FINE * plan.active:
            options += [_sums(plan, size, smoothing) for size in TERMS for smoothing in (1.0, CLUSTERED)]
            options.append(_sums(smaller, TERMS[0], 1.0))
    distinct = len(np.unique(latents.round(9), axis=0))
    if 1 < distinct <= min(most, len(latents) // 4):  # categorical records: a codeword each
        options.append(ListedChoice(size=distinct, favoured=1, dim=latents.shape[1], smoothing=0.0))
    return list(dict.fromkeys(options))


def _listed(plan: CodePlan, favoured: int, factor: float, smoothing: float = 1.0, most: int = LISTED) -> ListedChoice:
    """About `factor` times as many codewords as the plan says, or as many as a device can store."""
    size = min(max(favoured + 1, round(favoured * factor * math.exp(min(plan.nats, 20.0)))), most)
    dim = min(plan.active, max(1, round(size / favoured) - 1))  # K/m cells span K/m − 1 directions
    return ListedChoice(size=size, favoured=favoured, dim=dim, smoothing=smoothing)


def _lattice(plan: CodePlan, factor: float, more: float) -> LatticeChoice:
    return LatticeChoice(nats=plan.nats + more, spacing=factor * math.sqrt(12 * plan.level))


def _sums(plan: CodePlan, size: int, smoothing: float) -> SumChoice:
    """As many sums as the plan says, of terms from two or more lists of about `size` codewords."""
    stages = max(2, round(plan.nats / math.log(size)))
    size = max(2, round(math.exp(plan.nats / stages)))
    return SumChoice(stages=stages, size=size, dim=plan.active, smoothing=smoothing)
