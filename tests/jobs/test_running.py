"""Where parts are worked on, and how what a worker says travels. Real clusters: test_on_cluster.py."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest

import taskveil
from taskveil.errors import ClusterError, DataError, TaskError
from taskveil.jobs import running
from taskveil.jobs.plans import JobPart
from taskveil.jobs.running import Engine

PARTS = [JobPart(number=number, source=0, first=number, last=number + 1, row=9 * number, rows=9) for number in range(3)]


class Doubling:
    """The number of a part, twice; some parts fail."""

    def __init__(self, failing: dict[int, Exception] | None = None) -> None:
        self.failing = failing or {}

    def __call__(self, part: JobPart) -> int:
        if part.number in self.failing:
            raise self.failing[part.number]
        return 2 * part.number

    def packed(self, result: int) -> pa.Table:
        return pa.table({"twice": [result]})

    def unpacked(self, row: pa.Table) -> int:
        return int(row.column("twice")[0].as_py())


def sent(*parts: JobPart) -> pa.Table:
    return pa.Table.from_pylist([asdict(part) for part in parts])


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"name": "spark"}, 'engine must be "plain" or "ray", got \'spark\'.'),
        ({"address": "auto"}, 'an address, and a number of workers, are about a Ray cluster: pass engine="ray" too.'),
        ({"workers": 2}, 'an address, and a number of workers, are about a Ray cluster: pass engine="ray" too.'),
        ({"name": "ray", "workers": 0}, "workers is a whole number from 1 up, got 0."),
        ({"name": "ray", "workers": True}, "workers is a whole number from 1 up, got True."),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], line: str) -> None:
    with pytest.raises(TaskError) as error:
        Engine(**options)
    assert str(error.value) == line


def test_plain_is_one_after_another_and_ends_with_the_first_error() -> None:
    assert list(Engine().run(Doubling(), PARTS, kept="")) == list(zip(PARTS, (0, 2, 4), strict=True))
    some = Engine().run(Doubling({1: DataError("no")}), PARTS, kept="")
    assert next(some) == (PARTS[0], 0)
    with pytest.raises(DataError, match="no"):
        next(some)


def test_a_result_comes_with_the_number_of_its_part() -> None:
    rows = running._worked(Doubling())(sent(PARTS[2], PARTS[0]))
    assert rows.to_pylist() == [{"twice": 4, "part": 2}, {"twice": 0, "part": 0}]


@pytest.mark.parametrize(
    ("rows", "cores", "sizes"),
    [
        ([9] * 3000, 2, [64] * 44 + [62, 41, 27, 18, 12, 8, 6, 4, 2, 2, 1, 1]),  # fewer and fewer
        ([9] * 30, 2, [10, 7, 5, 3, 2, 1, 1, 1]),
        ([9] * 6, 2, [2, 2, 1, 1]),
        ([9] * 3, 2, [1] * 3),
        ([1 << 20] * 100, 2, [4] * 23 + [3, 2, 1, 1, 1]),  # never more than four million rows
        ([5 << 20] * 3, 1, [1] * 3),
        ([], 2, []),
    ],
)
def test_parts_travel_together(rows: list[int], cores: int, sizes: list[int]) -> None:
    parts = [
        JobPart(number=place, source=place, first=0, last=1, row=0, rows=count) for place, count in enumerate(rows)
    ]
    loads = list(running._loads(parts, cores))
    assert [part for load in loads for part in load] == parts
    assert [len(load) for load in loads] == sizes


def raised(row: pa.Table) -> Exception:
    return running._raised(*(row.column(name).to_pylist()[0] for name in ("raised", "saying")))


def test_an_error_of_ours_travels_as_it_is() -> None:
    row = running._worked(Doubling({1: DataError("the file has changed.")}))(sent(PARTS[1]))
    found = raised(row)
    assert (type(found), str(found)) == (DataError, "the file has changed.")


def test_an_error_that_cannot_travel_is_named_without_its_words() -> None:
    class Strange(Exception):
        pass

    row = running._worked(Doubling({1: Strange("the value 4711")}))(sent(PARTS[1]))
    found = raised(row)
    assert (type(found), str(found)) == (ClusterError, "a worker failed (Strange).")
    full = running._worked(Doubling({1: OSError(28, "No space left on device")}))(sent(PARTS[1]))
    assert str(raised(full)) == "a worker failed (OSError: No space left on device)."


def test_another_version_on_a_worker_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    work = running._worked(Doubling())
    here = taskveil.__version__
    monkeypatch.setattr(taskveil, "__version__", "0.1.9")
    found = raised(work(sent(PARTS[0])))
    assert str(found) == (f"a machine of the cluster has taskveil 0.1.9, and this one {here}: install the same on all.")
