"""What `design` and `sweep` make of their options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from taskveil.cli.inputs import Job, JobOptions
from taskveil.errors import DataError

ROWS = "".join(f"{'USA' if i % 3 else 'Japan'},{i * 7 % 50},{i % 2},2021-03-{1 + i % 28:02}\n" for i in range(60))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("origin,power,owner,since\n" + ROWS)
    return tmp_path / "people.csv"


def test_a_schema_file_decides_what_a_record_consists_of(csv: Path, tmp_path: Path) -> None:
    given = tv.Schema(
        {"power": tv.Number(0, 200, "kW"), "owner": tv.Category(["0", "1"]), "origin": tv.Category(["USA"])}
    )
    given.to_json(tmp_path / "s.json")
    job = Job.of(
        JobOptions(data=csv, schema=tmp_path / "s.json", target="origin", bounds=["power=0:90"], units=["power=W"])
    )
    assert job.names == ("power", "owner")  # the target is no attribute
    assert job.schema is not None
    assert job.schema["power"] == tv.Number(0, 90, "W")  # it is never missing, so no median stands in for it
    assert job.y.tolist()[:3] == ["Japan", "USA", "USA"]


def test_mere_numbers_have_no_bounds(csv: Path) -> None:
    job = Job.of(JobOptions(data=csv, columns="power,owner", weights=["owner=4"], units=["power=kW"]))
    assert job.schema == tv.Schema({"power": tv.Number(unit="kW"), "owner": tv.Number()}, library="arrow")
    weights = np.diag(job.task.K) * np.array([job.X["power"].to_numpy().std(), job.X["owner"].to_numpy().std()])
    np.testing.assert_allclose(weights, [1, 4])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bounds": ["origin=1:2"]}, "origin=1:2: a category has no bounds"),
        ({"units": ["origin=kW"]}, "origin=kW: a category has no unit"),
        ({"target": "zzz"}, "no column 'zzz'"),
        ({"columns": "origin,power", "target": "power"}, "'power' is the target"),
    ],
)
def test_mistakes_are_explained(csv: Path, options: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        Job.of(JobOptions(data=csv, **options))  # type: ignore[arg-type]


def test_dates_are_bounded_by_dates(csv: Path) -> None:
    job = Job.of(JobOptions(data=csv, bounds=["since=2020-01-01:2022-12-31"]))
    assert job.schema is not None
    assert (job.schema["since"].low, job.schema["since"].high) == ("2020-01-01", "2022-12-31")


def test_an_infinite_number_is_found_in_its_row(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a,b\n" + "1,2\n" * 3 + "inf,2\n" + "4,5\n" * 9)
    with pytest.raises(DataError, match="column 'a' is infinite in row 4"):
        Job.of(JobOptions(data=tmp_path / "p.csv"))


def test_a_category_counts_as_one_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    letters, numbers = rng.choice(list("abcdef"), 200), rng.normal(5, 100, 200)
    (tmp_path / "p.csv").write_text("c,n\n" + "".join(f"{c},{n}\n" for c, n in zip(letters, numbers, strict=True)))
    job = Job.of(JobOptions(data=tmp_path / "p.csv"))
    assert job.schema is not None
    records = job.schema.expand(job.X)
    answers = job.task.on(job.schema).predict(records)
    np.testing.assert_allclose(answers[:, :6].var(axis=0).sum(), 1.0)
    np.testing.assert_allclose(answers[:, 6].var(), 1.0)
