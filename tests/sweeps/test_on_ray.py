"""Sweeps by the workers of a Ray cluster: the same points and releases as here, and one line for what goes wrong."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier
from tests.cli.running import run

import taskveil as tv
from designers import Noisy, Plain
from taskveil.designs.problem import Problem
from taskveil.errors import ClusterError, TaskError
from taskveil.jobs import ray_cluster as joining

RNG = np.random.default_rng(6)
N = 480
WHERE = np.array(["here", "there"])[RNG.integers(0, 2, N)]
X = RNG.normal(size=(N, 3)) * np.where(WHERE == "here", 1.0, 3.0)[:, None]
LABELS = (X[:, 0] + X[:, 1] > 0).astype(int)
LINEAR = tv.LinearTask(np.diag([2.0, 1.0, 0.5]))


@pytest.fixture(scope="module", autouse=True)
def ray_cluster() -> Iterator[None]:
    """One for all tests: sweeps stay on the cluster that there is."""
    with joining.connected(workers=2):
        yield


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("**/*")) if path.is_file()}


def test_points_and_releases_are_those_of_the_plain_engine(tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(where=WHERE)
    task = tv.LinearTask(np.diag([2.0, 1.0, 0.5, 0.0]))
    options: dict[str, Any] = {
        "epsilons": [1.0, 4.0],
        "methods": ["task_aware", Plain()],
        "segment": "where",
    }
    here = tv.sweep_segments(table, task, releases=tmp_path / "plain", **options)
    shown: list[tuple[str, float | None]] = []
    there = tv.sweep_segments(
        table, task, releases=tmp_path / "ray", engine=tv.Ray(), progress=lambda *said: shown.append(said), **options
    )
    assert ("starting 12 tasks on Ray", 0.0) in shown
    assert shown[-1] == ("12 of 12 tasks finished on Ray", 1.0)
    assert there.common == here.common
    assert there.segments == here.segments
    assert there.rows() == here.rows()  # with the losses of single records behind them
    assert len(files(tmp_path / "plain")) == 3 * 4 * 4 + 1  # folders.json
    assert files(tmp_path / "ray") == files(tmp_path / "plain")


def test_begun_here_and_ended_there(tmp_path: Path) -> None:
    task = tv.ModelTask(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, LABELS), loss="cross_entropy")
    options: dict[str, Any] = {
        **{
            "y": LABELS,
            "epsilons": [1.0, 4.0],
            "methods": ["codebook"],
            "on_device": tv.OnDevice(encoder="linear"),
            "seeds": 2,
        },
        "resume": tmp_path / "log.json",
    }
    here = tv.sweep(X, task, **options)
    content = json.loads(options["resume"].read_text())
    content["points"] = [
        (place, point) for place, point in content["points"] if point["seed"] == 0
    ]  # as if interrupted
    options["resume"].write_text(json.dumps(content))
    assert tv.sweep(X, task, **options, engine=tv.Ray(workers=1)) == here
    kept = options["resume"].read_bytes()
    assert tv.sweep(X, task, **options, engine=tv.Ray(address="nowhere:1")) == here  # nobody is asked any more
    assert options["resume"].read_bytes() == kept


@dataclass(frozen=True)
class Failing(Plain):
    """Fails at one budget, as soon as a file is there."""

    at: float = 0.0
    after: str = ""
    name: str = "failing"

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        warnings.warn("beware of this designer", UserWarning, stacklevel=2)
        if self.at in epsilons:
            while not os.path.exists(self.after):
                pass
            raise TaskError("no such design.")
        yield from Noisy().designs(problem, epsilons, seeds)


def test_what_is_finished_is_kept_when_something_fails(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    options: dict[str, Any] = {"epsilons": [1.0, 2.0], "engine": tv.Ray()}
    with pytest.warns(UserWarning, match="beware") as said, pytest.raises(TaskError, match=r"^no such design\.$"):
        tv.sweep(X, LINEAR, methods=[Failing(at=2.0, after=str(log))], resume=log, **options)
    assert [warning.filename for warning in said] == [__file__]  # a worker's warnings are the caller's
    assert log.read_text().count('"method"') == 1


def test_what_cannot_be_sent_is_said_in_one_line() -> None:
    with pytest.raises(TaskError, match=r"cannot be sent to workers .*lock"):
        tv.sweep(X, LINEAR, epsilons=[1.0], methods=[Noisy(asked=[threading.Lock()])], engine=tv.Ray())  # type: ignore[list-item]


def test_nobody_waits_for_a_processor_that_no_machine_has() -> None:
    with pytest.raises(ClusterError, match="takes 1000 GPUs, and the cluster has"):
        tv.sweep(X, LINEAR, epsilons=[1.0], methods=["task_aware"], engine=tv.Ray(gpus=1000))


def test_the_command_line(tmp_path: Path) -> None:
    pd.DataFrame(X, columns=["a", "b", "c"]).to_csv(tmp_path / "people.csv", index=False)
    asked = ("sweep", tmp_path / "people.csv", "--epsilons", "2", "--methods", "task_aware", "--json", "--folder")
    here = run(*asked, tmp_path / "here")
    assert run(*asked, tmp_path / "there", "--engine", "ray", "--workers", 2) == here
