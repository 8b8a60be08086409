"""What the literature has for means under ε-LDP, as formulas: what designs for a MeanTask are compared with.

All take records scaled to [−1, 1] by the domain's bounding box, and ask for the attributes that the task weighs. Their
outputs are real numbers, so none is a veil: what is known exactly is the expected loss of every record. Each is
unbiased, so that its loss follows from the second moments of what it sends, E‖K(v − x)‖² = Σᵢⱼ Gᵢⱼ E[vᵢvⱼ] − xᵀGx with
G = KᵀK.

`duchi`          Duchi, Jordan, Wainwright (2018), all attributes at once, each ±B
`piecewise`      Wang et al. (2019), ⌊ε/2.5⌋ attributes at random (at least one), each with an equal share of the budget
`hybrid`         the same, with their mixture of the piecewise mechanism and Duchi's in one dimension
`privunit`       Bhowmick et al. (2018), a direction from a cap of the sphere around the domain (see `PrivUnit`)
`laplace_split`  Laplace noise on every attribute, each with an equal share of the budget
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaln

from taskveil.arrays import Floats
from taskveil.designs.domain import Ball, Domain, Points
from taskveil.designs.problem import Problem, Unseeded
from taskveil.errors import TaskError
from taskveil.tasks import MeanTask, Task
from taskveil.veil import Veil

HYBRID_FROM = 0.6093524930273093
"""The ε above which the hybrid mechanism mixes in the piecewise one: ln((−5 + 2(6353 − 405√241)^⅓ + 2(6353 +
405√241)^⅓)/27) (Wang et al., section III)."""

SHARE = 2.5
"""The budget of one attribute that sampling aims at (Wang et al., equation 12)."""


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """Records z (N, d) in [−1, 1], G (d, d) in their scale, and the radius of the ball around the domain there."""

    z: Floats
    gram: Floats
    radius: float

    @classmethod
    def of(cls, X: Floats, K: Floats, domain: Domain) -> Scaled:
        """The attributes of X (N, n) that the task K (m, n) weighs and the domain lets vary."""
        box = domain.bounding_box
        half = (box.high - box.low) / 2
        asked = (np.abs(K).max(axis=0) > 0) & (half > 0)
        scale, center = half[asked], box.center[asked]
        z = (X[:, asked] - center) / scale
        radius = math.sqrt(z.shape[1])
        if isinstance(domain, Ball):
            radius = 1.0
        elif isinstance(domain, Points):
            radius = float(np.linalg.norm((domain.records[:, asked] - center) / scale, axis=1).max())
        weighed = K[:, asked] * scale
        return cls(z=z, gram=weighed.T @ weighed, radius=radius)

    @property
    def dim(self) -> int:
        """How many attributes are asked for."""
        return int(self.z.shape[1])

    @property
    def form(self) -> Floats:
        """xᵀGx (N,)."""
        return np.asarray(np.einsum("ij,jk,ik->i", self.z, self.gram, self.z))

    def losses(self, squares: Floats, products: float) -> Floats:
        """(N,): the loss where E[vᵢ²] is `squares` (N, d) and E[vᵢvⱼ] is `products` times zᵢzⱼ."""
        own = np.diag(self.gram)
        return np.asarray((squares - products * self.z**2) @ own + (products - 1.0) * self.form)


def duchi(records: Scaled, epsilon: float) -> Floats:
    """(N,): all attributes ±B; the signs agree with the record's (rounded at random) in most places, likelier by
    e^ε."""
    d = records.dim
    middle = math.comb(d, d // 2) if d % 2 == 0 else 0
    agreeing = 2 ** (d - 1) + middle / 2  # sign vectors that agree in at least half of all places
    # The mean of a sign times the record's, over these: Σ over vectors of (their sum)/d.
    told = math.comb(d - 1, d // 2) / agreeing
    reach = 1.0 / (told * math.tanh(epsilon / 2))
    squared_sum = d * 2 ** (d - 1) / agreeing  # E of (their sum)², to which ties add nothing
    products = (squared_sum - d) / (d * (d - 1)) if d > 1 else 0.0
    return records.losses(np.full(records.z.shape, reach**2), reach**2 * products)


def piecewise(records: Scaled, epsilon: float) -> Floats:
    """(N,): some attributes at random, each by the piecewise mechanism."""
    return _sampled(records, epsilon, _piecewise)


def hybrid(records: Scaled, epsilon: float) -> Floats:
    """(N,): some attributes at random, each by the hybrid mechanism."""
    return _sampled(records, epsilon, _hybrid)


def privunit(records: Scaled, epsilon: float) -> Floats:
    """(N,): the record is lifted at random onto the sphere of the domain's radius, and a direction near it is sent."""
    if records.dim == 1:  # the sphere has two points
        return records.losses(np.full(records.z.shape, (records.radius / math.tanh(epsilon / 2)) ** 2), 1.0)
    best = PrivUnit.of(records.dim, epsilon)
    across = (1.0 - best.square) / (records.dim - 1)
    norms = (records.z**2).sum(axis=1)
    trace = float(np.trace(records.gram))
    # At the centre any direction is lifted, all alike.
    along = np.divide(records.form, norms, out=np.full(len(norms), trace / records.dim), where=norms > 1e-300)
    return np.asarray(
        (records.radius / best.mean) ** 2 * (across * trace + (best.square - across) * along) - records.form
    )


