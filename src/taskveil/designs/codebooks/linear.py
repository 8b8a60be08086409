"""The codebook design for a linear task: how many codewords, how many favoured, listed, sums or on a lattice.

Works on the latents zᵢ = √λᵢ tᵢ, the task's outputs in its principal directions, where the loss is ‖ẑ − z‖². One
formula plans how fine a code the budget pays for; what it leaves open is settled by cross-validation on the design
data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook
from taskveil.decoders import CodewordDecoder
from taskveil.designs.codebooks.alternation import given_reports
from taskveil.designs.codebooks.fitted_lattice import LatticeCode, fit_lattice
from taskveil.designs.codebooks.listed import ListedCode, fit_listed
from taskveil.designs.codebooks.sums import SumCode, fit_sum
from taskveil.designs.folds import people
from taskveil.designs.limits import gaussian_distortion, water_level
from taskveil.designs.moments import LinearProblem
from taskveil.designs.on_device import CLIENT_BYTES, MANIFEST
from taskveil.designs.threads import one_thread
from taskveil.veil import Veil

LISTED = 1024
"""The most codewords a device is asked to store."""

TERMS = (32, 128)
"""Codewords in each list of a sum: shorter lists need fewer volunteers, longer ones follow clusters."""

FINE = 2.5  # nats a direction from which on a lattice is better: levels need no volunteers to place them
FEW = 64  # codewords or fewer follow no clusters worth less smoothing
CLUSTERED = 0.3  # times Silverman's bandwidth, for records that are far from Gaussian
JUDGED = 2000  # records that choose between candidates
PARTS = 3  # of them, each held out once
BEHIND = 2.0  # standard errors behind the leader at which a candidate is given up
REACH = 1.5  # times the largest latent seen is as far as a device goes
SMOOTH = 10.0  # volunteers that the estimate of a smooth density counts as, beside those whom a codeword is for


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How fine a code the budget pays for: ln(K/m) nats, the distortion allowed per direction, directions above it."""

    nats: float
    level: float
    active: int

    @classmethod
    def of(cls, variances: Floats, epsilon: float) -> Plan:
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


@dataclass(frozen=True, kw_only=True)
class ListedChoice:
    """A listed codebook of `size` codewords, `favoured` of them favoured, in `dim` directions."""

    size: int
    favoured: int
    dim: int
    smoothing: float = 1.0

    def fit(self, latents: Floats, epsilon: float, rng: np.random.Generator, *, final: bool = False) -> ListedCode:
        """A code for latents (N, r), with more effort for the final one."""
        effort = {"draws": 16_000, "starts": 8, "rounds": 25} if final else {}
        return fit_listed(
            latents,
            size=self.size,
            favoured=self.favoured,
            dim=self.dim,
            smoothing=self.smoothing,
            epsilon=epsilon,
            rng=rng,
            **effort,
        )


@dataclass(frozen=True, kw_only=True)
class LatticeChoice:
    """A lattice of about e^nats codewords with levels `spacing` apart."""

    nats: float
    spacing: float

    def fit(
        self,
        latents: Floats,
        epsilon: float,
        rng: np.random.Generator,  # noqa: ARG002 - nothing random here
        *,
        final: bool = False,  # noqa: ARG002
    ) -> LatticeCode:
        """A code for latents (N, r)."""
        return fit_lattice(latents, nats=self.nats, spacing=self.spacing, epsilon=epsilon)


@dataclass(frozen=True, kw_only=True)
class SumChoice:
    """Sums of one codeword from each of `stages` lists, `size` codewords in each, in `dim` directions."""

    stages: int
    size: int
    dim: int
    smoothing: float

    def fit(self, latents: Floats, epsilon: float, rng: np.random.Generator, *, final: bool = False) -> SumCode:
        """A code for latents (N, r), with more effort for the final one."""
        return fit_sum(
            latents,
            sizes=(self.size,) * self.stages,
            dim=self.dim,
            smoothing=self.smoothing,
            epsilon=epsilon,
            rng=rng,
            **({"draws": 16_000} if final else {}),
        )


Choice = ListedChoice | LatticeChoice | SumChoice


