"""What `design` says a design is worth is honest: measured on people who had no part in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import taskveil as tv
from taskveil.cli.designing import judge
from taskveil.cli.inputs import Job, JobOptions
from taskveil.errors import WildRecordWarning


def written(path: Path, values: np.ndarray) -> JobOptions:
    names = [f"c{place}" for place in range(values.shape[1])]
    np.savetxt(path, values, delimiter=",", header=",".join(names), comments="")
    return JobOptions(data=path)


def test_what_cannot_be_told_is_not_found_to_be_told(tmp_path: Path) -> None:
    """Labels that nothing predicts: whoever is held out is answered no better than by one answer for everybody."""
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=(200, 3)), rng.normal(size=200)])
    asked = written(tmp_path / "p.csv", values)
    (tmp_path / "zero_model.py").write_text(
        "import numpy as np\nfrom sklearn.linear_model import LinearRegression\n"
        "model = LinearRegression().fit(np.eye(3), np.zeros(3))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])
        job = Job.of(JobOptions(data=asked.data, model="zero_model:model", target="c3"))
    found = judge(job, seed=0, epsilon=8.0, method="codebook", on_device=tv.OnDevice(encoder="linear"))
    assert found is not None
    assert found.held_out == 50
    assert found.loss.mean > 0.97 * found.constant


def test_copies_of_a_record_are_not_judged_by_designs_that_know_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    job = Job.of(written(tmp_path / "p.csv", np.repeat(rng.normal(size=(60, 3)), 4, axis=0)))
    found = judge(job, seed=0, epsilon=2.0, method="task_aware")
    assert found is not None
    assert found.held_out == 60  # fifteen people, four copies each


def test_a_slip_in_the_table_spoils_neither_weights_nor_judgement(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(200, 3))
    clean = Job.of(written(tmp_path / "clean.csv", values))
    values[17, 1] = 1e9
    job = Job.of(written(tmp_path / "wild.csv", values))
    np.testing.assert_allclose(job.task.K, clean.task.K, rtol=0.1)
    found = judge(job, seed=0, epsilon=4.0, method="task_aware")
    assert found is not None
    assert found.constant == pytest.approx(3, rel=0.4)
    assert found.loss.mean < found.constant
    with pytest.warns(WildRecordWarning, match="row 17, column 'c1'"):
        tv.design(job.X, job.task, epsilon=4.0, method="task_aware")


def test_a_model_that_knows_the_volunteers_by_heart_is_judged_as_one_that_does_not(tmp_path: Path) -> None:
    """Labels are noise: a tree that was fitted to all volunteers knows them, with and without privacy."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    asked = written(tmp_path / "p.csv", np.column_stack([X, y]))
    tree = DecisionTreeRegressor(random_state=0).fit(X, y)
    job = dataclasses.replace(Job.of(dataclasses.replace(asked, drop="c3")), y=y, task=tv.ModelTask(tree))
    found = judge(job, seed=0, epsilon=8.0, method="codebook", on_device=tv.OnDevice(encoder="own", share_model=True))
    assert found is not None
    assert found.unseen
    assert found.clear > found.constant
    assert found.loss.mean > 0.9 * found.constant
