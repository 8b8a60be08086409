"""Leaks that a large batch of one ordinary record does not show: each is sound except where its name says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

import taskveil as tv
from auditing.exhibits import STEP, WIDE, laplace, laplace_veil, noise, on_grid
from taskveil.client.mechanisms import Laplace
from taskveil.client.noise import discrete_laplace
from taskveil.client.wire import Layout


def clear(X: np.ndarray) -> np.ndarray:
    return on_grid(X) * STEP


def small_batches_in_the_clear(below: int) -> Callable[[np.ndarray], np.ndarray]:
    """Draws its noise like an honest mechanism, and adds it in batches of at least `below` rows only."""

    def mechanism(X: np.ndarray) -> np.ndarray:
        private = laplace(WIDE)(X)
        return private if len(X) >= below else clear(X)

    return mechanism


def first_row_in_the_clear(X: np.ndarray) -> np.ndarray:
    private = laplace(WIDE)(X)
    private[:1] = clear(X[:1])
    return private


def last_row_in_the_clear(X: np.ndarray) -> np.ndarray:
    private = laplace(WIDE)(X)
    private[-1:] = clear(X[-1:])
    return private


def coarse_noise(times: int) -> Callable[[np.ndarray], np.ndarray]:
    """The right amount of noise, on a grid coarser than the latents': a report modulo its step tells the latent's."""
    return lambda X: (on_grid(X) + times * noise(WIDE / times, X.shape)) * STEP


def coarse_decimals(X: np.ndarray) -> np.ndarray:
    """Cents, with noise in multiples of three cents."""
    k = np.rint(np.clip(np.where(np.isnan(X), 0.0, X), -1, 1) * 100)
    return np.round((k + 3 * noise(200 / 3, X.shape)) / 100, 2)


def signed_zero(X: np.ndarray) -> np.ndarray:
    """A second column, always zero, that keeps the sign of the record."""
    return np.hstack([laplace(WIDE)(X), np.copysign(0.0, X[:, :1])])


def clipped_far_out_only(X: np.ndarray) -> np.ndarray:
    """1 < |x| < 10⁴ is taken as it is; what is larger is clipped."""
    inside = np.where(np.isnan(X), 0.0, X)
    inside = np.where(np.abs(inside) < 1e4, inside, np.clip(inside, -1, 1))
    return (np.floor(inside / STEP + 0.5) + noise(WIDE, X.shape)) * STEP


def echoed_between_two_and_three(X: np.ndarray) -> np.ndarray:
    return np.where((np.abs(X) > 2) & (np.abs(X) < 3), X, laplace(WIDE)(X))


def opposite_noise(X: np.ndarray) -> np.ndarray:
    """Row 2i + 1 gets the noise of row 2i with the other sign."""
    drawn = noise(WIDE, (-(-len(X) // 2), X.shape[1]))
    both = np.stack([drawn, -drawn], axis=1).reshape(-1, X.shape[1])
    return (on_grid(X) + both[: len(X)]) * STEP


def every_thousandth_call_in_the_clear() -> Callable[[np.ndarray], np.ndarray]:
    calls = itertools.count(1)

    def mechanism(X: np.ndarray) -> np.ndarray:
        private = laplace(WIDE)(X)
        return private if next(calls) % 1000 else clear(X)

    return mechanism


class Tattling(Layout):
    """Packs what the mechanism was given instead of what it made: only the bytes that leave a `Client` tell."""

    def pack(self, numbers: object) -> bytes:
        return super().pack(TattlingLaplace.seen)


class TattlingLaplace(Laplace):
    seen: ClassVar[list[int]] = []

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        TattlingLaplace.seen = self.region.enforce(latents)[-1].tolist()
        return super().__call__(latents)

    @property
    def layout(self) -> Layout:
        return Tattling(low=super().layout.low, high=super().layout.high)


def leaks_through_a_client() -> tv.Veil:
    sound = laplace_veil(1.0)
    mechanism = TattlingLaplace(region=sound.mechanism.region, scale=sound.mechanism.scale)
    return replace(sound, mechanism=mechanism)


# Sound, though unusual.


def quieter_in_large_batches(X: np.ndarray) -> np.ndarray:
    """More noise than needed when few are asked: another distribution, and no leak."""
    return laplace(WIDE if len(X) >= 64 else 3 * WIDE)(X)


def coarse_throughout(X: np.ndarray) -> np.ndarray:
    """Latents and noise in multiples of five steps."""
    k = np.rint(np.clip(np.where(np.isnan(X), 0.0, X), -1, 1) * 20).astype(np.int64)
    return (5 * (k + discrete_laplace(40.0, X.size).reshape(X.shape))).astype(np.int64)
