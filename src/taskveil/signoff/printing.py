"""PDF files, printed by Chromium.

One way, and this one: the engine is the one that people see the page with, so that the PDF is what they have read. It
needs no Python package, and most machines have a browser of this family.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from taskveil.errors import TaskveilError

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
"""Programs of the Chromium family, the first one found is used."""


def browser() -> str:
    """The path of a Chromium, or a TaskveilError that says how to get one and what to do without."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise TaskveilError(
            "a PDF is printed by Chromium or Chrome, and none was found. Install it (apt-get install chromium), or "
            "write HTML, open it in any browser and print it there."
        )
    return found


def print_page(html: str, target: Path) -> Path:
    """The path of a PDF file with the A4 pages of a self-contained page; folders on the way are made.

    Args:
        html: the page.
        target: where the PDF goes; a file there is replaced when the new one is complete.
    """
    program = browser()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="taskveil-") as folder:
        home = Path(folder)
        page, printed = home / "page.html", home / "page.pdf"
        page.write_text(html, encoding="utf-8")
        command = [program, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        command += [f"--user-data-dir={home / 'profile'}", "--no-pdf-header-footer", f"--print-to-pdf={printed}"]
        if getattr(os, "geteuid", lambda: 1)() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox does not start as root; the page holds no script
        try:
            done = subprocess.run([*command, page.as_uri()], capture_output=True, timeout=120, check=False)  # noqa: S603
            failed = done.returncode != 0 or not printed.exists()
        except (OSError, subprocess.TimeoutExpired):
            failed = True
        if failed:
            raise TaskveilError(f"{program} printed no PDF. Write HTML, open it in a browser and print it there.")
        draft = target.with_name(f".{target.name}.draft")
        shutil.copyfile(printed, draft)
        os.replace(draft, target)
    return target
