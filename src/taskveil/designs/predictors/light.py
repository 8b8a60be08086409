"""The small predictors: linear with a ridge penalty, and networks with one hidden layer, trained side by side in numpy.

**Linear.** For values, ridge regression has a closed form: the products XᵀX and XᵀT of a set of rows, and one
eigendecomposition that serves all penalties. For classes, multinomial logistic regression is minimised by steps with a
fixed bound on the curvature (Böhning and Lindsay), ½(XᵀX + penalty), accelerated by momentum; all penalties move
together.

**Light.** Each fit has its own weights. All fits see the same batches, and records that a fit must not learn from have
weight zero there. Weights are averaged over the latest steps. Held-out losses choose between such averages after
several numbers of steps, which is early stopping. The mean of the folds' networks is again a network with one hidden
layer, and it becomes the device's encoder.

Attributes with heavy tails are seen by rank, through tables that a device can run. A network sees an attribute through
its range. When a few people are far out (incomes, rain, waiting times), all others look alike; ranks separate them.
Tables are made from records alone, never from labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.latent_encoders import (
    FARTHEST_KNOT,
    Encoder,
    HiddenEncoder,
    LinearEncoder,
    MonotoneTables,
    TabledEncoder,
)
from taskveil.client.networks import LEVELS
from taskveil.designs.crossfit import Evidence, Fit, PredictorFamily
from taskveil.designs.predictors.whole_layers import Dense, Layers
from taskveil.designs.selection import MANIFEST, bytes_of
from taskveil.records.inference import FEWEST_ALIKE

PENALTIES = (100.0, 10.0, 1.0, 0.1, 0.01)
"""In records' worth of evidence for every weight, attributes having variance one."""

_STEPS = 60  # of logistic regression
_LEARNT_FROM = 4000  # records that logistic regression is fitted to, at most


@dataclass(frozen=True, kw_only=True, eq=False)
class Lines:
    """Models of all penalties: outputs = X · slopesᵀ + offset. Shapes: slopes (H, S, n), offset (H, S)."""

    slopes: Floats
    offset: Floats

    def outputs(self, X: Floats) -> Floats:
        """(H, N, S)."""
        return np.asarray(X @ self.slopes.transpose(0, 2, 1) + self.offset[:, None])


class Linear(PredictorFamily):
    """The family of ridge and logistic regression."""

    name, averaged = "linear", False

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        """One model for each set of rows, fitted to these volunteers and to no others."""
        X, truth = evidence.X, evidence.truth
        if evidence.cost.logits:
            return [_logistic(X[own], truth[own], evidence.seed) for own in rows]
        return [_ridge(X[own], truth[own]) for own in rows]

    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:
        """The device's encoder of slope · outputs + shift (S,)."""
        (lines,) = fits
        assert isinstance(lines, Lines)  # noqa: S101 - its own fit
        return affine_encoder(
            evidence.low,
            evidence.high,
            slope * lines.slopes[setting],
            slope * lines.offset[setting] + shift,
            softmax=bool(evidence.cost.logits),
        )


def _standard(X: Floats) -> tuple[Floats, Floats, Floats]:
    """Records with mean zero and variance one (N, n), the mean, and the scale, infinite for constant attributes."""
    center, spread = X.mean(axis=0), X.std(axis=0)
    scale = np.where(spread > 1e-9 * np.abs(center), spread, np.inf)
    return (X - center) / scale, center, scale


def _lines(weights: Floats, start: Floats, center: Floats, scale: Floats) -> Lines:
    """Models with weights (H, n, S) and start (H, S) on the standard records, on the records as they are."""
    slopes = weights.transpose(0, 2, 1) / scale
    return Lines(slopes=slopes, offset=start - slopes @ center)


def _ridge(X: Floats, truth: Floats) -> Lines:
    inputs, center, scale = _standard(X)
    middle = truth.mean(axis=0)
    values, axes = np.linalg.eigh(inputs.T @ inputs)
    along = axes.T @ (inputs.T @ (truth - middle))
    weights = np.stack([axes @ (along / (values + penalty)[:, None]) for penalty in PENALTIES])
    return _lines(weights, np.tile(middle, (len(PENALTIES), 1)), center, scale)


