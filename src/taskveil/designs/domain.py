"""Domains, the sets in which records may lie: `Box`, `Ball` and `Points`.

A domain projects any vector into the set (NaN, infinities, wrong units, an attacker's choice). It has a support
function, the largest inner product of its members with a direction. It computes exactly how far apart two members can
be after a linear map.

`Points` is the convex hull of the volunteers' records, the setting of the paper. Projecting onto a hull is too
expensive, so a vector is only clipped to the bounding box of the records; the image of the hull in the latent space is
enforced exactly (`taskveil.client.regions`). `image_region` makes that region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taskveil.arrays import Floats, owned
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.networks import LEVELS
from taskveil.client.regions import MOST_SIGNED_LATENTS, BoxRegion, DiamondRegion, L1Region, SignRegion
from taskveil.designs import sensitivity
from taskveil.errors import DomainError, SensitivityError
from taskveil.records.schema import Schema
from taskveil.records.tables import as_records, as_volunteers


@dataclass(frozen=True, init=False)
class Box:
    """{x : low ≤ x ≤ high}, attribute by attribute.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0, domain=tv.Box([-3, -3], [3, 3]))
        >>> veil.privatize([[100.0, 0.0]]).shape  # a record outside the box is a record like any other
        (1, 1)
    """

    low: Floats
    high: Floats

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        low, high = np.broadcast_arrays(np.asarray(low, np.float64), np.asarray(high, np.float64))
        low, high = owned(np.atleast_1d(low)), owned(np.atleast_1d(high))
        if low.ndim != 1 or not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise DomainError(f"a box needs one finite low and high per attribute, got {low!r} and {high!r}.")
        if (low > high).any():
            raise DomainError(f"a box needs low ≤ high; attribute {int(np.argmax(low > high))} has low > high.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def dim(self) -> int:
        """The number of attributes."""
        return len(self.low)

    @property
    def center(self) -> Floats:
        """(n,): the middle of every attribute's range."""
        return self.low + (self.high - self.low) / 2

    @property
    def bounding_box(self) -> Box:
        """The smallest box around it."""
        return self

    def project(self, X: Any) -> Floats:
        """Any vectors (N, n) → members: NaN goes to the middle, the rest is clipped."""
        X = as_records(X, width=self.dim)
        return np.clip(np.where(np.isnan(X), self.center, X), self.low, self.high)

    def support(self, directions: Floats) -> Floats:
        """max over members x of u·x for every row u of `directions` (k, n) → (k,)."""
        half = (self.high - self.low) / 2
        return directions @ self.center + np.abs(directions) @ half

    def l1_sensitivity(self, matrix: ArrayLike) -> float:
        """max ‖E(x − x')‖₁ over members."""
        return sensitivity.box_l1_diameter(_as_map(matrix, self.dim), self.high - self.low)

    def radii(self, mean: Floats, factor: Floats, inverse: Floats) -> tuple[float, float]:
        """Radii (r_min, r_max) of centred balls inside and around {inverse (x − mean)}, where x = mean + factor h."""
        rows = np.linalg.norm(factor, axis=1)
        margin = np.minimum(self.high - mean, mean - self.low)
        # An attribute the sample never moved in does not bound the support of the data.
        inner = float(np.min(margin[rows > 0] / rows[rows > 0], initial=np.inf))
        # Half the diagonal of the whitened box plus the offset of its centre: at least the true radius.
        half = inverse * ((self.high - self.low) / 2)
        outer = float(np.linalg.norm(inverse @ (self.center - mean)) + np.abs(half).sum(axis=0) @ np.ones(self.dim))
        corners = float(np.linalg.norm(np.abs(half).sum(axis=1)) + np.linalg.norm(inverse @ (self.center - mean)))
        return max(inner, 0.0), min(outer, corners)


