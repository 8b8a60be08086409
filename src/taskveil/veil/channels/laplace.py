"""The channel of Laplace noise: reports are the bounded latents plus noise, so their mean is that of the latents."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import Laplace
from taskveil.tasks import LinearTask, ModelTask, Task
from taskveil.tasks.costs import SquaredError
from taskveil.veil.channels.channel import Channel, Encoded, UnbiasedScores, VolunteerValues
from taskveil.veil.decoders import AffineDecoder, Decoder


@dataclass(frozen=True, eq=False)
class LaplaceChannel(Channel):
    """Noise and error separate where decoder and loss are affine and squared."""

    mechanism: Laplace

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """‖K(D φ + c − x)‖² + σ_w² ‖K D‖_F²; with `answering`, the mean over outputs of (ŷ − y)² + σ_w² ‖D‖²."""
        decoder, bounded = self.decoder if answering is None else answering, self.mechanism.bound(records.latents)
        if not isinstance(decoder, AffineDecoder):
            return None
        if answering is None and isinstance(task, LinearTask):
            noise = float((task.predict(decoder.weights.T) ** 2).sum())
            return task.losses(decoder(bounded), records.X) + self.mechanism.noise_variance * noise
        if answering is not None and isinstance(task, ModelTask) and isinstance(task.cost, SquaredError):
            noise = float((decoder.weights**2).mean(axis=0).sum())
            return task.output_losses(decoder(bounded), records.X, records.y) + self.mechanism.noise_variance * noise
        return None

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """Two geometric variables differ by a discrete Laplace one."""
        k, layout = self.mechanism.region.enforce(latents), self.mechanism.layout
        one, other = rng.geometric(-math.expm1(-1.0 / self.mechanism.scale), size=(2, *k.shape))
        return np.asarray(np.clip(k + one - other, layout.low, layout.high))

    @property
    def scores(self) -> UnbiasedScores:
        """The reported numbers themselves. A forged report may be any that the layout holds."""
        region, layout = self.mechanism.region, self.mechanism.layout
        return UnbiasedScores(
            raw=self.mechanism.values,
            spans=np.asarray((region.reach[1] - region.reach[0]) * region.step, dtype=np.float64),
            names=tuple(f"latent {place}" for place in range(1, self.mechanism.latent_dim + 1)),
            noise=self._log_moment,
            largest_rate=1.0 / (self.mechanism.scale * region.step),
            forged=np.subtract(layout.high, layout.low, dtype=np.float64) * region.step,
        )

    def _log_moment(self, rates: Floats) -> Floats:
        """ln E exp(λ w) of discrete Laplace noise w on the region's grid, P[w = k·step] ∝ exp(−|k|/scale)."""
        q, step = np.exp(-1.0 / self.mechanism.scale), self.mechanism.region.step
        weighted = np.log1p(-q * np.exp(rates * step)) + np.log1p(-q * np.exp(-rates * step))
        return np.asarray(2.0 * np.log1p(-q) - weighted)

    def measured(self, records: Encoded) -> VolunteerValues:
        """The bounded latents."""
        return VolunteerValues(self.mechanism.bound(records.latents))
