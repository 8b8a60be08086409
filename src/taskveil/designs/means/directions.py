"""The latents that means are told in: single attributes, or directions in which correlated attributes vary together.

Whichever are told, K x̂ must be unbiased, so they span all that the task weighs and the domain lets vary, whether or
not volunteers vary there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.designs.domain import Domain


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


def candidates(X: Floats, K: Floats, domain: Domain) -> Iterator[Directions]:
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
