"""Where randomness comes from: failures are injected into children, and nobody else notices."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

import families
from auditing import exhibits, foreign, sound
from auditing.targets import target
from taskveil.auditing.sources import no_entropy_no_report, no_foreign_randomness, no_shared_noise
from taskveil.client import entropy
from taskveil.client.device import Device
from taskveil.client.noise import discrete_laplace
from taskveil.records.schema import Schema


def on_urandom(X: np.ndarray) -> np.ndarray:
    """Asks os.urandom directly, for each row."""
    return np.array([[int.from_bytes(os.urandom(8), "little") % 3] for _ in X])


def half_hearted(X: np.ndarray) -> np.ndarray:
    """Sends what it has when the system fails in the middle of a batch."""
    made = np.zeros(X.shape)
    try:
        for start in range(0, len(X), 1000):
            made[start : start + 1000] = discrete_laplace(10.0, len(X[start : start + 1000]))[:, None]
    except Exception:
        if start == 0:
            raise
    return made


def unaware_of_short_answers(X: np.ndarray) -> np.ndarray:
    raw = entropy.system_bytes(len(X))
    return np.resize(np.frombuffer(raw, dtype=np.uint8), X.shape)


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        (exhibits.laplace(exhibits.WIDE), "held"),
        (sound.codebook_for(1.0), "held"),
        (on_urandom, "held"),
        (foreign.secrets_randomised_response, "held"),
        (exhibits.silent_without_entropy, "broken"),
        (half_hearted, "broken"),
        (unaware_of_short_answers, "broken"),
        # Drawn outside Python, or not at all: nothing can be injected, so nothing is said.
        (foreign.opendp_laplace, "not applicable"),
        (foreign.opendp_randomised_response, "not applicable"),
        (exhibits.global_generator, "not applicable"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", None),
)
def test_entropy_failures(what: object, outcome: str) -> None:
    before = entropy.system_bytes, os.urandom
    assert no_entropy_no_report(target(what)).outcome == outcome
    assert (entropy.system_bytes, os.urandom) == before


def unhurried(X: np.ndarray) -> np.ndarray:
    """Lets other threads run before it draws."""
    time.sleep(0.05)
    return exhibits.laplace(exhibits.WIDE)(X)


def test_other_threads_keep_their_entropy() -> None:
    """0.1 replaced os.urandom for the whole process: a thread drawing keys beside an audit got zeros, or an error."""
    seen: set[bytes] = set()
    troubles: list[Exception] = []
    audited = threading.Event()

    def draw() -> None:
        while not audited.is_set():
            try:
                seen.add(os.urandom(16))
                seen.add(entropy.system_bytes(16))
            except Exception as error:
                troubles.append(error)
            time.sleep(0)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        assert no_entropy_no_report(target(unhurried)).outcome == "held"
    finally:
        audited.set()
        thread.join()
    assert not troubles
    assert len(seen) > 100
    assert all(len(set(key)) > 1 and len(key) == 16 for key in seen)


def test_a_system_that_cannot_fork_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert no_entropy_no_report(target(exhibits.silent_without_entropy)).outcome == "not applicable"
    assert no_shared_noise(target(exhibits.ForkBlind()), forks=3).outcome == "not applicable"


def test_noise_shared_by_processes() -> None:
    assert no_shared_noise(target(sound.codebook_for(8.0)), forks=8).outcome == "held"
    assert no_shared_noise(target(exhibits.ForkBlind()), forks=3).outcome == "broken"
    assert no_shared_noise(target(lambda X: np.zeros(X.shape)), forks=3).outcome == "not applicable"


def test_predictable_randomness() -> None:
    assert no_foreign_randomness(target(exhibits.laplace_veil(1.0))).outcome == "held"
    assert no_foreign_randomness(target(exhibits.global_generator)).outcome == "broken"


def _draws(*_: object) -> float:
    return float(np.random.default_rng().random())


def test_code_of_devices_is_searched_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server does with tables may reach libraries that draw; whether it does depends on what is loaded."""
    veil = families.answers()
    monkeypatch.setattr(Schema, "for_model", _draws)
    assert no_foreign_randomness(target(veil)).outcome == "held"
    monkeypatch.setattr(Device, "_encode", _draws)
    assert no_foreign_randomness(target(veil)).outcome == "broken"
