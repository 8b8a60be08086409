"""Small releases of every mechanism, built by hand, for tests of what runs on devices."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import balls
import block_releases
import hand_made_networks as networks
import mixed_records
import taskveil as tv
from taskveil.client.device import Device, Fields
from taskveil.client.latent_encoders import (
    Encoder,
    HiddenEncoder,
    LinearEncoder,
    MeanEncoder,
    MonotoneTables,
    TabledEncoder,
)
from taskveil.client.mechanisms import (
    Codebook,
    Gaussian,
    Laplace,
    LatticeCodebook,
    LevelGroup,
    LevelResponse,
    Mechanism,
    Response,
    Stage,
    SumCodebook,
)
from taskveil.client.mechanisms.lattice import Lattice
from taskveil.client.networks import LEVELS
from taskveil.client.reading import MANIFEST, WEIGHTS, canonical
from taskveil.client.regions import BallRegion, BoxRegion, DiamondRegion, L1Region, SignRegion
from taskveil.client.trees import TreeEncoder
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder, LatticeDecoder
from taskveil.veil.release import manifest_of

NAMES = tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")


def linear(width: int = 5, latents: int = 3) -> LinearEncoder:
    rng = np.random.default_rng(width)
    low = rng.normal(size=width) - 2
    return LinearEncoder.of(
        low=low,
        high=low + rng.uniform(1, 5, size=width),
        weights=rng.normal(size=(latents, width)),
        offset=rng.normal(size=latents),
    )


def hidden(width: int = 5, latents: int = 3, *, softmax: bool = False) -> HiddenEncoder:
    rng = np.random.default_rng(width + 100)
    low = np.append(rng.normal(size=width - 1) - 2, 1.0)
    return HiddenEncoder.of(
        low=low,
        high=low + np.append(rng.uniform(1, 5, size=width - 1), 0.0),  # the last attribute never varies
        hidden_weights=rng.normal(size=(8, width)),
        hidden_offset=rng.normal(size=8),
        weights=rng.normal(size=(latents, 8)),
        offset=rng.normal(size=latents),
        skip=rng.normal(size=(latents, width)),
        softmax=softmax,
    )


def tables(width: int = 5, count: int = 40) -> MonotoneTables:
    """Scales as designs make them, and the strangest there may be: as wide, as narrow and as steep as allowed,
    with jumps, without any rise, of one value."""
    rng = np.random.default_rng(width + 200)
    knots = np.sort(np.exp(3 * rng.normal(size=(width, count))), axis=1)
    levels = np.sort(rng.integers(0, LEVELS + 1, size=(width, count)), axis=1)
    knots[0] = np.linspace(-(2.0**1022), 2.0**1022, count)
    knots[1] = np.arange(count) // 3 * 5e-324
    knots[2], levels[2] = np.repeat([-1.0, 0.0, 2.0, 7.0], count // 4), np.repeat([0, LEVELS], count // 2)
    knots[3] = 3.0
    return MonotoneTables(knots=knots, levels=levels)


def tabled(encoder: LinearEncoder | HiddenEncoder) -> TabledEncoder:
    """The encoder behind tables, taking their levels as they are."""
    full = np.full(encoder.width, float(LEVELS))
    return TabledEncoder(tables=tables(encoder.width), encoder=replace(encoder, low=0 * full, high=full))


def tree_shape(rng: np.random.Generator, leaves: int, *, even: bool) -> list[bool]:
    """Whether each node of a tree is a split, in the order in which trees are written."""
    if leaves == 1:
        return [False]
    left = leaves // 2 if even else min(leaves - 1, int(rng.geometric(0.6)))
    return [True, *tree_shape(rng, left, even=even), *tree_shape(rng, leaves - left, even=even)]


def trees(
    sizes: tuple[int, ...] = (8, 1, 30, 5),
    *,
    width: int = 5,
    latents: int = 3,
    per_leaf: int = 1,
    even: bool = True,
    softmax: bool = False,
    far: float = 1e300,
) -> TreeEncoder:
    """Trees of so many leaves each; the last attribute is in no tree, knots of the first reach `far`, those of the
    second are neighbours."""
    rng = np.random.default_rng(width + 300)
    split = np.concatenate([tree_shape(rng, size, even=even) for size in sizes])
    knots = np.sort(rng.normal(size=(width, 12)), axis=1)
    knots[0] = far * (np.arange(-5, 7) / 6)
    knots[1] = 1.0 + np.arange(12) * 2.0**-52
    counts = np.array([12, 12, *rng.integers(1, 13, size=width - 3), 0])
    attribute = np.where(split, rng.integers(0, width - 1, size=len(split)), -1).astype(np.int16)
    looked = attribute[split]
    low, high = knots[:, 0] - 0.5, knots[:, -1] + 0.5
    low[0], high[0] = -far, 0.9 * far  # the last knot lies beyond
    return TreeEncoder(
        low=low,
        high=high,
        knots=np.concatenate([row[:count] for row, count in zip(knots, counts, strict=True)]),
        counts=counts,
        attribute=attribute,
        rank=rng.integers(0, counts[looked]).astype(np.int16),
        values=rng.integers(-(2**31), 2**31, size=((~split).sum(), per_leaf)).astype(np.int32),
        output=rng.integers(0, latents - per_leaf + 1, size=len(sizes)).astype(np.int16),
        offset=rng.integers(-(2**32), 2**32, size=latents),
        step=2.0 ** -np.arange(29, 29 + latents),
        softmax=softmax,
    )


def overflowing() -> HiddenEncoder:
    """Attributes whose ranges a double cannot divide by or hold: latents become NaN before the softmax."""
    encoder = hidden(softmax=True)
    low, high = encoder.low.copy(), encoder.high.copy()
    low[:2], high[:2] = (0.0, -1e308), (1e-310, 1e308)
    return replace(encoder, low=low, high=high)


def box(latents: int, step: float = 2.0**-12, half: int = 1 << 14) -> BoxRegion:
    return BoxRegion(step=step, low=np.full(latents, -half), high=np.full(latents, half + 1))


def sign_region(latents: int = 3) -> SignRegion:
    bits = (np.arange(2 ** (latents - 1))[:, None] >> np.arange(latents)) & 1
    signs = (1 - 2 * bits).astype(np.int8)
    rng = np.random.default_rng(0)
    cloud = rng.integers(-500, 700, size=(40, latents)) @ signs.T.astype(np.int64)
    lower, upper = cloud.min(axis=0), cloud.max(axis=0)
    return SignRegion(step=2.0**-8, signs=signs, lower=lower, upper=upper, center=np.array([50, -20, 10][:latents]))


def thin_region(latents: int = 3, wide: int = 2**27) -> SignRegion:
    """A forgery: no latent may move along the first sign vector, all may move far along the others."""
    bits = (np.arange(2 ** (latents - 1))[:, None] >> np.arange(latents)) & 1
    bounds = np.full(len(bits), wide)
    bounds[0] = 0
    return SignRegion(
        step=2.0**-20,
        signs=(1 - 2 * bits).astype(np.int8),
        lower=-bounds,
        upper=bounds,
        center=np.zeros(latents, dtype=np.int64),
    )


def proportional(latents: int = 3) -> LinearEncoder:
    """Latents that follow one attribute, exactly along the thin region's plane: only rounding takes them off it."""
    direction = np.append(np.ones(latents - 1), 1.0 - latents)
    return LinearEncoder.of(
        low=np.array([0.0]), high=np.array([1024.0]), weights=direction[:, None], offset=np.zeros(latents)
    )


