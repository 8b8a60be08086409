"""Drift names what reports measure, where it moved, and nothing where nothing did."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import collections_drawn as drawn
import taskveil as tv
from taskveil.estimates import Drift
from taskveil.estimates.drift import LEVEL, drift_of, of_means
from taskveil.estimates.scores import Tally
from taskveil.veil.surveys import questions

MANY = 10**6
"""Volunteers, so many that their variance is known."""


def drift(shift: tuple[float, float], count: int = 20_000) -> Drift:
    """What reports of so many people say who are the volunteers, each moved by `shift`."""
    rng = np.random.default_rng(3)
    veil = drawn.with_volunteers(drawn.codebook_veil(4.0), volunteers := drawn.records(1500, rng))
    return tv.estimate(veil, drawn.People.of(veil, volunteers + np.array(shift)).reports(count, rng)).drift


def test_what_moved_is_named_with_its_numbers() -> None:
    found = drift((0.6, 0.0))
    assert found.raised
    assert "code 1" in found.moved  # at (1.2, 0.6)
    assert all(name.startswith("code ") for name in found.moved)
    assert "code 1 is more frequent: " in found.words
    assert "% instead of " in found.words.replace("]", "%")
    assert str(found) == found.words


def test_nothing_is_named_where_nothing_moved() -> None:
    found = drift((0.0, 0.0))
    assert not found.raised
    assert found.moved == ()
    assert found.words.startswith("No sign that people differ")


@pytest.mark.parametrize("p_value", [LEVEL / 2, 2 * LEVEL])
def test_it_is_raised_below_five_percent(p_value: float) -> None:
    assert Drift(p_value=p_value, moved=(), words="").raised == (p_value < 0.05)


def test_the_number_of_rows_is_allowed_for() -> None:
    """|z| = 2.5 is one in eighty for one row, and one in three for thirty independent ones."""
    names = [f"x{place}" for place in range(30)]
    for count, p_value in ((1, 0.0124), (30, 0.312)):
        gap = np.array([2.5, *np.zeros(count - 1)])
        z, simulated = of_means(gap, 0.5 * np.eye(count), MANY, np.zeros(count), np.full(count, MANY / 2), MANY)
        found = drift_of(z, simulated, names[:count], names[:count])
        assert found.p_value == pytest.approx(p_value, abs=3 * np.sqrt(p_value / 2000))
        assert found.moved == (("x0",) if count == 1 else ())


def test_rows_that_say_the_same_count_once() -> None:
    same = np.ones((30, 30))
    found = drift_of(*of_means(np.full(30, 2.5), same, MANY, np.zeros(30), np.zeros(30), MANY), ["x"] * 30, ["x"] * 30)
    assert found.p_value == pytest.approx(0.0124, abs=0.008)


def test_of_many_rows_eight_are_described() -> None:
    z, simulated = of_means(np.full(11, 9.0), np.eye(11) / 2, MANY, np.zeros(11), np.full(11, MANY / 2), MANY)
    found = drift_of(z, simulated, [f"x{i}" for i in range(11)], [f"x{i} moved" for i in range(11)])
    assert len(found.moved) == 11
    assert found.words.endswith("; and 3 more.")


def test_a_share_that_no_volunteer_has_raises_no_alarm() -> None:
    """Of 100 volunteers none has a value that one person in 200 has: this happens in six of ten samples."""
    errors, bounds = np.array([[1e-6]]), np.array([[0.0], [1.0]])
    z, simulated = of_means(np.array([0.005]), errors, 20_000, np.zeros(1), np.zeros(1), 100, bounds)
    assert drift_of(z, simulated, ["x"], ["x"]).p_value > 0.2
    z, simulated = of_means(np.array([0.1]), errors, 20_000, np.zeros(1), np.zeros(1), 100, bounds)
    assert drift_of(z, simulated, ["x"], ["x"]).raised


def test_rare_values_of_a_survey_raise_alarms_no_more_often_than_stated() -> None:
    """Of 300 volunteers, none or two may have a value that one person in 500 has, and a million reports know its share.
    Where the volunteers' share gave its own error, 35 of 40 collections raised."""
    schema = tv.Schema({"plan": tv.Category(["a", "b", "c", "d"])})
    chances = np.array([0.5, 0.497, 0.002, 0.001])
    raised, named, change = 0, 0, np.array([0.0, -1.0, 0.0, 0.0, 1.0])
    for seed in range(60):
        rng = np.random.default_rng(seed)
        volunteers = pd.DataFrame({"plan": rng.choice(["a", "b", "c", "d"], 300, p=chances)})
        veil = tv.design(volunteers, tv.SurveyTask(), epsilon=4.0, schema=schema)
        (asked,) = questions(veil)
        shares = np.array([0.0, *chances])
        for moved in (0.0, 0.1):
            counts = rng.multinomial(1_000_000, asked.expected(shares + moved * change))
            tally = Tally(
                release=veil.release_id, count=1_000_000, codes=counts, total=np.zeros(0), square=np.zeros((0, 0))
            )
            found = tv.estimate(veil, tally).drift
            raised += found.raised and not moved
            named += bool(moved) and "plan=d" in found.moved
    assert raised <= 9  # 99.8% of Binomial(60, 0.05)
    assert named == 60


def test_few_volunteers_need_a_larger_difference() -> None:
    raised = {}
    for count in (5, MANY):
        z, simulated = of_means(np.array([2.2]), np.zeros((1, 1)), MANY, np.zeros(1), np.array([float(count)]), count)
        raised[count] = drift_of(z, simulated, ["x"], ["x"]).raised
    assert raised == {5: False, MANY: True}
