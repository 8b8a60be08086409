"""Jobs that are killed at random moments while their source changes: what is complete is of one state of the source.

    python tests/lost_workers/changes.py --repeat 100

Every report names its row. All files have the same size and footer in whatever order their rows are, so that only the
bytes of the rows tell. Between runs, and during them, rows change their places: in a row group, in a file, in all
files. Sometimes two runs are started at once. A job must either be completed, with the rows of one state of the source
in their order, or be refused because a part that exists is of other rows. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lost_workers import people
from taskveil.errors import DataError
from taskveil.jobs import plans
from taskveil.jobs.commands import privatize_tables
from taskveil.jobs.plans import MANIFEST

FILES, GROUPS, ROWS = 3, 4, 64
"""Files, row groups of each, and rows of a row group, which is a part."""
CHANGES = ("none", "none", "same", "group", "file", "files", "all")


class Attack:
    """A job over people whose `order` changes."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self.home, self.chance = home, chance
        people.veil().save(home / "release")
        (home / "people").mkdir()
        self.order = np.arange(FILES * GROUPS * ROWS)
        self.write()

    def write(self) -> None:
        """The files, in place or as new ones, with their old times or without."""
        for number, rows in enumerate(self.order.reshape(FILES, -1)):
            values = (rows // people.BASE, rows % people.BASE, 0 * rows, rows / 2)
            table = pa.table({name: value.astype(float) for name, value in zip(people.COLUMNS, values, strict=True)})
            draft, path = self.home / "draft", self.home / f"people/{number}.parquet"
            pq.write_table(
                table, draft, row_group_size=ROWS, write_statistics=False, use_dictionary=False, compression="none"
            )
            before = path.stat() if path.exists() else None
            if before is None or self.chance.random() < 0.5:
                os.replace(draft, path)
            else:
                with path.open("r+b") as file:
                    file.write(draft.read_bytes())
            if before is not None and self.chance.random() < 0.5:
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def change(self) -> str:
        """Another order of the people, or the same; returns which."""
        which, order = self.chance.choice(CHANGES), self.order.copy()
        parts = order.reshape(FILES, GROUPS, ROWS)
        if which == "group":
            place = self.chance.randrange(FILES), self.chance.randrange(GROUPS)
            parts[place] = parts[place][::-1]
        elif which == "file":
            parts[0] = parts[0][::-1]
        elif which == "files":
            parts[[0, 1]] = parts[[1, 0]]
        elif which == "all":
            self.chance.shuffle(order)
        self.order = order
        if which != "none":
            self.write()
        return which

    def started(self) -> int:
        """The process of a run. It exits with 0 if the job was completed, 2 if it was refused, and 3 otherwise."""
        process = os.fork()
        if process:
            return process
        try:
            privatize_tables(self.home / "release", self.home / "people", self.home / "reports")
            os._exit(0)
        except DataError:
            os._exit(2)
        finally:
            os._exit(3)

    def run(self) -> str:
        """Until the job is complete or refused: which of the two, or what is wrong."""
        made: dict[str, np.ndarray] = {}
        while True:
            runs = [self.started() for _ in range(2 if self.chance.random() < 0.3 else 1)]
            during = self.chance.random() < 0.15
            time.sleep(self.chance.random() * 0.12)
            for process in runs:
                if self.chance.random() < 0.8:
                    os.kill(process, signal.SIGKILL)
            if during:
                self.change()
            codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in runs]
            found = {path.name: people.rows_of(pq.read_table(path)) for path in (self.home / "reports").glob("part-*")}
            if not all(np.array_equal(found.get(name, ()), rows) for name, rows in made.items()):
                return "a part changed"
            made = found
            if 3 in codes:
                return "a run failed"
            if (self.home / "reports" / MANIFEST).exists():
                rows = np.concatenate([made[name] for name in sorted(made)])
                same = np.array_equal(rows, self.order) if not during else len(set(rows)) == len(rows)
                return "complete" if same else "reports of two states of the source"
            if any(not np.array_equal(rows, self.due(name)) for name, rows in made.items()):
                if codes == [2]:
                    return "refused"
            elif codes == [2] and not during:
                return "refused without a reason"
            if not during and self.chance.random() < 0.3:
                self.change()

    def due(self, name: str) -> np.ndarray:
        """The rows that a part would have now."""
        return self.order.reshape(-1, ROWS)[int(name[5:10])]


def main() -> int:
    """Prints how often jobs were completed and refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--seed", type=int, help="of all that is random here; the moments of kills are not")
    asked = parser.parse_args()
    plans.PART_ROWS = ROWS
    chance, counts = random.Random(asked.seed), Counter[str]()
    for _ in range(asked.repeat):
        home = Path(tempfile.mkdtemp(prefix="tv-"))
        try:
            counts[Attack(home, chance).run()] += 1
        finally:
            shutil.rmtree(home, ignore_errors=True)
    print(dict(counts))
    return 1 if counts.keys() - {"complete", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
