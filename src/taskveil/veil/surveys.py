"""The questions of a survey: what a device reports about, and what its reports say about all people.

A survey asks for some fields. Each is one latent, a *digit*: on the grid of the region, a category is 0 for a value
that is not listed, 1 … k for its values and k + 1 if it is missing; a flag is 0, 1, or 2 if it is missing; a number or
a date is its place between its bounds, from 0 to 1, and 2 if it is missing. A group of the mechanism is a *question*:
it names some digits and levels of each, and its rows are the choices of one level of each digit, the first digit the
highest. People have shares of the rows, and a report has a score whose mean is any statistic of these shares.

**Cyclic blocks are inverted exactly.** Row v is in the block of output (j, s) if (v − s) mod R is in D_j. A score t = m
+ Σ_{v in the block} g(v) with Σ g = 0 has E[t | v] = m + (extra/B) Σ_u A(v − u) g(u), where A is the autocorrelation of
the blocks, added up over j. A is diagonal in the discrete Fourier basis, with the values λ = Σ_j |FFT D_j|². So m the
mean of f and g = FFT⁻¹(FFT(f − m) · B/(extra · λ)) give E[t | v] = f(v) for every row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import BlockGroup, LevelGroup, PlaneGroup
from taskveil.client.networks import LEVELS, levels
from taskveil.client.regions import BoxRegion
from taskveil.errors import DataError
from taskveil.records.schema import Schema
from taskveil.tasks.survey import SurveyTask, kind_of
from taskveil.veil.decoders import SurveyDecoder

GRID_BITS = 24
"""A latent is rounded to this many bits before it is rounded at random to a level: finer than attributes are."""


class Other(Enum):
    """The values that a category does not list."""

    OTHER = "other values"

    def __str__(self) -> str:
        return str(self.value)


OTHER = Other.OTHER


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """What people are asked: `fields`, one for each digit, and the natural values of the `levels` of each.

    A level is a float for numbers and dates (days since 1970), the lower edge for bins, the word of a category, True or
    False, `OTHER` for values that are not listed, and None for missing values. `binned` says which digits are bins.
    `prior` (rows,) are the volunteers' shares of the rows, smoothed.
    """

    fields: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    binned: tuple[bool, ...]
    prior: Floats

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return math.prod(map(len, self.levels))

    @cached_property
    def values(self) -> tuple[Integers, ...]:
        """For each digit the number of its level in every row (rows,)."""
        shape = tuple(map(len, self.levels))
        return tuple(np.indices(shape).reshape(len(shape), -1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Question(Rows):
    """One group of a survey's mechanism: its outputs are the reports from `start` to `start + outputs − 1`.

    A subclass for each class of groups computes what its reports say (`QUESTIONS`).
    """

    group: int
    start: int
    outputs: int
    part: Any
    chance: float
    """The share of all reports that answer this question."""

    vocabulary: ClassVar[bool] = False
    """Whether it is about an open vocabulary, whose words nobody lists."""
    uniform: ClassVar[bool] = False
    """Whether it measures all functionals or none, so that it is enough to try one."""

    @classmethod
    def scales(cls, part: Any, prior: Floats) -> tuple[tuple[Integers, ...], tuple[bool, ...]]:
        """The levels of each digit in grid steps, and whether they are bins; `prior` has a share for each row."""
        raise NotImplementedError

    def scores(self, functionals: Floats) -> Floats:
        """Scores (outputs, t) of reports whose means are the means of `functionals` (rows, t) over people's rows,
        whatever their shares. DataError for a functional that the question does not measure."""
        raise NotImplementedError

    def chances(self) -> Floats:
        """(rows, outputs): the probability of every output for people of each row."""
        raise NotImplementedError

    def expected(self, shares: Floats) -> Floats:
        """(outputs,): the probability of every output if people have these shares (rows,)."""
        return np.asarray(shares @ self.chances())

    def by_row(self, values: Floats) -> Floats:
        """(rows,): the mean of `values` (outputs,) of reports, for people of each row."""
        return np.asarray(self.chances() @ values)

    def by_record(self, values: Floats, k: Integers) -> Floats:
        """(N,): the mean of `values` (outputs,) of reports, for people at digits k (N, d) on the grid."""
        part, found = self.part, self.by_row(values)
        found = found if len(found) == part.rows else np.repeat(found, 2)[: part.rows]  # of bins, in tables
        by_row, record = found[None], np.zeros(len(k), dtype=np.int64)
        for count, below, steps, whole in zip(part.counts, *(array.T for array in part.between(k)), strict=True):
            by_row = by_row.reshape(len(by_row), count, -1)
            up = (steps / whole)[:, None]
            above = np.minimum(below + 1, count - 1)
            by_row, record = (1.0 - up) * by_row[record, below] + up * by_row[record, above], np.arange(len(k))
        return by_row.reshape(len(k))

    def variances(self, functionals: Floats, shares: Floats) -> Floats:
        """(t,): the variance of one report's scores of `functionals` (rows, t) if people have these shares (rows,)."""
        chances = self.expected(shares)
        squares = [chances @ self.scores(functionals[:, some]) ** 2 for some in self.parts(functionals.shape[1])]
        return np.asarray(np.maximum(np.concatenate(squares) - (shares @ functionals) ** 2, 0.0))

    def parts(self, count: int) -> Iterator[slice]:
        """Slices of so many functionals, a few million scores each: those of large cross-tables take gigabytes."""
        step = max(1, (1 << 22) // self.outputs)
        return (slice(start, start + step) for start in range(0, count, step))

    def variance(self, functional: Floats, shares: Floats) -> float:
        """The variance of one report's score of a functional (rows,) if people have these shares (rows,)."""
        return float(self.variances(functional[:, None], shares)[0])

    @property
    def hits(self) -> tuple[float, float]:
        """Of a large vocabulary: how probable it is that a report's block contains a value, for people who have it and
        for people who have another one."""
        raise DataError("only a question about a large vocabulary has these chances.")

    def contained(self, outputs: Integers, points: Integers) -> Integers:  # noqa: ARG002
        """(M,): of a large vocabulary, how many of the outputs (N,), numbered from 0, have each of the `points` (M, 2)
        in their block. (A field's `expand` gives the points of words; `hits` says what to expect.)"""
        raise DataError("only a question about a large vocabulary has points.")


class TableQuestion(Question):
    """A question whose outputs are drawn from the rows of a table."""

    part: LevelGroup

    @classmethod
    def scales(cls, part: Any, prior: Floats) -> tuple[tuple[Integers, ...], tuple[bool, ...]]:
        """A table has bins if it has other rows than the prior."""
        if len(prior) == part.rows:
            return part.scales, (False,) * len(part.scales)
        return (undoubled(part),), (True,)

    def scores(self, functionals: Floats) -> Floats:
        """The scores of least variance under the prior."""
        return exact_scores(self._table, functionals, self.prior)

    def chances(self) -> Floats:
        """The table's rows over their sum."""
        return np.asarray(self._table / self.part.total)

    @property
    def _table(self) -> Integers:
        """(rows, outputs): the table, whose rows come twice for bins (`doubled`)."""
        return self.part.table[::2] if self.binned[0] else self.part.table


class BlockQuestion(Question):
    """A question whose outputs favour the rows of cyclic blocks."""

    part: BlockGroup
    uniform = True

    @classmethod
    def scales(cls, part: Any, prior: Floats) -> tuple[tuple[Integers, ...], tuple[bool, ...]]:  # noqa: ARG003
        """As the group states them."""
        return part.scales, tuple(part.binned.tolist())

    def scores(self, functionals: Floats) -> Floats:
        """The scores that the discrete Fourier transform gives."""
        return block_scores(self.part, functionals)

    def chances(self) -> Floats:
        """The response's chances, for every block alike."""
        return self._answered(np.eye(self.rows)).T

    def expected(self, shares: Floats) -> Floats:
        """Without the table of chances, which is large."""
        return self._answered(shares[:, None])[:, 0]

    def _answered(self, shares: Floats) -> Floats:
        """(outputs, t): the probability of every output for shares (rows, t)."""
        response, own = self.part.response, in_blocks(self.part.blocks, shares)
        return np.asarray((response.base + response.extra * own) / len(self.part.blocks))

    def by_row(self, values: Floats) -> Floats:
        """Without the table of chances: row v favours the outputs (v − d) mod R of block j."""
        response, each = self.part.response, values.reshape(len(self.part.blocks), -1)
        spectra = block_spectra(self.part.blocks, self.rows) * np.fft.fft(each, axis=1)
        favoured = np.fft.ifft(spectra.sum(axis=0)).real
        return np.asarray((response.base * values.sum() + response.extra * favoured) / len(each))


class WordQuestion(Question):
    """A question about a large vocabulary: reports are lines of a plane whose points are the words."""

    part: PlaneGroup
    vocabulary = True

    @classmethod
    def scales(cls, part: Any, prior: Floats) -> tuple[tuple[Integers, ...], tuple[bool, ...]]:  # noqa: ARG003
        """Words have no levels."""
        return (), (False,)

    def scores(self, functionals: Floats) -> Floats:  # noqa: ARG002
        """There are none: a word has to be asked for."""
        raise DataError("a question about a large vocabulary has no list of rows: use `contained`.")

    def chances(self) -> Floats:
        """There are none: nobody lists the words."""
        raise DataError("a question about a large vocabulary has no list of rows: use `contained`.")

    @property
    def hits(self) -> tuple[float, float]:
        """The chances that a block of lines contains a person's own point, and another one."""
        response = self.part.response
        return plane_hits(self.part.prime, response.favoured, response.base, response.extra)

    def contained(self, outputs: Integers, points: Integers) -> Integers:
        """How many blocks (M,) contain each point.

        A form is a multiple u of a direction, (1, a) or (0, 1). The block of (form, s) has the points whose value along
        the direction is (s + d)/u mod p with 0 ≤ d < w. So blocks are counted by value for one direction after the
        other, w steps for each report, and every point adds up the p + 1 directions.
        """
        p, w = self.part.prime, self.part.response.favoured
        inverse = np.array([0, *(pow(u, -1, p) for u in range(1, p))])
        form, s = np.divmod(np.asarray(outputs, dtype=np.int64), p)
        first, second = np.divmod(form + 1, p)
        unit = inverse[np.where(first > 0, first, second)]
        direction = np.where(first > 0, second * unit % p, p)
        order = np.argsort(direction, kind="stable")
        ends = np.searchsorted(direction[order], np.arange(p + 2))
        found = np.zeros(len(points), dtype=np.int64)
        for a in range(p + 1):
            some = order[ends[a] : ends[a + 1]]
            along = (s[some, None] + np.arange(w)) * unit[some, None] % p
            counts = np.bincount(along.ravel(), minlength=p)
            found += counts[(points[:, 0] + a * points[:, 1]) % p if a < p else points[:, 1]]
        return found


QUESTIONS: Mapping[type[Any], type[Question]] = {
    LevelGroup: TableQuestion,
    BlockGroup: BlockQuestion,
    PlaneGroup: WordQuestion,
}
"""The questions of each class of groups."""


def plane_hits(p: int, w: Any, base: Any, extra: Any) -> tuple[Any, Any]:
    """How probable it is that a block of w lines contains the point that a person has, and another one.

    Two points differ along a form by 0 for p − 1 forms and by every other residue for p forms, of p² − 1. Two runs of w
    residues have w in common if they differ by 0, and w² in all over all p differences.
    """
    common = (p * (w * w - w) + (p - 1) * w) / (p * p - 1)
    return w * (base + extra), w * base + extra * common


def block_spectra(blocks: Integers, size: int) -> NDArray[np.complex128]:
    """(B, size): the discrete Fourier transforms of base blocks (B, w) of residues."""
    members = np.zeros((len(blocks), size))
    np.put_along_axis(members, blocks, 1.0, axis=1)
    return np.fft.fft(members, axis=1)


def in_blocks(blocks: Integers, values: Floats) -> Floats:
    """(B·R, t): for every output (j, s) the sum of `values` (R, t) over its block, the rows (s + d) mod R with d in the
    base block j of `blocks` (B, w)."""
    spectra = np.conj(block_spectra(blocks, len(values)))[:, :, None] * np.fft.fft(values, axis=0)
    return np.asarray(np.fft.ifft(spectra, axis=1).real.reshape(-1, values.shape[1]))


def block_scores(part: BlockGroup, functionals: Floats) -> Floats:
    """Scores (outputs, t) whose means are exactly `functionals` (R, t) in every row; DataError if the blocks do not
    tell all rows apart."""
    spectrum = (np.abs(block_spectra(part.blocks, part.rows)) ** 2).sum(axis=0)
    if spectrum[1:].min() <= 1e-9 * spectrum[0]:
        raise DataError("the blocks of a question must tell all of its rows apart.")
    middle = functionals.mean(axis=0)
    gain = len(part.blocks) / (part.response.extra * spectrum)
    values = np.fft.ifft(np.fft.fft(functionals - middle, axis=0) * gain[:, None], axis=0).real
    return np.asarray(middle + in_blocks(part.blocks, values - values.mean(axis=0)))


def exact_values(table: Integers, points: Floats, prior: Floats) -> Floats:
    """The values (R, k) of least expected ‖v‖² under the prior (L,) whose mean is exactly `points` (L, k) at every
    level of the table (L, R), up to the last digits of a double."""
    chances = table / table[0].sum()
    scale = 1.0 / np.sqrt(prior @ chances)
    scaled = chances * scale
    values = np.linalg.lstsq(scaled, points, rcond=None)[0]
    values += np.linalg.lstsq(scaled, points - scaled @ values, rcond=None)[0]
    return np.asarray(values * scale[:, None])


def exact_scores(table: Integers, functionals: Floats, prior: Floats) -> Floats:
    """The `exact_values` (R, t) of functionals (L, t); DataError if the table cannot measure them."""
    values = exact_values(table, functionals, prior)
    off = np.abs(functionals - table / table[0].sum() @ values).max(initial=0.0)
    if off > 1e-9 * (np.abs(functionals).max(initial=0.0) + np.abs(values).max(initial=0.0)):
        raise DataError("the reports of this question do not measure that.")
    return values


def questions(veil: Any) -> tuple[Question, ...]:
    """The questions of the `Veil` of a survey, one for each group of its mechanism; DataError for another veil."""
    if not isinstance(veil.task, SurveyTask) or not isinstance(veil.decoder, SurveyDecoder):
        raise DataError("this release is no survey: its task is no tv.SurveyTask.")
    return questions_of(veil.task, veil.encoder, veil.mechanism, veil.decoder)


def questions_of(task: SurveyTask, encoder: Any | None, mechanism: Any, decoder: SurveyDecoder) -> tuple[Question, ...]:
    """The questions of the parts of a survey; DataError where they do not fit together. Without an encoder, levels of
    numbers are places between their bounds, from 0 to 1."""
    if not hasattr(mechanism, "groups") or not isinstance(encoder, LinearEncoder | None):
        raise DataError("a survey has a linear encoder and a response between levels.")
    latents, draws, start, found = latents_of(task), sum(group.chance for group in mechanism.groups), 0, []
    if len(decoder.priors) != len(mechanism.groups) or mechanism.region.dim != len(latents):
        raise DataError("a survey has a latent for each field, two for words, and a prior for each question.")
    for number, (group, prior) in enumerate(zip(mechanism.groups, decoder.priors, strict=True)):
        names = tuple(dict.fromkeys(latents[place] for place in group.places))
        kind = QUESTIONS[type(group)]
        if kind.vocabulary != any(task.schema[name].side is not None for name in names):
            raise DataError("words, and words alone, are reported as points of a plane.")
        if kind.vocabulary and [latents.index(names[0]), len(names)] != [int(group.places[0]), 1]:
            raise DataError("a plane has the two latents of one field.")
        scales, binned = kind.scales(group, prior)
        values = tuple(
            natural_levels(task, name, steps, edges, encoder)
            for name, steps, edges in zip(names, scales, binned[: len(scales)], strict=False)
        )
        one = kind(
            group=number,
            fields=names,
            levels=values,
            binned=binned,
            start=start,
            outputs=int(group.outputs),
            prior=prior,
            part=group,
            chance=group.chance / draws,
        )
        if prior.shape != (one.rows,):
            raise DataError("the prior of a question has one number for every row.")
        found.append(one)
        start += one.outputs
    return tuple(found)


def latents_of(task: SurveyTask) -> tuple[str, ...]:
    """The field of every latent: one for each field that is asked for, and two for words."""
    return tuple(name for name in task.asked for _ in range(1 if task.schema[name].side is None else 2))


def columns_of(schema: Schema, name: str) -> slice:
    """The numbers of a record that a field becomes."""
    return schema.fields.places[schema.names.index(name)]


def survey_encoder(task: SurveyTask, low: Floats, high: Floats) -> tuple[LinearEncoder, BoxRegion]:
    """The encoder from records whose numbers lie between `low` and `high` (n,) to the digits of a survey, and the
    region of these."""
    rows: list[Floats] = []
    offsets: list[float] = []
    tops: list[int] = []
    for name in task.asked:
        one = task.schema[name]
        if one.side is not None:  # residues are grid steps
            rows += list(np.eye(len(low))[columns_of(task.schema, name)] * 2.0**-GRID_BITS)
            offsets, tops = [*offsets, 0.0, 0.0], [*tops, one.side - 1, one.side - 1]
            continue
        weights, offset, top = _digit(task.schema, name, low, high)
        rows.append(weights)
        offsets.append(offset)
        tops.append(top << GRID_BITS)
    encoder = LinearEncoder.of(low=low, high=high, weights=np.array(rows), offset=np.array(offsets))
    zero = np.zeros(len(tops), dtype=np.int64)
    return encoder, BoxRegion(step=2.0**-GRID_BITS, low=zero, high=np.array(tops, dtype=np.int64))


def _digit(schema: Schema, name: str, low: Floats, high: Floats) -> tuple[Floats, float, int]:
    """Weights (n,), offset and largest value of the digit of a field."""
    one, place, weights = schema[name], columns_of(schema, name), np.zeros(len(low))
    if one.exclusive:
        weights[place] = np.arange(1.0, place.stop - place.start + 1.0)
        return weights, 0.0, place.stop - place.start
    bottom, width = low[place.start], high[place.start] - low[place.start]
    weights[place.start] = 1.0 / width if width > 0 else 0.0
    if one.missing:
        # The fill as devices compute it, so that missing values are exactly 2.
        fill = levels(one.expand([None])[:, :1], low[place][:1], high[place][:1])[0, 0] / LEVELS
        weights[place.stop - 1] = 2.0 - fill
    return weights, -bottom * float(weights[place.start]), 2 if one.missing else 1


def natural_levels(
    task: SurveyTask, name: str, steps: Integers, binned: bool, encoder: LinearEncoder | None
) -> tuple[Any, ...]:
    """The natural values of levels in grid steps; DataError for levels that the field does not have."""
    one, place = task.schema[name], columns_of(task.schema, name)
    if binned:
        edges = task.edges(name)
        values = [] if edges is None else [*edges[:-1].tolist(), *[None] * one.missing]
        if len(values) != len(steps) or (encoder and not np.array_equal(bin_levels(task, name, encoder), steps)):
            raise DataError(f"the levels of {name!r} are not the edges of its histogram.")
        return tuple(values)
    if kind_of(one) == "share":
        words = [OTHER, *one.words] if one.exclusive else [False, True]
        if not np.array_equal(steps, np.arange(len(words) + one.missing) << GRID_BITS):
            raise DataError(f"the levels of {name!r} are not its values.")
        return (*words, *[None] * one.missing)
    ranges = (0.0, 1.0) if encoder is None else (float(encoder.low[place.start]), float(encoder.high[place.start]))
    (low, high), top = ranges, 1 << GRID_BITS
    ends = [0, top, 2 * top] if one.missing else [0, top]
    inner = steps[steps <= top]
    if not set(ends) <= set(steps.tolist()) or len(steps) != len(inner) + one.missing:
        raise DataError(f"the levels of {name!r} do not lie between its bounds.")
    return (*(low + (high - low) * inner / top).tolist(), *[None] * one.missing)


def doubled(bins: Integers, top: int) -> Integers:
    """Levels between which people are rounded at random and yet stay in their bin: of each of the `bins` (grid steps of
    the least values, and of missing values) the least and the largest value. The last bin ends at `top`."""
    inside = bins[bins <= top]
    return np.concatenate([np.stack([inside, np.append(inside[1:] - 1, top)], axis=1).ravel(), bins[bins > top]])


def undoubled(group: LevelGroup) -> Integers:
    """The bins of a table with two rows for each; DataError if these rows differ."""
    bins, rows = group.levels[::2], np.repeat(group.table[::2], 2, axis=0)[: group.rows]
    right = len(group.places) == 1 and np.array_equal(doubled(bins, 1 << GRID_BITS), group.levels)
    if not right or not np.array_equal(rows, group.table):
        raise DataError("a table of bins has two equal rows for each bin.")
    return np.asarray(bins)


def bin_levels(task: SurveyTask, name: str, encoder: LinearEncoder) -> Integers:
    """The levels of the bins of a field in grid steps, the least value first, and that of missing values."""
    edges, one, place = task.edges(name), task.schema[name], columns_of(task.schema, name)
    if edges is None:
        raise DataError(f"{name!r} has no histogram.")
    low, high = encoder.low[place][:1], encoder.high[place][:1]
    inner = levels(edges[1:-1, None], low, high)[:, 0].astype(np.int64) * ((1 << GRID_BITS) // LEVELS)
    found = [0, *inner.tolist(), *[2 << GRID_BITS] * one.missing]
    if sorted(set(found)) != found:
        raise DataError(f"the edges of the histogram of {name!r} are too close to each other.")
    return np.array(found, dtype=np.int64)
