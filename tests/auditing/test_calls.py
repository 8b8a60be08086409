"""However reports are asked for, they are as private."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from auditing import exhibits, leaks, sound
from auditing.targets import ends, target
from taskveil.auditing.checks import differ, small_calls, through_a_client
from taskveil.client.mechanisms import Codebook, Laplace


class AloneInTheClear(Codebook):
    """A single record is answered with the first of its favoured codewords, and no coin."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        made = super().__call__(latents)
        if len(latents) == 1:
            made[:, 0] = self.stages[0].favoured(self.region.enforce(latents))[:, 0]
        return made


def refuses_singles(X: np.ndarray) -> np.ndarray:
    if len(X) == 1 and X[0, 0] > 0:
        raise ValueError("no")
    return exhibits.laplace(exhibits.WIDE)(X)


def wants_two(X: np.ndarray) -> np.ndarray:
    if len(X) == 1:
        raise ValueError("batches only")
    return exhibits.laplace(exhibits.WIDE)(X)


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        (exhibits.laplace(exhibits.WIDE), "held"),
        (leaks.quieter_in_large_batches, "held"),
        (sound.codebook_for(8.0), "held"),
        (leaks.small_batches_in_the_clear(2), "broken"),
        (leaks.small_batches_in_the_clear(64), "broken"),
        (leaks.first_row_in_the_clear, "broken"),
        (leaks.last_row_in_the_clear, "broken"),
        (refuses_singles, "broken"),
        (wants_two, "not applicable"),
    ],
)
def test_single_records_and_small_batches(what: object, outcome: str) -> None:
    assert small_calls(target(what), ends(), most=1000).outcome == outcome


def test_as_many_calls_are_made_as_the_claim_needs() -> None:
    leak = leaks.small_batches_in_the_clear(2)
    assert small_calls(target(leak, epsilon=5.0), ends(), most=1000).outcome == "held"
    assert small_calls(target(leak, epsilon=5.0), ends(), most=10_000).outcome == "broken"


def test_a_veil_promises_the_same_distribution_in_every_call() -> None:
    """At ε = 7 no number of calls made here disproves the claim; that reports are never random when alone does.

    An honest report is another code in 5% of calls, so 4,000 calls suffice.
    """
    honest = sound.codebook_for(7.0)
    mechanism = AloneInTheClear(region=honest.mechanism.region, stages=honest.mechanism.stages)
    found = small_calls(target(replace(honest, mechanism=mechanism)), ends(), most=4000)
    assert found.outcome == "broken"
    assert "another distribution" in found.detail


def test_reports_of_a_client_are_those_of_its_veil() -> None:
    assert through_a_client(target(exhibits.laplace_veil(1.0)), ends(), most=300).outcome == "held"
    assert through_a_client(target(leaks.leaks_through_a_client()), ends(), most=300).outcome == "broken"
    assert through_a_client(target(exhibits.laplace(1.0)), ends(), most=300).outcome == "not applicable"


def test_the_id_of_a_report_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from taskveil.client import client, entropy

    class Sequential:
        """Ids that end with the record's number."""

        def __getattr__(self, name: str) -> object:
            return getattr(entropy, name)

        @staticmethod
        def random_words(count: int) -> np.ndarray:
            words = np.array(entropy.random_words(count))
            words[-1] = seen[-1]
            return words

    seen: list[int] = [0]
    make = client.Client.report

    def report(self: client.Client, x: np.ndarray, **options: object) -> object:
        seen.append(int(x[0] > 0))
        return make(self, x, **options)

    monkeypatch.setattr(client, "entropy", Sequential())
    monkeypatch.setattr(client.Client, "report", report)
    assert through_a_client(target(exhibits.laplace_veil(1.0)), ends(), most=300).outcome == "broken"


def test_two_samples_of_one_distribution_do_not_differ() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.geometric(0.3, size=(2, 4000, 2))
    assert not differ(one, other, alpha=1e-3)
    assert differ(one, rng.geometric(0.4, size=(4000, 2)), alpha=1e-3)
    alarms = sum(differ(*rng.geometric(0.3, size=(2, 200, 1)), alpha=0.5) for _ in range(100))
    assert alarms <= 50


def test_a_mechanism_that_differs_only_in_scale_when_alone_is_noticed_in_a_veil() -> None:
    class Louder(Laplace):
        def __call__(self, latents: np.ndarray) -> np.ndarray:
            return super().__call__(latents) * (3 if len(latents) == 1 else 1)

    honest = exhibits.laplace_veil(1.0)
    louder = replace(honest, mechanism=Louder(region=honest.mechanism.region, scale=honest.mechanism.scale))
    assert small_calls(target(louder), ends(), most=2000).outcome == "broken"
