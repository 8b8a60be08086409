"""What `docs/scale.md` says on paper: arithmetic from what was measured, shown line by line."""

from pathlib import Path

MEASURED = Path(__file__).parent / "measured.json"


def write(page, measured): ...
