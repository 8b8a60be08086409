"""Bits come from the operating system, all of them or none, and are turned into uniform integers exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import chisquare

from taskveil.client import entropy
from taskveil.errors import EntropyError


def feed(monkeypatch: pytest.MonkeyPatch, words: list[int]) -> list[int]:
    """Replace the operating system's bits by these 64-bit words; returns those that are still to come."""
    monkeypatch.setattr(
        entropy, "system_bytes", lambda n: b"".join(words.pop(0).to_bytes(8, "little") for _ in range(n // 8))
    )
    return words


def test_words_are_the_systems_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, [1, 2**64 - 1, 7])
    assert entropy.random_words(3).tolist() == [1, 2**64 - 1, 7]


def test_nothing_is_kept_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is buffered would be shared by both halves of a fork."""
    asked = []
    monkeypatch.setattr(entropy, "system_bytes", lambda n: asked.append(n) or bytes(n))
    entropy.random_words(3)
    entropy.uniform_below(4, 5)
    entropy.wide_uniform_below(2**100)
    assert asked == [24, 40, 16]


@pytest.mark.parametrize("answer", [OSError("no entropy"), b"", b"1234567"])
def test_less_than_was_asked_for_is_nothing(answer: OSError | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def system(_: int) -> bytes:
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(entropy, "system_bytes", system)
    for draw in (
        lambda: entropy.random_words(1),
        lambda: entropy.uniform_below(5, 1),
        lambda: entropy.wide_uniform_below(9),
    ):
        with pytest.raises(EntropyError, match="no report was made"):
            draw()


def test_uniform_integers_are_uniform() -> None:
    for bound in (1, 2, 3, 5, 1000):
        drawn = entropy.uniform_below(bound, 200_000)
        cells = np.bincount(drawn % 5 if bound == 1000 else drawn, minlength=min(bound, 5))
        assert drawn.min() >= 0
        assert drawn.max() < bound
        if bound > 1:
            assert chisquare(cells).pvalue > 1e-6
    assert all(0 <= entropy.wide_uniform_below(10**30) < 10**30 for _ in range(100))


@given(st.integers(1, 2**63), st.integers(0, 2**64 - 1))
def test_a_candidate_is_the_top_bits_and_is_drawn_anew_if_too_large(bound: int, word: int) -> None:
    bits = max((bound - 1).bit_length(), 1)
    candidate = word >> (64 - bits)
    with pytest.MonkeyPatch.context() as patch:
        left = feed(patch, [word, 0])
        assert entropy.uniform_below(bound, 1)[0] == (candidate if candidate < bound else 0)
        assert len(left) == (1 if candidate < bound else 0)


@given(st.integers(1, 2**300), st.data())
def test_wide_integers_use_as_many_words_as_the_bound_has(bound: int, data: st.DataObject) -> None:
    bits = max((bound - 1).bit_length(), 1)
    words = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=-(-bits // 64), max_size=-(-bits // 64)))
    whole = int.from_bytes(b"".join(word.to_bytes(8, "big") for word in words), "big") >> (64 * len(words) - bits)
    with pytest.MonkeyPatch.context() as patch:
        feed(patch, [*words, *([0] * len(words))])
        assert entropy.wide_uniform_below(bound) == (whole if whole < bound else 0)


@given(st.integers(1, 2**300), st.integers(-2, 2))
def test_wide_integers_are_below_the_bound(bound: int, near: int) -> None:
    bits = max((bound - 1).bit_length(), 1)
    count = -(-bits // 64)
    candidate = min(max(bound + near, 0), 2**bits - 1)
    spread = candidate << (64 * count - bits)
    with pytest.MonkeyPatch.context() as patch:
        left = feed(patch, [spread >> 64 * place & 2**64 - 1 for place in reversed(range(count))] + [0] * count)
        assert entropy.wide_uniform_below(bound) == (candidate if candidate < bound else 0)
        assert len(left) == (count if candidate < bound else 0)


def fractions() -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(1, 2**42).flatmap(lambda whole: st.tuples(st.integers(0, whole - 1), st.just(whole)))


@given(fractions(), st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63), min_size=3, max_size=3))
@example((1, 3), [0, 1, 0])
@example((1, 3), [0, -1, 0])
@example((1, 3), [0, -(2**61), 0])  # between a third and two thirds, which is what the first 63 digits leave over
@example((1, 3), [0, 0, 1])
@example((1, 3), [0, 0, -1])
def test_a_lot_compares_a_uniform_number_with_the_fraction(fraction: tuple[int, int], near: list[int]) -> None:
    """63 digits of the number at a time, around those of the fraction; the next 63 are drawn where all are equal."""
    (part, whole), rest, drawn = fraction, fraction[0], []
    needed = 0
    for place, beside in enumerate(near):
        digits, rest = divmod(rest << 63, whole)
        drawn.append(min(max(digits + beside, 0), 2**63 - 1))
        needed = needed or (place + 1 if drawn[-1] != digits else 0)
    number = Fraction((drawn[0] << 126) + (drawn[1] << 63) + drawn[2], 2**189)
    with pytest.MonkeyPatch.context() as patch:
        left = feed(patch, [*(word << 1 for word in drawn), 2**64 - 1])  # no fraction here has a fourth 63 ones
        assert entropy.bernoulli(np.array([part]), np.array([whole]))[0] == (
            number < Fraction(part, whole) and needed > 0
        )
        assert len(left) == (4 - needed if needed else 0)


def test_lots_of_many_fractions_at_once() -> None:
    parts, wholes = np.repeat([0, 1, 2**41, 3 * 2**38], 50_000), np.repeat([9, 3, 2**42 - 1, 2**42], 50_000)
    happened = entropy.bernoulli(parts, wholes).reshape(4, -1).sum(axis=1)
    chances = (parts / wholes).reshape(4, -1)[:, 0]
    assert happened[0] == 0
    assert (np.abs(happened - 50_000 * chances) <= 5 * np.sqrt(50_000 * chances * (1 - chances))).all()
    assert entropy.bernoulli(parts[:0], wholes[:0]).shape == (0,)
