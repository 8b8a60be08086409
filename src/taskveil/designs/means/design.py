"""`method="means"`: reports whose mean is the population's, at the least variance.

Latents are single attributes, or directions in which correlated attributes vary together. K x̂ must be unbiased. So the
latents span all that the task weighs and the domain lets vary, whether or not volunteers vary there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import LevelGroup, LevelResponse
from taskveil.client.regions import BoxRegion
from taskveil.designs.domain import Domain
from taskveil.designs.means.channels import LARGEST, exact_values, whole_numbers
from taskveil.designs.means.groups import ALONE, GridLatents, LatentGroup, most_rows, total_cost
from taskveil.designs.problem import Problem
from taskveil.designs.selection import one_thread
from taskveil.errors import TaskError
from taskveil.tasks import MeanTask
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder

GRID_BITS = 24
"""A latent is rounded to this many bits before it is rounded at random to a level: finer than attributes are."""

LEAST = 0.05
"""Channels for smaller budgets have the same patterns: they are searched for at this one."""

RIVAL = 1.25
"""Directions that cost so many times more one by one than others are not tried together."""

DRAWS = 2**40
"""The approximate sum of the groups' integer probabilities."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """Latents u = weights x + offset between 0 and 1 for every record of the domain, and the way back:
    x̂ = mean + back (û − ū). Shapes: weights (r, n), offset (r,), back (n, r)."""

    weights: Floats
    offset: Floats
    back: Floats

    @classmethod
    def of(cls, rows: Floats, back: Floats, domain: Domain) -> Directions:
        """Rows (r, n) scaled by the domain's reach along them, with `back` (n, r) scaled likewise."""
        low, high = -domain.support(-rows), domain.support(rows)
        width = high - low
        return cls(weights=rows / width[:, None], offset=-low / width, back=back * width)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """Directions, the encoder and the region that they make, and the volunteers' latents there."""

    directions: Directions
    encoder: LinearEncoder
    region: BoxRegion
    latents: GridLatents

    @property
    def alone(self) -> float:
        """What it costs to report latents one by one."""
        return total_cost([self.latents.alone(place) for place in range(self.encoder.latent_dim)])


@one_thread()
def design_means(problem: Problem, epsilon: float, name: str) -> Veil:
    """The veil of least expected loss for the volunteers that is unbiased for everybody in the domain."""
    task = problem.task
    if not isinstance(task, MeanTask):
        raise TaskError(f"{name} serves a MeanTask, got {type(task).__name__}.")
    box = problem.domain.bounding_box
    # Only ratios of errors decide, in whichever unit the task has them.
    K = task.K / (float(np.abs(task.K * (box.high - box.low)).max()) or 1.0)
    planned, ways = min(max(epsilon, LEAST), LARGEST), _ways(problem, K)
    levels, rows = ALONE, most_rows(planned, len(ways[0].weights))
    while True:
        plans = [_plan(problem, directions, K, planned, levels) for directions in ways]
        rivals = [plan for plan in plans if plan.alone <= RIVAL * min(plan.alone for plan in plans)]
        parted = [(plan, plan.latents.parted(rows)) for plan in rivals]
        plan, groups = min(parted, key=lambda found: total_cost(found[1]))
        veil = _veil(problem, plan, groups, epsilon, name)
        if veil.size.client_bytes <= problem.on_device.max_bytes or levels == 2:
            return veil
        # Smaller tables: of fewer latents together, then of fewer levels.
        levels, rows = (levels, rows // 2) if rows > 1 else (levels // 2, 1)


def _ways(problem: Problem, K: Floats) -> list[Directions]:
    """Directions that may be reported; TaskError where the caller allows fewer than the task has."""
    ways = list(directions_of(problem.X, K, problem.domain))
    if (most := problem.on_device.latent_dim) is not None:
        least = min(len(way.weights) for way in ways)
        ways = [way for way in ways if len(way.weights) <= most]
        if not ways:
            raise TaskError(
                f"latent_dim={most} leaves out some of the {least} directions that this task weighs, and "
                "their means would be biased: leave out latent_dim, or weigh fewer attributes."
            )
    return ways


def _plan(problem: Problem, directions: Directions, K: Floats, epsilon: float, levels: int) -> _Plan:
    box = problem.domain.bounding_box
    encoder = LinearEncoder.of(low=box.low, high=box.high, weights=directions.weights, offset=directions.offset)
    low = np.zeros(encoder.latent_dim, dtype=np.int64)
    region = BoxRegion(step=2.0**-GRID_BITS, low=low, high=low + 2**GRID_BITS)
    errors = K @ directions.back * region.step
    gram = errors.T @ errors
    gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram) / len(gram) + 1e-300
    k = region.enforce(encoder(problem.X))
    latents = GridLatents(k=k, low=region.low, high=region.high, gram=gram, epsilon=epsilon, alone_levels=levels)
    return _Plan(directions=directions, encoder=encoder, region=region, latents=latents)