def _logistic(X: Floats, truth: Floats, seed: int) -> Lines:
    """Penalties move together: weights (S, H, n), start (S, H), logits (S, H, N): sums over classes are quick if these
    come first. Momentum starts again where a step went too far."""
    some = np.random.default_rng(seed).permutation(len(X))[:_LEARNT_FROM]
    X, truth = X[some], truth[some]
    inputs, center, scale = _standard(X)
    count, width = inputs.shape
    classes, settings = truth.shape[1], len(PENALTIES)
    penalty = np.array(PENALTIES)[:, None]
    values, axes = np.linalg.eigh(inputs.T @ inputs)
    values = np.maximum(values, 0.0)
    Z = inputs @ axes  # in the directions in which the bound on the curvature is diagonal
    across, known = np.ascontiguousarray(Z.T), np.ascontiguousarray(truth.T)[:, None]
    pace = 1.0 / (values / 2.0 + penalty)
    weights = np.zeros((classes, settings, width))
    share = truth.mean(axis=0) + 1.0 / count
    start = np.tile(np.log(share / share.sum())[:, None], settings)
    ahead, ahead_start, last_weights, last_start = weights, start, weights, start
    momentum = 1.0
    for _ in range(_STEPS):
        logits = (ahead.reshape(-1, width) @ across).reshape(classes, settings, count)
        logits += ahead_start[..., None]
        logits -= logits.max(axis=0)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=0)
        logits -= known
        slope = (logits.reshape(-1, count) @ Z).reshape(weights.shape) + penalty * ahead
        weights = ahead - pace * slope
        start = ahead_start - logits.sum(axis=2) * (2.0 / count)
        if float((slope * (weights - last_weights)).sum()) > 0:  # uphill: momentum led astray
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        push = (momentum - 1.0) / following
        ahead, ahead_start = weights + push * (weights - last_weights), start + push * (start - last_start)
        last_weights, last_start, momentum = weights, start, following
    return _lines((weights @ axes.T).transpose(1, 2, 0), start.T, center, scale)


def affine_encoder(
    low: Floats, high: Floats, slopes: Floats, offset: Floats, *, softmax: bool
) -> LinearEncoder | HiddenEncoder:
    """slopes (S, n) · x + offset (S,), or the softmax of that, as a device runs it for records between low and high."""
    if not softmax:
        return LinearEncoder.of(low=low, high=high, weights=slopes, offset=offset)
    return HiddenEncoder.of(  # for its softmax: the one hidden unit is silent
        low=low,
        high=high,
        hidden_weights=np.zeros((1, len(low))),
        hidden_offset=np.zeros(1),
        weights=np.zeros((len(offset), 1)),
        skip=slopes,
        offset=offset,
        softmax=True,
    )


KNOTS = 64
"""Knots of a table, at most."""

HEAVY_KURTOSIS = 3.0
"""Excess kurtosis above which an attribute has a heavy tail: that of the Laplace distribution. A Gaussian has 0, an
exponential 6."""

MOST_TABLES = 256
"""Attributes up to which there are tables: each costs devices a kilobyte."""

Line = tuple[Floats, Floats]
"""Knots and levels (as shares of the highest) of one attribute's table, as many as it needs."""


def heavy_tailed(X: Floats) -> Bools:
    """(n,): which attributes of the records (N, n) have heavy tails. Two values cannot: any scale of them is linear."""
    largest = np.abs(X).max(axis=0)
    Y = X / np.where(largest > 0, largest, 1.0)
    Y = Y - Y.mean(axis=0)
    several = np.array([len(np.unique(column)) > 2 for column in X.T])
    spread = Y.std(axis=0)
    standard = Y / np.where(spread > 0, spread, 1.0)
    return np.asarray(several & ((standard**4).mean(axis=0) - 3.0 > HEAVY_KURTOSIS))


