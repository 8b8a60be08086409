"""Panels at their edges: copies, several processes, odd orders, families, caps, and other releases in one ledger."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from families import chosen, drawn, means, people
from panels import RELEASE, answered, coin, small_panel, state_of
from taskveil.client import Client, Ledger
from taskveil.client.panels import Panel
from taskveil.errors import BudgetSpentError, LedgerError

PANEL = small_panel(2, 8)  # two blocks of four rounds
EPSILON = coin().mechanism.epsilon


def client(ledger: Path, panel: Panel | None = PANEL, cap: float | None = 100.0, release: bytes = RELEASE) -> Client:
    return Client(device=coin(panel), release=release, ledger=Ledger(ledger), cap=cap)


def places(one: Client) -> tuple[int, ...]:
    return one._drawn() or ()


def test_a_later_block_first_and_then_an_earlier_one(tmp_path: Path) -> None:
    """Who joins in the second block has no turn in the first, even if it is asked for then."""
    with client(tmp_path / "l") as one:
        assert [answered(one, place, 1) is not None for place in (4, 5, 6, 7)].count(True) == 1
        assert [answered(one, place, 0) for place in range(4)] == [None] * 4
        assert len(places(one)) == 1


def test_who_has_joined_may_be_asked_for_blocks_in_any_order(tmp_path: Path) -> None:
    with client(tmp_path / "l") as one:
        one.enrol("0")
        made = {place: answered(one, place, 1) for place in (7, 6, 5, 4, 3, 2, 1, 0)}
        assert [place for place, code in made.items() if code is not None] == [7, 3]  # made up in the last rounds
        assert one.spent().so_far == one.spent().planned


def test_a_round_has_one_report_whatever_the_record_is_later(tmp_path: Path) -> None:
    panel = small_panel(8, 8)
    with client(tmp_path / "l", panel) as one:
        first = [answered(one, place, 1) for place in range(8)]
        assert None not in first  # every block has one round
        for _ in range(5):
            assert [answered(one, place, 0) for place in range(8)] == first
        assert one.ledger.spent == pytest.approx(8 * EPSILON)


def test_one_report_in_all(tmp_path: Path) -> None:
    for number in range(8):
        with client(tmp_path / str(number), small_panel(1, 8)) as one:
            made = [place for place in range(8) if answered(one, place, 1) is not None]
            assert made == list(places(one))
    with client(tmp_path / "late", small_panel(1, 8)) as one:
        assert [answered(one, place, 1) for place in range(1, 8)] == [None] * 7
        assert one.statement.count("joined too late") == 1


def test_a_ledger_of_before_gets_drawn_rounds(tmp_path: Path) -> None:
    """A ledger with reports and without the table of drawn rounds, as earlier versions wrote it."""
    with client(tmp_path / "l", None) as one:
        one.report([1.0], round="7")
    with Ledger(tmp_path / "l") as ledger:
        tables = ledger._alone(lambda connection: connection.execute("SELECT name FROM sqlite_master").fetchall())
        assert tables == [(b"reports",)]
    with client(tmp_path / "l", release=b"o" * 32) as one:
        assert one.statement.count("When you join") == 1  # reading does not enrol
        one.enrol("0")
        assert len(places(one)) == 2
        assert one.spent().so_far == pytest.approx(EPSILON, rel=1e-5)


def test_other_releases_in_the_ledger_count_against_the_cap(tmp_path: Path) -> None:
    """The default cap is r·ε for everything in the ledger: one report elsewhere leaves r − 1."""
    with client(tmp_path / "l", None, cap=None, release=b"o" * 32) as other:
        other.report([1.0], round="0")
    with client(tmp_path / "l", small_panel(2, 2), cap=None) as one:
        assert answered(one, 0, 1) is not None
        with pytest.raises(BudgetSpentError):
            one.report([1.0], round="1")
        with pytest.raises(BudgetSpentError):  # for every record, and again
            one.report([0.0], round="1")
        assert one.spent().so_far == one.spent().lifetime


def test_a_second_year_needs_a_larger_cap(tmp_path: Path) -> None:
    """The cap counts what the first release spent: by default nothing is left for the next."""
    for release, cap in ((RELEASE, None), (b"n" * 32, None), (b"n" * 32, 4 * EPSILON)):
        with client(tmp_path / "l", small_panel(2, 2), cap=cap, release=release) as one:
            if release != RELEASE and cap is None:
                with pytest.raises(BudgetSpentError):
                    answered(one, 0, 1)
                continue
            assert None not in [answered(one, place, 1) for place in range(2)]
            assert one.spent() == one.spent().lifetime


def made_in_the_first_block(ledger: Path, copies: Path) -> int:
    """Joins, copies the ledger and reports in the first block; the round of the report."""
    shutil.copy2(ledger, copies / "empty")
    with client(ledger) as one:
        one.enrol("0")
        shutil.copy2(ledger, copies / "joined")
        return next(place for place in range(4) if answered(one, place, 1) is not None)


@pytest.mark.parametrize("copy", ["empty", "joined"])
def test_a_copy_that_lacks_one_report_makes_no_other_in_its_block(tmp_path: Path, copy: str) -> None:
    """It may have forgotten the drawn rounds too. What was sent counts, and its block is over."""
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        client(folder / "l").close()
        round = made_in_the_first_block(folder / "l", folder)
        shutil.copy2(folder / copy, folder / "l")
        with client(folder / "l") as one:
            one.enrol("0")
            assert len(places(one)) == 2
            for place in set(range(4)) - {round}:
                assert answered(one, place, 0) is None
            assert answered(one, 7, 0) is not None
            assert one.ledger.spent == pytest.approx(2 * EPSILON)
            if places(one)[0] <= round:
                with pytest.raises(LedgerError, match="may have been sent"):
                    one.report([0.0], round=str(round))
            else:
                assert answered(one, round, 0) is None


@pytest.mark.parametrize("copy", ["empty", "joined"])
def test_a_copy_that_lacks_more_is_refused(tmp_path: Path, copy: str) -> None:
    client(tmp_path / "l").close()
    made_in_the_first_block(tmp_path / "l", tmp_path)
    with client(tmp_path / "l") as one:
        answered(one, 7, 1)
    shutil.copy2(tmp_path / copy, tmp_path / "l")
    with pytest.raises(LedgerError, match="older copy"):
        client(tmp_path / "l")


def test_both_files_restored_and_second_devices_are_new_budgets(tmp_path: Path) -> None:
    """As the documentation says: a copy of both files is not noticed, and each device has r reports of its own."""
    client(tmp_path / "l").close()
    made_in_the_first_block(tmp_path / "l", tmp_path)
    (tmp_path / "l.mark").unlink()
    shutil.copy2(tmp_path / "joined", tmp_path / "l")
    with client(tmp_path / "l") as one, client(tmp_path / "second") as second:
        second.enrol("0")
        assert [len([place for place in range(8) if answered(each, place, 1) is not None]) for each in (one, second)]
        assert len(state_of(one)[1]) == len(state_of(second)[1]) == 2


def test_the_choice_in_a_family_does_not_give_a_second_schedule(tmp_path: Path) -> None:
    """The drawn rounds and the blocks belong to the family, whichever ε is chosen."""
    members = {name: replace(veil, panel=PANEL) for name, veil in chosen().members.items()}
    tv.Family.of_budgets({float(name): veil for name, veil in members.items()}).save(tmp_path / "family")
    with Client.load(tmp_path / "family", ledger=tmp_path / "l", epsilon=0.5) as low:
        low.enrol("0")
        first = places(low)
        made = [low.report([0.5, 0.5], round=str(place)) for place in range(4)]
        assert len([report for report in made if report is not None]) == 1
    with Client.load(tmp_path / "family", ledger=tmp_path / "l", epsilon=2.0) as high:
        assert places(high) == first
        again = [high.report([0.5, 0.5], round=str(place)) for place in range(4)]
        assert again == made
        # What is planned, and said, counts the report that was made with another ε.
        assert (high.spent(), high.spent().planned) == (0.5, 2.5)
        assert "asked 2 times in 8 rounds" in high.statement
        assert "odds of at most 12.2 to 1 (ε = 2.5)" in high.statement
        assert [high.report([0.5, 0.5], round=str(place)) for place in range(4, 8)].count(None) == 3
        assert high.spent() == high.spent().planned == 2.5
    with Client.load(tmp_path / "family", ledger=tmp_path / "l", epsilon=1.0) as other:
        assert other.spent() == other.spent().planned == 2.5
        assert "12.2 to 1 (ε = 2.5)" in other.statement


@pytest.mark.parametrize("panel", [PANEL, None], ids=["planned", "not planned"])
def test_who_chooses_another_member_is_told_the_delta_of_earlier_reports(tmp_path: Path, panel: Panel | None) -> None:
    """A report with δ above 0, and then the choice of a member with δ = 0: the exception stays in the statement."""
    box = tv.Box([0, 0], [1, 1])
    noisy = tv.design(people(), tv.LinearTask(np.ones((1, 2))), epsilon=1.0, delta=1e-6, method="gaussian", domain=box)
    members = {1.0: replace(noisy, panel=panel), 2.0: replace(means(2.0), panel=panel)}
    tv.Family.of_budgets(members).save(tmp_path / "family")
    assert members[1.0].guarantee.delta > 0 == members[2.0].guarantee.delta
    with Client.load(tmp_path / "family", ledger=tmp_path / "l", epsilon=2.0, cap=9.0) as pure:
        assert "δ" not in pure.statement
        pure.report([0.5, 0.5], round="0")
        assert "δ" not in pure.statement
    with Client.load(tmp_path / "family", ledger=tmp_path / "m", epsilon=1.0, cap=9.0) as first:
        assert any(first.report([0.5, 0.5], round=str(place)) is not None for place in (0, 3))
    with Client.load(tmp_path / "family", ledger=tmp_path / "m", epsilon=2.0, cap=9.0) as pure:
        assert pure.delta == 0
        assert "adds δ = 1e-06 (1 in 1,000,000) to the probability" in pure.statement
        assert ("(ε = 3), except with probability δ = 2e-06" in pure.statement) == (panel is not None)


def test_a_lost_report_with_an_earlier_choice_is_in_what_is_planned_and_said(tmp_path: Path) -> None:
    """A disk that loses its last commit, and then a smaller ε and one without δ: what was sent still counts."""
    box = tv.Box([0, 0], [1, 1])
    noisy = tv.design(people(), tv.LinearTask(np.ones((1, 2))), epsilon=2.0, delta=1e-6, method="gaussian", domain=box)
    tv.Family.of_budgets({2.0: replace(noisy, panel=PANEL), 0.5: replace(means(0.5), panel=PANEL)}).save(
        tmp_path / "family"
    )
    with Client.load(tmp_path / "family", ledger=tmp_path / "l", epsilon=2.0) as high:
        high.enrol("0")
        shutil.copy2(tmp_path / "l", tmp_path / "joined")
        assert any(high.report([0.5, 0.5], round=str(place)) is not None for place in range(4))
    shutil.copy2(tmp_path / "joined", tmp_path / "l")
    with Client.load(tmp_path / "family", ledger=tmp_path / "l", epsilon=2.0) as same:
        assert same.spent().planned == 4.0  # the lost report, and the one to come
    with Client.load(tmp_path / "family", ledger=tmp_path / "l", epsilon=0.5, cap=9.0) as low:
        assert low.spent().planned == 2.5
        assert "odds of at most 12.2 to 1 (ε = 2.5), except with probability δ = 2e-06" in low.statement


def test_a_drawn_family_pays_the_largest_epsilon_for_every_report(tmp_path: Path) -> None:
    family = drawn()
    members = {name: (replace(veil, panel=PANEL), family.weights[name]) for name, veil in family.members.items()}
    tv.Family(members).save(tmp_path / "family")
    with Client.load(tmp_path / "family", ledger=tmp_path / "l") as one:
        one.enrol("0")
        made = [one.report([0.5, 0.5], round=str(place)) for place in range(8)]
        assert len([report for report in made if report is not None]) == 2
        assert one.spent() == one.spent().lifetime == pytest.approx(2 * family.epsilon)


SHARED = """
import random, sys
sys.path[:0] = [sys.argv[1]]
from panels import *
rounds = list(range(40)) * 2
random.Random(sys.argv[3]).shuffle(rounds)
with Client(device=coin(small_panel(10, 40)), release=RELEASE, ledger=Ledger(sys.argv[2]), cap=100.0) as client:
    client.enrol("0")
    for place in rounds:
        report = client.report([float(sys.argv[3])], round=str(place))
        if report is not None:
            print(place, report.to_bytes().hex())
    print("drawn", client._drawn())
"""


def test_processes_at_once_share_the_drawn_rounds_and_the_blocks(tmp_path: Path) -> None:
    """Three processes join at once and ask for all rounds in orders and with records of their own."""
    here = str(Path(__file__).parents[1])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SHARED, here, str(tmp_path / "l"), str(number)], stdout=subprocess.PIPE, text=True
        )
        for number in range(3)
    ]
    said = [set(process.communicate(timeout=300)[0].splitlines()) for process in started]
    assert [process.returncode for process in started] == [0] * 3
    together = set.union(*said)
    assert len([line for line in together if line.startswith("drawn")]) == 1
    blocks = [int(line.split()[0]) // 4 for line in together if not line.startswith("drawn")]
    assert sorted(blocks) == sorted(set(blocks))
    with Ledger(tmp_path / "l") as ledger:
        assert ledger.spent == pytest.approx(len(blocks) * EPSILON)
