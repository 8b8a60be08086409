"""What the fingerprints of a folder job cost: how much longer rows are read, against the time of the whole job.

    python benchmarks/fingerprints.py                        # a million rows of 30 attributes, three kinds of release
    python benchmarks/fingerprints.py --folder data          # tables and releases stay there for the next time

Reading with and without fingerprints takes turns. All times are processor time of the fastest turn, because other
programs only make turns slower. Exit code 1 if a job takes more than 3% longer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:] = [str(Path(__file__).resolve().parents[1]), *sys.path[1:]]

from benchmarks.scaling import people  # noqa: E402

from taskveil.jobs.commands import privatize_tables  # noqa: E402
from taskveil.jobs.fingerprints import Fingerprint  # noqa: E402
from taskveil.jobs.tables import TableFile  # noqa: E402

BAR = 0.03


def seconds(work: Callable[[], object]) -> float:
    """Processor time of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def read(path: Path, *, fingerprint: bool) -> None:
    """All rows of a file."""
    table = TableFile.open(path)
    for _ in replace(table, fingerprint=Fingerprint("job") if fingerprint else None).batches(table.schema.names):
        pass


def main() -> int:
    """Prints a line for every kind of release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rows", type=int, default=1 << 20)
    parser.add_argument("--turns", type=int, default=15)
    asked = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder, target = asked.folder or Path(temporary), Path(temporary) / "reports"
        for kind in ("codebook", "laplace", "mixed"):
            release, source = people.release(folder, kind), people.tables(folder, kind, asked.rows)
            whole = []
            for _ in range(asked.turns // 3):
                shutil.rmtree(target, ignore_errors=True)
                whole.append(seconds(lambda job=(release, source, target): privatize_tables(*job)))
            took: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(asked.turns):
                for with_them, times in took.items():
                    times.append(sum(seconds(lambda at=at: read(at, fingerprint=with_them)) for at in source.iterdir()))  # noqa: B023
            more = min(took[True]) - min(took[False])
            cost = more / (min(whole) - more)
            missed |= cost > BAR
            print(
                f"{kind:10s} {asked.rows / min(whole):>10,.0f} rows a second of processor; fingerprints cost "
                f"{cost:.1%} (bar: {BAR:.0%})",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
