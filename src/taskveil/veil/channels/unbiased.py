"""Channels of mechanisms whose reports have an unbiased mean: Laplace and Gaussian noise, lattices, sums of codebooks,
levels."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import Gaussian, Laplace, LatticeCodebook, LevelResponse, SumCodebook
from taskveil.client.mechanisms.level_groups import MOST_ENTRIES
from taskveil.client.promise import round_up
from taskveil.tasks import LinearTask, ModelTask, Task
from taskveil.tasks.costs import SquaredError
from taskveil.veil.channels.channel import Channel, Codes, Encoded, UnbiasedScores, VolunteerValues
from taskveil.veil.channels.survey import SurveyChannel
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder, Decoder, LatticeDecoder, SurveyDecoder


@dataclass(frozen=True, eq=False)
class NoiseChannel(Channel):
    """Reports are the bounded latents plus noise, so their mean is that of the latents.

    Noise and error separate where decoder and loss are affine and squared.
    """

    mechanism: Laplace | Gaussian

    @abstractmethod
    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Draws of the noise in grid steps, for simulations."""

    @abstractmethod
    def log_moment(self, rates: Floats) -> Floats:
        """ln E exp(λ w) of the noise w on the region's grid, or an upper bound of it."""

    @property
    def largest_rate(self) -> float:
        """Rates from here on have no finite moment."""
        return math.inf

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """(N,): ‖K(D φ + c − x)‖² + σ_w² ‖K D‖_F²; with `answering`, the mean of (ŷ − y)² + σ_w² ‖D‖² over outputs."""
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
        """Reports (N, Z): bounded latents on the grid plus noise, cut off as on devices."""
        k, layout = self.mechanism.region.enforce(latents), self.mechanism.layout
        return np.asarray(np.clip(k + self.noise(k.shape, rng), layout.low, layout.high))

    @property
    def scores(self) -> UnbiasedScores:
        """The reported numbers themselves. A forged report may be any that the layout holds."""
        region, layout = self.mechanism.region, self.mechanism.layout
        return UnbiasedScores(
            raw=self.mechanism.values,
            spans=np.asarray((region.reach[1] - region.reach[0]) * region.step, dtype=np.float64),
            names=tuple(f"latent {place}" for place in range(1, self.mechanism.latent_dim + 1)),
            noise=self.log_moment,
            largest_rate=self.largest_rate,
            forged=np.subtract(layout.high, layout.low, dtype=np.float64) * region.step,
        )

    def measured(self, records: Encoded) -> VolunteerValues:
        """The bounded latents."""
        return VolunteerValues(self.mechanism.bound(records.latents))


@dataclass(frozen=True, eq=False)
class LaplaceChannel(NoiseChannel):
    """Laplace noise has moments below 1/scale."""

    mechanism: Laplace

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """The difference of two geometric variables is discrete Laplace noise."""
        one, other = rng.geometric(-math.expm1(-1.0 / self.mechanism.scale), size=(2, *shape))
        return np.asarray(one - other)

    @property
    def largest_rate(self) -> float:
        """Rates from here on have no finite moment."""
        return 1.0 / (self.mechanism.scale * self.mechanism.region.step)

    @property
    def blanket(self) -> float:
        """e^(−radius/scale): from the middle of the region, no member is farther than the radius, so each reports any
        output with at least this share of the probability that the middle has."""
        return math.exp(-self.mechanism.region.l1_radius / self.mechanism.scale)

    def log_moment(self, rates: Floats) -> Floats:
        """ln E exp(λ w) of discrete Laplace noise w on the region's grid, P[w = k·step] ∝ exp(−|k|/scale)."""
        q, step = np.exp(-1.0 / self.mechanism.scale), self.mechanism.region.step
        weighted = np.log1p(-q * np.exp(rates * step)) + np.log1p(-q * np.exp(-rates * step))
        return np.asarray(2.0 * np.log1p(-q) - weighted)


