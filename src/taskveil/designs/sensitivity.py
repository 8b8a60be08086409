"""Exact diameters: how far apart two latents can be, which is what privacy is charged for.

The ℓ1 diameter of a point set needs no pairwise distances. Since ‖v‖₁ = max over sign vectors s of s·v,

    max over a, b of ‖a − b‖₁ = max over s of (max over a of s·a − min over b of s·b),

which is 2^(Z−1) products instead of N² pairs. For large Z the pairs are pruned instead: two points can only
be the farthest pair if the sum of their distances from a centre exceeds the best distance found so far.

For the image of a box or a ball under a linear map the inner maximum has a closed form and only the sign
vectors remain. That maximum is NP-hard in general, so it is enumerated block by block (a diagonal map
decomposes into blocks of one) and refused beyond `MAX_SIGNS` coupled coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from taskveil.arrays import NUMBERS_AT_A_TIME, Floats
from taskveil.errors import DataError, SensitivityError

MAX_SIGNS = 24
"""At most 2^23 sign vectors are enumerated: about a second, and the same on every machine."""


def l1_diameter(points: ArrayLike) -> float:
    """max ‖a − b‖₁ over all pairs of rows of `points` (N, Z); exact for every Z.

    Example:
        >>> from taskveil.designs.sensitivity import l1_diameter
        >>> l1_diameter([[0.0, 0.0], [1.0, 2.0], [-1.0, 0.5]])
        3.5
    """
    P = _as_points(points)
    count, dim = P.shape
    if dim <= MAX_SIGNS and 2 ** (dim - 1) <= max(256, count // 64):
        return max(float((v.max(axis=1) - v.min(axis=1)).max()) for v in _sign_sums(P.T))
    return _pruned_diameter(P)


def box_l1_diameter(matrix: ArrayLike, widths: ArrayLike) -> float:
    """ℓ1 diameter of {E x : x in a box with side lengths `widths`}: max over s of Σⱼ wⱼ |(Eᵀs)ⱼ|."""
    M = np.atleast_2d(np.asarray(matrix, dtype=np.float64)) * np.asarray(widths, dtype=np.float64)
    # max over s, u of sᵀMu is the same for M and its transpose: enumerate the shorter side of each block.
    total = 0.0
    for rows, columns in _bipartite_blocks(M):
        block = M[np.ix_(rows, columns)]
        block = block if block.shape[0] <= block.shape[1] else block.T
        total += _max_over_signs(block, lambda V: np.abs(V).sum(axis=1))
    return total


def ball_l1_diameter(matrix: ArrayLike, radius: float) -> float:
    """ℓ1 diameter of {E x : ‖x − c‖₂ ≤ r}: 2r · max over s of ‖Eᵀs‖₂ (2r‖E‖_F when the rows are orthogonal)."""
    return 2.0 * radius * float(np.sqrt(_max_sign_energy(np.atleast_2d(np.asarray(matrix, dtype=np.float64)))))


def sign_vectors(dim: int) -> NDArray[np.int8]:
    """All 2^(dim−1) sign vectors up to a common sign, (2^(dim−1), dim), the first coordinate always +1."""
    if not 1 <= dim <= MAX_SIGNS:
        raise SensitivityError(f"sign vectors are enumerated for 1 to {MAX_SIGNS} dimensions, not {dim}.")
    bits = (np.arange(2 ** (dim - 1))[:, None] >> np.arange(dim - 1)) & 1
    return np.hstack([np.ones((len(bits), 1), dtype=np.int8), (1 - 2 * bits).astype(np.int8)])


def _sign_sums(M: Floats) -> Iterator[Floats]:
    """sᵀM for every sign vector s with s₁ = +1 and M (d, n), in chunks (k, n) of moderate size.

    Doubling (every row added to and subtracted from all sums so far) costs one addition per sum.
    """
    M = np.ascontiguousarray(M)
    split = 1
    while split < len(M) and 2**split * M.shape[1] <= NUMBERS_AT_A_TIME:
        split += 1
    sums = np.empty((2 ** (split - 1), M.shape[1]))
    sums[0] = M[0]
    for power, row in enumerate(M[1:split]):
        done = 2**power
        np.subtract(sums[:done], row, out=sums[done : 2 * done])
        sums[:done] += row
    rest = M[split:]
    for code in range(2 ** len(rest)):
        signs = 1.0 - 2.0 * ((code >> np.arange(len(rest))) & 1)
        yield sums + signs @ rest if len(rest) else sums


def _pruned_diameter(P: Floats) -> float:
    """Compare only pairs whose distances from the centre add up to more than the best pair found so far."""
    centre = np.median(P, axis=0, keepdims=True)
    reach = cdist(P, centre, "cityblock")[:, 0]
    order = np.argsort(-reach)
    P, reach = P[order], reach[order]
    best = 0.0
    # A good first guess prunes most: walk to the farthest point from a few far points.
    for start in range(min(8, len(P))):
        here = start
        for _ in range(4):
            distances = cdist(P[here : here + 1], P, "cityblock")[0]
            farthest = int(distances.argmax())
            if distances[farthest] <= best:
                break
            best, here = float(distances[farthest]), farthest
    for start in range(0, len(P), 64):
        # Rows from `start` on, against every row that could still reach beyond `best` together with them.
        partners = int(np.searchsorted(-reach, -(best - reach[start]) * (1 - 1e-12)))
        if partners <= start:
            break
        block = cdist(P[start : start + 64], P[start:partners], "cityblock")
        best = max(best, float(block.max()))
    return best


def _max_over_signs(M: Floats, norm: Callable[[Floats], Floats]) -> float:
    """max over s in {±1}^d of norm(sᵀM) for M (d, n); `norm` maps rows (k, n) to (k,)."""
    d = M.shape[0]
    if d > MAX_SIGNS:
        raise SensitivityError(
            f"the exact sensitivity couples {d} coordinates and would need 2^{d - 1} sign vectors "
            f"(at most {MAX_SIGNS} are enumerated). Use a smaller latent_dim, or a design that bounds the latent."
        )
    return max(float(norm(sums).max()) for sums in _sign_sums(M))


def _max_sign_energy(M: Floats) -> float:
    """max over s in {±1}^d of ‖sᵀM‖₂² for M (d, n), block by block of the Gram matrix MMᵀ.

    Entries of MMᵀ that are mere rounding are taken as zero to find the blocks; what they could
    add is added back, so the result is never below the truth.
    """
    gram = M @ M.T
    size = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    linked = np.abs(gram) > 1e-14 * size
    dropped = float(np.abs(gram[~linked]).sum())
    total = dropped
    for block in _components(linked):
        total += _max_over_signs(M[block], lambda V: np.einsum("ij,ij->i", V, V))
    return total


def _bipartite_blocks(M: Floats) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows and columns of M that touch each other, block by block; all-zero rows and columns are left out."""
    d, n = M.shape
    graph = np.zeros((d + n, d + n), dtype=bool)
    graph[:d, d:] = M != 0
    for block in _components(graph):
        rows, columns = block[block < d], block[block >= d] - d
        if len(rows) and len(columns):
            yield rows, columns


def _components(linked: NDArray[np.bool_]) -> Iterator[NDArray[np.intp]]:
    count, labels = connected_components(csr_array(linked.astype(np.int8)), directed=False)
    for label in range(count):
        yield np.flatnonzero(labels == label)


def _as_points(points: ArrayLike) -> Floats:
    P = np.asarray(points, dtype=np.float64)
    if P.ndim != 2 or 0 in P.shape or not np.isfinite(P).all():
        raise DataError(f"expected a non-empty (N, Z) array of finite numbers, got shape {P.shape}.")
    return P
