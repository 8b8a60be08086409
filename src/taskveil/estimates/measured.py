"""What reports measure: rows that hold for every population, with nothing assumed about the people who answered.

- A list of codes: the share of people whose device favours each code, from the counts. They add up to m.
- Sums of codebooks: the share of people with each code of each stage, and the mean codeword.
- Lattices: the mean codeword.
- Laplace and Gaussian noise: the means of the bounded latents.
- Levels: means of attributes, shares of categories, and the answers of the task.
- Vectors in a ball: means of attributes, and the answers of the task.
- A constant: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax, stdtrit

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.latent_encoders import AttributeEncoder, LinearEncoder
from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates import drift
from taskveil.estimates.intervals import anytime_limits, anytime_sum_limits, exact_limits
from taskveil.estimates.labels import Label
from taskveil.estimates.rows import SCARCE, Row, attribute_labels, grouped, labels_of, rows_of
from taskveil.estimates.scores import Tally
from taskveil.tasks.linear import MatrixTask
from taskveil.veil import Veil
from taskveil.veil.channels import Codes, UnbiasedScores, channel_of
from taskveil.veil.decoders import CodewordDecoder
from taskveil.veil.volunteers import missing_in

UNTOLD = 1e-4
"""The share of a mean that the latents need not determine: devices round weights to whole numbers."""
FEWEST_SUMMED = 100
"""Reports that Student's limits need at least: among few reports a rare one may not have come yet."""
CONSTANT = (
    "Reports of this release carry no information, because its design found no better answer than a constant. There is "
    "nothing to estimate. For means and shares, collect with a release for tv.MeanTask(K)."
)
FEWEST_COMPARED = 300
"""Reports from which on means are compared with the volunteers': of 100, the test raised in 11% of collections."""
WORDS = {"date": ("later", "earlier"), "share": ("more frequent", "less frequent")}
"""How means of a kind differ; numbers are higher or lower."""
WITHOUT_VOLUNTEERS = drift.Drift(
    words="The release keeps no sums over its volunteers, so people are not compared with them."
)


class Rule(NamedTuple):
    """Which limits are wanted: for reports that are looked at once, or at all times at once."""

    anytime: bool
    confidence: float

    def limits(self, counts: Integers, values: Floats, weights: Floats | None = None) -> tuple[float, float]:
        """Low and high, as of `exact_limits`."""
        found = anytime_limits if self.anytime else exact_limits
        return found(counts, values, weights, confidence=self.confidence)


def measured(veil: Veil, tally: Tally, rule: Rule) -> tuple[dict[str, tuple[Row, ...]], drift.Drift, tuple[str, ...]]:
    """Rows by kind, the test whether people differ from the volunteers in them, and sentences about them."""
    channel = channel_of(veil.mechanism, veil.decoder)
    if veil.method == "constant":
        return {}, drift.Drift(words="Nothing is compared with the volunteers."), (CONSTANT,)
    if channel.unbiased:
        found = _records(veil, tally, rule) if channel.scores is None else _vectors(veil, tally, channel.scores, rule)
        return *found, channel.notes
    groups: dict[str, tuple[Row, ...]] = {}
    drifted, codes = WITHOUT_VOLUNTEERS, channel.codes
    if codes is not None and tally.codes is not None:  # earlier versions did not count the codes of sums
        rows = groups["frequencies"] = _frequencies(veil, tally, codes, rule)
        if veil.volunteers is not None and channel.listed:
            drifted = moved_rows(*drift.of_codes(tally.codes, codes.outside, codes.kept, veil.volunteers), rows)
    if channel.scores is not None:
        # Codewords were fitted to the volunteers: their codes are not those of other people, mean codewords are.
        groups["reported"], drifted = _reported(veil, tally, channel.scores, rule)
    return groups, drifted, channel.notes


