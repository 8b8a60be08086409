"""Questions that the server asks about a mechanism, and the answers for a mechanism that nothing is known about.

The files beside this one answer for the mechanisms that exist. A `Channel` belongs to the reports of one release: it
knows the mechanism and the decoder. It imports neither `Veil` nor the estimates, which ask it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from taskveil.arrays import Floats, Integers, blocks
from taskveil.client.mechanisms import Mechanism
from taskveil.tasks import Task, take_labels
from taskveil.veil.decoders import CodewordDecoder, Decoder


class Codes(NamedTuple):
    """A code k is reported with chance outside[k] + kept · (1 if the person has the code, else 0). `each` is the number
    of codes that a person has, `names` (K,) are those of the codes."""

    outside: Floats
    kept: float
    each: int
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class UnbiasedScores:
    """A vector r of the report with E[r | x] = outside + kept · u(x) for every record x; u(x) is what people have.

    So (r − outside)/kept is an unbiased score of u. Its mean over people estimates the mean of u over them, and nothing
    is assumed about them.
    """

    raw: Callable[[Integers], Floats]
    """Reports (N, width) → r (N, p)."""
    spans: Floats
    """(p,): the width of the range in which the scores lie, before noise is added."""
    outside: Floats | float = 0.0
    kept: float = 1.0
    names: tuple[str, ...] = ()
    """Names of the p numbers; none where they are the attributes of a codeword."""
    noise: Callable[[Floats], Floats] | None = None
    """ln E exp(rate · w) of the noise w that is added to a score, for rates below `largest_rate`."""
    largest_rate: float = math.inf
    forged: Floats | None = None
    """(p,): the most by which one forged report can change the sum; `spans` by default."""
    weights: Floats | None = None
    """(q, p): the mean of u is `mean @ weights` where release files hold another `mean` (q,) of volunteers."""
    diagonal: bool = False
    """Whether scores hardly vary together: then squares are added up, and products of two scores are not."""


class Encoded(NamedTuple):
    """Records X (N, n), what the encoder makes of them (N, Z), and their labels.

    `refits`, of an encoder that learnt from these records, are the latents (F, N, Z) by the encoders that were fitted
    without each of F folds, and every record's fold (N,).
    """

    X: Floats
    latents: Floats
    y: Any = None
    refits: tuple[Floats, Integers] | None = None


class VolunteerValues(NamedTuple):
    """What reports measure of each volunteer: `values` (V, q).

    Of lists, `best` (V,) is each volunteer's best code, and `places` (K, d) says where the codes lie. `corrected`
    (V, q) has the means of new people, if encoders learnt from the volunteers. `variance` is stored in the release; by
    default it is that of the values.
    """

    values: Floats
    variance: Floats | None = None
    best: Integers | None = None
    places: Floats | None = None
    corrected: Floats | None = None


class SumsShape(NamedTuple):
    """Numbers that sums over volunteers have: `measured` of what reports measure, and one of `variances` of variances.
    `each` is the number of codes that a person has, if the sums are shares of codes."""

    measured: int
    variances: tuple[int, ...]
    each: int | None


@dataclass(frozen=True, eq=False)
class Channel:
    """From records to reports and back, for one mechanism and decoder.

    The answers here are those for an unknown mechanism: expected losses come from real reports, and there are no
    population estimates. A mechanism that reports one code of one list states `sizes`; its likelihood then gives
    expected losses and simulated reports.
    """

    mechanism: Mechanism
    decoder: Decoder

    unbiased: ClassVar[bool] = False
    """Whether the mean of decoded reports is the people's mean of the records, for every population."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each number of a report may be, where codes are counted."""
        return ()

    @property
    def codes(self) -> Codes | None:
        """How the counts of codes give the shares of people, or None."""
        return None

    @property
    def scores(self) -> UnbiasedScores | None:
        """How sums of reports give means, or None."""
        return None

    @property
    def blanket(self) -> float:
        """A lower bound of Σ_o min_x P[o | x]: the part of every report that does not depend on the record, to 15
        digits. 0 where nothing is known."""
        return min((one.blanket for one in self.mechanism.responses), default=0.0)

    @property
    def rho(self) -> float | None:
        """ρ of zero-concentrated privacy, where the mechanism has one beside its (ε, δ); rounded up."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about every estimate."""
        return ()

    @property
    def nominal(self) -> tuple[int, ...]:
        """The latents that are a category each, and of which every value is reported."""
        return ()

    @property
    def listed(self) -> bool:
        """Whether a report is a code of one list, and its counts are all that reports measure."""
        return self.codes is not None and self.scores is None

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """The expected loss (N,) of every record over the randomisation, or None where there is no formula.

        Where codes are one list with an answer for each, it is Σ_k P[k | x] · loss(answer k). `answering` leads from
        reports to the task's outputs; without it the task answers for the decoder's estimates.
        """
        decoder = self.decoder if answering is None else answering
        if len(self.sizes) != 1 or not isinstance(decoder, CodewordDecoder):
            return None
        answers, found = task.predict(decoder.codewords) if answering is None else decoder.codewords, []
        for rows in blocks(len(records.X), len(answers)):
            each = task.pairwise_output_losses(answers, records.X[rows], take_labels(task, records.y, rows))
            found.append(self.mean_over_codes(each, records.latents[rows]))
        return np.concatenate(found)

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """Reports (N, width) with the mechanism's probabilities, for tests of designs and never for a person: from
        `rng` where codes are one list, else real ones. The first code is drawn whose cumulative probability is above a
        uniform number."""
        if len(self.sizes) != 1:
            return self.mechanism(latents)
        chances = (self.chances(latents[rows]) for rows in blocks(len(latents), self.sizes[0]))
        drawn = [(np.cumsum(some, axis=1)[:, :-1] <= rng.random((len(some), 1))).sum(axis=1) for some in chances]
        return np.concatenate(drawn)[:, None]

    def chances(self, latents: Floats) -> Floats:
        """(N, K): the probability of every code of one list, for latents (N, Z)."""
        return np.exp(self.mechanism.log_likelihood(np.arange(self.sizes[0])[:, None], latents)).T

    def mean_over_codes(self, values: Floats, latents: Floats) -> Floats:
        """(N,): the mean of `values` (N, K) over the codes of one list that may be reported for latents (N, Z)."""
        return np.asarray((self.chances(latents) * values).sum(axis=1))

    def favoured(self, latents: Floats) -> Integers | None:
        """The codes (N, m) that devices favour for latents (N, Z), the best first; None unless reports are `listed`."""

    def measured(self, records: Encoded) -> VolunteerValues | None:
        """What reports measure of volunteers with these records, or None."""

    def sums_shape(self, width: int) -> SumsShape | None:
        """Of sums over volunteers whose records have `width` numbers; None where reports measure nothing."""
        codes, scores = self.codes, self.scores
        if codes is not None:
            count = len(codes.names)
            return SumsShape(count, (1, count) if scores is None else (len(scores.spans),), codes.each)
        if scores is None and not self.unbiased:
            return None
        count = width if scores is None else len(scores.spans)
        return SumsShape(count, (count,), None)


CHANNELS: dict[type[Any], Callable[[Any, Decoder], Channel]] = {}
"""The channel of every mechanism. For others, losses are means over real reports, and there are no estimates."""


def channel_of(mechanism: Mechanism, decoder: Decoder) -> Channel:
    """The channel of reports that this mechanism makes and this decoder reads."""
    return CHANNELS.get(mechanism.__class__, Channel)(mechanism, decoder)