@dataclass(frozen=True, init=False)
class Ball:
    """{x : ‖x − center‖₂ ≤ radius}. A scalar center needs `dim` or is broadcast to the data by a design.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0, domain=tv.Ball(3.0))
        >>> veil.guarantee.epsilon <= 2.0
        True
    """

    radius: float
    center: Floats

    def __init__(self, radius: float, center: ArrayLike = 0.0, *, dim: int | None = None) -> None:
        centre = np.asarray(center, np.float64)
        centre = owned(np.full(dim or 1, float(centre)) if centre.ndim == 0 else centre)
        if centre.ndim != 1 or not np.isfinite(centre).all():
            raise DomainError("a ball needs a finite center: one number, or one per attribute.")
        if dim is not None and len(centre) != dim:
            raise DomainError(f"the ball's center has {len(centre)} attributes, dim says {dim}.")
        if not (np.isfinite(radius) and radius > 0):
            raise DomainError(f"a ball needs a finite radius above zero, got {radius}.")
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "center", centre)

    @property
    def dim(self) -> int:
        """The number of attributes."""
        return len(self.center)

    @property
    def bounding_box(self) -> Box:
        """The smallest box around it."""
        return Box(self.center - self.radius, self.center + self.radius)

    def project(self, X: Any) -> Floats:
        """Any vectors (N, n) → members: NaN goes to the center, the rest is pulled straight towards it."""
        X = as_records(X, width=self.dim)
        X = np.clip(np.where(np.isnan(X), self.center, X), -1e300, 1e300)
        offset = X - self.center
        # Scaling by the largest entry first keeps huge and tiny vectors from over- and underflowing.
        largest = np.maximum(np.abs(offset).max(axis=1, keepdims=True), np.finfo(float).tiny)
        direction = offset / largest
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        outside = length > (self.radius / largest) * (1 - 1e-15)
        onto = direction / np.maximum(length, np.finfo(float).tiny) * (self.radius * (1 - 1e-15))
        return np.asarray(np.where(outside, self.center + onto, X))

    def support(self, directions: Floats) -> Floats:
        """max over members x of u·x for every row u of `directions` (k, n) → (k,)."""
        return np.asarray(directions @ self.center + self.radius * np.linalg.norm(directions, axis=1))

    def l1_sensitivity(self, matrix: ArrayLike) -> float:
        """max ‖E(x − x')‖₁ over members."""
        return sensitivity.ball_l1_diameter(_as_map(matrix, self.dim), self.radius)

    def radii(self, mean: Floats, factor: Floats, inverse: Floats) -> tuple[float, float]:
        """Radii (r_min, r_max) of centred balls inside and around {inverse (x − mean)}, where x = mean + factor h."""
        offset = float(np.linalg.norm(self.center - mean))
        inner = (self.radius - offset) / float(np.linalg.norm(factor, ord=2))
        outer = self.radius * float(np.linalg.norm(inverse, ord=2)) + float(
            np.linalg.norm(inverse @ (self.center - mean))
        )
        return max(inner, 0.0), outer


@dataclass(frozen=True, init=False)
class Points:
    """The convex hull of the volunteers' records (N, n); enforced exactly in the latent space.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> task = tv.LinearTask([[1.0, 1.0]])
        >>> veil = tv.design(X, task, epsilon=2.0, method="task_aware", domain=tv.Points(X))
        >>> veil.guarantee.epsilon
        2.0
    """

    records: Floats

    def __init__(self, X: Any) -> None:
        object.__setattr__(self, "records", owned(as_volunteers(X)))

    @property
    def dim(self) -> int:
        """The number of attributes."""
        return int(self.records.shape[1])

    @property
    def bounding_box(self) -> Box:
        """The smallest box around it."""
        return Box(self.records.min(axis=0), self.records.max(axis=0))

    def project(self, X: Any) -> Floats:
        """Any vectors (N, n) → the cloud's bounding box, NaN to its middle."""
        return self.bounding_box.project(X)

    def support(self, directions: Floats) -> Floats:
        """max over members x of u·x for every row u of `directions` (k, n) → (k,)."""
        return np.asarray((self.records @ directions.T).max(axis=0))

    def l1_sensitivity(self, matrix: ArrayLike) -> float:
        """max ‖E(x − x')‖₁ over members: the diameter of the image of the points, since a hull has no larger."""
        return sensitivity.l1_diameter(self.records @ _as_map(matrix, self.dim).T)

    def radii(self, mean: Floats, factor: Floats, inverse: Floats) -> tuple[float, float]:  # noqa: ARG002
        """Radii (r_min, r_max) of centred balls inside and around {inverse (x − mean)}, where x = mean + factor h.

        The inner radius of a hull in many dimensions is out of reach; zero is a valid lower bound, and
        `designs.laplace.closed_form` replaces it by 1, which every distribution with identity covariance guarantees.
        """
        return 0.0, float(np.linalg.norm((self.records - mean) @ inverse.T, axis=1).max())


Domain = Box | Ball | Points
"""Any of the three; each owns its numbers, which cannot be written to.

`radii(mean, factor, inverse)` bounds the whitened domain {h = inverse (x − mean)}, where x = mean + factor h: a ball of
radius r_min around 0 lies inside it, one of radius r_max contains it."""