def diamond(latents: int = 3) -> DiamondRegion:
    return DiamondRegion(step=2.0**-10, center=np.arange(latents) * 100, radius=2000)


def stage(size: int, favoured: int, epsilon: float, latents: int = 3, seed: int = 0, *, ties: bool = False) -> Stage:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-4000, 4000, size=(size, latents))
    offsets = rng.integers(-(10**6), 10**6, size=size)
    if ties:  # every score appears twice
        vectors[: size // 2], offsets[: size // 2] = vectors[-(size // 2) :], offsets[-(size // 2) :]
    return Stage(
        vectors=vectors,
        offsets=offsets,
        shifts=rng.integers(-3000, 3000, size=(size, latents)),
        response=Response.calibrated(size=size, favoured=favoured, epsilon=epsilon),
    )


def lattice(latents: int = 3, count: int = 9, budget: int = 12, reach: int = 2**15) -> Lattice:
    levels = (np.arange(count) - count // 2) * (reach // count)
    lengths = np.abs(np.arange(count) - count // 2)
    return Lattice(
        levels=np.tile(levels, latents),
        lengths=np.tile(lengths, latents),
        counts=np.full(latents, count),
        budget=budget,
    )


def lattice_codebook(epsilon: float, **shape: int) -> LatticeCodebook:
    points = lattice(**shape)
    response = Response.calibrated(size=points.size, favoured=1, epsilon=epsilon)
    region = box(points.dim, 2.0**-22, 2**24 - 1) if "reach" in shape else box(points.dim)
    return LatticeCodebook(region=region, lattice=points, response=response)


def sum_codebook(*sizes: int, epsilon: float, latents: int = 3, branches: int = 4, ties: bool = False) -> SumCodebook:
    rng = np.random.default_rng(sum(sizes))
    most = 12 if ties else 9000  # so few different codewords that many sums are the same
    return SumCodebook(
        region=box(latents, 2.0**-4 if ties else 2.0**-12, 40 if ties else 1 << 14),
        codewords=rng.integers(-most, most + 1, size=(sum(sizes), latents)).astype(np.int16),
        sizes=np.array(sizes),
        branches=branches,
        response=Response.calibrated(size=math.prod(sizes), favoured=1, epsilon=epsilon),
    )


def level_group(
    region: BoxRegion, places: list[int], counts: list[int], *, outputs: int, most: int = 4000, chance: int = 1
) -> LevelGroup:
    """Levels and entries anywhere; the entries of every row are the same in another order, so that all rows have one
    sum."""
    rng = np.random.default_rng([*places, *counts, outputs])
    levels = [
        np.sort([low, high, *rng.integers(low + 1, high, size=count - 2)] if count > 2 else [low, high])
        for low, high, count in zip(region.low[places], region.high[places], counts, strict=True)
    ]
    entries = rng.integers(most // 40, most + 1, size=outputs)
    return LevelGroup(
        places=np.array(places),
        counts=np.array(counts),
        levels=np.concatenate(levels),
        table=rng.permuted(np.tile(entries, (math.prod(counts), 1)), axis=1),
        chance=chance,
    )


def level_response(most: int = 4000) -> LevelResponse:
    """Latents alone and together, one of them never asked for and one in two groups."""
    region = box(4)
    return LevelResponse(
        region=region,
        groups=(
            level_group(region, [2], [5], outputs=4, most=most, chance=3),
            level_group(region, [3, 0], [2, 3], outputs=7, most=most, chance=5),
            level_group(region, [0], [2], outputs=2, most=most),
        ),
    )


def wide_level_response() -> LevelResponse:
    """The widest region, the largest sums and chances there may be, and a latent that never varies."""
    region = BoxRegion(step=2.0**-30, low=np.array([-(2**40), 7, -3]), high=np.array([2**40, 7, -2]))
    group = level_group(region, [2, 0], [2, 4], outputs=300, most=2**44)
    still = LevelGroup(
        places=np.array([1]), counts=np.array([1]), levels=np.array([7]), table=np.array([[2**52, 1]]), chance=2**50
    )
    return LevelResponse(region=region, groups=(still, replace(group, chance=2**52 + 1)))


def laplace(region: L1Region, epsilon: float) -> Laplace:
    return Laplace.calibrated(region=region, epsilon=epsilon)


def ball(latents: int = 3, radius: int = 5000) -> BallRegion:
    return BallRegion(step=2.0**-12, center=np.arange(latents) * 1000, squared_radius=radius**2 + 1)


def gaussian(region: BallRegion, epsilon: float, delta: float = 1e-6) -> Gaussian:
    return Gaussian.calibrated(region=region, epsilon=epsilon, delta=delta)


def gaussian_veils() -> dict[str, tv.Veil]:
    """Gaussian noise of all sizes, on balls of all sizes."""
    far = BallRegion(step=2.0**-30, center=np.array([2**39, -(2**40), 5]), squared_radius=2**52)
    one = BallRegion(step=1.0, center=np.array([1]), squared_radius=1)
    return {
        "gaussian": veil(linear(), gaussian(ball(), 1.0)),
        # A scale of about one step: many proposals are not kept, and many are zero.
        "gaussian_one": veil(linear(latents=1), gaussian(one, 6.0, 1e-3)),
        "gaussian_many": veil(linear(30, 40), gaussian(ball(40), 4.0)),
        "gaussian_wide": veil(linear(), Gaussian(region=far, scale=2.0**38 + 0.3, delta=2.0**-100, order=600.5)),
        "gaussian_tiny": veil(linear(), Gaussian(region=ball(3, 1), scale=2.0**-6, delta=0.5, order=1.01)),
        "gaussian_overflow": veil(overflowing(), gaussian(ball(), 0.1, 1e-9)),
    }


def write_files(folder: Path, content: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """Write manifest and weights of one half of a release into a folder; returns the digest of the content."""
    manifest, weights = manifest_of(content, arrays)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / MANIFEST).write_bytes(canonical(manifest))
    return str(manifest["digest"])


def veil(encoder: Encoder, mechanism: Mechanism) -> tv.Veil:
    """A veil whose decoder fits but was not designed."""
    n = encoder.width
    rng = np.random.default_rng(1)
    decoder: AffineDecoder | CodewordDecoder | LatticeDecoder
    if isinstance(mechanism, Laplace | Gaussian):
        decoder = AffineDecoder(weights=rng.normal(size=(n, mechanism.report_width)), offset=rng.normal(size=n))
    elif isinstance(mechanism, LatticeCodebook):
        points = mechanism.lattice
        decoder = LatticeDecoder(
            lattice=points,
            step=mechanism.region.step,
            weights=rng.normal(size=(n, points.dim)),
            offset=rng.normal(size=n),
        )
    else:
        sizes = np.array(mechanism.layout.high) + 1
        decoder = CodewordDecoder(codewords=rng.normal(size=(int(sizes.sum()), n)), sizes=sizes)
    return tv.Veil(
        encoder=encoder,
        mechanism=mechanism,
        decoder=decoder,
        task=tv.LinearTask(np.eye(n)),
        method="by hand",
        columns=NAMES[:n],
        units=tuple(["kW"] * n),
    )


def mixed(fields: Fields, mechanism: Mechanism, latents: int = 3) -> Device:
    """Records of natural values, each number of which moves every latent."""
    low, high = fields.box
    weights = np.random.default_rng(fields.width).integers(-1000, 1001, size=(latents, fields.width))
    encoder = LinearEncoder(
        low=low,
        high=high,
        weights=weights,
        offset=-(LEVELS // 2) * weights.sum(axis=1),
        step=np.full(latents, 2.0**-30),
    )
    return Device(encoder=encoder, mechanism=mechanism, columns=fields.names, units=fields.units, fields=fields)


def devices() -> dict[str, Device]:
    """One device per mechanism and per way through its code."""
    made = {
        "laplace_box": veil(linear(), laplace(box(3), 1.0)),
        "laplace_sign_hidden": veil(hidden(), laplace(sign_region(), 2.5)),
        "laplace_diamond": veil(linear(30, 12), laplace(diamond(12), 0.7)),
        "laplace_thin": veil(proportional(), laplace(thin_region(), 2.0)),
        "laplace_coarse": veil(linear(), laplace(box(3, 1.0, 1), 8.0)),
        "laplace_wide": veil(linear(), Laplace(region=box(3, 2.0**-30, 2**39), scale=2.0**38 + 0.3)),
        "codebook": veil(linear(30, 4), Codebook(region=box(4), stages=(stage(64, 4, 3.0, 4),))),
        "codebook_ties": veil(
            hidden(softmax=True), Codebook(region=box(3), stages=(stage(300, 10, 4.0, seed=1, ties=True),))
        ),
        # More draws than a 64-bit integer holds.
        "codebook_sure": veil(hidden(), Codebook(region=box(3), stages=(stage(7, 1, 45.0, seed=2),))),
        "codebook_overflow": veil(overflowing(), Codebook(region=box(3), stages=(stage(16, 4, 2.0),))),
        "laplace_tabled": veil(tabled(linear()), laplace(box(3, 2.0**-30, 2**35), 9.0)),
        "codebook_tabled": veil(
            tabled(hidden(8, softmax=True)), Codebook(region=box(3, 2.0**-20, 2**20), stages=(stage(300, 10, 4.0),))
        ),
        "laplace_trees_deep": veil(
            trees((300, 2, 150), width=12, even=False, far=1.7e308), laplace(box(3, 2.0**-20, 2**24), 9.0)
        ),
        "laplace_trees": veil(trees((64,) * 40, latents=1), laplace(box(1, 2.0**-12, 2**17), 6.0)),
        "codebook_trees": veil(
            trees((16,) * 30, width=8, per_leaf=3, softmax=True),
            Codebook(region=box(3, 2.0**-20, 2**20), stages=(stage(300, 10, 4.0),)),
        ),
        "codebook_boosted": veil(
            trees((6,) * 90, width=30, latents=4, softmax=True),
            Codebook(region=box(4, 2.0**-20, 2**20), stages=(stage(30, 1, 2.0, 4, seed=3),)),
        ),
        "layers_dense": veil(networks.dense_network(), laplace(box(3), 6.0)),
        "layers_pictures": veil(
            networks.picture_network(), Codebook(region=box(3, 2.0**-20, 2**20), stages=(stage(300, 10, 4.0),))
        ),
        "layers_side_by_side": veil(
            networks.networks_side_by_side(), Codebook(region=box(3, 2.0**-20, 2**20), stages=(stage(64, 4, 4.0),))
        ),
        "layers_overflow": veil(networks.overflowing_network(), laplace(box(3), 6.0)),
        "codebook_mean": veil(
            MeanEncoder(
                encoders=(hidden(8, softmax=True), trees((16,) * 30, width=8, per_leaf=3, softmax=True)),
                weights=np.array([0.3, 0.7]),
            ),
            Codebook(region=box(3, 2.0**-20, 2**20), stages=(stage(300, 10, 4.0),)),
        ),
        "sums_mean": veil(
            MeanEncoder(
                encoders=(
                    linear(6),
                    hidden(6, softmax=True),
                    trees(width=6),
                    networks.dense_network(),
                    tabled(linear(6)),
                ),
                weights=np.array([0.1, 0.4, 0.0, 1.0 / 3.0, 1.0]),
            ),
            sum_codebook(30, 1, 40, epsilon=7.0, branches=3),
        ),
        "lattice": veil(linear(), lattice_codebook(6.0)),
        # More codewords than a 64-bit integer holds: a report has two digits.
        "lattice_digits": veil(hidden(8, 42), lattice_codebook(60.0, latents=42, count=3, budget=42)),
        # Squared distances that add up to more than 2^53.
        "lattice_far": veil(linear(12, 12), lattice_codebook(9.0, latents=12, count=5, budget=6, reach=2**25 - 8)),
        "sums": veil(linear(), sum_codebook(7, 20, 9, epsilon=6.0)),
        "sums_ties": veil(linear(), sum_codebook(3, 40, 1, 40, epsilon=5.0, branches=16, ties=True)),
        # More sums than a 64-bit integer holds.
        "sums_many": veil(hidden(8, 6), sum_codebook(*[100] * 11, epsilon=55.0, latents=6)),
        "levels": veil(linear(6, 4), level_response()),
        "levels_wide": veil(hidden(), wide_level_response()),
        "blocks": veil(linear(6, 4), block_releases.one_digit()),
        "blocks_numbers": veil(linear(6, 4), block_releases.with_numbers()),
        "blocks_binned": veil(linear(6, 4), block_releases.with_bins()),
        "blocks_sure": veil(linear(6, 4), block_releases.nearly_sure()),
        "plane": veil(linear(), block_releases.plane()),
        **gaussian_veils(),
    }
    return (
        {name: made[name].device for name in made}
        | balls.ball_devices()
        | {
            "mixed": mixed(mixed_records.ORDINARY, laplace(box(3), 4.0)),
            "mixed_strange": mixed(mixed_records.STRANGE, Codebook(region=box(3), stages=(stage(64, 4, 4.0),))),
            "mixed_words": block_releases.words_device(),
        }
    )
