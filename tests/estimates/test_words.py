"""Shares of candidates of a large vocabulary, from tallies that list the codes that came."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError
from taskveil.estimates.measured import Rule
from taskveil.estimates.scores import MOST_LISTED, Tally, tally
from taskveil.estimates.words import _limits

WORDS = [f"word {number}" for number in range(400)]
SHARES = 1.0 / np.arange(1, 401)
SHARES /= SHARES.sum()


@cache
def drawn() -> tuple[tv.Veil, Tally]:
    rng = np.random.default_rng(0)
    words = pd.DataFrame({"search": np.array(WORDS)[rng.choice(400, 40_000, p=SHARES)]})
    schema = tv.Schema({"search": tv.Words(263)})
    veil = tv.design(words[:500], tv.SurveyTask(), epsilon=3.0, schema=schema)
    return veil, tally(veil, veil.privatize(words))


def test_tallies_list_what_came_and_add_up() -> None:
    veil, found = drawn()
    assert veil.mechanism.layout.high[0] >= MOST_LISTED
    assert found.came is not None
    assert found.codes is not None
    assert len(found.came) <= 40_000
    assert found.codes.sum() == found.count == 40_000
    both = found + found
    assert both.count == 80_000
    assert np.array_equal(both.came, found.came)
    assert np.array_equal(both.codes, 2 * found.codes)
    came, counts = found.listed_between(0, veil.mechanism.layout.high[0] + 1)
    assert np.array_equal(came, found.came)
    assert counts.sum() == 40_000


def test_shares_hold_and_rows_come_by_frequency() -> None:
    veil, found = drawn()
    e = tv.estimate(veil, found, candidates={"search": WORDS})
    rows = e.shares["search"]
    held = [rows[word].low <= share <= rows[word].high for word, share in zip(WORDS, SHARES.tolist(), strict=True)]
    assert np.mean(held) > 0.9
    means = [row.mean for row in rows.values()]
    assert means == sorted(means, reverse=True)
    assert sum(means) == pytest.approx(1.0, abs=0.3)
    assert len(e.table().splitlines()) < 60


def test_candidates_of_one_point_are_one_row_and_it_says_so() -> None:
    veil, found = drawn()
    points = veil.schema["search"].expand([f"other {number}" for number in range(3000)])
    _, inverse, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    twins = [f"other {number}" for number in np.flatnonzero(inverse.ravel() == counts.argmax())]
    assert len(twins) > 1
    e = tv.estimate(veil, found, candidates={"search": [*twins, "word 0"]})
    assert len(e.groups["shares"]) == 2
    assert e.shares["search"][twins[0]] == e.shares["search"][twins[1]]
    assert any("1 rows stand for several candidates" in note for note in e.notes)


def test_without_candidates_it_says_what_to_pass() -> None:
    veil, found = drawn()
    e = tv.estimate(veil, found)
    assert "candidates={'search'" in " ".join(e.notes)
    assert e.table()


def test_a_forged_tally_is_refused() -> None:
    veil, found = drawn()
    assert found.came is not None
    for broken in (found.came[::-1], found.came + 2**60):
        with pytest.raises(DataError):
            tv.estimate(veil, replace(found, came=broken.copy()))
    with pytest.raises(DataError):
        tv.estimate(veil, replace(found, count=found.count + 1))


def test_binomial_limits_are_the_exact_ones() -> None:
    hits, count = np.array([0, 3, 40, 100]), 100
    rule = Rule(anytime=False, confidence=0.95)
    low, high = _limits(hits, count, rule)
    for place, one in enumerate(hits.tolist()):
        expected = rule.limits(np.array([count - one, one]), np.array([0.0, 1.0]))
        assert (low[place], high[place]) == pytest.approx(expected, abs=1e-7)
    wide = _limits(hits, count, Rule(anytime=True, confidence=0.95))
    assert (wide[0] <= low).all()
    assert (wide[1] >= high).all()


def test_one_text_is_no_list_of_candidates() -> None:
    veil, found = drawn()
    with pytest.raises(DataError, match="are a list of words, got one word"):
        tv.estimate(veil, found, candidates={veil.schema.names[0]: "word 1"})
