"""The task-aware design for a linear task: the paper's analytic solution, its bounds, and the refined default.

With h the whitened record, P = KL and PᵀP = QΛQᵀ, the best linear encoder for h in a centred ball of radius r is
E = ΣQᵀ with the water-filling scales below. U = I is best because averaging sᵀUΣ²Uᵀs over sign vectors s gives
Σσᵢ² for every rotation U, so no rotation has a smaller Δ₁ = 2r√Σσᵢ².

The refinement adds clipping, which the paper lacks. The sensitivity of a raw sample is set by its few outliers. Here
every latent is clipped to an interval. Intervals and scales are chosen together by minimising the *exact* expected loss
on the design data: clipping bias, noise and the best decoder included. At small ε the best interval shrinks towards a
sign. Write uᵢ = (tᵢ − midᵢ)/halfᵢ for the i-th principal coordinate t, cᵢ = clip(uᵢ, −1, 1), and share the budget:
εᵢ = ε·shareᵢ. Then cᵢ + Laplace(2/εᵢ) is εᵢ-LDP, the sum is ε-LDP, and with A = Cov(y, c), S = Cov(c),
M = S + diag(8/εᵢ²) the best decoder leaves the loss tr Cov(y) − tr(A M⁻¹ Aᵀ).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from taskveil.arrays import Floats
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Gaussian, Laplace
from taskveil.client.regions import BoxRegion, L1Region
from taskveil.designs.domain import box_region, image_region
from taskveil.designs.moments import LinearProblem, Moments
from taskveil.designs.selection import one_thread
from taskveil.veil import Veil
from taskveil.veil.decoders import AffineDecoder, least_squares_decoder
from taskveil.veil.losses import LossBounds


def build_linear(
    problem: LinearProblem,
    epsilon: float,
    *,
    weights: Floats,
    offset: Floats | None = None,
    method: str,
    region: L1Region | None = None,
    decoder: AffineDecoder | None = None,
) -> Veil:
    """A veil that encodes φ = weights x + offset.

    Args:
        problem: the volunteers, the task and the domain.
        epsilon: the budget of one report.
        weights: (Z, n).
        offset: (Z,); by default the volunteers' mean becomes 0.
        method: the name the veil bears.
        region: what φ is bounded to; by default the image of the domain.
        decoder: by default the least-squares decoder of the sample.
    """
    offset = -weights @ problem.moments.mean if offset is None else offset
    encoder = linear_encoder(problem, weights, offset)
    region = region or image_region(problem.domain, encoder, weights, offset)
    mechanism = Laplace.calibrated(region=region, epsilon=epsilon)
    decoder = decoder or best_decoder(problem, encoder, mechanism)
    bounds = loss_bounds(problem, epsilon)
    return Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=method, bounds=bounds)


def linear_encoder(problem: LinearProblem, weights: Floats, offset: Floats) -> LinearEncoder:
    """The encoder φ = weights x + offset of records in the problem's domain."""
    box = problem.domain.bounding_box
    return LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=offset)


def best_decoder(problem: LinearProblem, encoder: LinearEncoder, mechanism: Laplace | Gaussian) -> AffineDecoder:
    """The least-squares decoder of the volunteers' reports."""
    return least_squares_decoder(mechanism.bound(encoder(problem.X)), problem.X, mechanism.noise_variance)


@dataclass(frozen=True, kw_only=True)
class ClippedMap:
    """φ = weights x + offset, to be bounded to `region`."""

    weights: Floats
    offset: Floats
    region: BoxRegion


@one_thread()
def refined_maps(problem: LinearProblem, epsilon: float) -> list[ClippedMap]:
    """Locally optimal clipped maps for several latent dimensions and starting widths."""
    moments = problem.moments
    coordinates = (problem.X - moments.mean) @ moments.principal_map.T
    outputs = coordinates[:, : moments.relevant] * np.sqrt(moments.eigenvalues[: moments.relevant])
    found = []
    for count in _dimensions_to_try(problem.most, epsilon):
        for start_width in (0.3, 1.0, 2.0):
            result = minimize(
                _loss_and_gradient,
                _start(coordinates[:, :count], moments.eigenvalues[:count], start_width),
                args=(coordinates[:, :count], outputs, epsilon),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 300},
            )
            found.append(_as_map(result.x, moments))
    return found


