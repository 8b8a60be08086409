"""What a statistician would check: every figure that docs/theory/statistics.md quotes, printed by one command.

    python benchmarks/statistics.py                    all parts, about ten minutes on one core
    python benchmarks/statistics.py --only coverage    one of them

Each part is a function in a file of its own beside this one; reduced versions of all are tests.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

# This file bears the name of a standard module: without this, whoever imports `statistics` would get it.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.statistics_choices import duplicates_table, no_signal_table
from benchmarks.statistics_domains import wild_cell_table
from benchmarks.statistics_intervals import coverage_table, epsilon_for_table
from benchmarks.statistics_limits import limits_table
from benchmarks.statistics_skew import skew_table

PARTS: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "coverage": ("How often 95% intervals hold the truth", coverage_table),
    "epsilon_for": ("How often epsilon_for names too small a budget", epsilon_for_table),
    "wild-cells": ("What one wild cell among 300 records costs", wild_cell_table),
    "no-signal": ("What auto chooses where there is no, weak and strong signal", no_signal_table),
    "duplicates": ("Records that occur ten times", duplicates_table),
    "skew": ("Skewed attributes", skew_table),
    "limits": ("What no report can beat", limits_table),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given several times")
    for name in parser.parse_args().only or PARTS:
        title, lines = PARTS[name]
        start = time.perf_counter()
        print(f"## {title}\n", *lines(), f"\n({name}: {time.perf_counter() - start:.0f} s)\n", sep="\n", flush=True)


if __name__ == "__main__":
    main()
