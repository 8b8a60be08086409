"""The channel of a survey: expected errors of its statistics. Estimates come from its questions (`veil.surveys`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import LevelResponse
from taskveil.tasks import SurveyTask, Task
from taskveil.veil.channels.channel import Channel, Encoded, SumsShape, VolunteerValues
from taskveil.veil.decoders import Decoder, SurveyDecoder
from taskveil.veil.statistics import Key, statistics
from taskveil.veil.surveys import questions_of


@dataclass(frozen=True, eq=False)
class SurveyChannel(Channel):
    """A report answers one question, and says nothing about one person."""

    mechanism: LevelResponse
    decoder: SurveyDecoder

    @property
    def sizes(self) -> tuple[int, ...]:
        """The outputs of all questions are one list."""
        return (self.mechanism.layout.high[0] + 1,)

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:  # noqa: ARG002
        """Real reports (N, 1), for tests of designs: a large vocabulary has too many outputs for a table of chances."""
        return self.mechanism(latents)

    def measured(self, records: Encoded) -> VolunteerValues:
        """The records: means and shares of people are compared with those of volunteers."""
        return VolunteerValues(records.X)

    def sums_shape(self, width: int) -> SumsShape:
        """Means and variances of the numbers of a record."""
        return SumsShape(width, (width,), None)

    @property
    def blanket(self) -> float:
        """The mean over the questions, of which one is drawn without looking at the record."""
        return self.mechanism.blanket

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes of values outside the domain."""
        return ("Values outside the release's domain count as the nearest value inside.",)

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:  # noqa: ARG002
        """(N,): Σ_s weight_s Σ_q (share_qs²/p_q) E[(score_qs − mean_s)² | record], where question q has the share
        share_qs ∝ p_q/V_qs in the statistic s. The mean over records, divided by the number of people, is the expected
        weighted squared error of all statistics, with means, variances and spreads of the volunteers."""
        if not isinstance(task, SurveyTask):
            return None
        # Words have no row whose score would be known before a word is asked for.
        listed = [one for one in questions_of(task, None, self.mechanism, self.decoder) if one.levels]
        found = [(one, statistics(task, one)) for one in listed]
        variances = [one.variances(said.functionals, one.prior) for one, said in found]
        precision: dict[Key, float] = {}
        for (one, said), each in zip(found, variances, strict=True):
            for key, variance in zip(said.keys, each.tolist(), strict=True):
                precision[key] = precision.get(key, 0.0) + one.chance / max(variance, 1e-300)
        k, losses = self.mechanism.region.enforce(records.latents), np.zeros(len(records.latents))
        for (one, said), each in zip(found, variances, strict=True):
            total = np.array([precision[key] for key in said.keys])
            shares = one.chance / np.maximum(each, 1e-300) / total
            middle = one.prior @ said.functionals
            weights = said.weights * shares**2 / one.chance
            squares = np.zeros(one.outputs)
            for some in one.parts(len(weights)):
                squares += ((one.scores(said.functionals[:, some]) - middle[some]) ** 2) @ weights[some]
            losses += one.by_record(squares, k)
        return losses