def _frequencies(veil: Veil, tally: Tally, codes: Codes, rule: Rule) -> tuple[Row, ...]:
    """The share of people with each code."""
    counts, outside, kept = tally.codes, codes.outside, codes.kept
    assert counts is not None  # noqa: S101 - mechanisms with codes count them
    values = np.array([0.0, 1.0])
    limits = np.array([rule.limits(np.array([tally.count - count, count]), values) for count in counts.tolist()])
    low, high = (limits.T - outside) / kept
    own = np.full(len(counts), np.nan) if veil.volunteers is None else veil.volunteers.mean
    mean, spread = (counts / tally.count - outside) / kept, np.sqrt(np.clip(own * (1.0 - own), 0.0, None))
    words = zip(codes.names, _meanings(veil, len(counts)), strict=True)
    labels = [Label(name + meaning, "share", bounds=(0.0, 1.0)) for name, meaning in words]
    return rows_of(labels, mean, low, high, own, spread, np.full(len(counts), 1.0 / kept))


def _meanings(veil: Veil, size: int) -> list[str]:
    """The answer that every code stands for, in brackets, where that is one class or one value."""
    outputs, meaning = veil.outputs, [""] * size
    if isinstance(veil.answering, CodewordDecoder) and len(veil.answering.sizes) == 1 and outputs is not None:
        answers = veil.answering.codewords
        if outputs.shares.all() and len(outputs.names) > 1 and answers.shape[1] == len(outputs.names):
            chances = softmax(answers, axis=1)
            meaning = [f" ({outputs.names[chance.argmax()]}, {100 * chance.max():.0f}%)" for chance in chances]
        elif len(outputs.names) == answers.shape[1] == 1:
            meaning = [f" ({outputs.names[0]} = {answer:.4g})" for (answer,) in answers.tolist()]
    return meaning


def _records(veil: Veil, tally: Tally, rule: Rule) -> tuple[dict[str, tuple[Row, ...]], drift.Drift]:
    """Means and shares from reports that are unbiased for the record itself."""
    decoder, task, counts = veil.decoder, veil.task, tally.codes
    if not isinstance(decoder, CodewordDecoder) or counts is None:
        raise DataError("this release does not decode its reports to records.")
    n = veil.encoder.width
    weighed = np.vstack([np.eye(n), *([task.K] if isinstance(task, MatrixTask) else [])])
    labels, shown = list(labels_of(veil))[: len(weighed)], measures(veil, weighed)
    values = decoder.codewords @ weighed.T
    weights = np.ones_like(values)
    known_missing = [one for one in missing_in(veil.schema) if shown[one.flag]]
    for place, flag, fill in known_missing:
        weights[:, place] -= values[:, flag]
        values[:, place] -= fill * values[:, flag]
    for place, _, fill in set(missing_in(veil.schema)) - set(known_missing):  # how many have a value is not measured
        label = labels[place]
        labels[place] = label._replace(name=f"{label.short} (missing values count as {label.said(fill, 0.0)})")
    share = counts / tally.count
    present = share @ weights
    present[present < SCARCE] = np.nan
    mean = share @ values / present
    forged = np.nan_to_num(np.ptp((values - mean * weights) / present, axis=0), nan=np.inf)
    limits = [rule.limits(counts, *columns) for columns in zip(values.T, weights.T, strict=True)]
    low, high = np.where(np.isnan(mean), [[-np.inf], [np.inf]], np.array(limits).T)
    known = veil.volunteers
    own, variance = np.full((2, len(labels)), np.nan)
    if known is not None:
        own, variance = np.array(known.cells.with_answers(task).overall(known_missing))[:, : len(labels)]
    answer = np.arange(len(labels)) >= n
    some = {place for place, _, _ in known_missing}
    rows = rows_of(labels, mean, low, high, own, np.sqrt(variance), forged)
    rows = tuple(row._replace(ratio=place in some) for place, row in enumerate(rows))
    groups = grouped(rows, attributes=shown & ~answer, answers=shown & answer)
    if known is None or "attributes" not in groups:
        return groups, WITHOUT_VOLUNTEERS
    if tally.count < FEWEST_COMPARED:
        return groups, drift.Drift(words=f"Fewer than {FEWEST_COMPARED} reports are not compared with the volunteers.")
    # Compared column by column; a number that may be missing, by its distance from the volunteers' mean of those who
    # have one, which is zero for all others: how many have a value is a column of its own.
    centre = own.copy()
    for place, flag, _ in known_missing:
        values[:, place] -= own[place] * weights[:, place]
        centre[place], variance[place] = 0.0 * own[place], variance[place] * (1.0 - own[flag])
    places = np.flatnonzero(shown & ~answer & np.isfinite(centre))
    compared = [rows[place] for place in places.tolist()]
    bounds = np.array([row.label.bounds for row in compared]).reshape(-1, 2).T
    mean = share @ values[:, places]
    away = values[:, places] - mean
    errors = (away.T * share) @ away / max(tally.count - 1, 1)
    volunteers = (centre[places], variance[places], known.count)
    return groups, moved_rows(*drift.of_means(mean, errors, tally.count, *volunteers, bounds), compared)


