"""Collections drawn by the thousand from people whose means are known, with a veil made by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.estimates.scores import Tally
from taskveil.veil.decoders import CodewordDecoder
from taskveil.veil.volunteers import Classes, Groups, Outputs, Volunteers, merged, truths

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


def strangers(veil: tv.Veil, X: np.ndarray, y: np.ndarray | None = None) -> Volunteers:
    """Sums over volunteers (V, n), none of whom had a part in the veil's codewords."""
    (stage,) = veil.mechanism.stages
    favoured = stage.favoured(veil.mechanism.region.enforce(veil.encoder(X)))
    measured = np.zeros((len(X), stage.response.size))
    np.put_along_axis(measured, favoured, 1.0, axis=1)
    best = favoured[:, 0]
    cell_of = merged(np.bincount(best, minlength=stage.response.size), stage.vectors.astype(np.float64))
    targets = X if y is None else np.hstack([X, np.eye(y.max() + 1)[y]])  # without labels the answers are Kx
    cells = Groups.of(cell_of[best], measured, targets)
    by_class = ()
    if y is not None:
        found = Groups.of(y, measured, targets)
        by_class = (Classes(counts=found.counts, measured=found.measured),)
    mean = cells.together(cells.measured)
    return Volunteers(cells=cells, by_class=by_class, cell_of=cell_of, variance=np.zeros(1), mean=mean)


def with_volunteers(veil: tv.Veil, X: np.ndarray, y: np.ndarray | None = None) -> tv.Veil:
    """The veil with sums over such volunteers (V, n), of classes y (V,), to compare people with."""
    outputs = truths(veil.task, X, None)[1]
    if y is not None:
        names = tuple(f"renewed = {name}" for name in ("no", "yes", "maybe")[: y.max() + 1])
        outputs = Outputs(names=names, shares=np.ones(len(names), dtype=np.int8), labelled=True)
    return replace(veil, volunteers=strangers(veil, X, y), outputs=outputs, task=veil.task if y is None else None)


def with_means(veil: tv.Veil, X: np.ndarray) -> tv.Veil:
    """A means release with sums over volunteers (V, n) who had no part in its design."""
    inside = np.clip(X, veil.encoder.low, veil.encoder.high)
    answers = truths(veil.task, inside, None)
    known = Volunteers.of(veil.mechanism, veil.decoder, veil.encoder(inside), inside, veil.task, answers)
    return replace(veil, volunteers=known)


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
