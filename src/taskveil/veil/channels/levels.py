"""The channel of randomised response between levels: decoded reports are unbiased for the record itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import LevelResponse
from taskveil.tasks import Task
from taskveil.veil.channels.channel import Channel, Encoded, VolunteerValues, answer_losses, blocks
from taskveil.veil.decoders import Decoder


@dataclass(frozen=True, eq=False)
class LevelChannel(Channel):
    """Codes are counted, and each code stands for a record."""

    mechanism: LevelResponse

    unbiased: ClassVar[bool] = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """The outputs of all groups are one list."""
        return (self.mechanism.layout.high[0] + 1,)

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes of values outside the domain."""
        return ("Values outside the release's domain count as the nearest value inside.",)

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """Σ_r P[r | x] · loss(answer r)."""
        answers = self.answers(task, answering)
        if answers is None:
            return None
        every = answer_losses(task, answers, records)
        chances = self.mechanism.chances
        return np.concatenate([(chances(records.latents[rows]) * each).sum(axis=1) for rows, each in every])

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """The first report whose cumulative probability is above a uniform number."""
        chances = (self.mechanism.chances(latents[rows]) for rows in blocks(len(latents), self.sizes[0]))
        drawn = [(np.cumsum(some, axis=1)[:, :-1] <= rng.random((len(some), 1))).sum(axis=1) for some in chances]
        return np.concatenate(drawn)[:, None]

    def measured(self, records: Encoded) -> VolunteerValues:
        """The records."""
        return VolunteerValues(records.X)
