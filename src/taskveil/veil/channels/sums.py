"""The channel of a sum of codebooks: a report is the sum found for the record with one chance, else any sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import SumCodebook
from taskveil.tasks import LinearTask, Task
from taskveil.veil.channels.channel import Channel, Codes, Encoded, UnbiasedScores, VolunteerValues
from taskveil.veil.decoders import CodewordDecoder, Decoder


def sum_channel(mechanism: SumCodebook, decoder: Decoder) -> Channel:
    """The channel, if the decoder knows the codewords of each stage."""
    return SumChannel(mechanism, decoder) if isinstance(decoder, CodewordDecoder) else Channel(mechanism, decoder)


@dataclass(frozen=True, eq=False)
class SumChannel(Channel):
    """The codes of every stage are counted, and the mean of the sums is measured."""

    mechanism: SumCodebook
    decoder: CodewordDecoder

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codewords each stage has."""
        return tuple(self.mechanism.sizes.tolist())

    @property
    def codes(self) -> Codes:
        """A person has one code of every stage."""
        kept, sizes = self.mechanism.response.extra, self.sizes
        names = [f"stage {stage}, code {code}" for stage, size in enumerate(sizes, 1) for code in range(size)]
        return Codes((1.0 - kept) / np.repeat(sizes, sizes), kept, len(sizes), tuple(names))

    @property
    def scores(self) -> UnbiasedScores:
        """The sums of codewords that reports stand for."""
        kept, stages = self.mechanism.response.extra, self._stages
        return UnbiasedScores(
            raw=self.decoder,
            outside=(1.0 - kept) * np.sum([stage.mean(axis=0) for stage in stages], axis=0),
            kept=kept,
            spans=np.sum([np.ptp(stage, axis=0) for stage in stages], axis=0) / kept,
            weights=self.decoder.codewords,
        )

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """The sum found is likelier than any other by (a − b)/T. Over all sums alike, the terms are independent, so the
        mean loss needs only mean and variance of every stage's codewords."""
        kept, stages = self.mechanism.response.extra, self._stages
        if not isinstance(task, LinearTask) or answering is not None:
            return None
        favoured_losses = task.losses(self.decoder(self._nearest(records.latents)), records.X)
        middle = np.sum([stage.mean(axis=0) for stage in stages], axis=0)
        spread = sum(float(task.predict(stage).var(axis=0).sum()) for stage in stages)
        return kept * favoured_losses + (1.0 - kept) * (task.losses(middle[None, :], records.X) + spread)

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """The sum found, or any."""
        nearest = self._nearest(latents)
        truthful = rng.random((len(latents), 1)) < self.mechanism.response.extra
        return np.where(truthful, nearest, rng.integers(self.mechanism.sizes, size=nearest.shape))

    def measured(self, records: Encoded) -> VolunteerValues:
        """1 for each code that a volunteer has; the variance is that of the sums of codewords."""
        digits, sizes = self._nearest(records.latents), self.mechanism.sizes
        has_code = np.zeros((len(digits), int(sizes.sum())))
        np.put_along_axis(has_code, digits + np.cumsum(sizes) - sizes, 1.0, axis=1)
        return VolunteerValues(has_code, variance=self.decoder(digits).var(axis=0))

    @property
    def _stages(self) -> list[Floats]:
        """The codewords of each stage."""
        return np.split(self.decoder.codewords, np.cumsum(self.decoder.sizes)[:-1])

    def _nearest(self, latents: Floats) -> Integers:
        return self.mechanism.nearest(self.mechanism.region.enforce(latents))
