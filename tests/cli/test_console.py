from __future__ import annotations

import pytest

import terminals
from taskveil.cli.console import busy, row_bar

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
