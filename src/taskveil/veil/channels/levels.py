"""The channel of randomised response between levels: decoded reports are unbiased for the record itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from taskveil.arrays import Floats
from taskveil.client.mechanisms import LevelResponse
from taskveil.veil.channels.channel import Channel, Encoded, VolunteerValues


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

    def chances(self, latents: Floats) -> Floats:
        """(N, R): the probability of every report."""
        return self.mechanism.chances(latents)

    def measured(self, records: Encoded) -> VolunteerValues:
        """The records."""
        return VolunteerValues(records.X)
