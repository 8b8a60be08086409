"""What the museum shows: sound parts, and mechanisms broken in ways that real libraries were."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np

import taskveil as tv
from taskveil.client import entropy
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Laplace, LatticeCodebook, Response, Stage, SumCodebook
from taskveil.client.mechanisms.lattice import Lattice
from taskveil.client.noise import discrete_laplace
from taskveil.client.regions import BoxRegion
from taskveil.designs.domain import box_region
from taskveil.errors import EntropyError
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder, LatticeDecoder

STEP = 2.0**-20
WIDE = 2.0 / STEP  # the diameter of [−1, 1] in steps

# Parts.


def on_grid(X: np.ndarray) -> np.ndarray:
    return np.floor(np.clip(np.where(np.isnan(X), 0.0, X), -1, 1) / STEP + 0.5).astype(np.int64)


def noise(scale: float, shape: tuple[int, ...]) -> np.ndarray:
    return discrete_laplace(scale, math.prod(shape)).reshape(shape)


def laplace(scale: float) -> Callable[[np.ndarray], np.ndarray]:
    """Sound clipping and rounding, noise of this scale (in steps)."""
    return lambda X: (on_grid(X) + noise(scale, X.shape)) * STEP


def encoder(dim: int) -> LinearEncoder:
    return LinearEncoder.of(low=np.full(dim, -1.0), high=np.ones(dim), weights=np.eye(dim), offset=np.zeros(dim))


def laplace_veil(epsilon: float, dim: int = 1) -> tv.Veil:
    mechanism = Laplace.calibrated(region=box_region(np.full(dim, -1.0), np.ones(dim)), epsilon=epsilon)
    decoder = AffineDecoder(weights=np.eye(dim), offset=np.zeros(dim))
    return tv.Veil(encoder=encoder(dim), mechanism=mechanism, decoder=decoder, task=None, method="museum")


def stage(size: int, favoured: int, epsilon: float, reach: float, response: Response | None = None) -> Stage:
    """Favours the codewords nearest to the latent, on a line from −reach to reach."""
    words = np.rint(np.linspace(-reach, reach, size) / STEP).astype(np.int64)
    return Stage(
        vectors=2 * words[:, None],
        offsets=-(words**2),
        shifts=words[:, None],
        response=response or Response.calibrated(size=size, favoured=favoured, epsilon=epsilon),
    )


def codebook_veil(stage: Stage, kind: type[Codebook] = Codebook) -> tv.Veil:
    region = BoxRegion(step=STEP, low=np.array([-(2**20)]), high=np.array([2**20]))
    return tv.Veil(
        encoder=encoder(1),
        mechanism=kind(region=region, stages=(stage,)),
        decoder=CodewordDecoder(codewords=stage.vectors * (STEP / 2), sizes=np.array([stage.response.size])),
        task=None,
        method="museum",
    )


def lattice_veil(epsilon: float) -> tv.Veil:
    lattice = Lattice(
        levels=np.tile(np.array([-100, -50, 0, 50, 100]), 2),
        lengths=np.tile(np.array([2, 1, 0, 1, 2]), 2),
        counts=np.array([5, 5]),
        budget=3,
    )
    mechanism = LatticeCodebook(
        region=BoxRegion(step=2.0**-7, low=np.full(2, -128), high=np.full(2, 128)),
        lattice=lattice,
        response=Response.calibrated(size=lattice.size, favoured=1, epsilon=epsilon),
    )
    decoder = LatticeDecoder(lattice=lattice, step=1 / 128.0, weights=np.eye(2), offset=np.zeros(2))
    return tv.Veil(encoder=encoder(2), mechanism=mechanism, decoder=decoder, task=None, method="museum")


def sum_veil(epsilon: float, kind: type[SumCodebook] = SumCodebook) -> tv.Veil:
    """Sums of a coarse and a fine term, in two latents."""
    coarse = np.array([[x, y] for x in (-80, 0, 80) for y in (-80, 0, 80)])
    codewords = np.concatenate([coarse, coarse // 3]).astype(np.int16)
    mechanism = kind(
        region=BoxRegion(step=2.0**-7, low=np.full(2, -128), high=np.full(2, 128)),
        codewords=codewords,
        sizes=np.array([9, 9]),
        branches=4,
        response=Response.calibrated(size=81, favoured=1, epsilon=epsilon),
    )
    decoder = CodewordDecoder(codewords=codewords / 128.0, sizes=np.array([9, 9]))
    return tv.Veil(encoder=encoder(2), mechanism=mechanism, decoder=decoder, task=None, method="museum")


# Broken ones that need more than a line.


def no_clipping(X: np.ndarray) -> np.ndarray:
    k = np.floor(np.clip(np.nan_to_num(X, nan=0.0), -1e6, 1e6) / STEP + 0.5)
    return (k + noise(WIDE, X.shape)) * STEP


def clipping_after_noise(X: np.ndarray) -> np.ndarray:
    return np.clip(no_clipping(X), -4, 4)


def sensitivity_of_the_batch(X: np.ndarray) -> np.ndarray:
    k = on_grid(X)
    return (k + noise(max(float(np.ptp(k)), 1.0), X.shape)) * STEP


def rounding_charged_once(X: np.ndarray) -> np.ndarray:
    """Four latents of 1.5 steps: rounding makes them 2 steps wide each, but one step was added for all."""
    k = np.floor((np.clip(np.where(np.isnan(X), 0.0, X), -1, 1) + 1) * 0.75 + 0.5)
    return k + noise((4 * 1.5 + 1) / 2.0, X.shape)


def one_draw_for_all_rows(X: np.ndarray) -> np.ndarray:
    return (on_grid(X) + noise(WIDE, (1, X.shape[1]))) * STEP


def one_draw_for_all_columns(X: np.ndarray) -> np.ndarray:
    return (on_grid(X) + noise(WIDE * X.shape[1], (len(X), 1))) * STEP


def drawn_once_for_all(epsilon: float) -> Callable[[np.ndarray], np.ndarray]:
    kept = noise(WIDE / epsilon, (1, 1))
    return lambda X: (on_grid(X) + kept) * STEP


def float_laplace(X: np.ndarray) -> np.ndarray:
    """The textbook formula in doubles, entropy from the system."""
    inside = np.clip(np.where(np.isnan(X), 0.0, X), -1, 1)
    words = entropy.random_words(X.size).reshape(X.shape)
    u = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53 - 0.5
    return inside - 2.0 * np.sign(u) * np.log(1 - 2 * np.abs(u))


def latent_off_the_grid(X: np.ndarray) -> np.ndarray:
    inside = np.clip(np.where(np.isnan(X), 0.0, X), -1, 1)
    return inside + noise(WIDE, X.shape) * STEP


def nan_passed_through(X: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(X), np.nan, laplace(WIDE)(X))


def nan_refused(X: np.ndarray) -> np.ndarray:
    if np.isnan(X).any():
        raise ValueError("records must be numbers")
    return laplace(WIDE)(X)


def zeros_not_randomised(X: np.ndarray) -> np.ndarray:
    return np.where(X == 0, 0.0, laplace(WIDE)(X))


def fixed_seed(X: np.ndarray) -> np.ndarray:
    drawn = np.random.default_rng(0).geometric(1 - math.exp(-1 / WIDE), size=(2, *X.shape))
    return (on_grid(X) + drawn[0] - drawn[1]) * STEP


def global_generator(X: np.ndarray) -> np.ndarray:
    """The right distribution from numpy's generator: private against nobody who guesses its state."""
    drawn = np.random.geometric(1 - math.exp(-1 / WIDE), size=(2, *X.shape))
    return (on_grid(X) + drawn[0] - drawn[1]) * STEP


