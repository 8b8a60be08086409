"""Collections drawn by the thousand from people whose means are known, with a veil made by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import taskveil as tv
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.decoders import CodewordDecoder
from taskveil.reference import Reference
from taskveil.server.estimates.scores import Tally

CODEWORDS = np.array([[-1.2, -0.6], [1.2, 0.6], [0.4, -1.3], [-0.4, 1.3], [0.0, 0.0]])


def codebook_veil(epsilon: float, favoured: int = 1) -> tv.Veil:
    """Two attributes reported by the nearest of five codewords."""
    step = 2.0**-10
    points = np.rint(CODEWORDS / step).astype(np.int64)
    wide = np.full(2, 8.0)
    stage = Stage(
        vectors=2 * points,
        offsets=-(points**2).sum(axis=1),
        shifts=points,
        response=Response.calibrated(size=len(points), favoured=favoured, epsilon=epsilon),
    )
    return tv.Veil(
        encoder=LinearEncoder.of(low=-wide, high=wide, weights=np.eye(2), offset=np.zeros(2)),
        mechanism=Codebook(region=BoxRegion(step=step, low=np.full(2, -8192), high=np.full(2, 8192)), stages=(stage,)),
        decoder=CodewordDecoder(codewords=CODEWORDS, sizes=np.array([len(CODEWORDS)])),
        task=tv.LinearTask(np.array([[1.0, 1.0]])),
        method="by hand",
    )


def records(count: int, rng: np.random.Generator) -> np.ndarray:
    """Two correlated attributes, the first of them skewed."""
    skewed = np.minimum(rng.gamma(4.0, 0.5, size=count) - 2.0, 7.0)
    return np.column_stack([skewed, 0.5 * skewed + np.sqrt(0.75) * rng.normal(size=count)])


def strangers(veil: tv.Veil, X: np.ndarray) -> Reference:
    """Volunteers (V, n), none of whom had a part in the veil's codewords."""
    return replace(Reference.of(veil.task, X, None, veil.encoder(X)), everybody=2**50)


def with_volunteers(veil: tv.Veil, X: np.ndarray) -> tv.Veil:
    """The veil with such volunteers (V, n) to compare people with."""
    return replace(veil, reference=strangers(veil, X))


@dataclass(frozen=True)
class People:
    """So many people (M, n) stand for everybody; `chances` (K,) is how probable each report of one of them is."""

    release: str
    means: np.ndarray
    favour: np.ndarray
    chances: np.ndarray

    @classmethod
    def of(cls, veil: tv.Veil, X: np.ndarray) -> People:
        (stage,) = veil.mechanism.stages
        favoured = stage.favoured(veil.mechanism.region.enforce(veil.encoder(X)))
        favour = np.bincount(favoured.ravel(), minlength=stage.response.size) / len(X)
        return cls(veil.release_id, X.mean(axis=0), favour, stage.response.base + stage.response.extra * favour)

    def reports(self, count: int, rng: np.random.Generator) -> Tally:
        """What `count` people, drawn with replacement, report."""
        none = np.zeros((0, 0))
        codes = rng.multinomial(count, self.chances)
        return Tally(release=self.release, count=count, codes=codes, total=none.ravel(), square=none)
