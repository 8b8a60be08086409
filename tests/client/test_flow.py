"""Design, ship, collect: what a report says on the server is what the mechanism drew on the device."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import releases
import taskveil as tv
from taskveil.client import Client
from taskveil.client.wire import Report, pack_batch, receive


def test_the_three_steps(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path) -> None:
    X = pd.DataFrame(volunteers, columns=list("abcdef"))
    veil = dataclasses.replace(tv.design(X, task, epsilon=60.0, method="codebook"), units=("kW",) * 6)
    veil.save(tmp_path / "release")
    with Client.load(tmp_path / "release", ledger=tmp_path / "l", cap=1e6) as client:
        reports = [client.report(dict(X.iloc[i]), round=i) for i in range(50)]
    server = tv.Veil.load(tmp_path / "release")
    rows = server.receive(pack_batch(reports))
    assert len(rows) == 50
    assert not rows.refused
    # At this budget a lattice reports the nearest codeword, all but surely.
    assert np.array_equal(rows, veil.privatize(X.iloc[:50]))
    assert np.array_equal(server.decode(rows), veil.decode(rows))


@pytest.mark.parametrize("name", list(releases.devices()))
def test_what_arrives_is_what_was_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = releases.devices()[name]
    client = Client(device=device, release=bytes(32), ledger=None, cap=None)  # type: ignore[arg-type]
    mechanism, drawn = type(device.mechanism), []
    original = mechanism.__call__

    def remember(self: object, latents: np.ndarray) -> np.ndarray:
        drawn.append(original(self, latents))  # type: ignore[arg-type]
        return drawn[-1]

    monkeypatch.setattr(mechanism, "__call__", remember)
    reports = [client._make(client.device.record(np.full(device.attributes, v))) for v in np.linspace(-3, 3, 40)]
    received = receive(pack_batch(reports), bytes(32), device.mechanism.layout, device.mechanism.possible)
    assert np.array_equal(received, np.concatenate(drawn))


def test_a_payload_no_device_can_have_made_costs_its_neighbours_nothing() -> None:
    mechanism = releases.devices()["lattice"].mechanism
    size = mechanism.layout.length
    sound = Report(release=bytes(32), id=b"a" * 16, payload=bytes(size))
    foreign = Report(release=bytes(32), id=b"b" * 16, payload=b"\xff" * size)
    other = Report(release=bytes(32), id=b"c" * 16, payload=bytes(size))
    received = receive(pack_batch([sound, foreign, other]), bytes(32), mechanism.layout, mechanism.possible)
    assert received.ids == (sound.id, other.id)
    assert [(one.place, one.id) for one in received.refused] == [(1, foreign.id)]
