"""Blocks and planes: probabilities in fractions, draws against them, and everything that must be refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chisquare

import block_releases
from taskveil.client import entropy
from taskveil.client.mechanisms import BlockGroup, LevelGroup, LevelResponse, PlaneGroup, Response
from taskveil.client.mechanisms.level_groups import MOST_ENTRIES
from taskveil.client.regions import BoxRegion
from taskveil.errors import MechanismError

SMALL = {
    "one digit": block_releases.one_digit(),
    "with numbers": block_releases.with_numbers(),
    "with bins": block_releases.with_bins(),
    "a plane": block_releases.plane(prime=7),
}
SPECIAL = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 0.3]


def hostile(mechanism: LevelResponse) -> np.ndarray:
    """(9, d): special values alone, and all of them mixed."""
    dim = mechanism.region.dim
    return np.array([*([value] * dim for value in SPECIAL), [SPECIAL[place] for place in range(dim)]])


def row_shares(group: LevelGroup | BlockGroup, k: list[int]) -> list[Fraction]:
    """The probability of every row, as the docstring says it."""
    binned = group.binned.tolist() if isinstance(group, BlockGroup) else [False] * len(group.places)
    digits, start = [], 0
    for place, count, down in zip(group.places.tolist(), group.counts.tolist(), binned, strict=True):
        levels, shares = group.levels[start : start + count].tolist(), [Fraction(0)] * count
        below = max(number for number, level in enumerate(levels) if level <= k[place])
        up = Fraction(0)
        if not down and below < count - 1:
            up = Fraction(k[place] - levels[below], levels[below + 1] - levels[below])
            shares[below + 1] = up
        shares[below] = 1 - up
        digits.append(shares)
        start += count
    return [math.prod(shares) for shares in itertools.product(*digits)]


def group_chances(group: LevelGroup | BlockGroup | PlaneGroup, k: list[int]) -> list[Fraction]:
    """P[output | k] for every output of a group."""
    if isinstance(group, LevelGroup):
        shares, total = row_shares(group, k), int(group.table[0].sum())
        return [
            sum((s * e for s, e in zip(shares, column, strict=True)), Fraction(0)) / total
            for column in group.table.T.tolist()
        ]
    response = group.response
    draws = response.favoured * response.a + (response.size - response.favoured) * response.b
    weights = {True: Fraction(response.a, draws), False: Fraction(response.b, draws)}
    if isinstance(group, PlaneGroup):
        p, (one, other) = group.prime, (k[place] for place in group.places.tolist())
        return [
            weights[(alpha * one + beta * other - s) % p < response.favoured] / (p**2 - 1)
            for alpha, beta in itertools.product(range(p), repeat=2)
            if (alpha, beta) != (0, 0)
            for s in range(p)
        ]
    rows = [(row, share) for row, share in enumerate(row_shares(group, k)) if share]
    return [
        sum((share * weights[(row - s) % group.rows in block] for row, share in rows), Fraction(0)) / len(group.blocks)
        for block in map(set, group.blocks.tolist())
        for s in range(group.rows)
    ]


def exact_chances(mechanism: LevelResponse, k: list[int]) -> list[Fraction]:
    """P[report | k] for every report."""
    drawn = sum(group.chance for group in mechanism.groups)
    return [Fraction(group.chance, drawn) * chance for group in mechanism.groups for chance in group_chances(group, k)]


@st.composite
def mechanisms(draw: st.DrawFn) -> LevelResponse:
    """Blocks of one to three latents, some of them binned, and planes."""
    p = draw(st.sampled_from([2, 3, 5, 7]))
    region = BoxRegion(step=1.0, low=np.array([-9, 0, 0, 3]), high=np.array([10, p - 1, p - 1, 3 + p]))
    groups: list[BlockGroup | PlaneGroup] = []
    for _ in range(draw(st.integers(1, 3))):
        a = draw(st.integers(1, 10**6))
        b = draw(st.integers(1, a))
        chance = draw(st.integers(1, 100))
        if draw(st.booleans()):
            response = Response(size=p, favoured=draw(st.integers(1, p - 1)), a=a, b=b)
            groups.append(PlaneGroup(places=np.array([1, 2]), prime=p, response=response, chance=chance))
            continue
        places = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
        binned = np.array([draw(st.booleans()) for _ in places])
        levels = []
        for place, down in zip(places, binned, strict=True):
            low, high = int(region.low[place]), int(region.high[place])
            some = draw(st.lists(st.integers(low, high), max_size=2))
            levels.append(sorted({low, *some, *([] if down else [high]), *([high] if not some else [])}))
        rows = math.prod(map(len, levels))
        assume(rows > 1)
        width = draw(st.integers(1, rows - 1))
        blocks = [draw(st.permutations(range(rows)))[:width] for _ in range(draw(st.integers(1, 3)))]
        groups.append(
            BlockGroup(
                places=np.array(places),
                counts=np.array([len(scale) for scale in levels]),
                levels=np.concatenate(levels),
                binned=binned,
                blocks=np.array(blocks),
                response=Response(size=rows, favoured=width, a=a, b=b),
                chance=chance,
            )
        )
    return LevelResponse(region=region, groups=tuple(groups))


@given(mechanisms(), st.data())
def test_no_report_tells_two_inputs_apart_by_more_than_epsilon(mechanism: LevelResponse, data: st.DataObject) -> None:
    value = st.one_of(st.floats(-20, 20), st.sampled_from(SPECIAL))
    latents = np.array([[data.draw(value) for _ in range(4)] for _ in range(2)])
    one, other = mechanism.region.enforce(latents).tolist()
    P, Q = exact_chances(mechanism, one), exact_chances(mechanism, other)
    assert sum(P) == sum(Q) == 1
    worst = max(max(p / q, q / p) for p, q in zip(P, Q, strict=True))
    with mpmath.workdps(60):
        assert mpmath.mpf(worst.numerator) / worst.denominator <= mpmath.exp(mpmath.mpf(mechanism.epsilon))
    expected = np.array([P, Q], dtype=float)
    assert mechanism.chances(latents) == pytest.approx(expected, rel=1e-12)
    reports = np.arange(mechanism.outputs)[:, None]
    assert mechanism.log_likelihood(reports, latents) == pytest.approx(np.log(expected).T, abs=1e-11)
    assert mechanism.possible(mechanism(latents)).all()


def test_epsilon_is_that_of_the_worst_group_and_is_reached() -> None:
    for mechanism in SMALL.values():
        worst = max(Fraction(*group.worst) for group in mechanism.groups)
        with mpmath.workdps(60):
            exact = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
            assert exact <= mpmath.mpf(mechanism.epsilon) <= exact * (1 + mpmath.mpf(2) ** -50)
            assert abs(mpmath.mpf(str(mechanism.exact_epsilon)) - exact) < exact * mpmath.mpf(10) ** -50
    mechanism = SMALL["one digit"]
    levels = mechanism.groups[0].levels * mechanism.region.step
    shown = np.log(mechanism.chances(np.stack([levels, *[0 * levels] * 3], axis=1)))
    assert (shown.max(axis=0) - shown.min(axis=0)).max() == pytest.approx(mechanism.epsilon, rel=1e-12)


def is_drawn_as(mechanism: LevelResponse, expected: LevelResponse, latent: list[float], count: int = 400_000) -> bool:
    drawn = np.bincount(mechanism(np.tile(latent, (count, 1)))[:, 0], minlength=expected.outputs)
    k = expected.region.enforce(np.array([latent]))[0].tolist()
    wanted = np.array(exact_chances(expected, k), dtype=float) * count
    return len(drawn) == len(wanted) and bool(chisquare(drawn, wanted).pvalue > 1e-6)


LATENT = [1.3, 2.37, -0.6, -4.1]
LATENTS = {"inside": LATENT, "nan": [np.nan] * 4, "far": [np.inf, -np.inf, 0.25, -1e308]}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "latent", [LATENT, [np.nan] * 4, [np.inf, -np.inf, 0.25, -1e308]], ids=["inside", "nan", "far"]
)
def test_reports_have_their_exact_probabilities(name: str, latent: list[float]) -> None:
    mechanism = SMALL[name]
    assert is_drawn_as(mechanism, mechanism, latent[: mechanism.region.dim])


def more_odds(group: BlockGroup | PlaneGroup) -> BlockGroup | PlaneGroup:
    """Three percent more for the favoured outputs."""
    return replace(group, response=replace(group.response, a=group.response.a * 103 // 100))


def next_block(group: BlockGroup) -> BlockGroup:
    """One residue is another one."""
    blocks = group.blocks.copy()
    blocks[0, 0] = next(d for d in range(group.rows) if d not in blocks[0])
    return replace(group, blocks=blocks)


def rounded_down(group: BlockGroup) -> BlockGroup:
    return replace(group, binned=np.ones_like(group.binned))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("one digit", more_odds),
        ("one digit", next_block),
        ("one digit", rounded_down),
        ("with numbers", next_block),
        ("with numbers", rounded_down),
        ("a plane", more_odds),
    ],
)
def test_wrong_probabilities_are_rejected(name: str, change: Callable[[object], object]) -> None:
    sound = SMALL[name]
    first, *others = sound.groups
    broken = replace(sound, groups=(change(first), *others))
    assert not is_drawn_as(broken, sound, LATENT[: sound.region.dim], count=2_000_000)


def test_each_draw_of_a_block_leads_to_the_output_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws of a tiny one in turn: as many give a block, and an output, as the release says."""
    blocks, response = np.array([[0, 1], [0, 2]]), Response(size=4, favoured=2, a=3, b=1)
    group = BlockGroup(
        places=np.array([0]),
        counts=np.array([4]),
        levels=np.arange(4),
        binned=np.array([True]),
        blocks=blocks,
        response=response,
        chance=1,
    )
    region = BoxRegion(step=1.0, low=np.array([0]), high=np.array([3]))
    mechanism = LevelResponse(region=region, groups=(group,))
    for row in range(4):
        found = np.zeros(8, dtype=np.int64)
        for lots in itertools.product([0], range(2), range(8)):
            bounds, draws = [1, 2, 8], list(lots)

            def below(bound: int, count: int, bounds: list[int] = bounds, draws: list[int] = draws) -> np.ndarray:
                assert (bound, count) == (bounds.pop(0), 1)
                return np.array([draws.pop(0)])

            monkeypatch.setattr(entropy, "uniform_below", below)
            found[mechanism(np.array([[float(row)]]))[0, 0]] += 1
        favoured = [{(row - d) % 4 for d in block} for block in blocks.tolist()]
        assert found.tolist() == [3 if s in favoured[j] else 1 for j in range(2) for s in range(4)]


