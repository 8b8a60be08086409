from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from cli.running import one_line, run
from running_collector import small_veil
from taskveil.client.panels import Panel
from taskveil.client.promise import rounded_up, times_as_likely
from taskveil.collector.store import Submission, open_store


@pytest.fixture
def folder(tmp_path: Path, veil: tv.Veil, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with a release, and the name of a database that is not there yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKVEIL_DB", f"sqlite:///{tmp_path}/collector.db")
    veil.save(tmp_path / "renewal")
    return tmp_path


def status() -> dict[str, Any]:
    (release,) = json.loads(run("collection", "status", "--json"))
    assert isinstance(release, dict)
    return release


def rounds() -> dict[str, tuple[bool, int]]:
    return {one["name"]: (one["open"], one["reports"]) for one in status()["rounds"]}


def arrived(round: str, count: int) -> None:
    """Put reports into a round, as the collector does."""
    store = open_store(f"sqlite:///{Path('collector.db').absolute()}")
    (number,) = (one.number for release in store.releases() for one in release.rounds if one.name == round)
    rng = np.random.default_rng(count)
    ids, payloads = rng.integers(0, 256, (count, 16)).astype(np.uint8), np.zeros((count, 3), dtype=np.uint8)
    added = None if store.releases()[0].counted else lambda new: np.array([float(new.sum())])
    (fates,) = store.ingest([Submission(round=number, ids=ids, payloads=payloads, moments=added)])
    assert not fates.any()
    store.close()


def test_a_collection_from_its_first_day_to_its_last(folder: Path, veil: tv.Veil) -> None:
    said = run("collection", "open", "renewal", "--round", "2026-W46")
    assert (
        said
        == f"renewal ({veil.release_id[:12]}) is open; reports belong to round 2026-W46 unless they name another.\n"
    )
    assert (status()["id"], status()["name"], status()["open"]) == (veil.release_id, "renewal", True)
    arrived("2026-W46", 30)

    assert "Still open: 2026-W46" in run("collection", "round", "renewal", "2026-W47")
    assert status()["current"] == "2026-W47"
    assert run("collection", "end", "renewal", "2026-W46") == "round 2026-W46 of renewal has ended with 30 reports.\n"
    arrived("2026-W47", 12)
    assert rounds() == {"2026-W46": (False, 30), "2026-W47": (True, 12)}

    assert "takes no more reports" in run("collection", "close", veil.release_id[:6])
    assert not status()["open"]
    run("collection", "open", "renewal")
    assert status()["open"]
    assert rounds()["2026-W46"] == (False, 30), "a round that ended stays so"

    assert "30 reports of round 2026-W46 of renewal are deleted" in run(
        "collection", "forget", "renewal", "2026-W46", "--yes"
    )
    assert rounds() == {"2026-W47": (True, 12)}


def test_the_table_shows_all_of_it(folder: Path, veil: tv.Veil) -> None:
    run("collection", "open", "renewal", "--round", "2026-W46")
    arrived("2026-W46", 1200)
    run("collection", "round", "renewal", "2026-W47")
    run("collection", "end", "renewal", "2026-W46")
    lines = run("collection", "status").splitlines()
    words = ("renewal", veil.release_id[:12], "2026-W46", "no, ended", "1,200")
    assert any(all(word in line for word in words) for line in lines)
    assert any("2026-W47" in line and "yes, current" in line for line in lines)
    run("collection", "close", "renewal")
    assert run("collection", "status").count("no, release closed") == 2


def test_below_the_table_epsilon_adds_up(folder: Path, veil: tv.Veil) -> None:
    """Rounds that were deleted count: people spent budget on them."""
    run("collection", "open", "renewal", "--round", "2026-W46")
    epsilon = veil.guarantee.epsilon
    each = f"renewal: ε = {rounded_up(epsilon)} for each report. A person who reported in"
    assert f"{each} its round spent ε = {rounded_up(epsilon)}" in run("collection", "status")
    run("collection", "round", "renewal", "2026-W47")
    run("collection", "end", "renewal", "2026-W46")
    run("collection", "forget", "renewal", "2026-W46", "--yes")
    twice = f"spent ε = {rounded_up(2 * epsilon)} (odds of at most {times_as_likely(2 * epsilon)} to 1)."
    assert f"{each} each of its 2 rounds {twice}" in run("collection", "status")
    assert "planned" not in run("collection", "status"), "no plan is invented"
    run("collection", "open", "renewal", "--planned-rounds", "52")
    shown = run("collection", "status")
    whole = 52 * epsilon
    planned = (
        f"The 52 planned rounds add up to ε = {rounded_up(whole)} (odds of at most {times_as_likely(whole)} to 1)."
    )
    assert f"{each} each of its 2 rounds {twice} {planned}" in shown
    assert "different releases" not in shown


def test_delta_stands_beside_epsilon(
    volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKVEIL_DB", f"sqlite:///{tmp_path}/collector.db")
    tv.design(volunteers, task, epsilon=1.0, delta=1e-6, method="gaussian").save("noise")
    run("collection", "open", "noise", "--round", "1")
    run("collection", "round", "noise", "2")
    shown = run("collection", "status")
    assert "for each report, except with probability δ = 1e-06 (1 in 1,000,000). A person who reported" in shown
    assert "to 1), except with probability δ = 2e-06 (1 in 500,000)." in shown


def test_budgets_of_several_releases_add_up(folder: Path, veil: tv.Veil) -> None:
    other = small_veil(1.25)
    other.save("second")
    for name in ("renewal", "second"):
        run("collection", "open", name, "--round", "2026-W46")
    total = rounded_up(veil.guarantee.epsilon + other.guarantee.epsilon)
    expected = f"a person who reported as often as possible in all of them spent ε = {total}"
    assert expected in run("collection", "status")


def test_a_release_that_plans_its_rounds_says_how_often_a_person_reports(
    veil: tv.Veil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKVEIL_DB", f"sqlite:///{tmp_path}/collector.db")
    panel = Panel(reports=2, rounds=("a", "b", "c", "d"), days=0)
    replace(veil, panel=panel).save(tmp_path / "panel")
    assert "round a" in run("collection", "open", "panel")
    run("collection", "round", "panel", "b")
    epsilon = veil.guarantee.epsilon
    one, two = (f"ε = {rounded_up(n * epsilon)} (odds of at most {times_as_likely(n * epsilon)} to 1)" for n in (1, 2))
    expected = (
        f"A person makes at most 2 reports in 4 planned rounds, in total {two}; in 2 rounds so far at most 1 report, "
        f"{one}."
    )
    assert expected in run("collection", "status")
    run("collection", "round", "panel", "c")
    assert f"in 3 rounds so far at most 2 reports, {two}." in run("collection", "status")
    for wrong in (("round", "panel", "e"), ("open", "panel", "--round", "e")):
        assert "round 'e' is not planned: devices report in its 4 planned rounds, 'a' to 'd'" in one_line(
            "collection", *wrong
        )
    assert "plans its rounds itself" in one_line("collection", "open", "panel", "--planned-rounds", "9")


def test_a_release_that_cannot_be_opened_is_named_beside_the_totals(folder: Path, veil: tv.Veil) -> None:
    """People spent budget on it: a total that leaves it out without a word would be too small."""
    other = small_veil(1.25)
    other.save("second")
    for name in ("renewal", "second"):
        run("collection", "open", name, "--round", "2026-W46")
    assert "Not in these totals" not in run("collection", "status")
    with contextlib.closing(sqlite3.connect("collector.db")) as database, database:
        database.execute("UPDATE files SET content = x'7b7d' WHERE release = (SELECT max(release) FROM files)")
    shown = " ".join(run("collection", "status").split())
    assert f"Not in these totals, because this taskveil cannot open them: second ({other.release_id[:12]})." in shown


def test_forgetting_is_not_done_by_mistake(folder: Path) -> None:
    run("collection", "open", "renewal", "--round", "2026-W46")
    arrived("2026-W46", 5)
    assert "end it first" in one_line("collection", "forget", "renewal", "2026-W46", "--yes")
    run("collection", "end", "renewal", "2026-W46")
    assert "deletes 5 reports" in one_line("collection", "forget", "renewal", "2026-W46")
    assert rounds() == {"2026-W46": (False, 5)}
    assert "has no round '2026-W45', only 2026-W46" in one_line("collection", "forget", "renewal", "2026-W45", "--yes")


def test_counts_are_counted_again(folder: Path) -> None:
    run("collection", "open", "renewal", "--round", "2026-W46")
    arrived("2026-W46", 5)
    assert "5 reports, and all counts are correct." in run("collection", "check")
    with contextlib.closing(sqlite3.connect("collector.db")) as database, database:
        database.execute("UPDATE totals SET reports = reports + 1")
    assert "Restore a backup" in one_line("collection", "check")


def test_an_ended_current_round_is_pointed_out(folder: Path) -> None:
    run("collection", "open", "renewal", "--round", "2026-W46")
    run("collection", "end", "renewal", "2026-W46")
    assert "taskveil collection round renewal NAME opens one" in run("collection", "open", "renewal")
    run("collection", "forget", "renewal", "2026-W46", "--yes")
    assert "taskveil collection round renewal NAME opens one" in run("collection", "open", "renewal")
    assert "reports belong to round 2026-W47" in run("collection", "open", "renewal", "--round", "2026-W47")


def test_a_collector_starts_whose_current_round_is_forgotten(folder: Path) -> None:
    from taskveil.cli.serving import _known

    run("collection", "open", "renewal", "--round", "2026-W46")
    run("collection", "end", "renewal", "2026-W46")
    run("collection", "forget", "renewal", "2026-W46", "--yes")
    store = open_store(f"sqlite:///{folder}/collector.db")
    try:
        line, *_ = _known(store, [], None, None)
    finally:
        store.close()
    assert "round ended; current round none" in line


def test_what_cannot_be_done_is_said_in_one_line(folder: Path) -> None:
    assert "there is no database" in one_line("collection", "status")
    assert "there is no database" in one_line("collection", "open", "elsewhere")
    assert not Path("collector.db").exists()
    run("collection", "open", "renewal")
    assert "no release 'cars' here" in one_line("collection", "close", "cars")
    assert "name is 1 to" in one_line("collection", "round", "renewal", "a/b")
    assert "has no round" in one_line("collection", "end", "renewal", "1999")
    manifest = folder / "renewal/client/manifest.json"
    manifest.write_text(manifest.read_text().replace("epsilon", "epsilom"))
    assert "manifest" in one_line("collection", "open", "renewal")
