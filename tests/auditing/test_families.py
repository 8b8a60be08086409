"""The audit of a family clears sound clients and catches those that draw by the record, or charge too little."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from families import answers, chosen, drawn, means
from taskveil.auditing.families import family_checks
from taskveil.client import Client
from taskveil.client import client as client_module
from taskveil.errors import AuditError

TRIALS = 20_000


def broken(checks: tuple[Any, ...]) -> list[str]:
    return [check.name for check in checks if not check.passed]


@pytest.mark.parametrize(
    ("family", "trials"),
    [
        (drawn, 2_000),
        pytest.param(drawn, TRIALS, marks=pytest.mark.slow),
        pytest.param(chosen, TRIALS, marks=pytest.mark.slow),
    ],
)
def test_sound_families_are_cleared(family: Any, trials: int) -> None:
    result = tv.audit(family(), trials=trials)
    assert result.passed, result.verdict
    assert result.verdict.startswith("HOLDS")
    assert set(result.members) == set(family().members)
    assert result.epsilon_claimed == family().epsilon
    assert len(result.to_dict()["members"]) == len(family().members)


def test_a_client_that_draws_by_the_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Client._make

    def by_the_record(self: Client, *records: Any) -> Any:
        first = float(np.nan_to_num(records[0][0, 0]))
        monkeypatch.setattr(client_module, "draw", lambda weights: int(first > 0.5) % len(weights))
        return made(self, *records)

    monkeypatch.setattr(Client, "_make", by_the_record)
    assert "drawn without the record" in broken(family_checks(drawn(), TRIALS))


def test_a_client_that_draws_by_the_record_one_time_in_five_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    made, sound = Client._make, client_module.draw

    def sometimes(self: Client, *records: Any) -> Any:
        high = float(np.nan_to_num(records[0][0, 0])) > 0.5

        def draw(weights: list[int]) -> int:
            place: int = sound(weights)
            other: int = sound([1] * 5)
            return 1 if other == 0 and high else place

        monkeypatch.setattr(client_module, "draw", draw)
        return made(self, *records)

    monkeypatch.setattr(Client, "_make", sometimes)
    assert "drawn without the record" in broken(family_checks(drawn(), TRIALS))


def test_a_client_that_draws_from_elsewhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other weights, from a generator of its own: the draws with the same entropy differ too."""
    monkeypatch.setattr(client_module, "draw", lambda weights: random.randrange(len(weights)))
    assert set(broken(family_checks(drawn(), TRIALS))) >= {"drawn as often as the weights say"}


def test_a_client_that_always_takes_one_member_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "draw", lambda _weights: 1)
    assert broken(family_checks(drawn(), TRIALS)) == ["drawn as often as the weights say"]


def test_a_client_that_charges_the_drawn_member_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Client.__init__

    def cheap(self: Client, **parts: Any) -> None:
        start(self, **parts)
        self.epsilon = min(member.epsilon for member in self._offered)

    monkeypatch.setattr(Client, "__init__", cheap)
    assert broken(family_checks(drawn(), TRIALS)) == ["charged in full"]


def test_the_verdict_is_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that tells the truth breaks the family, and is named."""
    sound = type(answers().mechanism)
    assert sound is not type(means(1.0).mechanism)
    monkeypatch.setattr(sound, "__call__", lambda self, k: np.asarray(np.zeros((len(k), 1)) + (k[:, :1] > 0), np.int64))
    result = tv.audit(tv.Family({"answers": (answers(), 1), "survey": (means(1.0), 1)}), trials=TRIALS)
    assert not result.passed
    assert result.verdict.startswith("BROKEN")
    assert "member answers" in result.verdict


def test_a_claim_is_not_taken() -> None:
    with pytest.raises(AuditError, match="own claims"):
        tv.audit(drawn(), epsilon=1.0)