def tables_for(X: Floats) -> MonotoneTables | None:
    """The tables through which a network sees records (N, n): heavy-tailed attributes by rank, the others as they are.
    None where no attribute has a heavy tail."""
    heavy = heavy_tailed(X)
    if not heavy.any() or X.shape[1] > MOST_TABLES:
        return None
    X = np.clip(X, -FARTHEST_KNOT, FARTHEST_KNOT)  # beyond, differences are infinite
    lines = [ranked(column) if bent else even(column) for column, bent in zip(X.T, heavy, strict=True)]
    count = max(len(knots) for knots, _ in lines)
    padded = [[np.pad(part, (0, count - len(part)), mode="edge") for part in line] for line in lines]
    knots, shares = np.stack(padded, axis=1)
    return MonotoneTables(knots=knots, levels=np.rint(shares * LEVELS).astype(np.int64))


def even(values: Floats) -> Line:
    """From the lowest to the highest in a straight line."""
    return np.array([values.min(), values.max()]), np.array([0.0, 1.0])


def ranked(values: Floats) -> Line:
    """Where the value would stand among people of a Gaussian. Neighbours are taken together by evenly spaced places of
    the bell, at least `FEWEST_ALIKE` of them: a knot, which anybody can read in a release, is nobody's own value."""
    end = -ndtri(0.5 / len(values))
    ideal = len(values) * ndtr(np.linspace(-end, end, KNOTS + 1)[1:-1])
    cuts = [0]
    for cut in np.rint(ideal).astype(int).tolist():
        if cut - cuts[-1] >= FEWEST_ALIKE and len(values) - cut >= FEWEST_ALIKE:
            cuts.append(cut)
    counts = np.diff([*cuts, len(values)])
    places = ndtri((np.arange(len(values)) + 0.5) / len(values))
    means, shares = (np.add.reduceat(part, cuts) / counts for part in (np.sort(values), places))
    knots, tied = np.unique(np.maximum.accumulate(means), return_inverse=True)
    shares = np.bincount(tied, shares * counts) / np.bincount(tied, counts)
    return (knots, (shares - shares[0]) / (shares[-1] - shares[0])) if len(knots) > 1 else even(values)


NEURONS = (16, 96)
"""Neurons of a network, at least and at most."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How networks learn by AdamW: records in a batch, learning rate, decay of weights, and the share of the average
    that stays when the weights after a step join it."""

    batch: int
    rate: float
    decay: float
    averaging: float


PACE = Pace(batch=128, rate=9e-3, decay=0.1, averaging=0.98)
RECIPES = ((0.0, PACE.decay), (0.2, PACE.decay), (0.2, 3 * PACE.decay))
"""Dropout (the share of attributes left out at random while networks learn) and decay of weights. Held-out losses
choose between them, as between the numbers of steps."""
LOOKS = (20, 35, 60, 100, 170, 280, 480, 800)
"""Steps after which the networks are kept: as long as learning lasts, and what held-out losses choose from."""

_FLOOR = 0.5  # of the mean variance, added to every variance: near-constant attributes stay small

Singles = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """Networks after each look: outputs = relu(inputs · hidden + hidden_offset) · weights + offset.

    Shapes: hidden (H, n, D), hidden_offset (H, 1, D), weights (H, D, S), offset (H, 1, S). Inputs are records behind
    the scaler, which all networks share.
    """

    scaler: Scaler
    hidden: Singles
    hidden_offset: Singles
    weights: Singles
    offset: Singles

    @classmethod
    def of(cls, parts: Sequence[Network]) -> Network:
        """All settings of several, which have the same scaler."""
        names = ("hidden", "hidden_offset", "weights", "offset")
        return cls(
            scaler=parts[0].scaler, **{name: np.concatenate([getattr(each, name) for each in parts]) for name in names}
        )

    def outputs(self, X: Floats) -> Floats:
        """(H, N, S)."""
        found = np.empty((len(self.hidden), len(X), self.offset.shape[2]))
        inputs = self.scaler(X)
        for setting in range(len(self.hidden)):
            neurons = np.maximum(inputs @ self.hidden[setting] + self.hidden_offset[setting], 0.0)
            found[setting] = neurons @ self.weights[setting] + self.offset[setting]
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaler:
    """What networks see of a record: (x − center) / scale, behind `tables` where attributes have heavy tails."""

    center: Floats
    scale: Floats
    tables: MonotoneTables | None

    @classmethod
    def of(cls, X: Floats) -> Scaler:
        """From records (N, n) alone, never from labels: rows become about one long."""
        tables = tables_for(X)
        seen = X if tables is None else tables(X)
        magnitude = magnitudes(seen)
        variance = (seen / magnitude).var(axis=0)
        scale = magnitude * np.sqrt((variance + _FLOOR * variance.mean() + 1e-30) * X.shape[1])
        return cls(center=seen.mean(axis=0), scale=scale, tables=tables)

    def __call__(self, X: Floats) -> Singles:
        """Records (N, n) → inputs (N, n)."""
        seen = X if self.tables is None else self.tables(X)
        return ((seen - self.center) / self.scale).astype(np.float32)


