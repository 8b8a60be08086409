"""The design with Gaussian noise for a linear task: the closed form for records in a ball, and its clipped refinement.

Let h be the whitened record, in a centred ball of radius r, P = KL and PᵀP = QΛQᵀ. Latents Eh with E of rank Z lie in a
ball of radius r·‖E‖, so their ℓ2 diameter is 2r·‖E‖, with the largest singular value ‖E‖. Gaussian noise of c(ε, δ) per
unit of diameter has the variance w = v·‖E‖² in each coordinate, v = (2r·c)². The best linear decoder leaves the loss
tr PᵀP − tr P Eᵀ(EEᵀ + wI)⁻¹E Pᵀ. EᵀE is at most ‖E‖² times the projection on its row space, so this is at least
Σλᵢ − Σ_{i≤Z} λᵢ/(1 + v), which E = the first Z rows of Qᵀ reaches: one scale for all latents. The loss is

    Σ_{i≤Z} λᵢ·v/(1 + v) + Σ_{i>Z} λᵢ,

least with every latent whose λᵢ is above 0: on a ball another latent makes the diameter no larger. (Laplace noise is
scaled to Δ₁ = 2r·√Σσᵢ², so there each latent takes from all others, and less relevant ones get less or nothing.)

Records do not fill a ball. The radius that holds the first Z coordinates of most of them grows with Z, so the
refinement chooses how many latents there are, how much each counts and how much is cut off. With uᵢ = scaleᵢ·(tᵢ −
midᵢ) for the i-th principal coordinate t, c = u/max(1, ‖u‖) lies in the ball of radius 1, and c + N(0, w) is (ε,
δ)-LDP. With A = Cov(y, c), S = Cov(c), the best decoder leaves tr Cov(y) − tr(A (S + wI)⁻¹ Aᵀ): the *exact* expected
loss on the design data, which is minimised.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Gaussian
from taskveil.client.regions import BallRegion
from taskveil.designs.domain import grid_step
from taskveil.designs.laplace.closed_form import best_decoder, linear_encoder, radii
from taskveil.designs.moments import LinearProblem
from taskveil.designs.selection import one_thread
from taskveil.veil import Veil
from taskveil.veil.losses import LossBounds


def in_unit_ball(latents: int, epsilon: float, delta: float) -> Gaussian:
    """The mechanism for so many latents that are bounded to the ball of radius 1 around 0."""
    step = grid_step(2.0)
    ball = BallRegion(step=step, center=np.zeros(latents, dtype=np.int64), squared_radius=round(step**-2))
    return Gaussian.calibrated(region=ball, epsilon=epsilon, delta=delta)


def ball_loss(eigenvalues: Floats, radius: float, noise: float) -> float:
    """The least loss when the whitened records fill a centred ball of this radius: every λ above 0 is multiplied by
    v/(1 + v).

    Args:
        eigenvalues: λ (n,).
        radius: of the ball.
        noise: the variance of the noise for a ball of radius 1, (2c)².
    """
    v = radius**2 * noise
    return float(eigenvalues.sum() * v / (1 + v))


def loss_bounds(problem: LinearProblem, noise: float) -> LossBounds:
    """Lower and upper bound of the least loss of a linear Gaussian design: the losses of two balls.

    A ball of the inner radius lies inside the domain, so the diameter of the latents is at least that of its image. And
    a distribution of variance ‖u‖² in direction u needs a width of at least 2‖u‖ there, as if the radius were 1.
    """
    inner, outer = radii(problem)
    eigenvalues = problem.moments.eigenvalues
    return LossBounds(
        lower=ball_loss(eigenvalues, max(inner, 1.0), noise),
        upper=ball_loss(eigenvalues, max(outer, 1.0), noise),
    )


def analytic(problem: LinearProblem, epsilon: float) -> Veil:
    """The veil of the closed form: the whitened record as far as it matters to the task, in the ball around the
    domain."""
    _, radius = radii(problem)
    weights = problem.moments.principal_map[: problem.most] / max(radius, 1.0)
    return _built(problem, epsilon, weights, -weights @ problem.moments.mean)


def clipped(problem: LinearProblem, epsilon: float) -> Veil:
    """The analytic solution or its clipped refinement: whichever has the least expected loss on the design data."""
    noise = in_unit_ball(1, epsilon, problem.delta).noise_variance
    veils = [analytic(problem, epsilon), _built(problem, epsilon, *refined_map(problem, noise))]
    return min(veils, key=lambda veil: veil.losses(problem.X).mean())


def _built(problem: LinearProblem, epsilon: float, weights: Floats, offset: Floats) -> Veil:
    """The veil that encodes φ = weights x + offset, bounded to the unit ball."""
    encoder, mechanism = linear_encoder(problem, weights, offset), in_unit_ball(len(weights), epsilon, problem.delta)
    return Veil(
        encoder=encoder,
        mechanism=mechanism,
        decoder=best_decoder(problem, encoder, mechanism),
        task=problem.task,
        method="gaussian",
        bounds=loss_bounds(problem, mechanism.noise_variance),
    )


@one_thread()
def refined_map(problem: LinearProblem, noise: float) -> tuple[Floats, Floats]:
    """Weights (Z, n) and offset (Z,) of the latents to be bounded to the unit ball, with the least expected loss that
    was found over 1, 2, 4, … latents.

    Args:
        problem: the volunteers and the task.
        noise: the variance of the noise for a ball of radius 1.
    """
    moments = problem.moments
    t = (problem.X - moments.mean) @ moments.principal_map.T
    shares = moments.eigenvalues[: moments.relevant] / max(moments.eigenvalues.sum(), np.finfo(float).tiny)
    outputs = t[:, : moments.relevant] * np.sqrt(shares)  # their variances add up to 1, whatever the units
    counts = {min(2**power, problem.most) for power in range(17)}
    found = [_minimised(t[:, :count], outputs, noise) for count in sorted(counts)]
    mid, scale = _split(min(found, key=lambda one: one.fun).x)
    kept = scale > 1e-4 * scale.max()
    weights = scale[kept, None] * moments.principal_map[: len(kept)][kept]
    return weights, -(scale * mid)[kept] - weights @ moments.mean


def _minimised(coordinates: Floats, outputs: Floats, noise: float) -> OptimizeResult:
    """A locally optimal map of these coordinates (N, Z): one start suffices, as others end at the same loss."""
    count = coordinates.shape[1]
    start = np.concatenate([np.median(coordinates, axis=0), np.full(count, -0.5 * np.log(count))])
    return minimize(
        _loss_and_gradient,
        start,
        args=(coordinates, outputs, noise),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 300},
    )


def _split(parameters: Floats) -> tuple[Floats, Floats]:
    mid, log_scale = np.split(parameters, 2)
    return mid, np.exp(np.clip(log_scale, -12.0, 12.0))


def _loss_and_gradient(parameters: Floats, coordinates: Floats, outputs: Floats, noise: float) -> tuple[float, Floats]:
    """The expected loss of the module's formula and its gradient in (mid, log scale)."""
    mid, scale = _split(parameters)
    records = len(coordinates)
    u = (coordinates - mid) * scale
    length = np.sqrt((u**2).sum(axis=1))
    inward = 1.0 / np.maximum(length, 1.0)
    c = u * inward[:, None]
    centred, target = c - c.mean(axis=0), outputs - outputs.mean(axis=0)
    A, S = target.T @ centred / records, centred.T @ centred / records
    B = np.linalg.solve(S + noise * np.eye(len(mid)), A.T).T
    loss = float((target**2).sum() / records - (B * A).sum())
    slope = 2.0 * (centred @ (B.T @ B) - target @ B) / records
    # Outside the ball c is u/‖u‖: it does not move along itself, and across it by 1/‖u‖.
    along = np.where(length > 1.0, (slope * c).sum(axis=1), 0.0)
    slope = (slope - along[:, None] * c) * inward[:, None]
    return loss, np.concatenate([-(slope * scale).sum(axis=0), (slope * u).sum(axis=0)])