@one_thread()
def codebook(problem: LinearProblem, epsilon: float, seed: int = 0, most_bytes: int = CLIENT_BYTES) -> Veil:
    """The codebook of least cross-validated expected loss, refitted on all volunteers; lists are as short as devices
    that store `most_bytes` need them to be."""
    moments, count = problem.moments, problem.most
    variances = moments.eigenvalues[:count]
    weights = np.sqrt(variances)[:, None] * moments.principal_map[:count]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(problem.X))
    latents = ((problem.X - moments.mean) @ weights.T)[order]
    person = people(problem.X[order[:JUDGED]])
    # A listed codeword takes a vector and a shift of whole numbers; the encoder takes a weight for every attribute.
    most = max(2, (most_bytes - MANIFEST - 8 * (count + 3) * (problem.X.shape[1] + 2)) // (16 * count + 8))
    options = candidates(latents, variances, epsilon, most=min(LISTED, most))
    chosen = _best(options, latents[:JUDGED], person, epsilon, seed)
    code = chosen.fit(latents, epsilon, rng, final=True)
    back = moments.factor @ moments.directions[:, :count] / np.sqrt(np.maximum(variances, 1e-300))
    mechanism, decoder = code.parts(REACH * np.abs(latents).max(axis=0) + 1e-300, back, moments.mean)
    box = problem.domain.bounding_box
    encoder = LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=-weights @ moments.mean)
    return Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method="codebook")


def telling_means(veil: Veil, X: Floats) -> Veil:
    """The same reports, each estimated by the mean of the volunteers' records X (N, n) given it.

    A codebook's own estimates are linear in the directions that it tells: good means, but neither the chance of a
    category nor that of a hole is linear in anything. Lattices and sums stay as they are: volunteers are too few there.
    """
    match veil.mechanism, veil.decoder:
        case Codebook(stages=(stage,)), CodewordDecoder(codewords=own, sizes=sizes):
            counted = np.column_stack([X, np.ones(len(X))])
            favoured = stage.favoured(veil.mechanism.region.enforce(veil.encoder(X)))
            sums = given_reports(counted, favoured, stage.response)
            means = (sums[:, :-1] + SMOOTH * own) / (sums[:, -1:] + SMOOTH)
            return replace(veil, decoder=CodewordDecoder(codewords=means, sizes=sizes))
        case _:
            return veil


def candidates(latents: Floats, variances: Floats, epsilon: float, *, most: int = LISTED) -> list[Choice]:
    """What the plan leaves open, and what half the budget would have bought: it may be had for all of it. Lists have
    `most` codewords."""
    if variances[0] <= 0.0:  # a task that nothing matters to: report anything
        return [ListedChoice(size=2, favoured=1, dim=1, smoothing=0.0)]
    plan, smaller = (Plan.of(variances, share * epsilon) for share in (1.0, 0.5))
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


def _listed(plan: Plan, favoured: int, factor: float, smoothing: float = 1.0, most: int = LISTED) -> ListedChoice:
    """About `factor` times as many codewords as the plan says, or as many as a device can store."""
    size = min(max(favoured + 1, round(favoured * factor * math.exp(min(plan.nats, 20.0)))), most)
    dim = min(plan.active, max(1, round(size / favoured) - 1))  # K/m cells span K/m − 1 directions
    return ListedChoice(size=size, favoured=favoured, dim=dim, smoothing=smoothing)


def _lattice(plan: Plan, factor: float, more: float) -> LatticeChoice:
    return LatticeChoice(nats=plan.nats + more, spacing=factor * math.sqrt(12 * plan.level))


def _sums(plan: Plan, size: int, smoothing: float) -> SumChoice:
    """As many sums as the plan says, of terms from two or more lists of about `size` codewords."""
    stages = max(2, round(plan.nats / math.log(size)))
    size = max(2, round(math.exp(plan.nats / stages)))
    return SumChoice(stages=stages, size=size, dim=plan.active, smoothing=smoothing)


def _best(options: list[Choice], latents: Floats, person: Integers, epsilon: float, seed: int) -> Choice:
    """The least cross-validated loss, all records of one `person` (N,) held out together.

    Whoever is clearly behind the leader after a part is not asked again.
    """
    if len(options) == 1:
        return options[0]
    part = person % PARTS
    losses: dict[Choice, Floats] = {option: np.empty(0) for option in options}
    for held in range(PARTS):
        for option in losses:
            code = option.fit(latents[part != held], epsilon, np.random.default_rng(seed))
            losses[option] = np.append(losses[option], code.losses(latents[part == held]))
        leader = min(losses.values(), key=np.mean)
        losses = {option: found for option, found in losses.items() if not _clearly_above(found, leader)}
    return min(losses, key=lambda option: float(losses[option].mean()))


def _clearly_above(losses: Floats, others: Floats) -> bool:
    """Whether losses are above others of the same records, both (N,), by more than `BEHIND` standard errors."""
    gap = losses - others
    return bool(gap.mean() > BEHIND * gap.std() / math.sqrt(len(gap)))
