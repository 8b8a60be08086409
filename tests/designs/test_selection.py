"""The choice between designs: worth sending only at the 5% level, and the smallest of those as good as the best."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, ttest_rel

from taskveil.designs.selection import LEVEL, SLACK, Candidate, beats, choose, lead
from taskveil.veil.losses import Considered


def candidate(encoder: str, losses: Any, size: int = 100, operations: int = 10, method: str = "codebook") -> Candidate:
    def make() -> Any:
        raise AssertionError("nothing is made before it is chosen")

    return Candidate(
        method=method,
        encoder=encoder,
        losses=np.asarray(losses, dtype=float),
        bytes=size,
        operations=operations,
        make=make,
    )


def alone(count: int) -> np.ndarray:
    return np.arange(count)


def around(mean: float, count: int = 400, spread: float = 0.01) -> np.ndarray:
    """Losses of exactly that mean."""
    noise = np.random.default_rng(round(1000 * abs(mean))).normal(size=count)
    return mean + spread * (noise - noise.mean())


def test_a_lead_has_the_standard_error_of_people_not_of_copies() -> None:
    gaps = np.array([0.3, -0.1, 0.4, 0.2])
    mean, error, count = lead(np.zeros(4), gaps, alone(4))
    assert (mean, count) == (pytest.approx(gaps.mean()), 4)
    assert error == pytest.approx(gaps.std(ddof=1) / 2)
    copied = lead(np.zeros(40), np.repeat(gaps, 10), np.repeat(alone(4), 10))
    assert copied == (pytest.approx(mean), pytest.approx(error), 4)
    numbered = lead(np.zeros(4), gaps, np.array([7, 2, 90, 3]))  # some people were not judged
    assert numbered == (pytest.approx(mean), pytest.approx(error), 4)


def test_nobody_can_be_sure_of_one_person() -> None:
    assert lead(np.zeros(3), np.ones(3), np.zeros(3, dtype=int)) == (0.0, math.inf, 1)
    assert not beats(np.zeros(3), np.ones(3), np.zeros(3, dtype=int))
    assert not beats(np.zeros(0), np.zeros(0), alone(0))


def test_to_beat_is_a_paired_one_sided_student_test() -> None:
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(200):
        other = rng.exponential(size=int(rng.integers(3, 30)))
        one = other - rng.normal(0.1, 0.3, size=len(other))
        expected = ttest_rel(other, one, alternative="greater").pvalue < LEVEL
        assert beats(one, other, alone(len(one))) == expected
        seen.add(bool(expected))
    assert seen == {True, False}


def test_small_cases_by_hand() -> None:
    """With three people the 5% level is at 2.92 standard errors, with two at 6.31."""
    gaps = np.array([1.0, 2.0, 3.0])  # 2 is 3.46 standard errors
    assert beats(-gaps, np.zeros(3), alone(3))
    assert not beats(-gaps + 0.4, np.zeros(3), alone(3))  # 1.6 is 2.77
    assert not beats(-gaps[:2], np.zeros(2), alone(2))  # 1.5 is 3
    assert beats(-np.ones(2), np.zeros(2), alone(2))
    assert not beats(np.zeros(5), np.zeros(5), alone(5))  # the same is no better
    assert not beats(np.ones(5), np.zeros(5), alone(5))


@pytest.mark.parametrize("copies", [1, 4])
def test_noise_beats_the_constant_once_in_twenty(copies: int) -> None:
    rng, draws = np.random.default_rng(2), 2000
    person = np.repeat(alone(25), copies)
    found = sum(beats(rng.normal(size=25)[person], rng.normal(size=25)[person], person) for _ in range(draws))
    assert binom.ppf(0.001, draws, LEVEL) <= found <= binom.ppf(0.999, draws, LEVEL)


def test_the_constant_is_taken_where_nothing_beats_it() -> None:
    rng = np.random.default_rng(4)
    nothing = candidate("linear", np.ones(50), method="constant")
    noisy = candidate("light", 0.99 + rng.normal(size=50))
    chosen, considered = choose([noisy], alone(50), nothing)
    assert chosen is nothing
    assert considered[0].method == "constant"
    assert considered[1].held_out_loss < 1.0  # it looks better, but not surely
    better = candidate("trees", 0.9 + 0.1 * rng.normal(size=50))
    assert choose([noisy, better], alone(50), nothing)[0] is better
    assert choose([], alone(50), nothing)[0] is nothing


def test_a_lower_mean_that_is_not_sure_does_not_hide_a_sure_one() -> None:
    rng = np.random.default_rng(4)
    wild, sure = candidate("wild", 0.5 + 5.0 * rng.normal(size=50), size=1), candidate("sure", np.full(50, 0.95))
    nothing = candidate("linear", around(1.0, 50), method="constant")
    assert wild.losses.mean() < 0.9
    assert choose([wild, sure], alone(50), nothing)[0] is sure


def test_of_equally_good_designs_the_smallest_is_taken() -> None:
    best = candidate("trees", around(1.0), size=9000)
    near = candidate("linear", around(1.009), size=500)
    far = candidate("tiny", around(1.011), size=10)
    assert choose([best, near, far], alone(400))[0] is near
    assert choose([far, near, best], alone(400))[0] is near
    assert choose([best, far], alone(400))[0] is best
    # As large, the one that computes less; and then the better one.
    slow = candidate("slow", around(1.001), size=500, operations=11)
    assert choose([best, slow, near], alone(400))[0] is near
    twin = candidate("twin", around(1.008), size=500)
    assert choose([best, near, twin], alone(400))[0] is twin


@pytest.mark.parametrize(("loss", "chosen"), [(1.005, "pure"), (1.0, "pure"), (0.998, "noise"), (0.9, "noise")])
def test_a_delta_is_spent_only_where_the_loss_is_lower(loss: float, chosen: str) -> None:
    """Being smaller on the device, and as good as the best up to 1%, is not enough."""
    pure, noise = candidate("pure", around(1.0)), candidate("noise", around(loss), size=10)
    found, considered = choose([pure, replace(noise, delta=1e-6)], alone(400))
    assert found.encoder == chosen == considered[0].encoder
    assert choose([pure, noise], alone(400))[0].encoder == "noise"
    constant = candidate("none", around(2.0))
    lone, _ = choose([candidate("pure", around(3.0)), replace(noise, delta=1e-6)], alone(400), constant)
    assert lone.encoder == "noise"  # the other one does not beat the constant


def test_what_is_as_good_is_counted_from_the_best_that_beats_the_constant() -> None:
    nothing = candidate("none", around(1.0), size=1, method="constant")
    best, near, worse = (
        candidate(name, around(loss), size=size)
        for name, loss, size in (("best", 0.9, 900), ("near", 0.9 * (1 + 0.9 * SLACK), 90), ("worse", 0.95, 9))
    )
    assert choose([best, near, worse], alone(400), nothing)[0] is near


def test_losses_below_zero_have_a_slack_too() -> None:
    """A loss of one's own may be negative."""
    best, near = candidate("best", around(-1.0), size=900), candidate("near", around(-0.995), size=90)
    assert choose([best, near], alone(400))[0] is near
    assert choose([best, candidate("far", around(-0.98), size=90)], alone(400))[0] is best


