"""A sweep that was interrupted goes on where it stopped, and never takes points of anything else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import taskveil as tv
from designers import Noisy, Plain
from taskveil.designs.problem import Problem
from taskveil.errors import DataError, TaskError
from taskveil.progress import Progress
from taskveil.sweeps.files import fingerprint, identity
from taskveil.sweeps.frontier import Frontier

RNG = np.random.default_rng(8)
X = RNG.normal(size=(120, 3)) @ RNG.normal(size=(3, 3))
TASK = tv.LinearTask(np.diag([2.0, 1.0, 0.5]))
OTHER = "other data, another task or other options"


@dataclass(frozen=True)
class Stopping(Plain):
    """Is interrupted before its third design, once; `log` is a file, so that the fields stay plain."""

    log: str = ""

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        for found in Noisy().designs(problem, epsilons, seeds):
            with Path(self.log).open("a") as log:
                log.write(f"{found[0]:g} ")
            if Path(self.log).read_text() == "1 2 4 ":
                raise KeyboardInterrupt
            yield found


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    designer = Stopping(log=str(tmp_path / "calls"))
    options: dict[str, Any] = {"epsilons": [1.0, 2.0, 4.0], "methods": [designer]}
    with pytest.raises(KeyboardInterrupt):
        tv.sweep(X, TASK, **options, resume=tmp_path / "log" / "sweep.json")
    resumed = tv.sweep(X, TASK, **options, resume=tmp_path / "log" / "sweep.json")
    assert Path(designer.log).read_text() == "1 2 4 4 "
    fresh = tv.sweep(X, TASK, **options)
    assert resumed == fresh
    assert resumed.rows() == fresh.rows()  # with the losses of single records behind them
    assert vars(resumed.epsilon_for(0.3)) == vars(fresh.epsilon_for(0.3))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A finished sweep."""
    run(tmp_path / "sweep.json")
    return tmp_path / "sweep.json"


def run(resume: Path | None, records: np.ndarray = X, task: tv.LinearTask = TASK, **options: Any) -> Frontier:
    options = {"epsilons": [1.0], "methods": ["privacy_agnostic"], "domain": tv.Box(-20, 20), **options}
    return tv.sweep(records, task, resume=resume, **options)


@pytest.mark.parametrize(
    "other",
    [
        {"records": X + 1.0},
        {"records": X * (1 + 1e-10)},
        {"task": tv.LinearTask(np.eye(3))},
        {"task": tv.LinearTask(TASK.K * (1 + 1e-12))},
        {"domain": tv.Ball(20.0)},
        {"domain": tv.Box(-20, 20.5)},
        {"domain": tv.Points(np.vstack([X, np.full(3, 20.0), np.full(3, -20.0)]))},
        {"domain": None},
        {"on_device": tv.OnDevice(latent_dim=2)},
        {"test": X[:7]},
        {"block": 3},
    ],
)
def test_points_of_anything_else_are_refused(log: Path, other: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=OTHER):
        run(log, **other)
    assert run(None, **other) != run(log)


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes there")
def test_losses_of_single_records_are_for_their_owner_only(log: Path) -> None:
    assert log.stat().st_mode & 0o777 == 0o600


def test_domains_of_one_bounding_box_are_told_apart(tmp_path: Path) -> None:
    """The defect of 0.1: a ball's points were taken for the box around it."""
    ball = run(tmp_path / "sweep.json", domain=tv.Ball(20.0))
    with pytest.raises(DataError, match=OTHER):
        run(tmp_path / "sweep.json", domain=tv.Box(-20, 20))
    assert run(None, domain=tv.Box(-20, 20)) != ball


def test_more_budgets_and_methods_only_add(log: Path) -> None:
    first = run(log)
    more = run(log, epsilons=[1.0, 3.0], methods=["privacy_agnostic", Plain()])
    assert more.points[0] == first.points[0]
    assert run(log, methods=[Plain()]).points == tuple(p for p in more.points if (p.method, p.epsilon) == ("plain", 1))


def test_no_sweep_at_all(log: Path) -> None:
    none = '{"same": {"": {}, "designers": {}, "people": {}}, "releases": {}, "points": [%s]}'
    for content in ("{}", "[]", "nothing", "[" * 100_000, none % '[[null, "a", 1, 0], {"method": 1}]', none % "1"):
        log.write_text(content)
        with pytest.raises(DataError, match="keeps no sweep"):
            run(log)


@pytest.mark.parametrize(
    "other", [Plain(share=0.5), Plain(weights=np.array([1.0, 1.0, 1.5])), Plain(dims=(1, 3)), Stopping(log="x")]
)
def test_another_designer_of_the_same_name_is_refused(tmp_path: Path, other: Plain) -> None:
    path = tmp_path / "sweep.json"
    first = run(path, methods=[Plain()])
    assert run(path, methods=[Plain()]) == first
    with pytest.raises(DataError, match="another designer named 'plain'"):
        run(path, methods=[other])


def test_designers_that_cannot_be_told_apart_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"'noisy'.*its asked"):
        run(tmp_path / "sweep.json", methods=[Noisy()])
    assert run(None, methods=[Noisy()]).methods == ["noisy"]
    home: dict[str, Any] = {"Plain": Plain, "__name__": "nowhere"}
    exec("class Typed(Plain): pass", home)  # as in a console, where no file holds the source
    with pytest.raises(TaskError, match="source"):
        identity(home["Typed"]())


def test_models_labels_and_devices_are_told_apart() -> None:
    torch.manual_seed(0)
    task, labels = tv.ModelTask(nn.Linear(3, 1)), X[:, 0] ** 2
    problem = Problem.of(X, task, y=labels)
    seen = {
        fingerprint(problem, X[:9], labels[:9]),
        fingerprint(problem, X[:9], 2 * labels[:9]),
        fingerprint(problem, X[:9], None),
        fingerprint(problem, X[:8], labels[:8]),
        fingerprint(replace(problem, y=None), X[:9], labels[:9]),
        fingerprint(replace(problem, torch_device="cuda"), X[:9], labels[:9]),
        fingerprint(replace(problem, task=tv.ModelTask(nn.Linear(3, 1))), X[:9], labels[:9]),
        fingerprint(replace(problem, task=tv.MultiTask([(task, 2.0)]), y=[labels]), X[:9], [labels[:9]]),
        fingerprint(replace(problem, task=tv.MultiTask([(task, 20.0)]), y=[labels]), X[:9], [labels[:9]]),
    }
    assert len(seen) == 9
    assert fingerprint(Problem.of(X, task, y=list(labels), progress=Progress(True)), X[:9], labels[:9]) in seen
