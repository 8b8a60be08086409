"""A sweep with segments: what each has of its own, on whom it is judged, what is released, and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import taskveil as tv
from designers import Noisy, Plain
from taskveil.designs.problem import Problem
from taskveil.errors import DataError, ReleaseError, TaskError, WildRecordWarning
from taskveil.sweeps import segments
from taskveil.sweeps.segments import FOLDERS

RNG = np.random.default_rng(4)
N = 300
WHERE = RNG.choice(["near", "far/away", "few"], size=N, p=[0.55, 0.4, 0.05])
TABLE = pd.DataFrame(RNG.normal(size=(N, 2)) * np.where(WHERE == "near", 1.0, 9.0)[:, None], columns=["a", "b"])
TABLE["where"] = WHERE
TASK = tv.LinearTask(np.diag([1.0, 1.0, 0.0]))
OPTIONS: dict[str, Any] = {"epsilons": [2.0, 8.0], "methods": ["task_aware", "task_agnostic"]}


@pytest.fixture(autouse=True)
def _twenty_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """To test with; for intervals that hold there are more."""
    monkeypatch.setattr(segments, "FEWEST_TESTED", 20)


def folders(path: Path) -> set[str]:
    return {str(found.parent.relative_to(path)) for found in path.glob("**/client")}


def test_own_and_common_designs_are_judged_on_the_same_people() -> None:
    found = tv.sweep_segments(TABLE, TASK, segment="where", **OPTIONS)
    assert found.common == tv.sweep(TABLE, TASK, **OPTIONS)  # segments change nothing for everybody
    assert list(found.people) == ["near", "far/away", "few"]
    assert set(found.segments) == {"near", "far/away"}
    assert sum(tested for _, tested in found.people.values()) == len(found.common.clear_per_record)
    rows = {(row["segment"], row["method"], row["epsilon"]): row for row in found.rows()}
    near = rows["near", "task_agnostic", 2.0]
    assert near["sure"]  # what serves those who are far from each other is not made for those who are near
    common = found.common.per_record("task_agnostic", 2.0)[found.tested["near"]]
    own = found.segments["near"].per_record("task_agnostic", 2.0)
    assert near["gain"] == pytest.approx((common - own).mean())
    assert rows["few", "task_aware", 2.0]["why_not"].endswith("needs 25 and 20.")


def test_a_segments_design_is_the_one_its_volunteers_alone_would_get() -> None:
    numbers, here = TABLE[["a", "b"]].to_numpy(), WHERE == "near"
    test = RNG.normal(size=(60, 2))
    options: dict[str, Any] = {"epsilons": [4.0], "methods": ["task_aware"]}
    task = tv.LinearTask(np.eye(2))
    found = tv.sweep_segments(numbers, task, test=test, segment=WHERE, segment_test=["near"] * 60, **options)
    assert found.segments["near"] == tv.sweep(numbers[here], task, test=test, **options)


@dataclass(frozen=True)
class Curious(Plain):
    """Writes down the records it is given."""

    log: str = ""
    name: str = "curious"

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        with Path(self.log).open("a") as log:
            log.write(json.dumps(problem.X[:, 0].tolist()) + "\n")
        yield from Noisy().designs(problem, epsilons, seeds)


def test_no_design_sees_a_test_record_or_another_segment(tmp_path: Path) -> None:
    """Every number occurs once, so that who was seen can be told."""
    numbers = TABLE[["a", "b"]].to_numpy()
    found = tv.sweep_segments(
        numbers, tv.LinearTask(np.eye(2)), epsilons=[2.0], methods=[Curious(log=str(tmp_path / "seen"))], segment=WHERE,
        domain=tv.Box(-100, 100),
    )  # fmt: skip
    seen = [{*map(float, json.loads(line))} for line in (tmp_path / "seen").read_text().splitlines()]
    everybody = seen[0]
    assert len(everybody) == 210
    for part, name in zip(seen[1:], found.segments, strict=True):
        assert part == everybody & set(numbers[name == WHERE, 0])


def test_people_without_a_label_have_the_common_design() -> None:
    labels = [None if place % 3 else "some" for place in range(N)]
    found = tv.sweep_segments(TABLE, TASK, segment=labels, **OPTIONS)
    assert list(found.people) == ["some"]
    assert sum(found.people["some"]) == 100
    assert len(found.common.clear_per_record) == 90


def test_constant_columns_and_one_class_are_no_obstacle() -> None:
    """In one segment, nobody differs in a column and all have the same label."""
    from sklearn.tree import DecisionTreeClassifier

    table = TABLE.copy()
    one = WHERE == "near"  # most of them
    table.loc[one, "b"] = 0.0
    labels = np.where(one, 1, table["a"] > 0).astype(int)
    numbers = table[["a", "b"]]
    task = tv.ModelTask(DecisionTreeClassifier(max_depth=3, random_state=0).fit(numbers, labels), loss="cross_entropy")
    options: dict[str, Any] = {
        "y": labels,
        "epsilons": [2.0],
        "methods": ["codebook"],
        "on_device": tv.OnDevice(encoder="linear"),
        "seeds": 1,
    }
    found = tv.sweep_segments(numbers, task, segment=np.where(one, "near", None), **options)
    assert found.segments["near"].loss("codebook", 2.0) < found.common.loss("codebook", 2.0)
    assert "near" in found.table()


@pytest.mark.parametrize("as_labels", [list, np.asarray, pd.Series, lambda y: [["no", "yes"][label] for label in y]])
def test_what_the_model_predicts_is_no_segment(as_labels: Any) -> None:
    y = (TABLE["a"] > 0).astype(int)
    task = tv.ModelTask(LogisticRegression().fit(TABLE[["a", "b"]].to_numpy(), y), loss="cross_entropy")
    with pytest.raises(DataError, match="segment is y"):
        tv.sweep_segments(TABLE[["a", "b"]].to_numpy(), task, y=y, segment=as_labels(y), epsilons=[1.0])


def test_people_are_no_segments_whatever_is_predicted_of_them() -> None:
    """One label and one answer each: that is no copy of the answers, and nobody has a design of their own."""
    numbers = TABLE[["a", "b"]].to_numpy()
    task = tv.ModelTask(LinearRegression().fit(numbers, numbers[:, 0]), loss="mse")
    found = tv.sweep_segments(
        numbers, task, y=numbers[:, 0], segment=list(range(N)), epsilons=[1.0], methods=["constant"], seeds=1
    )
    assert found.segments == {}


def test_every_design_of_the_first_seed_is_released(tmp_path: Path) -> None:
    tv.sweep_segments(TABLE, TASK, segment="where", releases=tmp_path / "r", **OPTIONS)
    names = folders(tmp_path / "r")
    assert len(names) == 3 * 2 * 2
    assert {name.split("/")[0].split("-")[0] for name in names} == {"common", "near", "far_away"}
    whose = json.loads((tmp_path / "r" / FOLDERS).read_text(encoding="utf-8"))  # of names that no folder can have, too
    assert set(whose) == {"near", "far/away"}
    assert {f"{folder}/task_aware-8" for folder in whose.values()} < set(names)
    veil = tv.Veil.load(tmp_path / "r" / "near" / "task_aware-8")
    assert veil.schema["where"].values == ("far/away", "few", "near")  # the column stays a part of the record
    assert veil.volunteers is not None  # as of `tv.design`
    assert veil.guarantee.epsilon <= 8.0
    assert veil.decode(veil.privatize(TABLE)).columns.tolist() == ["a", "b", "where"]
    with pytest.raises(ReleaseError, match="exists already"):
        tv.sweep_segments(TABLE, TASK, segment="where", releases=tmp_path / "r", **OPTIONS)


def test_what_is_in_the_way_is_said_before_anything_is_designed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskveil.sweeps.work.design_many", lambda *_, **__: pytest.fail("designing began"))
    (tmp_path / "r" / "near" / "task_agnostic-8").mkdir(parents=True)
    with pytest.raises(ReleaseError, match="task_agnostic-8 exists already"):
        tv.sweep_segments(TABLE, TASK, segment="where", releases=tmp_path / "r", **OPTIONS)
    with pytest.raises(DataError, match="no column of this name"):
        tv.sweep_segments(TABLE, TASK, segment="country", **OPTIONS)
    with pytest.raises(DataError, match="the test records have no labels"):
        tv.sweep_segments(TABLE, TASK, segment=WHERE, test=TABLE, **OPTIONS)
    with pytest.raises(DataError, match="test was not passed"):
        tv.sweep_segments(TABLE, TASK, segment=WHERE, segment_test=WHERE, **OPTIONS)


def test_a_sweep_goes_on_with_its_segments_and_releases(tmp_path: Path) -> None:
    log, out = tmp_path / "log.json", tmp_path / "r"
    tv.sweep(TABLE, TASK, resume=log, **OPTIONS)  # for everybody, and without releases
    found = tv.sweep_segments(TABLE, TASK, resume=log, segment="where", releases=out, **OPTIONS)
    before = folders(out)
    for lost in (out / "near" / "task_aware-8" / "client", out / "near" / "task_aware-8" / "server"):
        for file in lost.iterdir():
            file.unlink()
        lost.rmdir()
    (out / "near" / "task_aware-8").rmdir()
    again = tv.sweep_segments(TABLE, TASK, resume=log, segment="where", releases=out, **OPTIONS)
    assert again.rows() == found.rows()
    assert folders(out) == before
    other = np.where(WHERE == "near", "far/away", "near")
    with pytest.raises(DataError, match="other people under the name of a segment"):
        tv.sweep_segments(TABLE, TASK, resume=log, segment=other, **OPTIONS)
    (out / "common" / "task_aware-2" / "client" / "manifest.json").write_text('{"digest": "another"}')
    with pytest.raises(ReleaseError, match="task_aware-2 exists already"):
        tv.sweep_segments(TABLE, TASK, resume=log, segment="where", releases=out, **OPTIONS)


def test_a_design_that_fails_names_its_segment() -> None:
    @dataclass(frozen=True)
    class Picky(Plain):
        name: str = "picky"

        def designs(
            self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
        ) -> Iterator[tuple[float, int, tv.Veil]]:
            if len(problem.X) < 150:
                raise TaskError("too few for me.")
            return Noisy().designs(problem, epsilons, seeds)

    with pytest.raises(TaskError, match=r"^segment 'near': too few for me\. Take the label away"):
        tv.sweep_segments(TABLE, TASK, epsilons=[1.0], methods=[Picky()], segment="where")


def test_many_segments_with_wild_cells_say_it_three_times() -> None:
    """Not for each of many segments: the table would scroll away."""
    rng = np.random.default_rng(0)
    numbers, labels = rng.normal(size=(600, 2)), np.arange(600) % 6
    numbers[labels == 0] *= 100.0
    numbers[1:6] = 150.0  # nothing special, but for the five segments it happens in
    with pytest.warns(WildRecordWarning) as said:
        tv.sweep_segments(
            numbers, tv.LinearTask(np.eye(2)), epsilons=[1.0], methods=["task_aware"], test=rng.normal(size=(300, 2)),
            segment=labels, segment_test=np.arange(300) % 6,
        )  # fmt: skip
    assert len(said) == 3
    assert {warning.filename for warning in said} == {__file__}
