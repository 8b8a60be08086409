from __future__ import annotations

import inspect

import numpy as np
import pytest

import terminals
from taskveil.cli.console import busy, print_line, reworded, row_bar
from taskveil.client.fields import Coded
from taskveil.designs import bounds
from taskveil.records import inference
from taskveil.records.inference import resembles

BUSY = """
import time
from taskveil import progress
from taskveil.cli.console import busy
progress.BAR_AFTER_SECONDS = 0.05
for quiet, what in ((False, "designing"), (True, "in silence")):
    with busy(what, quiet=quiet) as bar:
        time.sleep(0.2)
"""


def test_a_busy_command_shows_the_bar_on_terminals() -> None:
    shown = terminals.run(BUSY, terminal=True).err
    assert "designing" in shown
    assert "silence" not in shown
    assert terminals.run(BUSY, terminal=False).err == ""
    with busy("what") as bar:
        bar.begin("more", 2.0)
        bar.advance()
    assert bar.share == 0.5  # the work can move it


@pytest.mark.parametrize("terminal", [True, False])
def test_rows_are_counted_on_terminals(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
    with row_bar(10) as advance:
        advance(10)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("10/10" in shown.err) == terminal


def test_no_bar_stays_above_an_error() -> None:
    program = (
        "import sys\nfrom taskveil.cli.console import row_bar\n"
        "sys.excepthook = lambda *_: print('error', file=sys.stderr)\n"
        "with row_bar() as advance:\n {}"
    )
    failed = terminals.run(program.format("raise ValueError"), terminal=True)
    assert "0/?" in failed.err
    assert terminals.screen(failed.err) == "error"
    assert "5/5 rows" in terminals.screen(terminals.run(program.format("advance(5, 5)"), terminal=True).err)


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("row 0, column 'a' (5% of its variance)", "row 1, column 'a' (5% of its variance)"),
        ("the label of row 9 (60% of the labels' variance)", "the label of row 10 (60% of the labels' variance)"),
        ("Check their units; domain=... says where", "Check their units; --domain column=low:high says where"),
        ("give the bounds: schema.replace({'n': tv.Number(low, high)}).", "give the bounds: --domain n=low:high."),
        ('a classifier: use loss="cross_entropy"', "a classifier: use --loss cross_entropy"),
        ("raise max_bytes=600000", "raise --client-bytes 600000"),
        ("Group them, or list them with tv.Category.", "Group them, or list them in a --schema."),
        ("or of the person, leave the column out.", "or of the person, leave the column out: --drop."),
        ("say share_model=True.", "say --share-model."),
        (resembles(Coded(np.arange(5), ["04.03.2021"] * 5)),
         "They look like dates: pass --date-format, such as %d.%m.%Y or %m/%d/%Y."),
        ("column 'max_bytes' holds text, row 7 of the day", "column 'max_bytes' holds text, row 7 of the day"),
    ],
)  # fmt: skip
def test_arguments_become_options_and_rows_are_counted_from_one(python: str, typed: str) -> None:
    assert reworded(python) == typed


def test_the_packages_own_words_are_still_these() -> None:
    """What is replaced is what the package says today."""
    said = "".join(map(inspect.getsource, (bounds, inference)))
    for words in (
        *("domain=... says", "List its values with tv.Category, or drop it", "tv.Number(low, high)}})"),
        *("matter with tv.Category", "leave the column out."),
        *("write them as 2021-03-04 (in pandas", "without units and separators of thousands, and nothing "),
    ):
        assert words in said


def test_a_line_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not wrapped, and a folder's name may hold square brackets."""
    text = f"Release written to [bold]{'a' * 200}[/bold]."
    print_line(text)
    assert capsys.readouterr().out == f"{text}\n"