def test_forms_are_an_exact_design() -> None:
    """Every difference of two points takes each residue but 0 exactly p times over the forms, and 0 p − 1 times."""
    for prime in (2, 3, 5, 7, 11):
        group = block_releases.plane_group((0, 1), prime)
        forms = np.arange(prime**2 - 1)
        for point in itertools.product(range(prime), repeat=2):
            if point != (0, 0):
                found = np.bincount(group.residues(forms, np.tile(point, (len(forms), 1))), minlength=prime)
                assert found.tolist() == [prime - 1, *[prime] * (prime - 1)]


def test_the_largest_plane_is_drawn_and_judged() -> None:
    device = block_releases.words_device()
    mechanism = device.mechanism
    assert isinstance(mechanism, LevelResponse)
    assert 2**52 < mechanism.outputs < 2**53
    records = [["word", "another", "S", 4.0], [None, "", None, None], ["x" * 2000, 7, "M", 1e9]]
    latents = device.encoder(np.concatenate([device.record(record) for record in records]))
    reports = mechanism(np.repeat(latents, 3000, axis=0))
    assert mechanism.possible(reports).all()
    said = mechanism.log_likelihood(reports, latents)
    assert np.isfinite(said).all()
    # No report tells two records apart by more than ε, and reports are likelier for their own record.
    assert np.ptp(said, axis=1).max() <= mechanism.epsilon + 1e-9
    own = said[np.arange(9000), np.repeat(np.arange(3), 3000)].mean()
    assert own > said.mean() + 0.2  # about 0.5, give or take 0.02
    with pytest.raises(MechanismError, match="too many to list"):
        mechanism.chances(latents)
    assert mechanism.contrast(latents).shape == latents.shape
    assert mechanism.fault(mechanism.region.enforce(latents)) is None