def gaussian(X: np.ndarray) -> np.ndarray:
    """Box–Muller on the grid with σ = Δ/ε, sold as pure ε."""
    u = (entropy.random_words(2 * X.size).astype(np.float64) + 1) * 2.0**-64
    normal = np.sqrt(-2 * np.log(u[: X.size])) * np.cos(2 * np.pi * u[X.size :])
    return (on_grid(X) + np.rint(normal.reshape(X.shape) * WIDE)) * STEP


def truncated_noise(X: np.ndarray) -> np.ndarray:
    return (on_grid(X) + np.clip(noise(WIDE, X.shape), -3 * WIDE, 3 * WIDE).astype(np.int64)) * STEP


@dataclass
class Buffered:
    """Draws a large block of noise ahead: forked processes repeat each other, and a failing system goes unnoticed."""

    left: np.ndarray = field(default_factory=lambda: discrete_laplace(WIDE, 500_000))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if len(self.left) < X.size:
            self.left = discrete_laplace(WIDE, X.size + 500_000)
        taken, self.left = self.left[: X.size], self.left[X.size :]
        return (on_grid(X) + taken.reshape(X.shape)) * STEP


@dataclass
class ForkBlind:
    """A stream cipher keyed by the system once: every draw is fine, and forks all continue the same stream."""

    key: bytes = field(default_factory=lambda: os.urandom(32))
    drawn: int = 0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        import hashlib

        entropy.random_words(1)  # asks the system, and ignores the answer
        self.drawn += 1
        raw = hashlib.shake_256(self.key + self.drawn.to_bytes(8, "little")).digest(8 * X.size)
        words = np.frombuffer(raw, dtype="<u8").reshape(X.shape)
        u = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53 - 0.5
        return (on_grid(X) + np.rint(-WIDE * np.sign(u) * np.log(1 - 2 * np.abs(u)))) * STEP


