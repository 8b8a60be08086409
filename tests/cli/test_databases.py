from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import taskveil as tv
from taskveil.cli.serving import address_of, find_release, folder_id
from taskveil.collector.settings import Settings
from taskveil.collector.store import Store, open_store
from taskveil.errors import DataError

FIRST, SECOND, THIRD = "ab" + "0" * 62, "ab" + "1" * 62, "cd" + "2" * 62


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/c.db")
    for id, name in ((FIRST, "renewal"), (SECOND, "renewal"), (THIRD, "cars")):
        store.add_release(id, name=name, counted=True, files={}, round="1")
    yield store
    store.close()


@pytest.mark.parametrize(
    ("named", "id"), [("cars", THIRD), ("cd", THIRD), ("CD2", THIRD), ("ab1", SECOND), (FIRST, FIRST)]
)
def test_a_release_is_found_by_name_and_by_the_beginning_of_its_id(store: Store, named: str, id: str) -> None:
    assert find_release(store, named).id == id


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("renewal", "may be renewal (ab0000000000), renewal (ab1111111111): name one by more of its id"),
        ("ab", "may be renewal"),
        ("boats", "no release 'boats' here"),
        ("", "no release '' here"),
        ("x" * 5000, "here, and no such folder"),
        ("a\0b", "no release"),
    ],
)
def test_none_and_several_are_refused_with_what_there_is(store: Store, named: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        find_release(store, named)
    assert said in str(error.value)


def test_a_folder_is_looked_into(store: Store, veil: tv.Veil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    veil.save("cars")
    assert folder_id("cars") == folder_id("cars/client") == veil.release_id
    with pytest.raises(DataError, match="is not in this database"):
        find_release(store, "cars")  # a new release in the folder is not the old one of this name
    store.add_release(veil.release_id, name="cars", counted=True, files={}, round="1")
    assert find_release(store, "cars").id == veil.release_id
    assert folder_id("nothing") is None


def test_addresses_that_lines_to_copy_name() -> None:
    assert address_of(Settings(host="127.0.0.1", port=8001)) == "http://127.0.0.1:8001"
    assert address_of(Settings(host="localhost", certificate=Path("c.pem"))) == "https://localhost:8000"
    assert (
        address_of(Settings(host="0.0.0.0")) == address_of(Settings(host="example.org")) == "https://collector.example"
    )