def fit_domain(domain: Domain | Schema | None, X: Floats) -> Domain:
    """The domain of a design: the caller's, checked against the data, the box of a schema with bounds, or else the hull
    of the records X (N, n)."""
    if domain is None or (isinstance(domain, Schema) and domain.unbounded):
        return Points(X)
    if isinstance(domain, Schema):
        return Box(*domain.fields.box)
    if not isinstance(domain, Box | Ball | Points):
        raise DomainError(f"domain must be a Box, Ball or Points, got {type(domain).__name__}.")
    if domain.dim == 1 and X.shape[1] > 1:
        # Box(0, 1) and Ball(r) are given without a dimension: they hold for every attribute alike.
        if isinstance(domain, Box):
            return Box(np.full(X.shape[1], domain.low[0]), np.full(X.shape[1], domain.high[0]))
        if isinstance(domain, Ball):
            return Ball(domain.radius, float(domain.center[0]), dim=X.shape[1])
    if domain.dim != X.shape[1]:
        raise DomainError(f"the domain has {domain.dim} attributes, the data {X.shape[1]}.")
    return domain


def grid_step(extent: float) -> float:
    """The power of two that divides `extent` into 2^20 to 2^21 steps, as many as an attribute has levels. So rounding a
    latent costs about a millionth of its sensitivity."""
    return float(2.0 ** np.floor(np.log2(max(extent, 1e-280)))) / LEVELS


def image_region(domain: Domain, encoder: LinearEncoder, weights: Floats, offset: Floats) -> L1Region:
    """A region that contains the image of the domain and has its ℓ1 diameter (up to rounding to the grid).

    The image of a box or a ball is symmetric about the image of its center, so the diamond of half its
    diameter contains it. A cloud of points has no symmetry: sign bounds follow it exactly for a few
    latents; for many, the smaller of a box and a diamond around it is taken.
    """
    if isinstance(domain, Points):
        return cloud_region(encoder(domain.records))
    try:
        diameter = domain.l1_sensitivity(weights)
    except SensitivityError:
        # Too many coupled latents for the exact diameter: bound every latent by its own exact range.
        high = domain.support(weights) + offset
        low = -domain.support(-weights) + offset
        return box_region(low, high)
    step = grid_step(diameter)
    center = np.rint((domain.center @ weights.T + offset) / step).astype(np.int64)
    # The image is rounded in every coordinate and so is its center: half a step each, on both sides.
    return DiamondRegion(step=step, center=center, radius=int(np.ceil(diameter / 2 / step)) + len(offset))


def box_region(low: Floats, high: Floats) -> BoxRegion:
    """The smallest box on the grid that contains low ≤ φ ≤ high after rounding.

    Scores multiply a latent by a difference of latents and must be exact: far from zero the grid is coarser.
    """
    far = float(np.maximum(np.abs(low), np.abs(high)).max())
    extent = float((high - low).sum()) or far or 1.0
    step = grid_step(max(extent, math.sqrt(extent * far) / 2**4, far / 2**18))
    return BoxRegion(
        step=step,
        low=np.floor(low / step + 0.5).astype(np.int64),
        high=np.floor(high / step + 0.5).astype(np.int64),
    )


def cloud_region(latents: Floats) -> L1Region:
    """The region around a cloud of latents (N, Z) with the cloud's own ℓ1 diameter, or nearly for many latents."""
    spread = np.ptp(latents, axis=0)
    step = grid_step(float(spread.sum()) or 1.0)
    k = np.floor(latents / step + 0.5).astype(np.int64)
    if latents.shape[1] <= MOST_SIGNED_LATENTS:
        signs = sensitivity.sign_vectors(latents.shape[1])
        products = k @ signs.T.astype(np.int64)
        # The volunteer nearest to the mean: certainly inside, where a rounded mean might not be.
        center = k[np.abs(k - k.mean(axis=0)).sum(axis=1).argmin()]
        return SignRegion(step=step, signs=signs, lower=products.min(axis=0), upper=products.max(axis=0), center=center)
    box = BoxRegion(step=step, low=k.min(axis=0), high=k.max(axis=0))
    middle = np.rint(np.median(k, axis=0)).astype(np.int64)
    diamond = DiamondRegion(step=step, center=middle, radius=int(np.abs(k - middle).sum(axis=1).max()))
    return box if box.l1_diameter <= diamond.l1_diameter else diamond


def _as_map(matrix: ArrayLike, dim: int) -> Floats:
    E = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
    if E.ndim != 2 or E.shape[1] != dim or not np.isfinite(E).all():
        raise DomainError(f"expected a finite linear map with {dim} columns, got shape {E.shape}.")
    return E