def silent_without_entropy(X: np.ndarray) -> np.ndarray:
    try:
        return laplace(WIDE)(X)
    except EntropyError:
        return on_grid(X) * STEP


def favoured_size_varies(X: np.ndarray) -> np.ndarray:
    """Outputs 0 … 15; inputs above 0 favour one output, others eight; probabilities a/T with T for the set at hand."""
    narrow = np.where(np.isnan(X[:, 0]), 0.0, X[:, 0]) > 0
    one = Response.calibrated(size=16, favoured=1, epsilon=1.0)(np.full((len(X), 1), 15))
    eight = Response.calibrated(size=16, favoured=8, epsilon=1.0)(np.tile(np.arange(8), (len(X), 1)))
    return np.where(narrow, one, eight)[:, None]


class StageByStage(SumCodebook):
    """Every stage has a response of its own, each with all of ε."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        found = self.nearest(self.region.enforce(latents))
        stages = [Response.calibrated(size=int(size), favoured=1, epsilon=self.epsilon) for size in self.sizes]
        return np.column_stack([response(found[:, [place]]) for place, response in enumerate(stages)])


class LoudSum(SumCodebook):
    """Draws with √2 times the budget that it states."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        size, epsilon = self.response.size, math.sqrt(2) * self.epsilon
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        loud = Response.calibrated(size=size, favoured=1, epsilon=epsilon)
        return SumCodebook(**{**parts, "response": loud})(latents)


class LastTermInTheClear(SumCodebook):
    """Randomises all terms but the finest, which "tells little"."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        reports = super().__call__(latents)
        reports[:, -1] = self.nearest(self.region.enforce(latents))[:, -1]
        return reports


class Overweight(Codebook):
    """Claims the ε of weights 1% smaller than its own."""

    @property
    def epsilon(self) -> float:
        return super().epsilon - math.log(1.01)


def overweight() -> Response:
    sound = Response.calibrated(size=2, favoured=1, epsilon=1.0)
    return Response(size=2, favoured=1, a=sound.a * 101 // 100, b=sound.b)


def overweight_callable(X: np.ndarray) -> np.ndarray:
    return overweight()((np.where(np.isnan(X), 0.0, X) > 0).astype(np.int64))[:, None]
