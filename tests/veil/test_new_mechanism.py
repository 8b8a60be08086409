"""A new mechanism is a class, a channel and a line in each of two tables; everything else works without a change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import taskveil as tv
from taskveil.arrays import Floats, Integers
from taskveil.client import reading
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Response
from taskveil.client.mechanisms.base import ResponseMechanism
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.designs.problem import Problem
from taskveil.tasks import Task
from taskveil.veil.channels import CHANNELS, Channel, Codes, Encoded, VolunteerValues, channel_of
from taskveil.veil.decoders import CodewordDecoder


@dataclass(frozen=True, kw_only=True, eq=False)
class Bit(ResponseMechanism):
    """ε-LDP for every input, ε = ln(a/b): one bit is reported as it is with probability a/(a + b), else turned."""

    region: BoxRegion
    response: Response

    enforced_by: ClassVar[str] = "One bit is turned at random."
    layout: ClassVar[Layout] = Layout(low=(0,), high=(1,))

    def __post_init__(self) -> None:
        bit = self.region.low.tolist() == [0] and self.region.high.tolist() == [1]
        if not bit or (self.response.size, self.response.favoured) != (2, 1):
            raise tv.errors.MechanismError("a bit is 0 or 1, and one of the two is favoured.")

    def __call__(self, latents: Floats) -> Integers:
        return self.response(self.region.enforce(latents))[:, None]

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        same = reports == self.region.enforce(latents)[:, 0]
        return self.response.log_chances(same)

    def fault(self, k: Integers) -> str | None:
        return None if ((k == 0) | (k == 1)).all() else "A bit is neither 0 nor 1."


@dataclass(frozen=True, eq=False)
class BitChannel(Channel):
    """The share of people with each bit is measured."""

    mechanism: Bit

    @property
    def sizes(self) -> tuple[int, ...]:
        return (2,)

    @property
    def codes(self) -> Codes:
        response = self.mechanism.response
        return Codes(np.full(2, response.base), response.extra, 1, ("bit is 0", "bit is 1"))

    def favoured(self, latents: Floats) -> Integers:
        return self.mechanism.region.enforce(latents)

    def measured(self, records: Encoded) -> VolunteerValues:
        bit = self.favoured(records.latents)
        return VolunteerValues(
            np.hstack([1.0 - bit, bit]), variance=np.zeros(1), best=bit[:, 0], places=np.array([[0.0], [1]])
        )


@dataclass(frozen=True)
class Sides:
    """A designer: reports say on which side of 1/2 the first attribute lies."""

    name: str = "sides"

    def why_not(self, task: Task) -> str | None:
        return None

    def seeded(self, task: Task) -> bool:
        return False

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        X, box = problem.X, problem.domain.bounding_box
        weights = np.eye(1, X.shape[1])
        encoder = LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=np.zeros(1))
        region = BoxRegion(step=1.0, low=np.array([0]), high=np.array([1]))
        bit = region.enforce(encoder(X))[:, 0]
        for epsilon in epsilons:
            response = Response.calibrated(size=2, favoured=1, epsilon=epsilon)
            chances = response.base + response.extra * (bit == [[0], [1]])
            decoder = CodewordDecoder(codewords=chances @ X / chances.sum(axis=1, keepdims=True), sizes=np.array([2]))
            mechanism = Bit(region=region, response=response)
            veil = tv.Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=self.name)
            yield from ((epsilon, seed, veil) for seed in seeds)


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reading.MECHANISMS, "bit", Bit)
    monkeypatch.setitem(reading.DEVICE_KINDS, "bit", Bit)
    monkeypatch.setitem(CHANNELS, Bit, BitChannel)


def people(count: int, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    first = rng.random(count) < share
    return np.column_stack([first, first + rng.random(count)]).astype(np.float64)


@pytest.mark.usefixtures("_known")
def test_a_new_mechanism_works_from_design_to_audit(tmp_path: Path) -> None:
    volunteers = people(400, 0.5, seed=0)
    task = tv.LinearTask(np.eye(2))
    designed = tv.design(volunteers, task, epsilon=2.0, method=Sides(), domain=tv.Box([0, 0], [1, 2]))
    assert designed.volunteers is not None
    assert designed.volunteers.cells.counts.tolist() == np.bincount(volunteers[:, 0].astype(int)).tolist()

    designed.save(tmp_path / "release")
    veil = tv.Veil.load(tmp_path / "release")
    assert veil.release_id == designed.release_id
    assert type(veil.mechanism) is Bit
    assert 1.99 < veil.guarantee.epsilon <= 2.0

    client = tv.client.Client.load(tmp_path / "release" / "client", ledger=tmp_path / "ledger", cap=4.0)
    body = tv.client.wire.pack_batch([client.report([1.0, 1.5])])
    assert len(veil.receive(body).reports) == 1

    loss = veil.loss(volunteers)
    drawn = np.mean([task.losses(veil.decode(veil.privatize(volunteers)), volunteers).mean() for _ in range(200)])
    assert loss.exact
    assert loss.mean == pytest.approx(drawn, rel=0.05)

    reports = veil.privatize(people(20_000, 0.8, seed=1))
    found = tv.estimate(veil, reports, assume="cells")
    _, ones = found.frequencies
    assert ones.name == "bit is 1"
    assert ones.low < 0.8 < ones.high
    assert found.drift.raised  # half of the volunteers have the bit
    assert found.attributes[0].low < 0.8 < found.attributes[0].high
    held = tv.audit(veil, confidence=0.99, trials=20_000)
    assert held.passed
    assert held.epsilon_lower > 1.5


def test_without_a_channel_losses_are_simulated_and_nothing_is_estimated() -> None:
    X = people(50, 0.5, seed=0)
    ((_, _, veil),) = Sides().designs(Problem.of(X, tv.LinearTask(np.eye(2))), [2.0], [0])
    assert type(channel_of(veil.mechanism, veil.decoder)) is Channel
    assert not veil.loss(X).exact
    assert math.isfinite(veil.loss(X).mean)
    with pytest.raises(tv.errors.DataError, match="no unbiased form"):
        tv.estimate(veil, veil.privatize(X))