def _dimensions_to_try(most: int, epsilon: float) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, …: a latent must earn its share of ε, so no more than about 2ε of them can be useful."""
    ladder = [d for p in range(12) for d in (2**p, 3 * 2 ** max(p - 1, 0))]
    return sorted({min(d, most) for d in ladder if d <= max(3.0, 2 * epsilon)})


def _start(coordinates: Floats, eigenvalues: Floats, width: float) -> Floats:
    """Parameters (mid, log half, log share): medians, one width for all, shares by task relevance."""
    count = coordinates.shape[1]
    relevance = 0.5 * np.log(np.maximum(eigenvalues, np.finfo(float).tiny))
    return np.concatenate([np.median(coordinates, axis=0), np.full(count, np.log(width)), relevance])


def _split(parameters: Floats) -> tuple[Floats, Floats, Floats]:
    mid, log_half, log_share = np.split(parameters, 3)
    share = np.exp(log_share - log_share.max())
    return mid, np.exp(np.clip(log_half, -12.0, 12.0)), share / share.sum()


def _loss_and_gradient(
    parameters: Floats, coordinates: Floats, outputs: Floats, epsilon: float
) -> tuple[float, Floats]:
    """The expected loss of the module's formula and its gradient in (mid, log half, log share)."""
    mid, half, share = _split(parameters)
    records = len(coordinates)
    u = (coordinates - mid) / half
    c = np.clip(u, -1.0, 1.0)
    inside = np.abs(u) < 1.0
    centred, target = c - c.mean(axis=0), outputs - outputs.mean(axis=0)
    A, S = target.T @ centred / records, centred.T @ centred / records
    noise = 8.0 / (epsilon * np.maximum(share, 1e-9)) ** 2
    B = np.linalg.solve(S + np.diag(noise), A.T).T
    loss = float((target**2).sum() / records - (B * A).sum())
    G = B.T @ B
    slope = 2.0 * (centred @ G - target @ B) / records * inside
    d_mid = -(slope / half).sum(axis=0)
    d_log_half = -(slope * u).sum(axis=0)
    d_log_noise = np.diag(G) * noise
    d_log_share = -2.0 * (d_log_noise - share * d_log_noise.sum())
    return loss, np.concatenate([d_mid, d_log_half, d_log_share])


def _as_map(parameters: Floats, moments: Moments) -> ClippedMap:
    """Latents scaled so that one noise scale serves all: φᵢ = shareᵢ · cᵢ, within ± shareᵢ."""
    mid, half, share = _split(parameters)
    kept = share > 1e-4
    mid, half, share = mid[kept], half[kept], share[kept] / share[kept].sum()
    scale = share / half
    weights = scale[:, None] * moments.principal_map[: len(kept)][kept]
    return ClippedMap(weights=weights, offset=-scale * mid - weights @ moments.mean, region=box_region(-share, share))


def water_filling(eigenvalues: Floats, v: float) -> Floats:
    """Squared scales σ² (Z',), Σσ² = 1, that minimise Σ λᵢ v / (σᵢ² + v) over the largest Z' with all σ² > 0.

    σᵢ² = √λᵢ / Σⱼ√λⱼ · (1 + Z'v) − v. `eigenvalues` descending; v = 8r²/ε² is the noise variance per unit Σσ².
    """
    roots = np.sqrt(eigenvalues)
    for count in range(len(roots), 0, -1):
        total = roots[:count].sum()
        if total > 0:
            squared = roots[:count] / total * (1 + count * v) - v
            if squared[-1] > 0:
                return np.asarray(squared)
    return np.ones(1)  # no direction matters to the task: any report will do


def ball_loss(eigenvalues: Floats, radius: float, epsilon: float) -> float:
    """The least loss when the whitened records fill a centred ball of radius r:

    v / (1 + Z'v) · (Σ_{i≤Z'} √λᵢ)² + Σ_{i>Z'} λᵢ with v = 8r²/ε².
    """
    v = 8 * radius**2 / epsilon**2
    count = len(water_filling(eigenvalues, v))
    return float(v / (1 + count * v) * np.sqrt(eigenvalues[:count]).sum() ** 2 + eigenvalues[count:].sum())


def loss_bounds(problem: LinearProblem, epsilon: float) -> LossBounds:
    """Lower and upper bound of the least loss of a linear Laplace design: the losses of two balls.

    The theorem's inner radius can always be taken as at least 1. It enters through Δ₁² ≥ mean over s of width(Eᵀs)²,
    and a distribution of variance ‖u‖² in direction u needs a width of at least 2‖u‖ there (Popoviciu), as if a unit
    ball lay inside the domain.
    """
    inner, outer = radii(problem)
    eigenvalues = problem.moments.eigenvalues
    return LossBounds(
        lower=ball_loss(eigenvalues, max(inner, 1.0), epsilon),
        upper=ball_loss(eigenvalues, max(outer, 1.0), epsilon),
    )


def analytic(problem: LinearProblem, epsilon: float) -> Veil:
    """The veil of the paper: scales for the ball of radius r_max, noise for the true Δ₁ of the resulting encoder."""
    moments = problem.moments
    _, radius = radii(problem)
    squared = water_filling(moments.eigenvalues[: problem.latent_dim], 8 * max(radius, 1.0) ** 2 / epsilon**2)
    weights = np.sqrt(squared)[:, None] * moments.principal_map[: len(squared)]
    return build_linear(problem, epsilon, weights=weights, method="task_aware")


def task_aware(problem: LinearProblem, epsilon: float) -> Veil:
    """The analytic solution or a clipped refinement of it: whichever has the least expected loss on the design data."""
    plain = analytic(problem, epsilon)
    maps = refined_maps(problem, epsilon)
    refined = [build_linear(problem, epsilon, method="task_aware", **vars(clipped)) for clipped in maps]
    return min([plain, *refined], key=lambda veil: veil.losses(problem.X).mean())


def radii(problem: LinearProblem) -> tuple[float, float]:
    """Radii of balls inside and around the whitened domain."""
    moments = problem.moments
    return problem.domain.radii(moments.mean, moments.factor, moments.inverse)
