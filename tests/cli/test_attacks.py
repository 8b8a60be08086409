from __future__ import annotations

from pathlib import Path

from cli.running import one_line


def test_what_is_no_release_cannot_be_audited(tmp_path: Path) -> None:
    assert "Is this a taskveil release?" in one_line("audit", tmp_path)
