"""What the reports of folders add up to, part by part: all that `taskveil.estimate` needs of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from taskveil.client.reading import read_key
from taskveil.errors import DataError
from taskveil.estimates.scores import Tally
from taskveil.jobs.files import TableFile
from taskveil.jobs.parts import Counting, Files, veil_of
from taskveil.jobs.plans import Plan, opened
from taskveil.jobs.reports import release_of
from taskveil.jobs.running import Engine, PartProgress
from taskveil.jobs.storage import Folder, Place
from taskveil.veil import Veil
from taskveil.veil.release import release_files


def tally_folders(
    releases: Sequence[Path],
    sources: Sequence[Place],
    *,
    engine: Engine | None = None,
    verify_key: Path | None = None,
    progress: PartProgress = lambda *_: None,
) -> tuple[list[Veil], list[Tally]]:
    """The veils that the reports of some folders and files are of, and what these add up to.

    Args:
        releases: every one that reports may be of.
        sources: folders and files of reports. The same file twice is refused: people who are counted twice make
            intervals too short.
        engine: where it is computed; by default here. The numbers are the same, bit for bit.
        verify_key: releases must be signed by this key.
        progress: called with the number of rows done since the last call, and that of all rows.
    """
    key = read_key(verify_key)
    known: dict[str, Files] = {}
    for place in releases:
        files = tuple(release_files(place).items())
        known[veil_of(files, key).release_id] = files
    folders = [opened(source) for source in sources]
    paths = [os.path.realpath(folder.at(name)) for folder, tables in folders for name in tables]
    if len(set(paths)) < len(paths):
        raise DataError("a file of reports is named twice, and nobody may count twice: name each file once.")
    jobs = [
        (release, folder, Plan.of(some, folder, {}))
        for folder, tables in folders
        for release, some in _by_release(folder, tables, known).items()
    ]
    rows = sum(plan.rows for _, _, plan in jobs)
    progress(0, rows)
    engine, found = engine or Engine(), dict[str, Tally]()
    with engine.joined():
        for release, folder, plan in jobs:
            counted = _tally(known[release], folder, plan, engine, lambda done, _: progress(done, rows))
            found[release] = found[release] + counted if release in found else counted
    used = [release for release in known if release in found]
    return [veil_of(known[release], key) for release in used], [found[release] for release in used]


def _by_release(
    folder: Folder, tables: dict[str, TableFile], known: dict[str, Files]
) -> dict[str, dict[str, TableFile]]:
    """The tables of every release in a folder, or a DataError if one is of none that is known."""
    found: dict[str, dict[str, TableFile]] = {}
    for name, table in tables.items():
        stated = release_of(table)
        if stated not in known:
            if not stated:
                raise DataError(
                    f"{folder.at(name)} holds no reports. If it is a table of records, make reports of it first: "
                    "taskveil privatize."
                )
            ids = ", ".join(f"{release[:12]}…" for release in known)
            raise DataError(
                f"{folder.at(name)} holds reports of release {stated[:12]}…, not of {ids}. Give the release that they "
                "were made with."
            )
        found.setdefault(stated, {})[name] = table
    return found


def _tally(files: Files, folder: Folder, plan: Plan, engine: Engine, progress: PartProgress) -> Tally:
    """What the reports of a folder's tables that are of one release add up to."""
    work = Counting(files=files, sources=plan.sources, source=folder)
    waiting: dict[int, Tally] = {}
    total, due = work.nothing, 0
    for part, tally in engine.run(work, plan.parts, kept="Nothing was changed: run it again."):
        waiting[part.number] = tally
        while due in waiting:  # in the order of the plan, because sums of doubles depend on it
            total, due = total + waiting.pop(due), due + 1
        progress(part.rows, plan.rows)
    if total.count != plan.rows:  # whoever is missing is no chance, and no interval would say so
        raise DataError(f"{total.count:,} of {plan.rows:,} reports were counted. Nothing was changed: run it again.")
    return total
