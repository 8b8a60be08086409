"""What codewords would say of a volunteer if they had not been made for that volunteer.

Codewords are means of the volunteers who favour them: codeword k, with n_k of V volunteers, is

    c_k = ((a − b) Σ_{i favours k} z_i + b Σ_i z_i) / ((a − b) n_k + b V),

so volunteer i has a part g_k = a/((a − b) n_k + b V) in each codeword that it favours, and without it there would be
(c_k − g_k z_i)/(1 − g_k) instead: farther away by 1/(1 − g_k); a codeword that nobody else favours would not be there.
Other people had no part in any codeword. Where there are many codewords for few volunteers, those in the tails have
codewords nearly to themselves, are told better than anybody else will be, and estimates that take them for other people
are biased: with 158 codewords for 300 records of a long tail, 95% intervals held in 47 of 100 collections. Read as if
they were left out, in more than 80; with 473 codewords for 1,500 in 95 instead of 92.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms.codebook import Stage

_TIMES = 10.0  # a direction is told if volunteers differ in it by so many times what leaving one out changes


def told_of_strangers(stage: Stage, k: Integers, table: Floats, known: Floats, everybody: int) -> Floats:
    """u (V, p) of volunteers, the sum of what their favoured codewords stand for, each volunteer left out in turn.

    Args:
        stage: whose codewords were made for these volunteers.
        k: the volunteers' latents on the grid (V, d).
        table: what every codeword stands for (K, p).
        known: the same of every volunteer (V, p): codewords are means of these.
        everybody: how many volunteers codewords were made for, of whom these are some drawn by lot.
    """
    response, favoured = stage.response, stage.favoured(k)
    alike = np.bincount(favoured.ravel(), minlength=response.size) - 1.0
    count = 1.0 + np.maximum(alike, 0.0) * (max(everybody, len(k)) / len(k))  # one's own is certain, others are scaled
    part = (response.extra + response.base) / (response.extra * count + response.base * everybody)
    part = np.where(alike > 0, part, 1.0)
    others = _nearest_without(stage, k, favoured, part)
    own = np.where((others[:, :, None] == favoured[:, None, :]).any(axis=2), part[others], 0.0)[:, :, None]
    own = np.where(own < 1.0, own, 0.0)  # with fewer codewords than people favour, one may stay alone with one
    without = own / (1.0 - own) * (table[others] - known[:, None, :])
    told = table[others].sum(axis=1)
    return np.asarray(told + _small(without.sum(axis=1), told, known.std(axis=0)))


def _small(changes: Floats, told: Floats, spread: Floats) -> Floats:
    """The part of `changes` (V, p) in directions in which they are small against what is `told` (V, p), every column in
    its `spread` (p,) among volunteers: where codewords hardly differ, changes would be all there is."""
    scale = np.where(spread > 0, spread, 1.0)
    _, _, axes = np.linalg.svd((told - told.mean(axis=0)) / scale, full_matrices=False)
    kept = axes[(told / scale @ axes.T).std(axis=0) > _TIMES * (changes / scale @ axes.T).std(axis=0)]
    return np.asarray(changes / scale @ kept.T @ kept * scale)


def _nearest_without(stage: Stage, k: Integers, favoured: Integers, part: Floats) -> Integers:
    """The codewords (V, m) that volunteers would favour had they no part (K,) in any; the same `favoured` ones (V, m)
    where the favoured are not the nearest but, say, the likeliest."""
    middle = stage.vectors / 2.0
    squares = (middle**2).sum(axis=1)
    if not np.array_equal(stage.offsets, -squares):
        return favoured
    points = k.astype(np.float64)
    distances = (points**2).sum(axis=1)[:, None] - 2.0 * points @ middle.T + squares
    left = 1.0 - part[favoured]
    theirs = np.take_along_axis(distances, favoured, axis=1) / np.where(left > 0, left, 1.0) ** 2
    theirs = np.where(left > 0, theirs, np.inf)
    np.put_along_axis(distances, favoured, theirs, axis=1)
    return np.argsort(distances, axis=1, kind="stable")[:, : favoured.shape[1]]
