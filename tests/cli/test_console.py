from __future__ import annotations

import pytest

from taskveil.cli.console import busy, row_bar


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
    with busy("designing…"):
        pass
    with busy("silent…", quiet=True):
        pass
    with row_bar(10) as advance:
        advance(10)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("designing…" in shown.err, "10/10" in shown.err) == (terminal, terminal)
    assert "silent" not in shown.err
