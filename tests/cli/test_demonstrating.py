"""`taskveil demo --serve`: few devices for a second; the collector, its pages, and an end that leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HURRY = (
    "from taskveil.experiments import demo_people as demo\n"
    "demo.EPSILONS, demo.VOLUNTEERS = (0.5,), 500\n"  # the curve of five budgets takes seconds
    "from taskveil.cli import main\n"
    "main()\n"
)


def get(url: str, token: str | None = None) -> bytes:
    asked = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return bytes(answer.read())


def test_devices_report_pages_are_there_and_nothing_is_left(tmp_path: Path) -> None:
    options = ["demo", "--serve", "--port", "0", "--devices", "20", "--seconds", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", HURRY, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if "The collector keeps running" in line:
                break
        address, read = re.search(r"The page: (http://[^/]+)/#token=(\S+)", said).groups()  # type: ignore[union-attr]
        count = int(re.search(r"in two weeks, (\d+) of 40 devices", said)[1])  # type: ignore[index]
        means, release = json.loads(get(f"{address}/v1/releases", read))["releases"]
        weeks = ["2026-11-16", "2026-11-23"]
        assert [round["name"] for round in means["rounds"]] == weeks
        assert all(round["reports"] > 0 for round in means["rounds"])
        assert means["reports"] == count  # fewer than all on a machine too slow for them, never more
        assert [release["rounds"][0]["name"], release["current"], len(release["rounds"])] == [*weeks, 12]
        assert release["reports"] <= 20  # at most one of each device in the first block of four weeks
        assert all(round["reports"] == 0 for round in release["rounds"][2:])
        assert "; 0 failed." in said
        assert "single answers in 3 of 12 planned weeks, which it draws: in these two at most ε = 4 + 2 = 6." in said
        assert (means["method"], means["frontier"], release["frontier"]) == ("means", False, True)
        measured = json.loads(get(f"{address}/v1/estimates?release={means['id']}", read))
        assert {"age", "sport=running"} <= {one["name"] for one in measured["attributes"]}
        assert all(one["assumes"] is None for one in measured["attributes"])
        shown = json.loads(get(f"{address}/demo/release/shown.json"))
        assert len(shown["guesses"]) > 1
        assert json.loads(get(f"{address}{shown['client']}manifest.json"))["digest"] == release["id"]
        for name in ("", "demo.js", "form.js", "style.css", "taskveil.js"):
            assert get(f"{address}/demo/{name}")
        assert any(tmp_path.iterdir())
    finally:
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_at_once_is_not_answered_with_a_traceback(tmp_path: Path) -> None:
    """A terminal interrupts all processes of the command: the simulated people too, before they have begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", HURRY, "demo", "--serve", "--port", "0", "--devices", "20", "--seconds", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        process_group=0,
    )
    assert process.stdout is not None
    try:
        while "simulated people report" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.4)  # the other process is in the midst of its imports
    finally:
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
    assert (process.returncode, errors) == (0, "")
    assert list(tmp_path.iterdir()) == []