def measures(veil: Veil, K: Floats) -> Bools:
    """(t,): whether the latents of a release determine Kx, K (t, n). What they do not determine decodes to the
    volunteers' mean for everybody."""
    encoder = veil.encoder
    if isinstance(encoder, AttributeEncoder):
        return np.asarray((np.delete(K, encoder.places, axis=1) == 0).all(axis=1))
    if not isinstance(encoder, LinearEncoder):
        return np.ones(len(K), dtype=bool)
    # In shares of the attributes' ranges, whatever their units.
    rows, wanted = encoder.weights.astype(np.float64), K * (encoder.high - encoder.low)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    apart = (rows[list(channel_of(veil.mechanism, veil.decoder).nominal)] != 0).any(axis=0)
    rows = np.vstack([rows, np.eye(rows.shape[1])[apart]])  # every value of these columns is reported
    left = wanted - wanted @ np.linalg.pinv(rows) @ rows
    return np.asarray(np.linalg.norm(left, axis=1) <= UNTOLD * np.linalg.norm(wanted, axis=1))


def _vectors(
    veil: Veil, tally: Tally, scores: UnbiasedScores, rule: Rule
) -> tuple[dict[str, tuple[Row, ...]], drift.Drift]:
    """Means from sums of vectors that are unbiased for the record itself. Where only squares were added up, answers
    that weigh several attributes are left out: their variance is not known."""
    n, known, task, count = veil.encoder.width, veil.volunteers, veil.task, tally.count
    mean, covariance = _summed(scores, tally)
    weighed = np.vstack([np.eye(n), *([task.K] if isinstance(task, MatrixTask) else [])])
    labels, shown = list(labels_of(veil))[: len(weighed)], measures(veil, weighed)
    if covariance.ndim == 1:
        shown &= np.count_nonzero(weighed, axis=1) <= 1
        variance = weighed**2 @ covariance
    else:
        variance = np.einsum("ti,ij,tj->t", weighed, covariance, weighed)
    means, spans = weighed @ mean, np.abs(weighed) @ scores.spans
    low, high = _sum_limits(means, variance, count, spans, scores, rule)
    own, spread = np.full((2, len(labels)), np.nan)
    if known is not None:
        own, own_variance = np.array(known.cells.with_answers(task).overall([]))[:, : len(labels)]
        spread = np.sqrt(own_variance)
    answer, rows = np.arange(len(labels)) >= n, rows_of(labels, means, low, high, own, spread, spans)
    groups = grouped(rows, attributes=shown & ~answer, answers=shown & answer)
    if known is None:
        return groups, WITHOUT_VOLUNTEERS
    if count < FEWEST_COMPARED:
        return groups, drift.Drift(words=f"Fewer than {FEWEST_COMPARED} reports are not compared with the volunteers.")
    places = np.flatnonzero(shown & ~answer)
    errors = np.diag(covariance[places]) if covariance.ndim == 1 else covariance[np.ix_(places, places)]
    compared = [rows[place] for place in places.tolist()]
    volunteers = (own[places], spread[places] ** 2, known.count)
    return groups, moved_rows(*drift.of_means(means[places], errors / count, count, *volunteers), compared)