def neurons_for(count: int) -> int:
    """How many neurons a network has that learns from `count` records: in proportion to their square root, at which
    error by too few neurons and error by too few records balance (Barron, 1994)."""
    return int(np.clip(round(3.0 * count**0.5), *NEURONS))


def magnitudes(X: Floats) -> Floats:
    """(n,): the power of ten that every attribute spans. Divided by it all span about one, and grams count as kilograms
    do; attributes that were scaled already stay as they are, and constant ones."""
    extent = np.ptp(X, axis=0)
    return np.asarray(10.0 ** np.round(np.log10(np.where(extent > 0, np.minimum(extent, 1e300), 1.0))))


class Light(PredictorFamily):
    """The family of networks with one hidden layer."""

    name = "light"

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        """One model for each set of rows, fitted to these volunteers and to no others."""
        trained = [_Training(evidence, rows, *recipe).networks() for recipe in RECIPES]
        return [Network.of(same) for same in zip(*trained, strict=True)]

    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:
        """The device's encoder of slope · mean outputs + shift (S,): all neurons side by side."""
        networks = [fit for fit in fits if isinstance(fit, Network)]
        scaler, count = networks[0].scaler, len(networks)
        first = np.concatenate([each.hidden[setting] for each in networks], axis=1).T / scaler.scale
        start = np.concatenate([each.hidden_offset[setting, 0] for each in networks]) - first @ scaler.center
        last = np.concatenate([each.weights[setting] for each in networks]).T * (slope / count)
        offset = slope * np.mean([each.offset[setting, 0] for each in networks], axis=0) + shift
        whole = {"hidden_weights": first, "hidden_offset": start, "weights": last, "offset": offset}
        softmax = bool(evidence.cost.logits)
        if scaler.tables is not None:
            full = np.full(len(scaler.center), float(LEVELS))
            return TabledEncoder(
                tables=scaler.tables, encoder=HiddenEncoder.of(low=0.0 * full, high=full, softmax=softmax, **whole)
            )
        encoder = HiddenEncoder.of(low=evidence.low, high=evidence.high, softmax=softmax, **whole)
        if bytes_of(encoder) + MANIFEST <= evidence.most_bytes:
            return encoder
        # The same in weights of a byte or two, for pictures and other records of very many attributes.
        layers = (Dense(weights=first, offset=start, relu=True), Dense(weights=last, offset=offset))
        return Layers(layers=layers, width=len(scaler.center), outputs=len(offset)).encoder(
            evidence.low, evidence.high, evidence.X, softmax=softmax
        )


