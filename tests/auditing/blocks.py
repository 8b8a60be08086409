"""Blocks and planes: sound ones, and what can go wrong with residues, odds and public draws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

import block_releases
import taskveil as tv
from auditing.exhibits import encoder
from taskveil.arrays import own_arrays
from taskveil.client import entropy
from taskveil.client.mechanisms import BlockGroup, LevelResponse, PlaneGroup, Response
from taskveil.client.regions import BoxRegion
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder

LOW, HIGH = -128, 128
BLOCKS = np.array([[0, 1], [0, 2], [1, 5]])


def block_groups(
    epsilon: float, kind: type[BlockGroup] = BlockGroup, blocks: np.ndarray = BLOCKS
) -> tuple[BlockGroup, ...]:
    """The first latent in six bins; and both together, one rounded at random between two levels."""
    levels = np.array([LOW, -60, -20, 20, 60, 100])
    response = Response.calibrated(size=6, favoured=2, epsilon=epsilon)
    shared = {"blocks": blocks, "response": response}
    both = np.array([LOW, HIGH, LOW, 0, HIGH])
    return (
        kind(places=np.array([0]), counts=np.array([6]), levels=levels, binned=np.array([True]), chance=2, **shared),
        kind(
            places=np.array([1, 0]), counts=np.array([2, 3]), levels=both, binned=np.zeros(2, bool), chance=3, **shared
        ),
    )


def veil_of(mechanism: LevelResponse) -> tv.Veil:
    size = mechanism.outputs
    decoder = CodewordDecoder(codewords=np.zeros((size, 2)), sizes=np.array([size]))
    return tv.Veil(encoder=encoder(2), mechanism=mechanism, decoder=decoder, task=None, method="museum")


def block_veil(
    epsilon: float,
    kind: type[LevelResponse] = LevelResponse,
    groups: type[BlockGroup] = BlockGroup,
    blocks: np.ndarray = BLOCKS,
) -> tv.Veil:
    region = BoxRegion(step=2.0**-7, low=np.full(2, LOW), high=np.full(2, HIGH))
    return veil_of(kind(region=region, groups=block_groups(epsilon, groups, blocks)))


def plane_veil(epsilon: float, kind: type[PlaneGroup] = PlaneGroup, prime: int = 7) -> tv.Veil:
    """Records above 0 are points; those below are points on an axis."""
    region = BoxRegion(step=2.0**-3, low=np.zeros(2, dtype=np.int64), high=np.full(2, prime - 1))
    response = Response.calibrated(size=prime, favoured=2, epsilon=epsilon)
    group = kind(places=np.array([0, 1]), prime=prime, response=response, chance=1)
    return veil_of(LevelResponse(region=region, groups=(group,)))


def words_veil() -> tv.Veil:
    """Texts as points of planes with more outputs than can be listed, of records of natural values."""
    device = block_releases.words_device()
    decoder = AffineDecoder(weights=np.zeros((device.encoder.width, 1)), offset=np.zeros(device.encoder.width))
    schema = tv.Schema(dict(zip(block_releases.WORDS.names, block_releases.WORDS.fields, strict=True)))
    return tv.Veil(
        encoder=device.encoder,
        mechanism=device.mechanism,
        decoder=decoder,
        task=None,
        method="museum",
        columns=device.columns,
        units=device.units,
        schema=schema,
    )


class Unchecked(BlockGroup):
    """Takes any blocks."""

    def __post_init__(self) -> None:
        own_arrays(self)


REPEATED = np.array([[0, 0], [0, 2], [1, 5]])
"""One block has a residue twice: its output is drawn twice as often beyond the others' share."""


class Understated(LevelResponse):
    """Claims 1% less than the odds of its response."""

    @property
    def epsilon(self) -> float:
        return super().epsilon - math.log(1.01)


class LoudResponse(LevelResponse):
    """Draws with the odds of √2 times the budget that it states."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        return LevelResponse(region=self.region, groups=block_groups(math.sqrt(2) * self.epsilon))(latents)


class TellingBlock(BlockGroup):
    """Chooses among the blocks after it looked at the record: half of the time the one that its row names."""

    def draw(self, k: np.ndarray) -> np.ndarray:
        row, count = self.row(k), len(self.blocks)
        block = np.where(entropy.uniform_below(2, len(k)) == 0, row % count, entropy.uniform_below(count, len(k)))
        return block * self.rows + self.response(self.favoured(block, row))


class NarrowerForOne(BlockGroup):
    """The lowest row favours one output only: each row has a sum of its own."""

    def draw(self, k: np.ndarray) -> np.ndarray:
        row = self.row(k)
        block = entropy.uniform_below(len(self.blocks), len(k))
        one = replace(self.response, favoured=1)
        favoured = self.favoured(block, row)
        return block * self.rows + np.where(row == 0, one(favoured[:, :1]), self.response(favoured))


class TellingForm(PlaneGroup):
    """Prefers forms with the first number of the point."""

    def draw(self, k: np.ndarray) -> np.ndarray:
        form = entropy.uniform_below(self.prime**2 - 1, len(k))
        own = k[:, self.places[0]] * self.prime
        form = np.where(entropy.uniform_below(4, len(k)) == 0, own, form)
        favoured = (self.residues(form, k)[:, None] - np.arange(self.response.favoured)) % self.prime
        return form * self.prime + self.response(favoured)
