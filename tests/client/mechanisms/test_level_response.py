"""Rounding by lot and tables: probabilities in fractions, and everything that must be refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import releases
from taskveil.client import entropy
from taskveil.client.mechanisms import LevelGroup, LevelResponse
from taskveil.client.mechanisms.level_groups import MOST_ENTRIES
from taskveil.client.regions import BoxRegion
from taskveil.errors import MechanismError

SOUND = releases.level_response()
HOSTILE = np.array([[np.nan] * 4, [np.inf] * 4, [-np.inf] * 4, [1e308] * 4, [-1e308] * 4, [5e-324] * 4, [-0.0] * 4])


def exact_chances(mechanism: LevelResponse, k: list[int]) -> list[Fraction]:
    """P[report | k] for every report, written as the docstring says it."""
    drawn, found = sum(group.chance for group in mechanism.groups), []
    for group in mechanism.groups:
        choices, start = [], 0
        for place, count in zip(group.places.tolist(), group.counts.tolist(), strict=True):
            levels = group.levels[start : start + count].tolist()
            shares = [Fraction(0)] * count
            for low in range(max(count - 1, 1)):
                high = min(low + 1, count - 1)
                if levels[low] <= k[place] <= levels[high]:
                    up = Fraction(k[place] - levels[low], max(levels[high] - levels[low], 1))
                    shares = [Fraction(0)] * count
                    shares[low] += 1 - up
                    shares[high] += up
            choices.append(shares)
            start += count
        weights = [math.prod(shares) for shares in itertools.product(*choices)]
        for column in group.table.T.tolist():
            mixed = sum(weight * entry for weight, entry in zip(weights, column, strict=True))
            found.append(Fraction(group.chance, drawn) * mixed / group.table[0].sum().item())
    return found


@st.composite
def mechanisms(draw: st.DrawFn) -> LevelResponse:
    low = draw(st.lists(st.integers(-30, 30), min_size=1, max_size=3))
    region = BoxRegion(step=1.0, low=np.array(low), high=np.array([k + draw(st.integers(0, 20)) for k in low]))
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        places = draw(st.lists(st.integers(0, len(low) - 1), min_size=1, max_size=len(low), unique=True))
        levels = [
            sorted({int(region.low[p]), int(region.high[p]), *draw(inside(region, p))}) for p in places
        ]  # one level where a latent cannot vary
        rows, outputs = math.prod(len(scale) for scale in levels), draw(st.integers(1, 4))
        entries = draw(st.lists(st.integers(1, 10**6), min_size=outputs, max_size=outputs))
        groups.append(
            LevelGroup(
                places=np.array(places),
                counts=np.array([len(scale) for scale in levels]),
                levels=np.concatenate(levels),
                table=np.array([draw(st.permutations(entries)) for _ in range(rows)]),
                chance=draw(st.integers(1, 100)),
            )
        )
    return LevelResponse(region=region, groups=tuple(groups))


def inside(region: BoxRegion, place: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(int(region.low[place]), int(region.high[place])), max_size=1)


@given(mechanisms(), st.data())
def test_no_report_tells_two_inputs_apart_by_more_than_epsilon(mechanism: LevelResponse, data: st.DataObject) -> None:
    member = st.tuples(
        *(st.integers(*ends) for ends in zip(*(b.tolist() for b in mechanism.region.reach), strict=True))
    )
    one, other = (data.draw(member) for _ in range(2))
    P, Q = exact_chances(mechanism, list(one)), exact_chances(mechanism, list(other))
    assert sum(P) == sum(Q) == 1
    worst = max(max(p / q, q / p) for p, q in zip(P, Q, strict=True))
    with mpmath.workdps(60):
        assert mpmath.mpf(worst.numerator) / worst.denominator <= mpmath.exp(mpmath.mpf(mechanism.epsilon))
    assert mechanism.chances(np.array([one, other], dtype=float)) == pytest.approx(
        np.array([P, Q], dtype=float), rel=1e-13
    )


def test_epsilon_is_the_worst_column_of_all_and_reached_at_levels() -> None:
    for mechanism in (SOUND, releases.wide_level_response()):
        columns = [column for group in mechanism.groups for column in group.table.T.tolist()]
        worst = max(Fraction(max(column), min(column)) for column in columns)
        with mpmath.workdps(60):
            exact = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
            assert exact <= mpmath.mpf(mechanism.epsilon) <= exact * (1 + mpmath.mpf(2) ** -50)
            assert abs(mpmath.mpf(str(mechanism.exact_epsilon)) - exact) < exact * mpmath.mpf(10) ** -50
    group = SOUND.groups[0]
    k = np.zeros((5, 4))
    k[:, 2] = group.levels * SOUND.region.step
    shown = np.log(SOUND.chances(k)[:, :4])
    ratios = Fraction(*group.worst)
    assert (shown.max(axis=0) - shown.min(axis=0)).max() == pytest.approx(math.log(ratios), rel=1e-12)


def test_outputs_that_are_right_at_all_levels_are_right_everywhere() -> None:
    """Values of outputs that average to both latents at the 2 × 3 levels do so at every point between them."""
    group = SOUND.groups[1]
    levels = np.array(list(itertools.product(*group.scales)), dtype=float)
    values = np.linalg.lstsq(group.table / group.total, levels, rcond=None)[0]
    assert np.allclose(group.table / group.total @ values, levels)
    k = np.random.default_rng(0).integers(SOUND.region.low, SOUND.region.high + 1, size=(500, 4))
    assert np.allclose(group.chances(k) @ values, k[:, group.places])


def test_each_draw_leads_to_the_output_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws of a tiny one in turn: as many give a group, and an output, as the release says."""
    table = np.array([[1, 3, 1], [2, 1, 2]])
    group = one_group(places=np.array([1]), counts=np.array([2]), levels=np.array([-8, 9]), table=table)
    mechanism = LevelResponse(region=REGION, groups=(group, replace(group, chance=2, table=table[::-1])))
    for latent, row in ((-8.0, 0), (9.0, 1)):
        found = np.zeros(6, dtype=np.int64)
        for lots in itertools.product(range(3), range(5)):
            bounds, draws = [3, 5], list(lots)

            def below(bound: int, count: int, bounds: list[int] = bounds, draws: list[int] = draws) -> np.ndarray:
                assert (bound, count) == (bounds.pop(0), 1)
                return np.array([draws.pop(0)])

            monkeypatch.setattr(entropy, "uniform_below", below)
            found[mechanism(np.array([[0.0, latent]]))[0, 0]] += 1
        assert found.tolist() == [*table[row], *(2 * table[1 - row])]


