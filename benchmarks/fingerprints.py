"""What the fingerprints of a folder job cost: processor time of `privatize` with them and without, in turns.

    python benchmarks/fingerprints.py                        # 2 million rows of 30 attributes, three kinds of release
    python benchmarks/fingerprints.py --folder data          # tables and releases stay there for the next time

A ratio is the median over the turns. Exit code 1 if a kind takes more than 3% longer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:] = [str(Path(__file__).resolve().parents[1]), *sys.path[1:]]

import numpy as np
from benchmarks.scaling import people

from taskveil.jobs.commands import privatize_tables
from taskveil.jobs.fingerprints import Fingerprint

BAR = 0.03


def seconds(release: Path, source: Path, target: Path) -> float:
    """Processor time of one job."""
    shutil.rmtree(target, ignore_errors=True)
    began = time.process_time()
    privatize_tables(release, source, target)
    return time.process_time() - began


def unread(_: Any, file: Any, *__: Any) -> Any:
    """The file itself, of which no fingerprint is taken."""
    return file


def main() -> int:
    """Prints a line for every kind of release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rows", type=int, default=2 << 20)
    parser.add_argument("--turns", type=int, default=7)
    asked = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        for kind in ("codebook", "laplace", "mixed"):
            job = people.release(folder, kind), people.tables(folder, kind, asked.rows), Path(temporary) / "reports"
            seconds(*job)  # the files are in memory, and everything is imported
            ratios, rates = [], []
            for turn in range(asked.turns):
                found = {}
                for with_them in (True, False) if turn % 2 else (False, True):
                    with mock.patch.object(Fingerprint, "follow", Fingerprint.follow if with_them else unread):
                        found[with_them] = seconds(*job)
                ratios.append(found[True] / found[False] - 1)
                rates.append(asked.rows / found[True])
            cost = float(np.median(ratios))
            missed |= cost > BAR
            print(
                f"{kind:10s} {np.median(rates):>10,.0f} rows a second of processor; fingerprints cost {cost:.1%} "
                f"({min(ratios):.1%} to {max(ratios):.1%}; bar: {BAR:.0%})",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
