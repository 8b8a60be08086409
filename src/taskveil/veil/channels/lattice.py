"""The channel of a lattice: a report is the nearest codeword with one chance, else any codeword."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import LatticeCodebook
from taskveil.tasks import LinearTask, Task
from taskveil.veil.channels.channel import Channel, Encoded, UnbiasedScores, VolunteerValues
from taskveil.veil.decoders import Decoder, LatticeDecoder


def lattice_channel(mechanism: LatticeCodebook, decoder: Decoder) -> Channel:
    """The channel, if the decoder knows the lattice."""
    return LatticeChannel(mechanism, decoder) if isinstance(decoder, LatticeDecoder) else Channel(mechanism, decoder)


@dataclass(frozen=True, eq=False)
class LatticeChannel(Channel):
    """Codewords are too many to be counted; the mean codeword is measured."""

    mechanism: LatticeCodebook
    decoder: LatticeDecoder

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """The nearest codeword is likelier than any other by (a − b)/T. Over all codewords alike, the mean loss needs
        only mean and variance of each direction's level in a uniformly drawn codeword, which counting gives. This holds
        if the task sees the lattice's directions as orthogonal."""
        decoder, response = self.decoder, self.mechanism.response
        if not isinstance(task, LinearTask) or answering is not None:
            return None
        gain = task.K @ decoder.weights
        gram = gain.T @ gain
        if np.abs(gram - np.diag(np.diag(gram))).max() > 1e-9 * np.abs(gram).max():
            return None
        favoured_losses = task.losses(decoder.estimates(self._nearest(records.latents)), records.X)
        mean, square = decoder.lattice.level_moments()
        spread = (gain**2).sum(axis=0) @ (square - mean**2) * decoder.step**2
        middle = (decoder.weights @ mean * decoder.step + decoder.offset)[None, :]
        anywhere = task.losses(middle, records.X) + float(spread)
        return response.extra * favoured_losses + response.base * float(response.size) * anywhere

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """The nearest codeword, or any."""
        response, lattice = self.mechanism.response, self.mechanism.lattice
        nearest = self._nearest(latents).tolist()
        truthful = rng.random(len(nearest)) < response.extra
        anywhere = rng.random(len(nearest))
        return lattice.digits(
            [
                lattice.rank(row) if true else int(share * 2.0**53) * response.size >> 53
                for row, true, share in zip(nearest, truthful, anywhere, strict=True)
            ]
        )

    @property
    def scores(self) -> UnbiasedScores:
        """The codewords that reports stand for."""
        decoder, kept, lattice = self.decoder, self.mechanism.response.extra, self.mechanism.lattice
        anywhere = decoder.weights @ lattice.level_moments()[0] * decoder.step + decoder.offset
        reach = np.array([np.ptp(levels) for levels, _ in lattice.directions]) * decoder.step
        spans = np.abs(decoder.weights) @ reach / kept
        return UnbiasedScores(raw=decoder, outside=(1.0 - kept) * anywhere, kept=kept, spans=spans)

    def measured(self, records: Encoded) -> VolunteerValues:
        """The nearest codewords."""
        return VolunteerValues(self.decoder.estimates(self._nearest(records.latents)))

    def _nearest(self, latents: Floats) -> Integers:
        return self.mechanism.lattice.nearest(self.mechanism.region.enforce(latents))