def _summed(scores: UnbiasedScores, tally: Tally) -> tuple[Floats, Floats]:
    """`moments` of enough reports."""
    if tally.count < FEWEST_SUMMED:
        raise TooFewReportsError(
            f"{tally.count} reports are too few: sums of reports of this release need at least {FEWEST_SUMMED}."
        )
    return moments(scores, tally)


def _sum_limits(
    mean: Floats, variance: Floats, count: int, spans: Floats, scores: UnbiasedScores, rule: Rule
) -> tuple[Floats, Floats]:
    """Low and high (t,) for means (t,) of so many scores with this variance (t,) and range (t,)."""
    if rule.anytime:
        flat = (spans == 0) & (scores.noise is None)  # the same for everybody
        wide = np.where(flat, 1.0, spans)
        limits = anytime_sum_limits(
            mean * count, count, wide, noise=scores.noise, most=scores.largest_rate, confidence=rule.confidence
        )
        low, high = np.where(flat, mean, limits)
        return low, high
    reach = stdtrit(max(count - 1, 1), (1 + rule.confidence) / 2) * np.sqrt(variance / count)
    return mean - reach, mean + reach


def _reported(veil: Veil, tally: Tally, scores: UnbiasedScores, rule: Rule) -> tuple[tuple[Row, ...], drift.Drift]:
    """Means of unbiased scores, from their sums, and whether they differ from the volunteers'."""
    known, count, spans = veil.volunteers, tally.count, scores.spans
    mean, covariance = _summed(scores, tally)
    names = scores.names or [f"mean codeword: {label.name}" for label in attribute_labels(veil)]
    labels, forged = [Label(name) for name in names], spans if scores.forged is None else scores.forged
    low, high = _sum_limits(mean, np.diag(covariance), count, spans, scores, rule)
    if known is None:
        return rows_of(labels, mean, low, high, *np.full((2, len(mean)), np.nan), forged), WITHOUT_VOLUNTEERS
    own = known.mean if scores.weights is None else known.mean @ scores.weights
    rows = rows_of(labels, mean, low, high, own, np.sqrt(known.variance), forged)
    return rows, moved_rows(*drift.of_means(mean, covariance / count, count, own, known.variance, known.count), rows)


def moments(scores: UnbiasedScores, tally: Tally) -> tuple[Floats, Floats]:
    """The people's mean of u (p,), and the covariance (p, p) of one person's score of it, or the variances (p,) where
    only squares were added up.

    A sum of N numbers is exact to N roundings. So much is added to the variances: if the mean is far larger than the
    spread, the difference of two large sums says nothing more.
    """
    count, mean, square = tally.count, tally.total / tally.count, tally.square / tally.count
    alone = square.ndim == 1
    rounding = np.finfo(np.float64).eps * (tally.square if alone else np.diag(np.diag(tally.square)))
    centred = square - (mean**2 if alone else np.outer(mean, mean))
    return mean / scores.kept, (centred + rounding) * count / max(count - 1, 1) / scores.kept**2


def moved_rows(z: Floats, simulated: Floats, rows: Sequence[Row]) -> drift.Drift:
    """The test of z (t,) against simulated ones, with a sentence for each row."""
    changes = []
    for row in rows:
        _, mean, limits, own, _ = row.inside().cells
        word = WORDS.get(row.label.kind, ("higher", "lower"))[int(row.mean <= row.volunteers)]
        changes.append(f"{row.label.short} is {word}: {mean} [{limits.replace(' … ', ', ')}] instead of {own}")
    return drift.drift_of(z, simulated, [row.label.short for row in rows], changes)
