"""Pages whose code is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def run_code(page: Path) -> dict[str, Any]:
    """Run a page's Python blocks from top to bottom, in one namespace, which is returned."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for place, block in enumerate(blocks):
        exec(compile(block, f"{page.name}, block {place + 1}", "exec"), names)
    return names
