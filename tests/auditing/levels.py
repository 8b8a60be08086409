"""Responses between levels: a sound one, and what can go wrong with tables, groups and rounding by lot."""

from __future__ import annotations

import math

import numpy as np

import taskveil as tv
from auditing.exhibits import encoder
from taskveil.client import entropy
from taskveil.client.mechanisms import LevelGroup, LevelResponse
from taskveil.client.promise import floor_exp_times
from taskveil.client.regions import BoxRegion
from taskveil.veil.decoders import CodewordDecoder

LOW, HIGH = -128, 128


def level_groups(epsilon: float, kind: type[LevelGroup] = LevelGroup) -> tuple[LevelGroup, ...]:
    """The first latent alone, on three levels; and both together, each of their corners with an output of its own."""
    b = 2**30
    a = floor_exp_times(epsilon, b)
    alone = np.array([[a, b], [(a + b) // 2, a + b - (a + b) // 2], [b, a]])
    corners = np.full((4, 4), b) + (a - b) * np.eye(4, dtype=np.int64)
    return (
        kind(places=np.array([0]), counts=np.array([3]), levels=np.array([LOW, 10, HIGH]), table=alone, chance=2),
        kind(
            places=np.array([1, 0]), counts=np.array([2, 2]), levels=np.array([LOW, HIGH] * 2), table=corners, chance=3
        ),
    )


def level_veil(
    epsilon: float, kind: type[LevelResponse] = LevelResponse, groups: type[LevelGroup] = LevelGroup
) -> tv.Veil:
    region = BoxRegion(step=2.0**-7, low=np.full(2, LOW), high=np.full(2, HIGH))
    decoder = CodewordDecoder(codewords=np.zeros((6, 2)), sizes=np.array([6]))
    mechanism = kind(region=region, groups=level_groups(epsilon, groups))
    return tv.Veil(encoder=encoder(2), mechanism=mechanism, decoder=decoder, task=None, method="museum")


class NearestLevel(LevelGroup):
    """Rounds to the nearest level without a lot: biased, and as private as before."""

    def between(self, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        below, part, whole = super().between(k)
        return below + (2 * part >= whole), 0 * part, whole


class Understated(LevelResponse):
    """Claims the ε of a table whose largest ratio is 1% less."""

    @property
    def epsilon(self) -> float:
        return super().epsilon - math.log(1.01)


class LoudTables(LevelResponse):
    """Draws from tables of √2 times the budget that it states."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        return LevelResponse(region=self.region, groups=level_groups(math.sqrt(2) * self.epsilon))(latents)


class TellingGroup(LevelResponse):
    """Asks for the group that the record has most to say about."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        k = self.region.enforce(latents)
        alone, together = (group.draw(k) for group in self.groups)
        return np.where(np.abs(k[:, 0]) > np.abs(k[:, 1]), alone, 2 + together)[:, None]


class UnevenRows(LevelGroup):
    """The lowest levels favour all outputs but the last, with the same two weights: each row has a sum of its own."""

    def draw(self, k: np.ndarray) -> np.ndarray:
        table = self.table.copy()
        table[0, :-1] = table.max()
        numbers = zip(self.counts, *(array.T for array in self.between(k)), strict=True)
        row = np.zeros(len(k), dtype=np.int64)
        for count, below, part, whole in numbers:
            row = row * count + below + entropy.bernoulli(part, whole)
        drawn = np.empty(len(k), dtype=np.int64)
        for number, total in enumerate(table.sum(axis=1).tolist()):
            drawn[row == number] = entropy.uniform_below(total, int((row == number).sum()))
        return (np.cumsum(table, axis=1)[row] <= drawn[:, None]).sum(axis=1)
