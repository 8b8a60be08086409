"""Groups of blocks and of planes, built by hand, for tests of what runs on devices."""

from __future__ import annotations

import math

import numpy as np

from taskveil.client.device import Device, Fields
from taskveil.client.fields import Category, Number, Words
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import BlockGroup, LevelGroup, LevelResponse, PlaneGroup, Response
from taskveil.client.regions import BoxRegion

REGION = BoxRegion(
    step=2.0**-12, low=np.array([-8192, 5000, -30_000, -26_000]), high=np.array([40_000, 26_000, 5001, -11_000])
)
"""Four latents, of which four in five that `releases.linear` gives lie inside."""


def block_group(
    places: list[int],
    counts: list[int],
    *,
    count: int,
    width: int,
    epsilon: float,
    binned: tuple[int, ...] = (),
    chance: int = 1,
    region: BoxRegion = REGION,
) -> BlockGroup:
    """So many blocks of so many residues, which are anything but the same; levels anywhere between the ends. The last
    level of the latents `binned` lies below the region's high."""
    rng, rows = np.random.default_rng([*places, *counts, count, width]), math.prod(counts)
    levels = []
    for place, number in zip(places, counts, strict=True):
        low, high = int(region.low[place]), int(region.high[place])
        last = high - (high - low) // 5 if place in binned else high
        between = rng.choice(np.arange(low + 1, last), size=max(number - 2, 0), replace=False)
        levels.append(np.sort([low, last, *between])[:number])
    return BlockGroup(
        places=np.array(places),
        counts=np.array(counts),
        levels=np.concatenate(levels),
        binned=np.array([place in binned for place in places]),
        blocks=np.stack([rng.permutation(rows)[:width] for _ in range(count)]),
        response=Response.calibrated(size=rows, favoured=width, epsilon=epsilon),
        chance=chance,
    )


def one_digit() -> LevelResponse:
    """One category of ten values, asked for in sixteen blocks of three."""
    return LevelResponse(region=REGION, groups=(block_group([0], [10], count=16, width=3, epsilon=1.0),))


def with_numbers() -> LevelResponse:
    """Two digits, of which one is a number between far levels; three digits; and a table beside them."""
    table = LevelGroup(
        places=np.array([3]),
        counts=np.array([2]),
        levels=np.array([-26_000, -11_000]),
        table=np.array([[5, 2], [2, 5]]),
        chance=2,
    )
    return LevelResponse(
        region=REGION,
        groups=(
            block_group([1, 0], [5, 2], count=4, width=2, epsilon=1.5, chance=7),
            table,
            block_group([2, 3, 1], [3, 2, 4], count=1, width=5, epsilon=2.0, chance=4),
        ),
    )


def with_bins() -> LevelResponse:
    """Histograms: one latent in bins, and one in bins beside one that is rounded at random."""
    return LevelResponse(
        region=REGION,
        groups=(
            block_group([2], [32], count=8, width=6, epsilon=1.0, binned=(2,), chance=3),
            block_group([0, 3], [4, 3], count=5, width=1, epsilon=3.0, binned=(0,), chance=2),
        ),
    )


def nearly_sure() -> LevelResponse:
    """More draws than a 64-bit integer holds."""
    return LevelResponse(region=REGION, groups=(block_group([0, 1], [3, 3], count=2, width=2, epsilon=45.0),))


def plane_group(
    places: tuple[int, int], prime: int, *, width: int = 1, epsilon: float = 1.0, chance: int = 1
) -> PlaneGroup:
    response = Response.calibrated(size=prime, favoured=width, epsilon=epsilon)
    return PlaneGroup(places=np.array(places), prime=prime, response=response, chance=chance)


def plane(prime: int = 31, step: float = 2.0**-3) -> LevelResponse:
    """Two latents as a point of a plane, and one of them with another in blocks."""
    region = BoxRegion(step=step, low=np.zeros(3, dtype=np.int64), high=np.array([prime - 1, 5, prime - 1]))
    levels = np.array([0, 2, prime - 1, 0, 5])
    return LevelResponse(
        region=region,
        groups=(
            plane_group((2, 0), prime, width=1 + prime // 4, chance=3),
            BlockGroup(
                places=np.array([0, 1]),
                counts=np.array([3, 2]),
                levels=levels,
                binned=np.array([False, True]),
                blocks=np.array([[0, 5], [1, 2], [3, 5]]),
                response=Response.calibrated(size=6, favoured=2, epsilon=1.0),
                chance=2,
            ),
        ),
    )


WORDS = Fields(
    names=("search", "app", "size", "age"),
    fields=(
        Words(3001, "a survey in spring"),
        Words(208_057, "\ud800 strange \0 😀"),
        Category(("S", "M", "L"), missing=True),
        Number(0.0, 120.0, "years"),
    ),
)
"""Texts of open vocabularies beside other fields."""


def words_device() -> Device:
    """Two planes whose latents are the numbers of texts, the larger with nearly 2^53 outputs, and a group of blocks."""
    low, high = WORDS.box
    weights = np.zeros((6, WORDS.width))
    weights[:4, :4], weights[4, 4:8], weights[5, 8] = np.eye(4), [1.0, 2.0, 3.0, 4.0], 1.0 / 120.0
    sides = [WORDS.fields[0].prime - 1] * 2 + [WORDS.fields[1].prime - 1] * 2  # type: ignore[union-attr]
    mechanism = LevelResponse(
        region=BoxRegion(step=1.0, low=np.zeros(6, dtype=np.int64), high=np.array([*sides, 4, 1])),
        groups=(
            plane_group((0, 1), 3001, width=300, epsilon=2.0, chance=3),
            plane_group((2, 3), 208_057, width=5, epsilon=9.0, chance=2),
            BlockGroup(
                places=np.array([4, 5]),
                counts=np.array([5, 2]),
                levels=np.array([0, 1, 2, 3, 4, 0, 1]),
                binned=np.array([False, False]),
                blocks=np.array([[0, 1, 4], [2, 3, 9]]),
                response=Response.calibrated(size=10, favoured=3, epsilon=1.0),
                chance=2,
            ),
        ),
    )
    encoder = LinearEncoder.of(low=low, high=high, weights=weights, offset=np.zeros(6))
    return Device(encoder=encoder, mechanism=mechanism, columns=WORDS.names, units=WORDS.units, fields=WORDS)