def test_every_record_takes_as_many_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for mechanism in SMALL.values():
        for seed in range(40):
            taken = set()
            for latent in hostile(mechanism):
                stream, asked = np.random.default_rng(seed), []
                monkeypatch.setattr(
                    entropy, "system_bytes", lambda n, stream=stream, asked=asked: asked.append(n) or stream.bytes(n)
                )
                mechanism(latent[None, :])
                taken.add(tuple(asked))
            assert len(taken) == 1


def test_hostile_latents_are_answered_like_any_others() -> None:
    for mechanism in SMALL.values():
        latents = hostile(mechanism)
        drawn = mechanism(np.repeat(latents, 50, axis=0))
        assert drawn.shape == (50 * len(latents), 1)
        assert mechanism.possible(drawn).all()
        assert not mechanism.possible(np.array([[-1], [mechanism.outputs]])).any()
        assert mechanism(np.empty((0, mechanism.region.dim))).shape == (0, 1)
        assert mechanism.fault(mechanism.region.enforce(latents)) is None


def one_block(**changes: object) -> BlockGroup:
    parts = {
        "places": np.array([0, 1]),
        "counts": np.array([2, 3]),
        "levels": np.array([-8, 9, -8, 0, 9]),
        "binned": np.array([False, True]),
        "blocks": np.array([[0, 1], [0, 3]]),
        "response": Response(size=6, favoured=2, a=2, b=1),
        "chance": 1,
    }
    return BlockGroup(**(parts | changes))  # type: ignore[arg-type]


