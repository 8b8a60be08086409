"""What reports measure: rows that hold for every population, with nothing assumed about the people who answered.

- A list of codes: the share of people whose device favours each code, from the counts. They add up to m.
- Sums of codebooks: the share of people with each code of each stage, and the mean codeword.
- Lattices: the mean codeword.
- Laplace: the means of the bounded latents.
- Levels: means of attributes, shares of categories, and the answers of the task.
- A constant: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import softmax, stdtrit

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Laplace, LevelResponse, SumCodebook
from taskveil.decoders import CodewordDecoder
from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates import drift
from taskveil.estimates.limits import anytime_limits, anytime_sum_limits, exact_limits
from taskveil.estimates.rows import SCARCE, Row, attribute_labels, labels_of, rows_of
from taskveil.estimates.scores import Scores, Tally
from taskveil.labels import Label
from taskveil.tasks.linear import MatrixTask
from taskveil.veil import Veil
from taskveil.volunteers import missing_in

UNTOLD = 1e-4
"""The share of a mean that latents may leave open: devices round weights to whole numbers."""


FEWEST_SUMMED = 100
"""Reports that Student's limits need at least: among few reports a rare one may not have come yet."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which limits are wanted: for reports that are looked at once, or at all times at once."""

    anytime: bool
    confidence: float

    def limits(self, counts: Integers, values: Floats, weights: Floats | None = None) -> tuple[float, float]:
        """Limits for the mean of `values` (K,) over codes with these counts (K,); with `weights` (K,), for the ratio of
        both means."""
        found = anytime_limits if self.anytime else exact_limits
        return found(counts, values, weights, confidence=self.confidence)


def measured(veil: Veil, scores: Scores, tally: Tally, rule: Rule) -> tuple[dict[str, tuple[Row, ...]], drift.Drift]:
    """Rows by kind, and the test whether people differ from the volunteers in them."""
    match veil.mechanism:
        case Codebook(stages=(stage,)):
            response = stage.response
            return _codes(veil, scores, tally, (response.base,), response.extra, _meanings(veil, response.size), rule)
        case LevelResponse():
            return _levels(veil, tally, rule)
        case SumCodebook() as sums:
            kept, sizes = sums.response.extra, scores.sizes
            labels = [
                Label(f"stage {stage}, code {code}", "share", bounds=(0.0, 1.0))
                for stage, size in enumerate(sizes, 1)
                for code in range(size)
            ]
            groups: dict[str, tuple[Row, ...]] = {}
            if tally.codes is not None:  # earlier versions did not count them
                groups = _codes(veil, scores, tally, [(1.0 - kept) / size for size in sizes], kept, labels, rule)[0]
            group = _reported(veil, scores, tally, rule)
            # Codewords were fitted to the volunteers: their codes are not those of other people, mean codewords are.
            return {**groups, "reported": group}, _drift_of_sums(veil, scores, tally, group)
        case _:
            group = _reported(veil, scores, tally, rule)
            return {"reported": group}, _drift_of_sums(veil, scores, tally, group)


def notes_of(veil: Veil) -> tuple[str, ...]:
    """Sentences about the measured rows of a release."""
    match veil.mechanism:
        case Codebook(stages=(stage,)) if stage.response.favoured > 1:
            m, size = stage.response.favoured, stage.response.size
            return (f"Every device favours {m} of {size} codes, so the shares of the codes add up to {m * 100}%.",)
        case LevelResponse():
            return ("Values outside the release's domain count as the nearest value inside.",)
        case _:
            return ()


def _codes(
    veil: Veil, scores: Scores, tally: Tally, base: Sequence[float], kept: float, labels: Sequence[Label], rule: Rule
) -> tuple[dict[str, tuple[Row, ...]], drift.Drift]:
    """How many people have each code, of one stage or several; `base` is the chance of any other code of a stage."""
    counts = tally.codes
    assert counts is not None  # noqa: S101 - mechanisms with codes count them
    outside = np.repeat(base, scores.sizes)
    values = np.array([0.0, 1.0])
    limits = np.array([rule.limits(np.array([tally.count - count, count]), values) for count in counts.tolist()])
    low, high = (limits.T - outside) / kept
    known = veil.volunteers
    own = np.full(len(counts), np.nan) if known is None else known.mean
    mean, spread = (counts / tally.count - outside) / kept, np.sqrt(np.clip(own * (1.0 - own), 0.0, None))
    rows = rows_of(labels, mean, low, high, own, spread, np.full(len(counts), 1.0 / kept))
    found = _without_volunteers()
    if known is not None and len(base) == 1:
        z, simulated = drift.of_codes(counts, base[0], kept, known.cells)
        found = _drift(z, simulated, rows)
    return {"frequencies": rows}, found


