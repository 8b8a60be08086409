"""What must be true of a folder of reports when its job has ended, however often it was killed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from lost_workers.people import noise_of, rows_of
from taskveil.jobs.plans import MANIFEST, PLAN


def wrong_with(target: Path, rows: int, release: str) -> list[str]:
    """Complaints about reports of the rows 0 to before `rows`: each must be there exactly once."""
    manifest = json.loads((target / MANIFEST).read_text())
    plan = json.loads((target / PLAN).read_text())
    listed = [part["file"] for part in manifest["parts"]]
    found = []
    if (manifest["job"], manifest["rows"], manifest["release"]) != (plan["job"], rows, release):
        found.append("the manifest is of another job, release or number of rows")
    names = {path.name for path in target.iterdir()}
    if names != {*listed, MANIFEST, PLAN} or len(set(listed)) != len(listed):
        found.append(f"the folder holds other files than are listed: {sorted(names ^ {*listed, MANIFEST, PLAN})}")
    times = np.zeros(rows, dtype=np.int64)
    noise: list[np.ndarray] = []
    for part in manifest["parts"]:
        path = target / part["file"]
        content = path.read_bytes()
        reports = pq.read_table(path)
        if (len(content), hashlib.sha256(content).hexdigest()) != (part["bytes"], part["sha256"]):
            found.append(f"{path.name} is not the one that the manifest lists")
        numbers = rows_of(reports)
        if len(numbers) != part["rows"] or numbers.min() < 0 or numbers.max() >= rows:
            found.append(f"{path.name} holds reports of other rows")
            continue
        times += np.bincount(numbers, minlength=rows)
        noise.append(noise_of(reports)[:100].ravel())
    for count, number in zip(*np.unique(times, return_counts=True), strict=True):
        if count != 1:
            found.append(f"{number:,} rows have {count} reports")
    if len({some.tobytes() for some in noise}) < len(noise):
        found.append("two parts were drawn with the same noise")
    return found


def left_in(temporary: Path) -> list[str]:
    """What a job left in its temporary folder beside Ray's own logs: reports, records, releases, spilled objects."""
    found = []
    for path in temporary.rglob("*"):
        name = str(path.relative_to(temporary))
        if not name.startswith(("ray", "tv-ray-")) or (path.is_file() and ("spill" in name or _is_table(path))):
            found.append(f"{name} was left in the temporary folder")
    return found


def _is_table(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(6)[:4] in (b"PAR1", b"ARRO")
