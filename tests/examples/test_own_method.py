"""The example of a method of one's own runs, on shipped data and on the paper's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import needs
from taskveil.experiments import data

SCRIPT = Path(__file__).parents[2] / "examples" / "own_method.py"


def lines(environment: dict[str, str]) -> list[str]:
    run = subprocess.run([sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_it_needs_nothing_but_scikit_learns_data() -> None:
    printed = lines({name: value for name, value in os.environ.items() if name != "TASKVEIL_DATA"})
    table = {line.split()[0]: line for line in printed if line}
    assert {"sign", "codebook", "task_agnostic"} <= set(table)
    assert not any("household" in line for line in printed)
    # Both are one sign at ε = 0.5; noise on ten measurements is worth next to nothing.
    losses = {name: float(table[name].split()[1]) for name in ("sign", "codebook", "task_agnostic")}
    assert losses["codebook"] <= 1.01 * losses["sign"] < losses["task_agnostic"]


@needs(data.local_file("household/hourly.csv") is not None, "the household data in TASKVEIL_DATA")
def test_it_runs_the_papers_experiment() -> None:
    printed = lines(dict(os.environ))
    assert "The paper's household experiment:" in printed
    assert sum(line.startswith("sign ") for line in printed) == 2
