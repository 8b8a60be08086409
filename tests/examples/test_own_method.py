"""The example of a method of one's own runs on the paper's data too; `test_examples.py` runs it on shipped data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import needs
from taskveil.experiments import data

SCRIPT = Path(__file__).parents[2] / "examples" / "own_method.py"


@pytest.mark.slow
@needs(data.local_file("household/hourly.csv") is not None, "the household data in TASKVEIL_DATA")
def test_it_runs_the_papers_experiment() -> None:
    run = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True)
    printed = run.stdout.splitlines()
    assert "The paper's household experiment:" in printed
    assert sum(line.startswith("sign ") for line in printed) == 2
