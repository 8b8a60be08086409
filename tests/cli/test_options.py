from __future__ import annotations

from pathlib import Path

from tests.cli.running import run

import taskveil as tv
from taskveil.cli import options


def test_the_default_size_of_a_client_is_that_of_design() -> None:
    assert options.on_device("auto", False, None) == tv.OnDevice()
    assert str(tv.OnDevice().max_bytes) in run("design", "--help")


def test_a_repeated_option_loses_nothing(tmp_path: Path) -> None:
    """The second --drop once replaced the first, and the column that was to stay out went into the release."""
    table = tmp_path / "people.csv"
    table.write_text("number,age,note\n" + "".join(f"{i},{20 + i % 50},{'ab'[i % 2]}\n" for i in range(100)))
    for asked in (("--drop", "number", "--drop", "note"), ("--drop", "number,note"), ("--columns", "age")):
        assert tv.Schema.from_json(run("schema", table, "--json", *asked)).names == ("age",)
    both = run("schema", table, "--json", "--columns", "age", "--columns", "note")
    assert tv.Schema.from_json(both).names == ("age", "note")