def is_drawn_as(mechanism: LevelResponse, expected: LevelResponse, latent: list[float]) -> bool:
    count = 300_000
    drawn = np.bincount(mechanism(np.tile(latent, (count, 1)))[:, 0], minlength=expected.layout.high[0] + 1)
    k = expected.region.enforce(np.array([latent]))[0].tolist()
    wanted = np.array(exact_chances(expected, k), dtype=float) * count
    return bool(chisquare(drawn, wanted).pvalue > 1e-6)


@pytest.mark.parametrize("latent", [[0.1, np.nan, -2.7, 3.0], [-1e308, 0.0, np.inf, 0.5], [np.nan] * 4])
def test_reports_have_their_exact_probabilities(latent: list[float]) -> None:
    assert is_drawn_as(SOUND, SOUND, latent)


def wrong_entries(mechanism: LevelResponse) -> LevelResponse:
    """A tenth of one entry of each row goes to the next."""
    groups = []
    for group in mechanism.groups:
        table = group.table.copy()
        taken = table[:, 0] // 10
        table[:, 0] -= taken
        table[:, 1] += taken
        groups.append(replace(group, table=table))
    return replace(mechanism, groups=tuple(groups))


def wrong_chances(mechanism: LevelResponse) -> LevelResponse:
    first, *others = (replace(group, chance=10 * group.chance) for group in mechanism.groups)
    return replace(mechanism, groups=(replace(first, chance=first.chance * 11 // 10), *others))


def wrong_levels(mechanism: LevelResponse) -> LevelResponse:
    """Levels inside the range a tenth of it lower: others are rounded to."""
    first, *others = mechanism.groups
    levels = first.levels.copy()
    levels[1:-1] -= np.diff(first.levels)[:-1] // 2
    return replace(mechanism, groups=(replace(first, levels=levels), *others))


@pytest.mark.parametrize("change", [wrong_entries, wrong_chances, wrong_levels])
def test_wrong_probabilities_are_rejected(change: Callable[[LevelResponse], LevelResponse]) -> None:
    assert not is_drawn_as(change(SOUND), SOUND, [0.1, np.nan, -2.7, 3.0])


def test_the_likelihood_is_what_is_drawn_by() -> None:
    latents = np.concatenate([HOSTILE, np.random.default_rng(1).uniform(-5, 5, size=(5, 4))])
    reports = np.arange(SOUND.layout.high[0] + 1)[:, None]
    said = SOUND.log_likelihood(reports, latents)
    exact = np.array([exact_chances(SOUND, k) for k in SOUND.region.enforce(latents).tolist()], dtype=float)
    assert said == pytest.approx(np.log(exact).T, rel=1e-12)


def test_hostile_latents_are_answered_like_any_others() -> None:
    drawn = SOUND(np.repeat(HOSTILE, 50, axis=0))
    assert drawn.shape == (350, 1)
    assert SOUND.possible(drawn).all()
    assert not SOUND.possible(np.array([[-1], [13]])).any()
    assert SOUND(np.empty((0, 4))).shape == (0, 1)
    assert SOUND.log_likelihood(np.empty((0, 1), dtype=np.int64), np.zeros((2, 4))).shape == (0, 2)


def test_every_record_takes_as_many_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(40):
        taken = set()
        for latent in HOSTILE:
            stream, asked = np.random.default_rng(seed), []
            monkeypatch.setattr(
                entropy, "system_bytes", lambda n, stream=stream, asked=asked: asked.append(n) or stream.bytes(n)
            )
            SOUND(latent[None, :])
            taken.add(tuple(asked))
        assert len(taken) == 1


def one_group(**changes: object) -> LevelGroup:
    parts = {
        "places": np.array([0, 1]),
        "counts": np.array([2, 3]),
        "levels": np.array([-8, 9, -8, 0, 9]),
        "table": np.array([[1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1]]),
        "chance": 1,
    }
    return LevelGroup(**(parts | changes))  # type: ignore[arg-type]


LARGE = np.ones((6, 2), dtype=np.int64)


@pytest.mark.parametrize(
    "changes",
    [
        {"places": np.array([0, 0])},
        {"places": np.array([0])},
        {"places": np.array([[0, 1]])},
        {"places": np.array([], dtype=np.int64)},
        {"places": np.arange(17), "counts": np.ones(17, dtype=np.int64)},
        {"counts": np.array([3, 2])},
        {"counts": np.array([2, 2])},
        {"counts": np.array([-2, -3])},
        {"counts": np.array([2.0, 3.0])},
        {"counts": np.array([2**62, 2**62])},
        {"levels": np.array([-8, 9, -8, 0])},
        {"levels": np.array([-8, 9, -8, -8, 9])},
        {"levels": np.array([9, -8, -8, 0, 9])},
        {"levels": np.array([-8, 9, -8, 0, 9], dtype=np.int32)},
        {"table": LARGE[:5]},
        {"table": LARGE * 0},
        {"table": LARGE[:, 0]},
        {"table": LARGE[:, :0]},
        {"table": LARGE * 2**62},
        {"table": LARGE * 2**52},
        {"table": LARGE + np.eye(6, 2, dtype=np.int64)},
        {"table": LARGE + np.eye(6, 2, -4, dtype=np.int64)},
        {"table": np.ones((6, MOST_ENTRIES // 6 + 1), dtype=np.int64)},
        {"chance": 0},
        {"chance": -1},
        {"chance": 2**53},
    ],
    ids=str,
)
def test_groups_that_are_none_are_refused(changes: dict[str, object]) -> None:
    one_group()
    with pytest.raises(MechanismError, match=r"\.$"):
        one_group(**changes)


REGION = BoxRegion(step=1.0, low=np.array([-8, -8]), high=np.array([9, 9]))
MANY = one_group(table=np.ones((6, MOST_ENTRIES // 6), dtype=np.int64))


@pytest.mark.parametrize(
    "groups",
    [
        (),
        (MANY, MANY),
        (one_group(chance=2**52), one_group(chance=2**52)),
        (one_group(places=np.array([0, 2])),),
        (one_group(places=np.array([0, -1])),),
        (one_group(levels=np.array([-8, 8, -8, 0, 9])),),
        (one_group(levels=np.array([-8, 9, -7, 0, 9])),),
    ],
    ids=["none", "much", "chances", "beyond", "before", "top", "bottom"],
)
def test_groups_that_do_not_fit_are_refused(groups: tuple[LevelGroup, ...]) -> None:
    LevelResponse(region=REGION, groups=(one_group(),) * 3)
    with pytest.raises(MechanismError, match=r"\.$"):
        LevelResponse(region=REGION, groups=groups)


def test_a_table_cannot_be_changed_afterwards() -> None:
    table = LARGE.copy()
    group = one_group(table=table)
    table[0, 0] = 1000
    assert group.table[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        group.table[0, 0] = 5


def test_the_largest_tables_there_may_be() -> None:
    """One record of a release at all limits: its ε in a moment, and a report in a moment."""
    rng = np.random.default_rng(2)
    half = rng.integers(1, 2**36, size=2**15)
    group = LevelGroup(
        places=np.array([0]),
        counts=np.array([2]),
        levels=np.array([-8, 9]),
        table=np.stack([half, rng.permutation(half)]),
        chance=1,
    )
    mechanism = LevelResponse(region=REGION, groups=(group,) * 16)
    worst = max(Fraction(max(pair), min(pair)) for pair in group.table.T.tolist())
    assert mechanism.epsilon == pytest.approx(math.log(worst), rel=1e-14)
    assert mechanism.layout.high == (2**19 - 1,)
    assert mechanism.possible(mechanism(np.zeros((40, 2)))).all()
    assert mechanism.contrast(np.zeros((3, 2))).shape == (3, 2)