def laplace_split(records: Scaled, epsilon: float) -> Floats:
    """(N,): Laplace noise of scale 2d/ε on every attribute."""
    return np.full(len(records.z), 2.0 * (2.0 * records.dim / epsilon) ** 2 * float(np.trace(records.gram)))


def _sampled(records: Scaled, epsilon: float, second: Callable[[Floats, float], Floats]) -> Floats:
    """k of d attributes, each with ε/k by a mechanism whose `second` moment is known, times d/k."""
    d = records.dim
    k = max(1, min(d, math.floor(epsilon / SHARE)))
    products = d * (k - 1) / (k * (d - 1)) if d > 1 else 1.0
    return records.losses(d / k * second(records.z, epsilon / k), products)


def importance(records: Scaled, epsilon: float) -> tuple[str, float]:
    """The best of these one-dimensional mechanisms with importance sampling, and its expected loss over the records.

    k times an attribute is drawn, attribute i with chance pᵢ, and sent with ε/k, divided by pᵢ. The loss is
    (Σᵢ Gᵢᵢ E[vᵢ²]/pᵢ − Σᵢ Gᵢᵢ zᵢ²)/k if G is diagonal, which pᵢ ∝ √(Gᵢᵢ E[vᵢ²]) makes least. The best k is taken.
    """
    if (np.diag(np.diag(records.gram)) != records.gram).any():
        raise TaskError("importance sampling of attributes is known for a task that weighs them one by one.")
    weights, known = np.diag(records.gram), float((records.z**2 @ np.diag(records.gram)).mean())
    found = []
    for name, second in (("duchi", _duchi_alone), ("piecewise", _piecewise), ("hybrid", _hybrid)):
        for times in range(1, max(2, math.ceil(epsilon) + 1)):
            moments = second(records.z, epsilon / times).mean(axis=0)
            found.append((name, (float(np.sqrt(weights * moments).sum()) ** 2 - known) / times))
    return min(found, key=lambda way: way[1])


def second_moment(z: Floats, shares: Floats, epsilon: float) -> float:
    """E[v²] by the best mechanism for one attribute, if people have the numbers z (R,) in [−1, 1] with these shares."""
    return min(float(shares @ second(z, epsilon)) for second in (_duchi_alone, _piecewise, _hybrid))


def _duchi_alone(z: Floats, epsilon: float) -> Floats:
    """E[v²] of Duchi's mechanism for one attribute."""
    return np.full(z.shape, math.tanh(epsilon / 2) ** -2)


def _piecewise(z: Floats, epsilon: float) -> Floats:
    """E[v²] of the piecewise mechanism."""
    root = math.expm1(epsilon / 2)
    return np.asarray(z**2 / root + (root + 4.0) / (3.0 * root**2) + z**2)


def _hybrid(z: Floats, epsilon: float) -> Floats:
    """E[v²] of the hybrid mechanism."""
    share = -math.expm1(-epsilon / 2) if epsilon > HYBRID_FROM else 0.0
    return np.asarray(share * _piecewise(z, epsilon) + (1.0 - share) * _duchi_alone(z, epsilon))


