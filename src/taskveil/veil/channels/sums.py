"""The channel of a sum of codebooks: a report is the sum found for the record with one chance, else any sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import SumCodebook
from taskveil.tasks import LinearTask, Task
from taskveil.veil.channels.channel import Channel, Codes, Measured, Records, UnbiasedScores
from taskveil.veil.decoders import CodewordDecoder, Decoder


@dataclass(frozen=True, eq=False)
class SumChannel(Channel):
    """The codes of every stage are counted, and the mean of the sums is measured."""

    mechanism: SumCodebook

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codewords each stage has."""
        return tuple(self.mechanism.sizes.tolist()) if self._stages else ()

    @property
    def codes(self) -> Codes | None:
        """A person has one code of every stage."""
        kept, sizes = self.mechanism.response.extra, self.sizes
        names = [f"stage {stage}, code {code}" for stage, size in enumerate(sizes, 1) for code in range(size)]
        return Codes((1.0 - kept) / np.repeat(sizes, sizes), kept, len(sizes), tuple(names)) if sizes else None

    @property
    def scores(self) -> UnbiasedScores | None:
        """The sums of codewords that reports stand for."""
        decoder, kept, stages = self.decoder, self.mechanism.response.extra, self._stages
        if not isinstance(decoder, CodewordDecoder):
            return None
        return UnbiasedScores(
            raw=decoder,
            outside=(1.0 - kept) * np.sum([stage.mean(axis=0) for stage in stages], axis=0),
            kept=kept,
            spans=np.sum([np.ptp(stage, axis=0) for stage in stages], axis=0) / kept,
            weights=decoder.codewords,
        )

    def losses(self, task: Task, records: Records, answering: Decoder | None) -> Floats | None:
        """The sum found is likelier than any other by (a − b)/T. Over all sums alike, the terms are independent, so the
        mean loss needs only mean and variance of every stage's codewords."""
        decoder, kept, stages = self.decoder, self.mechanism.response.extra, self._stages
        if not isinstance(decoder, CodewordDecoder) or not isinstance(task, LinearTask) or answering is not None:
            return None
        favoured_losses = task.losses(decoder(self._nearest(records.latents)), records.X)
        middle = np.sum([stage.mean(axis=0) for stage in stages], axis=0)
        spread = sum(float(task.predict(stage).var(axis=0).sum()) for stage in stages)
        return kept * favoured_losses + (1.0 - kept) * (task.losses(middle[None, :], records.X) + spread)

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """The sum found, or any."""
        nearest = self._nearest(latents)
        truthful = rng.random((len(latents), 1)) < self.mechanism.response.extra
        return np.where(truthful, nearest, rng.integers(self.mechanism.sizes, size=nearest.shape))

    def measured(self, records: Records) -> Measured | None:
        """1 for each code that a volunteer has; the variance is that of the sums of codewords."""
        decoder, sizes = self.decoder, self.mechanism.sizes
        if not isinstance(decoder, CodewordDecoder):
            return None
        digits = self._nearest(records.latents)
        has_code = np.zeros((len(digits), int(sizes.sum())))
        np.put_along_axis(has_code, digits + np.cumsum(sizes) - sizes, 1.0, axis=1)
        return Measured(has_code, variance=decoder(digits).var(axis=0))

    @property
    def _stages(self) -> list[Floats]:
        """The codewords of each stage; none where the decoder is of another kind."""
        decoder = self.decoder
        if not isinstance(decoder, CodewordDecoder):
            return []
        return np.split(decoder.codewords, np.cumsum(decoder.sizes)[:-1])

    def _nearest(self, latents: Floats) -> Integers:
        return self.mechanism.nearest(self.mechanism.region.enforce(latents))