def _veil(problem: Problem, plan: _Plan, groups: Sequence[LatentGroup], epsilon: float, name: str) -> Veil:
    """Whole numbers for devices, and what their reports say for the server."""
    channels = [group.channel(plan.latents.epsilon) for group in groups]
    roots = np.sqrt([max(channel.cost, 1e-300) for channel in channels])
    chances = np.maximum(1, np.rint(DRAWS * roots / roots.sum())).astype(np.int64)
    mean = problem.X.mean(axis=0)
    parts, codewords = [], []
    for group, channel, chance in zip(groups, channels, chances.tolist(), strict=True):
        table = whole_numbers(channel, epsilon)
        values = exact_values(table, group.points, group.prior)
        steps = np.linalg.solve(plan.latents.root(group.places), values.T) * (float(chances.sum()) / chance)
        codewords.append(mean + (plan.directions.back[:, group.places] @ steps).T * plan.region.step)
        parts.append(
            LevelGroup(
                places=np.array(group.places),
                counts=np.array([len(levels) for levels in group.scales]),
                levels=np.concatenate(group.scales),
                table=table,
                chance=chance,
            )
        )
    decoder = CodewordDecoder(codewords=np.concatenate(codewords), sizes=np.array([sum(map(len, codewords))]))
    mechanism = LevelResponse(region=plan.region, groups=tuple(parts))
    return Veil(encoder=plan.encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=name)


def directions_of(X: Floats, K: Floats, domain: Domain) -> Iterator[Directions]:
    """Ways to tell Kx, the plain one first: for volunteers X (N, n), a task K (m, n) and the domain."""
    width = X.shape[1]
    reach = domain.support(np.eye(width)) + domain.support(-np.eye(width))
    asked = np.flatnonzero((np.abs(K).max(axis=0) * reach) > 0)
    if len(asked) == 0:  # nothing matters: any latent will do, and tells nothing
        asked = np.array([int(reach.argmax())])
        yield Directions.of(np.eye(width)[asked], np.eye(width)[:, asked] * 0.0, domain)
        return
    yield Directions.of(np.eye(width)[asked], np.eye(width)[:, asked], domain)
    if len(asked) == 1:
        return
    # In shares of the attributes' reach, whatever their units: K = U S Vᵀ there, and S Vᵀ x is all that the task sees.
    _, singular, right = np.linalg.svd(K[:, asked] * reach[asked], full_matrices=False)
    kept = singular > len(asked) * np.finfo(float).eps * singular[0]
    seen = singular[kept, None] * right[kept] / reach[asked]
    # Where volunteers do not vary, any basis is as good as another.
    _, axes = np.linalg.eigh(np.atleast_2d(np.cov(seen @ X[:, asked].T)))
    rows, back = np.zeros((len(seen), width)), np.zeros((width, len(seen)))
    rows[:, asked] = axes.T @ seen
    back[asked] = reach[asked, None] * ((right[kept].T / singular[kept]) @ axes)
    yield Directions.of(rows, back, domain)
