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


def is_below(word_bits: str, size: int, scale: float) -> bool:
    """Whether U < exp(−(size − scale)²/(2·scale²)) for U given by a long bit string, in 400 digits."""
    with mpmath.workdps(400):
        t = mpmath.mpf(scale)
        edge = mpmath.exp(-((size - t) ** 2) / (2 * t**2))
        return bool(mpmath.mpf(int(word_bits, 2)) / mpmath.mpf(2) ** len(word_bits) < edge)


def keeping(word: int, size: int, scale: float, *more: int) -> bool:
    """Whether the sampler keeps a proposal, from this word and more."""
    with pytest.MonkeyPatch.context() as patch:
        feed(patch, [word, *more])
        return bool(noise._is_kept(np.array([size]), scale)[0])


@given(st.integers(0, 2**64 - 1), st.floats(2.0**-10, 2.0**40), st.floats(-20, 20))
def test_whether_a_proposal_is_kept_is_the_exact_function_of_its_bits(word: int, scale: float, place: float) -> None:
    size = round(place * scale)
    bits = f"{word:064b}" + f"{2**63:064b}" * 4
    assert keeping(word, size, scale, *([2**63] * 4)) == is_below(bits, abs(size), scale)


@pytest.mark.parametrize("scale", [2.0**-10, 0.3, 1.0, 1000.25, 2.0**40])
@pytest.mark.parametrize("away", [0, 1, 2, 7, -3])
def test_words_next_to_the_edge_are_settled_exactly(scale: float, away: float) -> None:
    size = abs(round(away * scale) + away)
    with mpmath.workdps(400):
        t = mpmath.mpf(scale)
        at = int(mpmath.floor(mpmath.exp(-((size - t) ** 2) / (2 * t**2)) * 2**64))
        beyond = int(mpmath.floor(mpmath.exp(-((size - t) ** 2) / (2 * t**2)) * mpmath.mpf(2) ** 128)) % 2**64
    for word in range(max(at - 2, 0), min(at + 3, 2**64)):
        for more in (0, beyond, max(beyond - 1, 0), min(beyond + 1, 2**64 - 1), 2**64 - 1):
            bits = f"{word:064b}{more:064b}" + f"{2**63:064b}" * 4
            assert keeping(word, size, scale, more, *([2**63] * 8)) == is_below(bits, size, scale)


def test_the_slow_way_to_keep_agrees_with_the_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, size=2000, dtype=np.uint64)
    proposed = rng.integers(-40_000, 40_000, size=2000)
    feed(monkeypatch, [*map(int, words), *([2**63] * 100)])
    fast = noise._is_kept(proposed, 12345.678)
    feed(monkeypatch, [2**63] * 10_000)
    slow = [noise._is_below(int(word), abs(int(k)), 12345.678) for word, k in zip(words, proposed, strict=True)]
    assert fast.tolist() == slow
    assert 0.1 < fast.mean() < 0.9


