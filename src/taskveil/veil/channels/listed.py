"""The channel of a list of codes: with one chance a report is a code that the device favours, else any code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers, blocks
from taskveil.client.mechanisms import Codebook, Stage
from taskveil.veil.channels.channel import Channel, Codes, Encoded, VolunteerValues


@dataclass(frozen=True, eq=False)
class ListedChannel(Channel):
    """Codes are counted: the share of people whose device favours each code is measured."""

    mechanism: Codebook

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """Reports (N, 1): a favoured code with probability m · extra, else any code."""
        response, rows = self.mechanism.response, np.arange(len(latents))
        favoured = self.favoured(latents)[rows, rng.integers(response.favoured, size=len(rows))]
        anything = rng.integers(response.size, size=len(rows))
        truthful = rng.random(len(rows)) < response.favoured * response.extra
        return np.where(truthful, favoured, anything)[:, None]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of the one list."""
        return (self.mechanism.response.size,)

    @property
    def codes(self) -> Codes:
        """How counts give shares of people: a person has the m codes that the device favours."""
        response = self.mechanism.response
        names = tuple(f"code {code}" for code in range(response.size))
        return Codes(np.full(response.size, response.base), response.extra, response.favoured, names)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the shares add up to, if several codes are favoured."""
        m, size = self.mechanism.response.favoured, self.mechanism.response.size
        more = f"Every device favours {m} of {size} codes, so the shares of the codes add up to {m * 100}%."
        return (more,) if m > 1 else ()

    def favoured(self, latents: Floats) -> Integers:
        """The codes (N, m) of highest score."""
        return self.mechanism.stage.favoured(self.mechanism.region.enforce(latents))

    def mean_over_codes(self, values: Floats, latents: Floats) -> Floats:
        """(N,): b/T times the values of all codes, and (a − b)/T times those of the favoured ones."""
        of_favoured = np.take_along_axis(values, self.favoured(latents), axis=1).sum(axis=1)
        response = self.mechanism.response
        return np.asarray(response.extra * of_favoured + response.base * values.sum(axis=1))

    def measured(self, records: Encoded) -> VolunteerValues:
        """1 for each code that a volunteer's device would favour if the volunteer had no part in the design."""
        size, latents, variance, corrected = self.mechanism.response.size, records.latents, None, None
        unseen = latents
        if records.refits is not None:
            without, fold = records.refits
            unseen = without[fold, np.arange(len(latents))]
            own, *others = (_indicators(self.favoured(each), size) for each in (latents, *without))
            corrected, variance = as_new_people(own, np.array(others), fold)
        favoured = _coded_as_others(self.mechanism.stage, self.mechanism.region.enforce(unseen))
        return VolunteerValues(
            _indicators(favoured, size),
            variance=np.zeros(size) if variance is None else variance,
            best=favoured[:, 0],
            places=self.mechanism.stage.vectors.astype(np.float64),
            corrected=corrected,
        )


def _coded_as_others(stage: Stage, k: Integers) -> Integers:
    """The codes (V, m) that volunteers at k (V, d) would favour had they no part in the codewords, the best first.

    A codeword that is the mean of the volunteers who favour it is c_k = ((a − b) Σ_{i favours k} z_i + b Σ_i z_i) /
    ((a − b) n_k + b V). Volunteer i has the part g_k = a/((a − b) n_k + b V) in it; without the volunteer it would be
    (c_k − g_k z_i)/(1 − g_k), farther away by the factor 1/(1 − g_k). Without this correction, many codewords for few
    volunteers fit the volunteers better than they fit other people. Scores of other costs are taken as they are.
    """
    favoured, middle = stage.favoured(k), stage.vectors / 2.0
    squares = (middle**2).sum(axis=1)
    if not np.array_equal(stage.offsets, -squares):
        return favoured
    response, points = stage.response, k.astype(np.float64)
    counts = np.bincount(favoured.ravel(), minlength=response.size)
    part = (response.extra + response.base) / np.maximum(response.extra * counts + response.base * len(k), 1e-300)
    left = np.where(counts > 1, 1.0 - part, 0.0)[favoured]
    best = np.empty_like(favoured)
    for some in blocks(len(k), len(middle)):
        distances = (points[some] ** 2).sum(axis=1)[:, None] - 2.0 * points[some] @ middle.T + squares
        own = np.take_along_axis(distances, favoured[some], axis=1)
        own = np.where(left[some] > 0, own / np.where(left[some] > 0, left[some], 1.0) ** 2, np.inf)
        np.put_along_axis(distances, favoured[some], own, axis=1)
        best[some] = np.argsort(distances, axis=1, kind="stable")[:, : favoured.shape[1]]
    return best


def _indicators(favoured: Integers, size: int) -> Floats:
    """(V, K): 1 for the codes that each volunteer favours (V, m), else 0."""
    found = np.zeros((len(favoured), size))
    np.put_along_axis(found, favoured, 1.0, axis=1)
    return found


def as_new_people(own: Floats, without: Floats, fold: Integers) -> tuple[Floats, Floats]:
    """Codes (V, K) of the volunteers whose means over groups are those of new people like them, and the variance (K,)
    of the correction's mean over all volunteers.

    Args:
        own: the codes by the released encoder (V, K). Their means are biased: the encoder learnt from these volunteers.
        without: the codes by the encoders that were fitted without each of F folds (F, V, K).
        fold: every volunteer's fold (V,).

    Codes by the encoder without the own fold are not biased, but they are those of other encoders: a small change of
    an encoder can move all people with equal records to another code. So the bias is measured on these encoders, by the
    difference between volunteers whom the encoder has not seen and those whom it has, and taken off `own`. This
    correction is a mean over the folds, so its variance is that of the folds' means over their number.
    """
    folds, rows = len(without), np.arange(len(own))
    unseen = without[fold, rows]
    correction = unseen - (without.sum(axis=0) - unseen) / (folds - 1)
    means = np.array([correction[fold == part].mean(axis=0) for part in np.unique(fold)])
    variance = means.var(axis=0, ddof=1) / len(means) if len(means) > 1 else np.zeros(own.shape[1])
    return own + correction, np.asarray(variance)