class _Training:
    """Networks of all sets of rows, as batched matrices in single precision; AdamW, with momentum of the weights."""

    def __init__(self, evidence: Evidence, rows: Sequence[Integers], dropout: float, decay: float) -> None:
        self.cost, self.dropout, self.scaler = evidence.cost, dropout, Scaler.of(evidence.X)
        self.inputs = self.scaler(evidence.X)
        fits, (count, width), outputs = len(rows), evidence.X.shape, evidence.truth.shape[1]
        neurons = neurons_for(count)
        self.keep = np.zeros((fits, count), dtype=np.float32)
        # Outputs are learnt in units of the truth as each fit knows it.
        self.shift, self.unit = np.zeros((fits, 1, outputs)), np.ones((fits, 1, outputs))
        for place, own in enumerate(rows):
            self.keep[place, own] = 1.0
            self.shift[place], self.unit[place] = self.cost.standard(evidence.truth[own])
        self.truth = evidence.truth
        # Memory for neurons and their slopes: new memory in every step would take as long as the products. And zeros:
        # numpy is several times as fast at the larger of two arrays as at that of an array and a number.
        self.memory = np.zeros((3, fits, min(PACE.batch, count), neurons), dtype=np.float32)
        self.random = np.random.default_rng(evidence.seed)

        def normal(size: float, *shape: int) -> Singles:
            return np.asarray(np.float32(size) * self.random.standard_normal((fits, *shape), dtype=np.float32))

        self.parameters = [
            normal(2**0.5, width, neurons),
            normal(0.1, 1, neurons),
            normal(0.5 * neurons**-0.5, neurons, outputs),
            np.zeros((fits, 1, outputs), dtype=np.float32),
        ]
        # Inputs have length one and the first layer entries of order one, so its steps must be larger.
        self.rates = [PACE.rate * width**0.5, PACE.rate, PACE.rate, PACE.rate]
        self.decays = [decay, 0.0, decay, 0.0]

    def networks(self) -> list[Network]:
        """Trained: one network for each set of rows, after every look."""
        seen: list[list[Singles]] = []
        moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        average = [p.copy() for p in self.parameters]
        for step, pick in zip(range(1, LOOKS[-1] + 1), self._batches(), strict=False):
            for place, slope in enumerate(self._slopes(pick)):
                parameter, (first, second) = self.parameters[place], moments[place]
                first += 0.1 * (slope - first)
                second += 0.001 * (slope * slope - second)
                pace = self.rates[place] * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
                parameter *= np.float32(1.0 - self.rates[place] * self.decays[place])
                parameter -= pace * first / (np.sqrt(second) + np.float32(1e-8))
                average[place] += np.float32(1 - min(PACE.averaging, step / (step + 10))) * (parameter - average[place])
            if step in LOOKS:
                seen.append([mean.copy() for mean in average])
        stacked = [np.stack([look[place] for look in seen], axis=1) for place in range(4)]
        stacked[2] = stacked[2] * self.unit[:, None].astype(np.float32)
        stacked[3] = (stacked[3] * self.unit[:, None] + self.shift[:, None]).astype(np.float32)
        return [
            Network(scaler=self.scaler, hidden=hidden, hidden_offset=start, weights=weights, offset=offset)
            for hidden, start, weights, offset in zip(*stacked, strict=True)
        ]

    def _batches(self) -> Iterator[Integers]:
        """Endless random batches, epoch after epoch."""
        count = len(self.inputs)
        while True:
            order = self.random.permutation(count)
            yield from (order[begin : begin + PACE.batch] for begin in range(0, count, PACE.batch))

    def _slopes(self, pick: Integers) -> list[Singles]:
        """The gradient of the mean loss of every fit over its own records of the batch."""
        first, first_offset, second, second_offset = self.parameters
        mask = self.random.random((len(pick), self.inputs.shape[1]), dtype=np.float32) >= self.dropout
        inputs = self.inputs[pick] * mask / np.float32(1 - self.dropout)
        neurons, back, zeros = self.memory[:, :, : len(pick)]
        np.matmul(inputs, first, out=neurons)
        neurons += first_offset
        np.maximum(neurons, zeros, out=neurons)
        outputs = neurons @ second + second_offset
        keep = self.keep[:, pick, None]
        # Logits are shifted before they are judged; values are judged in the fit's own unit.
        if self.cost.logits:
            outputs, truth = outputs + self.shift.astype(np.float32), self.truth[None, pick].astype(np.float32)
        else:
            truth = ((self.truth[pick] - self.shift) / self.unit).astype(np.float32)
        # Labels that a fit must not learn from are dropped, not multiplied by zero: they may be no numbers at all.
        error = np.where(keep > 0, self.cost.slopes(outputs, truth), np.float32(0.0))
        error /= np.maximum(keep.sum(axis=1, keepdims=True), 1.0)
        np.matmul(error, second.transpose(0, 2, 1), out=back)
        back *= neurons > 0
        return [
            inputs.T @ back,
            np.ones((1, len(pick)), dtype=np.float32) @ back,
            neurons.transpose(0, 2, 1) @ error,
            error.sum(axis=1, keepdims=True),
        ]