@dataclass(frozen=True, kw_only=True)
class PrivUnit:
    """PrivUnit (Bhowmick et al. 2018) with its best parameters (Asi et al. 2022): the moments its error follows from.

    For a unit vector u in d ≥ 2 dimensions: with chance p a uniform unit vector z with z·u ≥ `threshold`, otherwise
    one below, sent as z/`mean`. `mean` is E[z·u] and `square` E[(z·u)²].

    p/q : (1 − p)/(1 − q) = e^ε : 1, where q is the share of the sphere above the threshold: exactly ε-LDP. The
    threshold is the one of largest mean.
    """

    threshold: float
    mean: float
    square: float

    @classmethod
    def of(cls, dim: int, epsilon: float) -> PrivUnit:
        """The best one for vectors of `dim` attributes."""
        # In many dimensions z·u has the standard deviation 1/√d, and the best threshold is about √(2ε) of these.
        farthest = min(1.0, (4.0 + math.sqrt(2.0 * epsilon)) / math.sqrt(dim))
        found = minimize_scalar(
            lambda at: -_moments(dim, epsilon, at)[0], bounds=(0.0, farthest), method="bounded", options={"xatol": 1e-9}
        )
        least = 0.0 if -found.fun < _moments(dim, epsilon, 0.0)[0] else float(found.x)
        mean, square = _moments(dim, epsilon, least)
        return cls(threshold=least, mean=mean, square=square)

    @property
    def error(self) -> float:
        """E‖z/mean − u‖²."""
        return self.mean**-2 - 1.0


def _moments(dim: int, epsilon: float, threshold: float) -> tuple[float, float]:
    """E[z·u] and E[(z·u)²]. On the sphere t = z·u has density (1 − t²)^(a − 1) / B(1/2, a) with a = (d − 1)/2."""
    a = (dim - 1) / 2
    share = 0.5 * float(betainc(a, 0.5, 1.0 - threshold**2))  # of the sphere above the threshold
    if share <= 0.0:
        return 0.0, 1.0 / dim
    above = math.exp(a * math.log1p(-(threshold**2)) - float(betaln(0.5, a))) / (2 * a)  # ∫ t over the cap
    square = 0.5 / dim * float(betainc(a, 1.5, 1.0 - threshold**2))  # ∫ t² over the cap
    # Densities relative to the uniform one, above the threshold and below: in the ratio e^ε, and their mean is one.
    below = 1.0 / (1.0 + share * float(np.expm1(epsilon)))
    extra = below * float(np.expm1(epsilon))
    return extra * above, below / dim + extra * square


@dataclass(frozen=True, kw_only=True)
class Literature(Unseeded):
    """One of these, for `tv.sweep`: expected losses by a formula, and no veil."""

    name: str
    formula: Callable[[Scaled, float], Floats]

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None for means."""
        if isinstance(task, MeanTask):
            return None
        return f"{self.name} is the literature's way to population means: it is compared with others for a MeanTask."

    def designs(
        self,
        problem: Problem,  # noqa: ARG002
        epsilons: Sequence[float],  # noqa: ARG002
        seeds: Sequence[int],  # noqa: ARG002
    ) -> Iterator[tuple[float, int, Veil]]:
        """Nothing: a TaskError, because there is a formula and no veil."""
        raise TaskError(
            f"{self.name} is here to be compared with, as a formula: name it among the methods of tv.sweep. "
            'A veil for means is made by method="means".'
        )

    def expected_losses(self, problem: Problem, epsilon: float, X: Floats) -> Floats:
        """The expected loss (N,) of every record of X (N, n), brought inside the problem's domain first."""
        K = _weights(problem)
        inside = problem.domain.project(X)
        records = Scaled.of(inside, K, problem.domain)
        outside = ((inside - X) @ K.T) ** 2
        if records.dim == 0:
            return np.asarray(outside.sum(axis=1))
        return np.asarray(self.formula(records, epsilon) + outside.sum(axis=1))


def _weights(problem: Problem) -> Floats:
    if not isinstance(problem.task, MeanTask):
        raise TaskError(f"the literature's ways to means serve a MeanTask, got {type(problem.task).__name__}.")
    return problem.task.K


LITERATURE = tuple(
    Literature(name=formula.__name__, formula=formula)
    for formula in (duchi, piecewise, hybrid, privunit, laplace_split)
)
