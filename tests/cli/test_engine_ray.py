"""`--engine ray` on the command line: whatever is wrong is one line, said before a cluster is asked for."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import releases
from cli.running import one_line, run
from taskveil.client.mechanisms import Codebook

NOWHERE = ("--engine", "ray", "--address", "127.0.0.1:1")
"""No cluster: a message about anything else comes before it is missed."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a release and people."""
    codes = Codebook(region=releases.box(3), stages=(releases.stage(16, 2, 3.0),))
    veil = releases.veil(releases.linear(), codes)
    dataclasses.replace(veil, columns=tuple("abcde")).save(tmp_path / "release")
    for number in range(3):
        write(tmp_path / "people" / f"{number}.parquet", number)
    return tmp_path


def write(path: Path, seed: int = 0, rows: int = 50) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({name: np.random.default_rng(seed).normal(size=rows) for name in "abcde"}), path)


def refusal(home: Path, source: str = "people", target: str = "out", command: str = "privatize") -> str:
    places = (home / source, home / target) if command != "estimate" else (home / source,)
    return one_line(command, *places, "--release", home / "release", *NOWHERE).replace(f"{home}/", "")


def test_no_cluster_is_one_line_and_leaves_what_is_needed_to_go_on(home: Path) -> None:
    missing = (
        "error: no Ray cluster answers at 127.0.0.1:1 (Connection refused). Start one with `ray start --head`, or "
        "leave out the address to work on this machine alone.\n"
    )
    assert refusal(home) == missing
    assert [path.name for path in (home / "out").iterdir()] == ["_plan.json"]
    assert "150 reports in 3 parts" in run("privatize", home / "people", home / "out", "--release", home / "release")
    assert refusal(home, "out", "decoded", "decode") == missing
    assert refusal(home, "out", command="estimate") == missing


def test_what_is_wrong_with_the_source_is_said_first(home: Path) -> None:
    (home / "empty").mkdir()
    assert refusal(home, "nowhere") == "error: cannot read 'nowhere': there is no such file or folder.\n"
    assert refusal(home, "empty") == "error: empty holds no Parquet files.\n"
    (home / "people.csv").write_text("a,b,c,d,e\n1,2,3,4,5\n")
    assert refusal(home, "people.csv") == (
        "error: people.csv is CSV, which cannot be cut into parts: convert it to Parquet first.\n"
    )
    write(home / "none" / "0.parquet", rows=0)
    assert (
        refusal(home, "none")
        == "error: none holds no rows, and at least one is needed. Is it the right file or folder?\n"
    )
    (home / "people" / "1.parquet").write_bytes(b"PAR1, but damaged")
    assert refusal(home).startswith("error: cannot read 'people/1.parquet' as a table: ")
    assert not (home / "out").exists()


def test_what_is_wrong_with_the_target_is_said_first(home: Path) -> None:
    (home / "file").write_text("mine")
    assert refusal(home, target="file") == "error: file is a file, but the parts need a folder: choose another name.\n"
    (home / "full").mkdir()
    (home / "full" / "mine.txt").write_text("mine")
    assert refusal(home, target="full") == (
        "error: full exists already, and holds something else. Choose another folder.\n"
    )
    run("privatize", home / "people", home / "out", "--release", home / "release")
    before = {path.name: path.read_bytes() for path in (home / "out").iterdir()}
    assert refusal(home).startswith("error: out exists already. Running again draws a second report")
    write(home / "people" / "3.parquet")
    (home / "out" / "_manifest.json").unlink()
    assert "out holds parts of another job" in refusal(home)
    after = {path.name: path.read_bytes() for path in (home / "out").iterdir()}
    assert after == {name: content for name, content in before.items() if name != "_manifest.json"}
    assert "people/out lies inside the source" in refusal(home, target="people/out")
    assert (home / "file").read_text() == (home / "full" / "mine.txt").read_text() == "mine"


def test_options_for_ray_alone(home: Path) -> None:
    command = ("privatize", home / "people", home / "out", "--release", home / "release")
    assert one_line(*command, "--engine", "spark") == 'error: engine must be "plain" or "ray", got \'spark\'.\n'
    assert "pass --engine ray too" in one_line(*command, "--workers", 2)


def test_without_ray_it_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refusal(home) == "error: --engine ray needs ray: pip install 'taskveil[ray]'\n"


@pytest.mark.parametrize("named", [str, Path.as_uri])
def test_places_with_odd_names_and_links(home: Path, named: Callable[[Path], str]) -> None:
    """As a path and as an address, through a link, in folders that say something of their files, one of which is
    empty."""
    odd = home / "récords of 2026" / "country=FR"
    odd.parent.mkdir()
    (home / "people").rename(odd)
    write(odd / "empty.parquet", rows=0)
    (home / "link to ü").symlink_to(odd.parent)
    command = ("privatize", named(home / "link to ü"), named(home / "out ü"), "--release", home / "release")
    assert "150 reports in 3 parts" in run(*command)
    listed = json.loads((home / "out ü" / "_manifest.json").read_text())["parts"]
    assert [part["source"] for part in listed] == [f"country=FR/{number}.parquet" for number in range(3)]


def test_columns_may_lie_in_another_order_and_be_of_another_type(home: Path) -> None:
    table = pq.read_table(home / "people" / "0.parquet")
    whole = pa.table({name: np.arange(50, dtype=np.int32) for name in "edcba"})
    pq.write_table(whole, home / "people" / "1.parquet")
    pq.write_table(table.append_column("name", pa.array(["x"] * 50)), home / "people" / "2.parquet")
    assert "150 reports in 3 parts" in run("privatize", home / "people", home / "out", "--release", home / "release")
    pq.write_table(table.drop_columns(["c"]), home / "people" / "2.parquet")
    assert "2.parquet" in refusal(home, target="other")
    pq.write_table(table.set_column(2, "c", pa.array(["x"] * 50)), home / "people" / "2.parquet")
    said = one_line("privatize", home / "people", home / "third", "--release", home / "release")
    assert "2.parquet" in said
    assert "'x'" not in said
