"""Workers and drivers of a job on Ray killed at full size: about five minutes. A small one is a test.

    python tests/lost_workers/run.py --rows 10000000 --kills 60

Exit code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lost_workers import people
from lost_workers.checks import left_in, wrong_with
from lost_workers.kills import Kills, privatize


def killed_job(
    home: Path, *, rows: int, files: int, kills: int, drivers: int, units: int, seed: int | None, starting: bool = True
) -> Kills:
    """A job over so many rows that was killed so often; its `complaints` are what was wrong."""
    veil = people.veil(units=units)
    veil.save(home / "release")
    people.write(home / "people", rows=rows, files=files)
    temporary = home / "t"
    temporary.mkdir()
    target = home / "reports"
    command = privatize(home / "people", target, home / "release")
    longest = min(1.0, rows / files * units * 1.5e-8)
    job = Kills(
        command,
        target,
        temporary,
        wanted=kills,
        parts=files,
        drivers=drivers,
        longest=longest,
        starting=starting,
        seed=seed,
    )
    job.run()
    if not job.complaints:
        job.complaints += wrong_with(target, rows, veil.release_id)
    if job.killed < kills:
        job.complaints.append(f"only {job.killed} kills until the job had ended")
    if strange := {name for name in job.watch.names if not name.startswith(("part-", "_plan.", "_manifest."))}:
        job.complaints.append(f"names were seen that nobody should see: {sorted(strange)}")
    if not job.counts["descriptions"]:
        job.complaints.append("Ray's object store was not found, or not looked into")
    job.complaints += job.watch.changed() + left_in(temporary)
    return job


def main() -> int:
    """Prints what was done and found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=100, help="of the source; each becomes one part")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--drivers", type=int, default=5, help="how many of the kills are of the driver")
    parser.add_argument("--units", type=int, default=700, help="of the encoder: how long a row takes")
    parser.add_argument("--seed", type=int, help="of the moments of the kills")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tv-"))  # a short path: the names of Ray's sockets may have 107 letters
    began = time.monotonic()
    try:
        job = killed_job(
            home,
            rows=asked.rows,
            files=asked.files,
            kills=asked.kills,
            drivers=asked.drivers,
            units=asked.units,
            seed=asked.seed,
        )
    finally:
        if not asked.keep:
            shutil.rmtree(home, ignore_errors=True)
    counts = job.counts
    print(
        f"{asked.rows:,} rows in {len(job.watch.parts)} parts, {time.monotonic() - began:.0f} s, {counts['runs']} runs"
    )
    print(
        f"{job.killed} kills: {counts['workers']} of workers ({counts['at work']} while a draft was open: "
        f"{counts['drafting']} on a draft, {counts['appearing']} on the appearance of a part, {counts['any']} at any "
        f"moment, {counts['all']} all at once), {counts['drivers']} of the driver"
    )
    if counts["complete before"]:
        print("the last run found the job complete: its driver was killed after the manifest was written")
    print(f"{len(job.watch.drafts)} drafts seen, {job.watch.lost} of them never published")
    print(
        f"Ray's object store looked into {counts['searches']} times: at most {counts['searched']:,} bytes, "
        "descriptions of parts"
    )
    print("\n".join(job.complaints) or "every row has exactly one report, and nothing was left behind")
    return 1 if job.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
