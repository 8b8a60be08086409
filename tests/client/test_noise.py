from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.client import entropy, noise
from taskveil.errors import EntropyError


def feed(monkeypatch: pytest.MonkeyPatch, words: list[int]) -> None:
    """Replace the operating system's bits by the given 64-bit words."""
    stream = iter(words)
    monkeypatch.setattr(
        entropy, "system_bytes", lambda n: b"".join(next(stream).to_bytes(8, "little") for _ in range(n // 8))
    )


def true_magnitude(leading_bits: str, scale: float) -> int:
    """⌊c − t ln R⌋ with R given by a long bit string, in 100 digits."""
    with mpmath.workdps(100):
        R = mpmath.mpf(int(leading_bits, 2)) / mpmath.mpf(2) ** len(leading_bits)
        t = mpmath.mpf(scale)
        return int(mpmath.floor(t * mpmath.log(2 / (1 + mpmath.exp(-1 / t))) - t * mpmath.log(R)))


@given(st.integers(1, 2**64 - 1), st.floats(2.0**-6, 2.0**36))
def test_every_draw_is_the_exact_function_of_its_bits(word: int, scale: float) -> None:
    """Fast path or slow path: the integer is the one that infinite precision gives."""
    with pytest.MonkeyPatch.context() as patch:
        feed(patch, [word, *([2**63] * 8)])
        drawn = int(noise.discrete_laplace(scale, 1)[0])
    bits = f"{word >> 1:063b}" + f"{2**63:064b}" * 8
    assert abs(drawn) == true_magnitude(bits, scale)
    assert drawn == 0 or (drawn < 0) == bool(word & 1)


@pytest.mark.parametrize("scale", [1.0, 1000.0, 2.0**20])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_words_on_a_boundary_are_settled_exactly(monkeypatch: pytest.MonkeyPatch, scale: float, k: int) -> None:
    """Words next to the probability where the magnitude jumps from k − 1 to k: a double cannot decide these."""
    with mpmath.workdps(60):
        edge = 2 * mpmath.exp(-mpmath.mpf(k) / scale) / (1 + mpmath.exp(-1 / mpmath.mpf(scale)))
        at = int(mpmath.floor(edge * 2**63))
    for leading in range(at - 2, at + 3):
        feed(monkeypatch, [leading << 1, 2**63, 2**63])
        expected = true_magnitude(f"{leading:063b}" + f"{2**63:064b}" * 2, scale)
        assert int(noise.discrete_laplace(scale, 1)[0]) == expected


def test_the_slow_path_agrees_with_the_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.random.default_rng(0).integers(0, 2**64, size=2000, dtype=np.uint64)
    fast = noise._magnitudes(words, 12345.678)
    feed(monkeypatch, [2**63] * 10_000)
    slow = [noise._decided(int(word) >> 1, 12345.678) for word in words]
    assert np.array_equal(fast, slow)


def test_a_word_of_zeros_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, [0, 0, 0, 2**40])
    assert int(noise.discrete_laplace(3.0, 1)[0]) == true_magnitude("0" * (63 + 128) + f"{2**40:064b}", 3.0)


def test_variance_is_that_of_the_pmf() -> None:
    for scale in (0.1, 0.7, 3.0, 50.0):
        p = math.exp(-1 / scale)
        k = np.arange(1, 5000)
        assert noise.discrete_laplace_variance(scale) == pytest.approx(2 * ((1 - p) / (1 + p) * p**k * k**2).sum())


def test_without_entropy_there_is_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> bytes:
        raise OSError("no entropy")

    monkeypatch.setattr(entropy, "system_bytes", broken)
    with pytest.raises(EntropyError, match="no report"):
        noise.discrete_laplace(1.0, 1)
    monkeypatch.setattr(entropy, "system_bytes", lambda n: b"\0" * (n - 1))
    with pytest.raises(EntropyError, match="random bytes"):
        noise.discrete_laplace(1.0, 1)