def _meanings(veil: Veil, size: int) -> list[Label]:
    """Of every code, its number and the answer that it stands for, where that is one class or one value."""
    outputs, meaning = veil.outputs, [""] * size
    if isinstance(veil.answering, CodewordDecoder) and outputs is not None:
        answers = veil.answering.codewords
        if outputs.shares.all() and len(outputs.names) > 1 and answers.shape[1] == len(outputs.names):
            chances = softmax(answers, axis=1)
            best = chances.argmax(axis=1)
            meaning = [
                f" ({outputs.names[place]}, {100 * chance[place]:.0f}%)"
                for place, chance in zip(best.tolist(), chances, strict=True)
            ]
        elif len(outputs.names) == answers.shape[1] == 1:
            meaning = [f" ({outputs.names[0]} = {answer:.4g})" for (answer,) in answers.tolist()]
    return [Label(f"code {code}{words}", "share", bounds=(0.0, 1.0)) for code, words in enumerate(meaning)]


def _levels(veil: Veil, tally: Tally, rule: Rule) -> tuple[dict[str, tuple[Row, ...]], drift.Drift]:
    """Means and shares from reports that are unbiased for the record itself."""
    decoder, task, counts = veil.decoder, veil.task, tally.codes
    if not isinstance(decoder, CodewordDecoder) or counts is None:
        raise DataError("this release does not decode its reports to records.")
    labels, n = list(labels_of(veil)), veil.encoder.width
    weighed = np.vstack([np.eye(n), *([task.K] if isinstance(task, MatrixTask) else [])])
    labels, shown = labels[: len(weighed)], measures(veil, weighed)
    values = decoder.codewords @ weighed.T
    weights: dict[int, Floats] = {}
    known_missing = [one for one in missing_in(veil.schema) if shown[one.flag]]
    for place, flag, fill in known_missing:
        weights[place] = 1.0 - values[:, flag]
        values[:, place] = values[:, place] - fill * values[:, flag]
    for place, _, fill in set(missing_in(veil.schema)) - set(known_missing):  # how many have a value is not measured
        label = labels[place]
        labels[place] = label._replace(name=f"{label.short} (missing values count as {label.said(fill, 0.0)})")
    columns = [(values[:, place], weights.get(place)) for place in range(len(labels))]
    rows = [_ratio(counts, *column, rule) for column in columns]
    known = veil.volunteers
    own, spread = np.full((2, len(labels)), np.nan)
    if known is not None:
        own, variance = known.cells.with_answers(task).overall(known_missing)
        spread = np.sqrt(variance)
    mean, low, high, forged = np.array(rows).T
    answer = np.arange(len(labels)) >= n
    groups = {
        kind: rows_of(labels, mean, low, high, own, spread, forged, only=only)
        for kind, only in (("attributes", shown & ~answer), ("answers", shown & answer))
        if only.any()
    }
    if known is None or "attributes" not in groups:
        return groups, _without_volunteers()
    # Compared column by column; a number that may be missing, by its distance from the volunteers' mean of those who
    # have one, which is zero for all others: how many have a value is a column of its own.
    raw, centre, variance = decoder.codewords.copy(), own[:n].copy(), spread[:n] ** 2
    for place, flag, fill in known_missing:
        present = 1.0 - raw[:, flag]
        raw[:, place] += fill * (present - 1.0) - own[place] * present
        centre[place], variance[place] = 0.0 * own[place], variance[place] * (1.0 - own[flag])
    bounds = np.array([label.bounds for label in labels[:n]]).T
    chosen = np.flatnonzero(shown[:n])
    places = chosen[np.isfinite(centre[chosen])]
    raw, share = raw[:, places], counts / tally.count
    mean = share @ raw
    z, simulated = drift.of_means(
        mean,
        ((raw - mean).T * share) @ (raw - mean) / max(tally.count - 1, 1),
        tally.count,
        centre[places],
        variance[places],
        known.count,
        bounds[:, places],
    )
    compared = [row for row, place in zip(groups["attributes"], chosen.tolist(), strict=True) if place in places]
    return groups, _drift(z, simulated, compared)


def _ratio(counts: Integers, values: Floats, weights: Floats | None, rule: Rule) -> tuple[float, float, float, float]:
    """Mean, limits, and the change by one forged report per report, of `values` (K,) per `weights` (K,) or per one."""
    share = counts / counts.sum()
    present = 1.0 if weights is None else float(share @ weights)
    if present < SCARCE:
        return float("nan"), -np.inf, np.inf, np.inf
    mean = float(share @ values) / present
    moves = values if weights is None else (values - mean * weights) / present
    return mean, *rule.limits(counts, values, weights), float(np.ptp(moves))