@dataclass(frozen=True, eq=False)
class GaussianChannel(NoiseChannel):
    """Gaussian noise has all moments, and a ρ of concentrated privacy."""

    mechanism: Gaussian

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated privacy, rounded up."""
        return round_up(self.mechanism.rho)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Draws of the discrete Gaussian: of its probabilities where the scale is small; else a rounded continuous
        Gaussian, which differs by less than draws could show."""
        scale = self.mechanism.scale
        if scale > 64:
            return np.asarray(np.rint(scale * rng.standard_normal(shape)), dtype=np.int64)
        x = np.arange(-math.ceil(9 * scale), math.ceil(9 * scale) + 1)
        weights = np.exp(-0.5 * (x / scale) ** 2)
        return np.asarray(rng.choice(x, size=shape, p=weights / weights.sum()))

    def log_moment(self, rates: Floats) -> Floats:
        """λ² scale² step²/2: E exp(λ w) of discrete Gaussian noise is at most that of continuous noise of this scale.

        For t = λ·scale², Σ e^(λx − x²/2scale²) = e^(λ²scale²/2) Σ e^(−(x − t)²/2scale²), and by Poisson's summation
        formula the last sum over the integers is largest at t = 0, where it is the normaliser.
        """
        return np.asarray(0.5 * (rates * self.mechanism.scale * self.mechanism.region.step) ** 2)


def lattice_channel(mechanism: LatticeCodebook, decoder: Decoder) -> Channel:
    """The channel, if the decoder knows the lattice."""
    return LatticeChannel(mechanism, decoder) if isinstance(decoder, LatticeDecoder) else Channel(mechanism, decoder)


@dataclass(frozen=True, eq=False)
class LatticeChannel(Channel):
    """A report is the nearest codeword with one chance, else any. Codewords are too many to be counted; the mean
    codeword is measured."""

    mechanism: LatticeCodebook
    decoder: LatticeDecoder

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """(N,): (a − b)/T of the nearest codeword's loss, and b/T of the sum over all codewords.

        That sum needs only mean and variance of each direction's level in a uniformly drawn codeword, which counting
        gives. This holds if the task sees the lattice's directions as orthogonal."""
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
        """Reports (N, width): the nearest codeword, or any."""
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


def sum_channel(mechanism: SumCodebook, decoder: Decoder) -> Channel:
    """The channel, if the decoder knows the codewords of each stage."""
    return SumChannel(mechanism, decoder) if isinstance(decoder, CodewordDecoder) else Channel(mechanism, decoder)


@dataclass(frozen=True, eq=False)
class SumChannel(Channel):
    """A report is the sum found for the record with one chance, else any sum. The codes of every stage are counted, and
    the mean of the sums is measured."""

    mechanism: SumCodebook
    decoder: CodewordDecoder

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codewords each stage has."""
        return tuple(self.mechanism.sizes.tolist())

    @property
    def codes(self) -> Codes:
        """How counts give shares of people: a person has one code of every stage."""
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
        """(N,): (a − b)/T of the loss of the sum found, and the rest of the mean loss of all sums. Their terms are
        independent, so that mean needs only mean and variance of every stage's codewords."""
        kept, stages = self.mechanism.response.extra, self._stages
        if not isinstance(task, LinearTask) or answering is not None:
            return None
        favoured_losses = task.losses(self.decoder(self._nearest(records.latents)), records.X)
        middle = np.sum([stage.mean(axis=0) for stage in stages], axis=0)
        spread = sum(float(task.predict(stage).var(axis=0).sum()) for stage in stages)
        return kept * favoured_losses + (1.0 - kept) * (task.losses(middle[None, :], records.X) + spread)

    def simulate(self, latents: Floats, rng: np.random.Generator) -> Integers:
        """Reports (N, stages): the sum found, or any."""
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


def level_channel(mechanism: LevelResponse, decoder: Decoder) -> Channel:
    """The channel of means, or of a survey if the decoder is one's."""
    return SurveyChannel(mechanism, decoder) if isinstance(decoder, SurveyDecoder) else LevelChannel(mechanism, decoder)


@dataclass(frozen=True, eq=False)
class LevelChannel(Channel):
    """Codes are counted, and each code stands for a record: decoded reports are unbiased for the record itself."""

    mechanism: LevelResponse

    unbiased: ClassVar[bool] = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """The outputs of all groups are one list, where they can be listed."""
        return (self.mechanism.outputs,) if self.mechanism.outputs <= MOST_ENTRIES else ()

    @property
    def nominal(self) -> tuple[int, ...]:
        """The latents of groups that have one latent and report every value of it."""
        return tuple(int(one.places[0]) for one in self.mechanism.groups if one.nominal and len(one.places) == 1)

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes of values outside the domain."""
        return ("Values outside the release's domain count as the nearest value inside.",)

    @property
    def blanket(self) -> float:
        """The mean over the groups, of which one is drawn without looking at the record."""
        return self.mechanism.blanket

    def chances(self, latents: Floats) -> Floats:
        """(N, R): the probability of every report."""
        return self.mechanism.chances(latents)

    def measured(self, records: Encoded) -> VolunteerValues:
        """The records."""
        return VolunteerValues(records.X)
