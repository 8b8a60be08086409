"""Drift is said with what moved, and not said where nothing did."""

from __future__ import annotations

import numpy as np
import pytest

import collections_drawn as drawn
import taskveil as tv
from taskveil.server.estimates import Drift
from taskveil.server.estimates.calibration import ALARMS


def drift(shift: tuple[float, float], count: int = 20_000) -> Drift:
    """What reports of so many people say who are the volunteers, each moved by `shift`."""
    rng = np.random.default_rng(3)
    veil = drawn.with_volunteers(drawn.codebook_veil(4.0), volunteers := drawn.records(1500, rng))
    return tv.estimate(veil, drawn.People.of(veil, volunteers + np.array(shift)).reports(count, rng)).drift


def test_what_moved_is_named_with_its_direction() -> None:
    found = drift((0.6, 0.0))
    assert found.raised
    assert found.p_value < 1e-6
    assert "x0" in found.moved
    assert "x0 up by" in found.words
    assert "like=estimate" in found.words
    assert str(found) == found.words
    down = drift((0.0, -0.6))
    assert down.moved[0] == "x1"
    assert "x1 down by 0." in down.words


def test_nothing_is_named_where_nothing_moved() -> None:
    found = drift((0.0, 0.0))
    assert not found.raised
    assert found.moved == ()
    assert found.words.startswith("No sign that people differ")


@pytest.mark.parametrize("p_value", [ALARMS / 2, 2 * ALARMS])
def test_it_is_raised_below_five_percent(p_value: float) -> None:
    assert Drift(p_value=p_value, moved=(), words="").raised == (p_value < 0.05)
