"""Every sentence that a person reads about a release with δ > 0 says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import releases
from taskveil.client import Client
from taskveil.client.device import Device
from taskveil.client.families import CHOSEN, DRAWN, DeviceFamily, Member
from taskveil.client.ledger import Ledger
from taskveil.client.panels import Panel
from taskveil.client.promise import chance, together

DEVICES = releases.devices()
WORDS = "δ = 1e-06 (1 in 1,000,000)"
ADDED = f"Every report of this release adds {WORDS} to the probability that this does not hold."


def client(tmp_path: Path, *members: Device, kind: str = DRAWN, epsilon: float | None = None) -> Client:
    made = tuple(
        Member(name=str(place + 1), weight=1, device=device, release=bytes([place]) * 32)
        for place, device in enumerate(members)
    )
    family = DeviceFamily(release=bytes(32), kind=kind, members=made)
    ledger = Ledger(tmp_path / "ledger")
    return Client(device=members[0], release=bytes(32), ledger=ledger, cap=9.0, family=family, epsilon=epsilon)


def test_a_release_says_it_of_one_report_and_of_all(tmp_path: Path) -> None:
    with client(tmp_path, DEVICES["gaussian"]) as made:
        assert made.delta == 1e-6
        assert f", except with probability {WORDS}: then a report may reveal more" in made.statement
        assert made.statement.endswith(ADDED)
        made.report([0.0] * 5)
        assert made.statement.endswith(together(made.ledger.spent, 9.0, 1e-6))


def test_a_release_without_delta_says_nothing_of_it(tmp_path: Path) -> None:
    with client(tmp_path, DEVICES["laplace_box"]) as made:
        assert made.delta == 0.0
        assert "δ" not in made.statement
        assert "except" not in made.statement


@pytest.mark.parametrize("order", [1, -1])
def test_a_family_says_the_largest(tmp_path: Path, order: int) -> None:
    with client(tmp_path, *[DEVICES["gaussian"], DEVICES["laplace_box"]][::order]) as made:
        assert made.delta == 1e-6
        assert made.statement.count(WORDS) == 2


def test_a_person_who_chose_a_member_without_delta_reads_nothing_of_it(tmp_path: Path) -> None:
    members = DEVICES["gaussian"], DEVICES["laplace_box"]
    with client(tmp_path, *members, kind=CHOSEN, epsilon=2.0) as made:
        assert "δ" not in made.statement


def test_planned_rounds_add_it_up() -> None:
    panel = Panel(reports=3, rounds=tuple("abcdefghi"), days=0)
    assert f"(ε = 3), except with probability {chance(1e-6, 3)}." in panel.statement(1.0, None, delta=1e-6)
    assert chance(1e-6, 3) == "δ = 3e-06 (1 in 333,333)"
    assert chance(1e-6) in panel.statement(1.0, 1, delta=1e-6)
    assert panel.statement(1.0, None, delta=0.0) == panel.statement(1.0, None)
    assert "δ" not in panel.statement(1.0, None)