def test_entropy_is_read_in_a_fixed_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """All proposals, a word for each that keeps it or not, then the same for those that were not kept."""
    read: list[int] = []
    monkeypatch.setattr(entropy, "system_bytes", lambda n: read.append(n // 8) or bytes([0x55]) * n)
    proposals = [np.array([5, -700, 3, 900]), np.array([800, -2]), np.array([1])]

    def propose(scale: float, count: int) -> np.ndarray:
        proposed = proposals[len(read)]
        assert (scale, count) == (4.0, len(proposed))
        return proposed

    monkeypatch.setattr(noise, "discrete_laplace", propose)
    # A word of 0x55… is U = 1/3: it keeps what is up to 2.48 scales from one scale.
    assert noise.discrete_gaussian(4.0, 4).tolist() == [5, 1, 3, -2]
    assert read == [4, 2, 1]


@pytest.mark.parametrize("scale", [2.0**-10, 0.05, 0.3, 0.7, 1.0, 2.0, 5.5])
def test_a_proposal_and_what_keeps_it_make_the_gaussian_pmf(scale: float) -> None:
    """The exact chances of proposals (fractions of 2^63) times the exact chances that they are kept, over their sum."""
    with mpmath.workdps(50):
        t = mpmath.mpf(scale)
        p = mpmath.exp(-1 / t)
        sizes = range(0, math.ceil(12 * scale) + 3)
        chances = [(1 - p) / (1 + p) * p**k * mpmath.exp(-((k - t) ** 2) / (2 * t**2)) for k in sizes]
        total = chances[0] + 2 * mpmath.fsum(chances[1:])
        weights = [mpmath.exp(-(k**2) / (2 * t**2)) for k in sizes]
        mass = weights[0] + 2 * mpmath.fsum(weights[1:])
        for chance, weight in zip(chances, weights, strict=True):
            assert abs(chance / total - weight / mass) < mpmath.mpf(10) ** -25
        assert float(mass) == pytest.approx(noise.discrete_gaussian_mass(scale), rel=1e-12)


def word_of(size: int, scale: float) -> tuple[int, int]:
    """The words (63 bits) from the first to the last that propose this magnitude, by bisection over the sampler."""
    found = []
    for beyond in (size, size - 1):
        low, high = 0, 2**63
        while low < high:  # magnitudes fall as words rise
            middle = (low + high) // 2
            if true_magnitude(f"{middle:063b}" + "1" * 64, scale) <= beyond:
                high = middle
            else:
                low = middle + 1
        found.append(low)
    return found[0], found[1]


@pytest.mark.parametrize("scale", [0.7, 2.0])
def test_the_sampler_itself_has_the_gaussian_pmf(scale: float) -> None:
    """Every chance of the code, measured to 2^-60: how many words propose a magnitude and how many then keep it."""
    joint = []
    for size in range(0, math.ceil(6 * scale) + 1):
        first, after = word_of(size, scale)
        for word in {first, after - 1}:  # the sampler does propose this magnitude there
            with pytest.MonkeyPatch.context() as patch:
                feed(patch, [word << 1, *([2**64 - 1] * 8)])
                assert noise.discrete_laplace(scale, 1)[0] in (size, -size)
        low, high = 0, 2**64
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if keeping(middle, size, scale, *([0] * 8)) else (low, middle)
        joint.append(mpmath.mpf(after - first) / 2**63 * mpmath.mpf(low) / 2**64)
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for k in range(len(joint))]
    mass, halves = weights[0] + 2 * mpmath.fsum(weights[1:]), mpmath.fsum(joint)
    assert joint[0] / halves == pytest.approx(float(weights[0] / mass), abs=1e-7)
    for chance, weight in zip(joint[1:], weights[1:], strict=True):
        assert abs(chance / halves / (2 * weight / mass) - 1) < 1e-7


def test_gaussian_variance_is_that_of_the_pmf() -> None:
    for scale in (0.1, 0.7, 3.0, 3.999, 4.0, 50.0):
        k = np.arange(-5000, 5001)
        pmf = np.exp(-((k / scale) ** 2) / 2)
        assert noise.discrete_gaussian_mass(scale) == pytest.approx(pmf.sum(), rel=1e-12)
        assert noise.discrete_gaussian_variance(scale) == pytest.approx((pmf * k**2).sum() / pmf.sum(), rel=1e-12)


def test_without_entropy_there_is_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> bytes:
        raise OSError("no entropy")

    monkeypatch.setattr(entropy, "system_bytes", broken)
    with pytest.raises(EntropyError, match="no report"):
        noise.discrete_laplace(1.0, 1)
    monkeypatch.setattr(entropy, "system_bytes", lambda n: b"\0" * (n - 1))
    with pytest.raises(EntropyError, match="random bytes"):
        noise.discrete_laplace(1.0, 1)
