"""Where parts are worked on, and how what a worker says travels. Real clusters: test_on_cluster.py."""

from __future__ import annotations

from typing import Any

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


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A work is its own reference: there is no cluster."""
    monkeypatch.setattr(running, "_fetched", lambda work: work)


def worked(work: Doubling, part: JobPart) -> tuple[JobPart, int]:
    return running._worked((work, taskveil.__version__), part)


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


@pytest.mark.usefixtures("fetched")
def test_a_result_comes_with_its_part() -> None:
    assert worked(Doubling(), PARTS[2]) == (PARTS[2], 4)


@pytest.mark.usefixtures("fetched")
def test_an_error_of_ours_travels_as_it_is() -> None:
    with pytest.raises(DataError, match=r"^the file has changed\.$"):
        worked(Doubling({1: DataError("the file has changed.")}), PARTS[1])


@pytest.mark.usefixtures("fetched")
def test_an_error_that_is_not_ours_is_named_without_its_words() -> None:
    class Strange(Exception):
        pass

    with pytest.raises(ClusterError, match=r"^a worker failed \(Strange\)\.$"):
        worked(Doubling({1: Strange("the value 4711")}), PARTS[1])
    with pytest.raises(ClusterError, match=r"^a worker failed \(OSError: No space left on device\)\.$"):
        worked(Doubling({1: OSError(28, "No space left on device")}), PARTS[1])


@pytest.mark.usefixtures("fetched")
def test_another_version_on_a_worker_is_said() -> None:
    with pytest.raises(ClusterError) as error:
        running._worked((Doubling(), "0.1.9"), PARTS[0])
    here = taskveil.__version__
    assert (
        str(error.value)
        == f"a machine of the cluster has taskveil {here}, and this one 0.1.9: install the same on all."
    )
