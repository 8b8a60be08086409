"""The auditor against broken mechanisms, which it must catch, and sound ones, which it must clear."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from auditing.museum import BROKEN, SOUND, WIDE, Exhibit, caught_by, codebook_for, laplace, laplace_veil


@pytest.mark.parametrize("exhibit", [e for e in BROKEN if not e.long_only], ids=lambda e: e.name)
def test_every_broken_mechanism_is_caught(exhibit: Exhibit) -> None:
    found = exhibit.audit()
    assert not found.passed
    assert set(exhibit.by) <= set(caught_by(found)), found.to_dict()
    assert found.verdict.startswith("BROKEN")


def test_the_museum_is_large_enough() -> None:
    assert len({e.name for e in BROKEN}) >= 14


@pytest.mark.parametrize(
    "exhibit",
    [e for e in SOUND if e.name in ("Laplace, ε = 1", "codebook, ε = 2", "codebook of two stages", "lattice codebook")],
    ids=lambda e: e.name,
)
def test_sound_mechanisms_pass_twenty_times(exhibit: Exhibit) -> None:
    """Every check once, the attack twenty times on new reports."""
    found = exhibit.audit()
    assert found.passed, found.to_dict()
    assert found.verdict.startswith("HOLDS")
    assert [exhibit.audit(trials=10_000, structural=False).passed for _ in range(19)] == [True] * 19


@pytest.mark.parametrize("exhibit", [e for e in SOUND if "designed" in e.name], ids=lambda e: e.name)
def test_designed_veils_pass_twenty_times(exhibit: Exhibit) -> None:
    veil = exhibit.make()
    runs = [tv.audit(veil, trials=4_000, finalists=2, structural=False).passed for _ in range(20)]
    assert runs == [True] * 20


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("make", [laplace_veil, codebook_for])
def test_bounds_are_tight(make: object, epsilon: float) -> None:
    """At a million trials and confidence 1 − 1e-6; an auditor that says 0 would pass every other test here."""
    found = tv.audit(make(epsilon), structural=False, finalists=1)
    assert (0.93 if epsilon < 8 else 0.85) * epsilon <= found.epsilon_lower <= epsilon
    assert found.passed


def test_too_little_noise_is_called_broken_and_too_much_is_mentioned() -> None:
    records = np.array([[-1.0], [1.0]])
    less = tv.audit(laplace(0.7 * WIDE), epsilon=1.0, records=records, trials=100_000, structural=False)
    more = tv.audit(laplace(1.3 * WIDE), epsilon=1.0, records=records, trials=100_000, structural=False)
    assert not less.passed
    assert "BROKEN" in less.verdict
    assert more.passed
    assert "more noise than the claim needs" in more.verdict


def test_disjoint_supports_beyond_what_trials_can_show() -> None:
    """No sampling refutes ε = 20 in so few trials, and the verdict admits it."""
    found = tv.audit(
        lambda X: np.nan_to_num(X) > 0, epsilon=20.0, records=np.array([[-1.0], [1.0]]), trials=10_000, structural=False
    )
    assert found.epsilon_lower == pytest.approx(found.provable)
    assert "could not have disproved" in found.verdict


def test_delta_is_accounted_for() -> None:
    """A mechanism that tells the truth in 1% of cases is broken for δ = 0 and fine for δ = 2%."""

    def leaks(X: np.ndarray) -> np.ndarray:
        from taskveil.client import entropy

        truth = entropy.uniform_below(100, len(X)) == 0
        return np.where(truth[:, None], np.where(np.nan_to_num(X) > 0, 1.0, -1.0) * 100, laplace(WIDE)(X))

    records = np.array([[-1.0], [1.0]])
    pure = tv.audit(leaks, epsilon=1.0, records=records, trials=50_000, structural=False)
    approximate = tv.audit(leaks, epsilon=1.0, delta=0.02, records=records, trials=50_000, structural=False)
    assert not pure.passed
    assert approximate.passed