def test_designs_are_compared_on_the_people_whom_all_were_judged_on() -> None:
    """The second was judged on easy records only."""
    hard = np.repeat([1.0, 5.0], 20)
    every = candidate("every", hard - 0.5 + around(0.0, 40))
    easy = candidate("easy", np.where(hard > 1.0, np.nan, 0.8))
    nothing = candidate("none", hard, method="constant")
    chosen, considered = choose([every, easy], alone(40), nothing)
    assert chosen is every
    assert {entry.encoder: entry.held_out_loss for entry in considered} == {
        "every": pytest.approx(0.5, abs=0.01),
        "easy": pytest.approx(0.8),
        "none": pytest.approx(1.0),
    }


def test_what_was_judged_on_nobody_is_not_sent() -> None:
    nothing = candidate("none", np.ones(9), method="constant")
    chosen, considered = choose([candidate("linear", np.full(9, np.nan))], alone(9), nothing)
    assert chosen is nothing
    assert [math.isnan(entry.held_out_loss) for entry in considered] == [True, True]


def test_considered_says_what_was_tried_the_chosen_first_and_then_by_loss() -> None:
    one = candidate("trees", around(0.5), size=9000, operations=70)
    two = candidate("linear", around(0.502), size=600, operations=12)
    three = candidate("laplace", around(0.7), size=50, operations=3, method="task_aware")
    nothing = candidate("none", around(1.0), size=5, operations=0, method="constant")
    chosen, considered = choose([three, one, two], alone(400), nothing)
    assert chosen is two
    order = [two, one, three, nothing]
    assert considered == tuple(
        Considered(
            method=each.method,
            encoder=each.encoder,
            held_out_loss=pytest.approx(float(each.losses.mean())),  # type: ignore[arg-type]
            standard_error=pytest.approx(np.std(each.losses - two.losses, ddof=1) / 20),  # type: ignore[arg-type]
            bytes=each.bytes,
            operations=each.operations,
        )
        for each in order
    )
    assert considered[0].standard_error == 0.0 < considered[1].standard_error
