from __future__ import annotations

from pathlib import Path

from tests.cli.running import run

import taskveil as tv
from taskveil.cli import options


def test_what_a_client_may_take_by_default_is_what_design_says() -> None:
    """The command line states it too, so that `--help` need not load what designs need."""
    assert tv.OnDevice().max_bytes == options.CLIENT_BYTES


def test_a_repeated_option_loses_nothing(tmp_path: Path) -> None:
    """The second --drop once replaced the first, and the column that was to stay out went into the release."""
    table = tmp_path / "people.csv"
    table.write_text("number,age,note\n" + "".join(f"{i},{20 + i % 50},{'ab'[i % 2]}\n" for i in range(100)))
    for asked in (("--drop", "number", "--drop", "note"), ("--drop", "number,note"), ("--columns", "age")):
        assert tv.Schema.from_json(run("schema", table, "--json", *asked)).names == ("age",)
    both = run("schema", table, "--json", "--columns", "age", "--columns", "note")
    assert tv.Schema.from_json(both).names == ("age", "note")