def one_plane(**changes: object) -> PlaneGroup:
    parts = {
        "places": np.array([0, 1]),
        "prime": 5,
        "response": Response(size=5, favoured=2, a=2, b=1),
        "chance": 1,
    }
    return PlaneGroup(**(parts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"places": np.array([0, 0])},
        {"places": np.array([0])},
        {"places": np.array([0, 1], dtype=np.int32)},
        {"counts": np.array([3, 2])},
        {"counts": np.array([2**62, 2**62])},
        {"levels": np.array([-8, 9, -8, -8, 9])},
        {"binned": np.array([0, 1])},
        {"binned": np.array([False])},
        {"blocks": np.array([[0, 1], [3, 3]])},
        {"blocks": np.array([[0, 1], [3, 6]])},
        {"blocks": np.array([[0, 1], [3, -1]])},
        {"blocks": np.array([[0, 1, 2], [3, 1, 2]])},
        {"blocks": np.array([[0.0, 1.0]])},
        {"blocks": np.array([0, 1])},
        {"blocks": np.empty((0, 2), dtype=np.int64)},
        {"blocks": np.tile([0, 1], (MOST_ENTRIES // 2 + 1, 1))},
        {"response": Response(size=7, favoured=2, a=2, b=1)},
        {"response": Response(size=6, favoured=3, a=2, b=1)},
        {"chance": 0},
        {"chance": 2**53},
    ],
    ids=str,
)
def test_blocks_that_are_none_are_refused(changes: dict[str, object]) -> None:
    one_block()
    with pytest.raises(MechanismError, match=r"\.$"):
        one_block(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"places": np.array([0, 0])},
        {"places": np.array([0])},
        {"places": np.array([0, 1, 2])},
        {"prime": 4, "response": Response(size=4, favoured=2, a=2, b=1)},
        {"prime": 1},
        {"prime": 0},
        {"prime": -5},
        {"prime": 7},
        {"prime": 208_067, "response": Response(size=208_067, favoured=2, a=2, b=1)},
        {"prime": 2**61 - 1, "response": Response(size=2**61 - 1, favoured=2, a=2, b=1)},
        {"chance": 0},
    ],
    ids=str,
)
def test_planes_that_are_none_are_refused(changes: dict[str, object]) -> None:
    one_plane()
    with pytest.raises(MechanismError, match=r"\.$"):
        one_plane(**changes)


BLOCKS = BoxRegion(step=1.0, low=np.array([-8, -8]), high=np.array([9, 9]))
PLANE = BoxRegion(step=1.0, low=np.array([0, 0]), high=np.array([4, 4]))
LARGEST_PLANE = one_plane(prime=208_057, response=Response(size=208_057, favoured=1, a=2, b=1))


@pytest.mark.parametrize(
    ("region", "groups"),
    [
        (BLOCKS, (one_block(places=np.array([0, 2])),)),
        (BLOCKS, (one_block(levels=np.array([-8, 8, -8, 0, 9])),)),
        (BLOCKS, (one_block(levels=np.array([-8, 9, -7, 0, 9])),)),
        (BLOCKS, (one_block(levels=np.array([-8, 9, -8, 0, 10])),)),
        (BLOCKS, (one_block(blocks=np.tile([0, 1], (MOST_ENTRIES // 2, 1))),)),
        (BLOCKS, (one_plane(),)),
        (PLANE, (one_plane(places=np.array([0, 2])),)),
        (replace(PLANE, high=np.array([4, 5])), (one_plane(),)),
        (replace(PLANE, low=np.array([-1, 0])), (one_plane(),)),
        (replace(PLANE, high=np.array([208_056] * 2)), (LARGEST_PLANE, LARGEST_PLANE)),
    ],
    ids=["beyond", "top", "bottom", "bins", "much", "levels", "plane", "high", "low", "outputs"],
)
def test_groups_that_do_not_fit_are_refused(region: BoxRegion, groups: tuple[BlockGroup | PlaneGroup, ...]) -> None:
    LevelResponse(region=BLOCKS, groups=(one_block(), one_block(levels=np.array([-8, 9, -8, 0, 8]))))
    LevelResponse(region=PLANE, groups=(one_plane(), one_plane()))
    with pytest.raises(MechanismError, match=r"\.$"):
        LevelResponse(region=region, groups=groups)


def test_blocks_cannot_be_changed_afterwards() -> None:
    blocks = np.array([[0, 1], [0, 3]])
    group = one_block(blocks=blocks)
    blocks[0, 1] = 0
    assert group.blocks[0, 1] == 1
    with pytest.raises(ValueError, match="read-only"):
        group.blocks[0, 1] = 0
