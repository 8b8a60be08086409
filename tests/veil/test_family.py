"""Families on servers: whole-number weights, what fits together, and files that are read back."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from families import answers, chosen, drawn, means, people
from taskveil.client.families import FAMILY
from taskveil.client.reading import digest
from taskveil.errors import BudgetError, DataError, ReleaseError, SignatureError


def pair(one: object, other: object) -> tv.Family:
    return tv.Family({"a": (means(1.0), one), "b": (means(2.0), other)})


@pytest.mark.parametrize(
    ("weights", "whole"),
    [
        ((0.9, 0.1), (9, 1)),
        ((1, 1), (1, 1)),
        ((2, 4), (1, 2)),
        ((0.25, 0.75), (1, 3)),
        ((1e-3, 1), (1, 1000)),
        ((Fraction(1, 3), Fraction(2, 3)), (1, 2)),
        ((np.float64(0.7), np.int64(1)), (7, 10)),
        ((1, 2**53 - 2), (1, 2**53 - 2)),
    ],
)
def test_weights_become_the_smallest_whole_numbers(weights: tuple[object, object], whole: tuple[int, int]) -> None:
    assert tuple(pair(*weights).weights.values()) == whole


@pytest.mark.parametrize("weight", [0, -1, 0.0, float("nan"), float("inf"), None, "many", True, 1e-300])
def test_other_weights_are_refused(weight: object) -> None:
    with pytest.raises(BudgetError):
        pair(1, weight)


def test_what_does_not_fit_together_is_refused(veil: tv.Veil) -> None:
    for members, said in (
        ({}, "two members"),
        ({"a": (means(1.0), 1)}, "two members"),
        ({"a": (means(1.0), 1), "b": (means(1.0), 1)}, "release of its own"),
        ({"a": (means(1.0), 1), "b": (veil, 1)}, "the same record"),
        ({"a": (means(1.0), 1), "../b": (means(2.0), 1)}, "name"),
        ({"a": means(1.0), "b": means(2.0)}, "weight"),
        ([("a", means(1.0))], "weight"),
    ):
        with pytest.raises(DataError, match=said):
            tv.Family(members)  # type: ignore[arg-type]
    for budgets, said in (
        ({1.0: means(2.0), 2.0: means(1.0)}, "costs"),
        ({1.0: means(1.0)}, "two members"),
        ({1.0: means(1.0), 2.0: "veil"}, "epsilon: veil"),
    ):
        with pytest.raises(DataError, match=said):
            tv.Family.of_budgets(budgets)  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        tv.Family.of_budgets({0.0: means(0.5), 1.0: means(1.0)})


def test_names_of_fields_decide_whether_records_are_the_same() -> None:
    X = pd.DataFrame(people(), columns=["x", "y"])
    one = tv.design(X, tv.MeanTask(np.eye(2)), epsilon=1.0)
    two = tv.design(X[["y", "x"]], tv.MeanTask(np.eye(2)), epsilon=2.0)
    with pytest.raises(DataError, match="the same record"):
        tv.Family({"one": (one, 1), "two": (two, 1)})


def test_the_id_is_the_digest_of_the_description_and_binds_everything() -> None:
    manifest = drawn().manifest
    assert drawn().release_id == digest({key: value for key, value in manifest.items() if key != "digest"})
    others = {
        tv.Family({"answers": (answers(), 8), "survey": (means(1.0), 1)}).release_id,
        tv.Family({"answers": (answers(), 9), "other": (means(1.0), 1)}).release_id,
        tv.Family({"answers": (answers(), 9), "survey": (means(2.0), 1)}).release_id,
        tv.Family({"survey": (means(1.0), 1), "answers": (answers(), 9)}).release_id,
        chosen().release_id,
    }
    assert drawn().release_id not in others
    assert len(others) == 5


def test_saved_and_read_back(tmp_path: Path) -> None:
    for family, name in ((drawn(), "d"), (chosen(), "c")):
        family.save(tmp_path / name)
        again = tv.Family.load(tmp_path / name)
        assert (again.kind, again.weights, again.release_id) == (family.kind, family.weights, family.release_id)
        assert again.files() == family.files()
        assert list(again.members) == list(family.members)
        assert repr(again) == repr(family)
        for place in (tmp_path / name).glob("*/server"):
            assert stat.S_IMODE(place.stat().st_mode) == 0o700
    with pytest.raises(ReleaseError, match="exists already"):
        drawn().save(tmp_path / "d")
    chosen().save(tmp_path / "d", overwrite=True)
    assert tv.Family.load(tmp_path / "d").kind == "chosen"
    answers().save(tmp_path / "d", overwrite=True)
    with pytest.raises(ReleaseError):
        tv.Family.load(tmp_path / "d")
    (tmp_path / "mine").mkdir()
    with pytest.raises(ReleaseError, match="not a taskveil release"):
        drawn().save(tmp_path / "mine", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["c", "d", "mine"]


def test_an_altered_server_half_is_refused(tmp_path: Path) -> None:
    drawn().save(tmp_path / "d")
    place = tmp_path / "d/survey/server/weights.safetensors"
    raw = bytearray(place.read_bytes())
    raw[-1] ^= 1
    place.write_bytes(bytes(raw))
    with pytest.raises(ReleaseError):
        tv.Family.load(tmp_path / "d")


def test_a_server_half_of_another_release_is_refused() -> None:
    files, other = drawn().files(), means(2.0).files()
    mixed = files | {f"survey/{name}": content for name, content in other.items() if name.startswith("server/")}
    with pytest.raises(ReleaseError, match="different releases"):
        tv.Family.from_files(mixed)
    with pytest.raises(SignatureError):
        tv.Family.from_files(files, verify_key=bytes(32))


def test_tasks_that_are_models_are_given_by_member(tmp_path: Path) -> None:
    drawn().save(tmp_path / "d")
    with pytest.raises(DataError, match="nobody"):
        tv.Family.load(tmp_path / "d", tasks={"nobody": tv.LinearTask(np.eye(2))})
    tv.Family.load(tmp_path / "d", tasks={"answers": tv.LinearTask(np.ones((1, 2)))})


def test_a_report_for_every_record_of_a_drawn_member() -> None:
    reports = drawn().privatize(people(5_000))
    assert sum(map(len, reports.values())) == 5_000
    assert 350 < len(reports["survey"]) < 650
    for name, own in reports.items():
        drawn().members[name].checked(own)
    with pytest.raises(DataError, match="people choose"):
        chosen().privatize(people())


def test_the_guarantee_is_that_of_the_largest_member() -> None:
    assert drawn().guarantee.epsilon == answers().mechanism.epsilon
    assert drawn().guarantee.delta == 0
    assert drawn().guarantee.assumptions == ()
    assert "does not depend on the record" in chosen().guarantee.assumptions[-1]
    assert "choice itself is visible" in drawn().statement


def test_the_description_lists_names_whole_weights_ids_and_epsilons(tmp_path: Path) -> None:
    drawn().save(tmp_path / "d")
    assert (tmp_path / "d" / FAMILY).read_text().count('"weight": 9') == 1
    assert [(one["name"], one["release"], one["epsilon"]) for one in drawn().manifest["members"]] == [
        (name, veil.release_id, veil.mechanism.epsilon) for name, veil in drawn().members.items()
    ]


def over_time(reports: int, epsilon: float, rounds: int = 6) -> tv.Veil:
    X = np.random.default_rng(0).normal(size=(200, 2))
    plan = tv.OverTime(lifetime=reports * epsilon, rounds=rounds, per_report=epsilon)
    return tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=plan, method="task_aware")


def test_members_over_time_share_one_lifetime(tmp_path: Path) -> None:
    family = tv.Family({"strong": (over_time(3, 1.0), 1), "weak": (over_time(3, 0.25), 1)})
    assert family.guarantee.lifetime == 3.0
    assert family.guarantee.panel == over_time(3, 1.0).panel
    assert "You will be asked 3 times in 6 rounds" in family.statement
    assert "odds of at most 20.1 to 1 (ε = 3)" in family.statement
    assert repr(family).endswith("; in 3 of 6 rounds>")
    assert any("when it is on" in word for word in family.guarantee.assumptions)
    family.save(tmp_path / "family")
    assert tv.Family.load(tmp_path / "family").guarantee == family.guarantee
    with tv.Client.load(tmp_path / "family", ledger=tmp_path / "ledger") as client:
        made = [client.report([0.0, 0.0], round=str(number)) for number in range(1, 7)]
        assert sum(report is not None for report in made) == 3
        assert client.spent().lifetime == client.cap == 3.0  # whichever members were drawn
        assert family.statement.split(" You will")[1].startswith(" be asked 3 times")


def test_people_choose_among_budgets_with_the_same_rounds(tmp_path: Path) -> None:
    family = tv.Family.of_budgets({1.0: over_time(3, 1.0), 0.25: over_time(3, 0.25)})
    family.save(tmp_path / "family")
    with tv.Client.load(tmp_path / "family", ledger=tmp_path / "ledger", epsilon=0.25) as client:
        assert client.spent().lifetime == 0.75
    for other in (over_time(4, 0.25), over_time(3, 0.25, rounds=7), replace(over_time(3, 0.25), panel=None)):
        with pytest.raises(DataError, match=r"the same planned rounds: '1' \(in 3 of 6 rounds\) and '0\.25' \("):
            tv.Family.of_budgets({1.0: over_time(3, 1.0), 0.25: other})