def measures(veil: Veil, K: Floats) -> Bools:
    """(t,): whether the latents of a release determine Kx, K (t, n). What they do not determine decodes to the
    volunteers' mean for everybody."""
    encoder = veil.encoder
    if not isinstance(encoder, LinearEncoder):
        return np.ones(len(K), dtype=bool)
    # In shares of the attributes' ranges, whatever their units.
    rows, wanted = encoder.weights.astype(np.float64), K * (encoder.high - encoder.low)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    left = wanted - wanted @ np.linalg.pinv(rows) @ rows
    return np.asarray(np.linalg.norm(left, axis=1) <= UNTOLD * np.linalg.norm(wanted, axis=1))


def _reported(veil: Veil, scores: Scores, tally: Tally, rule: Rule) -> tuple[Row, ...]:
    """Means of unbiased scores, from their sums."""
    mechanism, count = veil.mechanism, tally.count
    if count < FEWEST_SUMMED:
        raise TooFewReportsError(
            f"{count} reports are too few: sums of reports of this release need at least {FEWEST_SUMMED}."
        )
    mean, variance = scores.moments(tally)
    labels = [Label(f"mean codeword: {label.name}") for label in attribute_labels(veil)]
    spans, noise, most, forged = scores.spans, None, np.inf, scores.spans
    if isinstance(mechanism, Laplace):
        labels = [Label(f"latent {place}") for place in range(1, mechanism.latent_dim + 1)]
        step, layout = mechanism.region.step, mechanism.layout
        noise, most = partial(_laplace_exponent, scale=mechanism.scale, step=step), 1.0 / (mechanism.scale * step)
        # A forged report may be any that the layout holds.
        forged = (np.array(layout.high, dtype=np.float64) - np.array(layout.low)) * step
    if rule.anytime:
        flat = (spans == 0) & (noise is None)  # the same for everybody
        low, high = anytime_sum_limits(
            mean * count, count, np.where(flat, 1.0, spans), noise=noise, most=most, confidence=rule.confidence
        )
        low, high = np.where(flat, mean, low), np.where(flat, mean, high)
    else:
        reach = stdtrit(max(count - 1, 1), (1 + rule.confidence) / 2) * np.sqrt(variance / count)
        low, high = mean - reach, mean + reach
    own, spread = np.full(len(mean), np.nan), np.full(len(mean), np.nan)
    if veil.volunteers is not None:
        own, spread = veil.volunteers.mean, np.sqrt(veil.volunteers.variance)
        if isinstance(mechanism, SumCodebook) and isinstance(veil.decoder, CodewordDecoder):
            own = own @ veil.decoder.codewords
    return rows_of(labels, mean, low, high, own, spread, forged)


def _laplace_exponent(rates: Floats, *, scale: float, step: float) -> Floats:
    """ln E exp(λ w) of discrete Laplace noise w on a grid of this step, P[w = k·step] ∝ exp(−|k|/scale)."""
    q = np.exp(-1.0 / scale)
    tilted = np.log1p(-q * np.exp(rates * step)) + np.log1p(-q * np.exp(-rates * step))
    return np.asarray(2.0 * np.log1p(-q) - tilted)


def _drift_of_sums(veil: Veil, scores: Scores, tally: Tally, group: Sequence[Row]) -> drift.Drift:
    known = veil.volunteers
    if known is None:
        return _without_volunteers()
    mean = tally.total / tally.count
    spread = (tally.square / tally.count - np.outer(mean, mean)) / scores.kept**2
    means, own = np.array([(row.mean, row.volunteers) for row in group]).T
    z, simulated = drift.of_means(
        means, spread / max(tally.count - 1, 1), tally.count, own, known.variance, known.count
    )
    return _drift(z, simulated, group)


WORDS = {"date": ("later", "earlier"), "share": ("more frequent", "less frequent")}
"""How means of a kind differ; numbers are higher or lower."""


def _drift(z: Floats, simulated: Floats, rows: Sequence[Row]) -> drift.Drift:
    """The test of z (t,) against simulated ones, with a sentence for each row."""
    changes = []
    for row in rows:
        _, mean, limits, own, _ = row.cells
        word = WORDS.get(row.label.kind, ("higher", "lower"))[int(row.mean <= row.volunteers)]
        changes.append(f"{row.label.short} is {word}: {mean} [{limits.replace(' … ', ', ')}] instead of {own}")
    return drift.drift_of(z, simulated, [row.label.short for row in rows], changes)


def _without_volunteers() -> drift.Drift:
    return drift.no_test("The release keeps no sums over its volunteers, so people are not compared with them.")
