"""The jobs behind `taskveil privatize`, `decode` and `estimate`: tables in, tables or sums out, in constant memory.

Columns are found by name and their units are compared with the release's. Every row is one person and gets one report,
with any values: a missing value is randomised like any other. No other column of the input is copied.

A job over one file makes one file. A job over a folder makes a folder with a plan, a file for each part, and a manifest
(`jobs.plans`). Either way a file appears complete or not at all, and never replaces reports that are there already.
Every row gets one report, no matter how often workers are lost or jobs are started again: a part that is there is
never made again, and the drafts of failed attempts are deleted unread (`jobs.storage`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from taskveil.client.families import (
    CHOSEN,
    FAMILY,
    FAMILY_SIGNATURE,
    family_files,
    is_family,
    manifest_files,
    read_manifest,
)
from taskveil.client.promise import rounded_up
from taskveil.client.reading import client_files
from taskveil.client.signatures import read_key
from taskveil.errors import DataError, TaskveilError
from taskveil.estimates.scores import Tally
from taskveil.jobs.csv_format import USUAL, CsvFormat
from taskveil.jobs.parts import (
    Counting,
    Decoding,
    Files,
    PartWriter,
    Privatizing,
    RowWork,
    Unfit,
    WrittenPart,
    veil_of,
    write_csv,
    write_rows,
)
from taskveil.jobs.plans import (
    FORMAT,
    MANIFEST,
    PART_NAME,
    PLAN,
    JobPlan,
    check_complete,
    check_job,
    check_unchanged,
    opened,
)
from taskveil.jobs.reports import RELEASE, as_parquet, csv_schema, members_of, release_of
from taskveil.jobs.running import Engine, RowProgress
from taskveil.jobs.storage import Folder, Place
from taskveil.jobs.tables import TableFile
from taskveil.tasks import Task
from taskveil.veil import Veil
from taskveil.veil.release import release_files


@dataclass(frozen=True, kw_only=True)
class Done:
    """A job that has ended: the number of `rows`, the `parts` of a folder, and how many parts were `found` there."""

    rows: int
    parts: tuple[WrittenPart, ...] = ()
    found: int = 0


def privatize_tables(
    release: Path,
    source: Place,
    target: Place,
    *,
    engine: Engine | None = None,
    columns: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    verify_key: Path | None = None,
    overwrite: bool = False,
    csv: CsvFormat = USUAL,
    unfit: Unfit | None = None,
    progress: RowProgress = lambda *_: None,
) -> Done:
    """Writes one report for every row of a file, or of all Parquet files of a folder.

    Args:
        release: the folder that `Veil.save` wrote, or its client folder; or that of a family, of which a member is
            drawn for every row.
        source: a CSV or Parquet file, or a folder of Parquet files; a path, or an address that Arrow knows (s3://…).
        target: a Parquet file, if `makes_file` says so. Otherwise a folder that does not exist, is empty, or holds the
            parts of an earlier run of the same job.
        engine: where the job runs; by default in this process.
        columns: from the release's names to the file's, if they differ.
        units: the units of columns for which the file states none.
        verify_key: the release must be signed by this key.
        overwrite: delete the reports in `target` and draw again. This is a second report of the same people.
        csv: how a source that is CSV is written.
        unfit: where values that are missing or outside their bounds are counted, for a result that is one file. The
            reports are the same without it.
        progress: called with the number of rows done since the last call, and the number of all rows if it is known.
    """
    file = makes_file(source, engine or Engine())
    work = Privatizing(
        unfit=unfit if file else None,
        files=tuple((family_files if is_family(release) else client_files)(release).items()),
        columns=dict(columns or {}),
        units=dict(units or {}),
        verify_key=read_key(verify_key),
    )
    if work.family.kind == CHOSEN:
        choices = ", ".join(str(release / one.name) for one in work.family.members)
        raise DataError(f"people choose the member of this family: name the release of one, {choices}.")
    epsilon = work.family.epsilon
    refusal = (
        f"{target} exists already. Running again draws a second report for the same people, which costs each of them "
        f"ε = {rounded_up(epsilon)} once more if both were seen: together e^{rounded_up(2 * epsilon)} instead of "
        f"e^{rounded_up(epsilon)}. Send the reports that are there; or, if they were never sent, overwrite them "
        "(--overwrite)."
    )
    what = {"kind": "reports", "columns": dict(work.columns), "units": dict(work.units)}
    job = _Job(source=source, target=target, work=work, what=what, refusal=refusal, csv=csv)
    return job.run(engine or Engine(), overwrite=overwrite, progress=progress)


def decode_tables(
    release: Path,
    source: Place,
    target: Place,
    *,
    engine: Engine | None = None,
    columns: Mapping[str, str] | None = None,
    predict: bool = False,
    probabilities: bool = False,
    task: Task | None = None,
    verify_key: Path | None = None,
    overwrite: bool = False,
    verify: bool = True,
    progress: RowProgress = lambda *_: None,
) -> Done:
    """Writes an estimate, or an answer, for every report of a file, or of all Parquet files of a folder.

    Args:
        release: the folder that `Veil.save` wrote.
        source: a file or folder that `privatize_tables` or a collector's export wrote.
        target: as in `privatize_tables`.
        engine: where the job runs; by default in this process.
        columns: from the release's names to the names in the output, if they differ.
        predict: write the task's answers instead of estimates (`jobs.reports` says how they are named).
        probabilities: add a column beside each that says how probable its value is, if the release has fields.
        task: the task to answer with, if the release holds no model.
        verify_key: the release must be signed by this key.
        overwrite: delete the estimates in `target` and begin again.
        verify: compare the files of a folder of reports with the SHA-256 in its manifest.
        progress: called with the number of rows done since the last call, and the number of all rows.
    """
    if is_family(release):
        raise DataError(f"{release} is a family: name one member, --release {release / 'NAME'}, to decode its reports.")
    work = Decoding(
        files=tuple(release_files(release).items()),
        of_family=_of_family(source),
        columns=dict(columns or {}),
        predict=predict,
        probabilities=probabilities,
        task=task,
        verify_key=read_key(verify_key),
    )
    what = {
        "kind": "answers" if predict else "estimates",
        "columns": dict(work.columns),
        "probabilities": probabilities,
        "model": work.sample() if predict and task is not None else None,
    }
    refusal = f"{target} exists already. Choose another name, or overwrite it (--overwrite)."
    with as_parquet([source], engine) as (table,):
        job = _Job(source=table, target=target, work=work, what=what, refusal=refusal, verify=verify)
        return job.run(engine or Engine(), overwrite=overwrite, progress=progress)


def tally_tables(
    releases: Sequence[Path],
    sources: Sequence[Place],
    *,
    engine: Engine | None = None,
    verify_key: Path | None = None,
    verify: bool = True,
    progress: RowProgress = lambda *_: None,
) -> tuple[list[Veil], list[Tally]]:
    """The veils that the reports of files and folders were made with, and the tally of each: all that `tv.estimate`
    needs.

    Args:
        releases: every release that reports may be of.
        sources: files and folders of reports. The same file twice is refused: people who are counted twice make
            intervals too short.
        engine: where the job runs; by default in this process. The numbers are the same, bit for bit.
        verify_key: releases must be signed by this key.
        verify: compare the files of a folder with the SHA-256 in its manifest.
        progress: called with the number of rows done since the last call, and the number of all rows.
    """
    with as_parquet(sources, engine) as tables:
        return _tallies(releases, tables, engine or Engine(), read_key(verify_key), verify=verify, progress=progress)


def _tallies(
    releases: Sequence[Path],
    sources: Sequence[Place],
    engine: Engine,
    key: bytes | None,
    *,
    verify: bool,
    progress: RowProgress,
) -> tuple[list[Veil], list[Tally]]:
    known: dict[str, Files] = {}
    for place in [part for one in releases for part in member_folders(one, key)]:
        files = tuple(release_files(place).items())
        known[veil_of(files, key).release_id] = files
    folders = [opened(source, verify=verify) for source in sources]
    paths = [os.path.realpath(folder.at(name)) for folder, tables in folders for name in tables]
    if len(set(paths)) < len(paths):
        raise DataError("a file of reports is named twice, and nobody may count twice: name each file once.")
    jobs = [
        (release, folder, JobPlan.of(some, {}), any(members_of(table) for table in some.values()))
        for folder, tables in folders
        for release, some in _by_release(tables, known).items()
    ]
    rows = sum(plan.rows for _, _, plan, _ in jobs)
    progress(0, rows)
    found = dict[str, Tally]()
    with engine.joined():
        for release, folder, plan, mixed in jobs:
            work = Counting(files=known[release], sources=plan.sources, source=folder)
            counted = _tally(work, plan, engine, lambda done, _: progress(done, rows), whole=not mixed)
            check_unchanged(folder, plan.sources)
            found[release] = found[release] + counted if release in found else counted
    used = [release for release in known if release in found]
    return [veil_of(known[release], key) for release in used], [found[release] for release in used]


def member_folders(folder: Path, verify_key: bytes | None = None) -> list[Path]:
    """The folders of the members of a family, or the folder of a release alone.

    Args:
        folder: of either.
        verify_key: a family must be signed by this key.
    """
    if not is_family(folder):
        return [folder]
    files = manifest_files(folder)
    manifest = read_manifest(files[FAMILY], files.get(FAMILY_SIGNATURE), verify_key, where=folder)
    return [folder / one["name"] for one in manifest["members"]]


def _of_family(source: Place) -> bool:
    """Whether a file or folder holds reports of a family; a CSV file never does."""
    if str(source).lower().endswith(".csv"):
        return False
    _, tables = opened(source, verify=False)
    return any(members_of(table) for table in tables.values())


def makes_file(source: Place, engine: Engine) -> bool:
    """Whether the result is one file: if the source is one file of this machine and the engine is "plain". A DataError
    is raised if there is no such source."""
    if "://" in str(source):
        return False
    if not os.path.exists(source):
        raise DataError(f"cannot read {str(source)!r}: there is no such file or folder.")
    return engine.name == "plain" and not os.path.isdir(source)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """Work on all rows of `source`, with its results in `target`; `refusal` is the error if results are there."""

    source: Place
    target: Place
    work: RowWork
    what: Mapping[str, Any]
    refusal: str
    verify: bool = True
    csv: CsvFormat = USUAL

    def run(self, engine: Engine, *, overwrite: bool, progress: RowProgress) -> Done:
        """All results, published."""
        if makes_file(self.source, engine):
            return self._file(overwrite=overwrite, progress=progress)
        return self._folder(engine, overwrite=overwrite, progress=progress)

    def _file(self, *, overwrite: bool, progress: RowProgress) -> Done:
        """The results of one file in one file. A folder's part is made in the same way."""
        target = Path(self.target)
        if os.path.lexists(target) and not overwrite:
            raise DataError(self.refusal)
        table, is_csv = TableFile.open(Path(self.source), csv=self.csv), target.suffix.lower() == ".csv"
        self.work.names(table)
        if is_csv:
            csv_schema(self.work.schema)
        progress(0, table.rows)
        try:
            with Folder.of(target.parent).draft() as draft:
                write = write_csv if is_csv else write_rows
                rows = write(draft, self.work, table, progress=lambda done: progress(done, table.rows))
                if TableFile.open(Path(self.source), csv=self.csv).version != table.version:
                    raise DataError(f"{self.source} changed while it was read. Nothing was written: run it again.")
                (draft.replace if overwrite else draft.publish)(target.name)
        except TaskveilError:
            raise
        except FileExistsError:  # another run has published meanwhile
            raise DataError(self.refusal) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "this is no path"
            raise DataError(f"cannot write {str(target)!r}: {reason}. Nothing was written.") from error
        return Done(rows=rows)

    def _folder(self, engine: Engine, *, overwrite: bool, progress: RowProgress) -> Done:
        """All parts that are not there yet, and then the manifest."""
        if self.csv != USUAL:
            raise DataError("a folder holds Parquet: --sep, --decimal, --date-format and --missing are about one CSV.")
        target = Folder.of(self.target)
        folder, tables = opened(self.source, apart_from=target, verify=self.verify)
        for table in tables.values():
            if table.is_text:
                raise DataError(f"{table.path} is CSV, which cannot be cut into parts: convert it to Parquet first.")
            self.work.names(table)
        release = self.work.schema.metadata[RELEASE].decode()
        wanted = JobPlan.of(tables, {**self.what, "release": release})
        if not wanted.parts:
            raise DataError(f"{self.source} holds no rows, and at least one is needed. Is it the right file or folder?")
        plan = self._begun(target, wanted, overwrite=overwrite)
        names = set(target.names())
        there = [part for part in plan.parts if part.name in names]
        others = [part for part in plan.parts if part.name not in names]
        work = PartWriter(job=plan.job, work=self.work, sources=plan.sources, source=folder, target=target)
        written: dict[int, WrittenPart] = {}
        progress(0, plan.rows)
        kept = "Parts that are there stay, and no report is drawn twice: run it again to continue."
        with engine.joined():
            for some in (there, others):  # parts that are there are compared with the source before anything is drawn
                for part, result in engine.run(work, some, kept=kept):
                    written[part.number] = result
                    progress(part.rows, plan.rows)
        check_unchanged(folder, plan.sources)  # all parts come from one state of the source
        parts = tuple(written[part.number] for part in plan.parts)
        content = {"job": plan.job, **plan.what, "rows": plan.rows, "parts": [asdict(part) for part in parts]}
        check_job(plan.job, target)
        _publish(target, MANIFEST, (json.dumps(content, indent=1) + "\n").encode())
        check_complete(target)  # the manifest that is there may be that of another run
        target.forget_drafts()
        return Done(rows=plan.rows, parts=parts, found=len(there))

    def _begun(self, target: Folder, wanted: JobPlan, *, overwrite: bool) -> JobPlan:
        """The plan in the target, written now unless it is there; a DataError if the target is not for this job."""
        if target.kind() == "file":
            raise DataError(f"{self.target} is a file, but the parts need a folder: choose another name.")
        target.create()
        names = target.names(below=True)
        if PLAN not in names and any(not name.startswith(".") for name in names):
            raise DataError(f"{self.target} exists already, and holds something else. Choose another folder.")
        if PLAN in names and overwrite:
            for name in (MANIFEST, *filter(PART_NAME.fullmatch, names), PLAN):
                target.delete(name)  # the plan last: after an interruption the job can continue, or begin again
        _publish(target, PLAN, wanted.content())  # unless one is there, perhaps since a moment ago
        plan = JobPlan.read(target.read(PLAN), target.at(PLAN))
        if MANIFEST in names and not overwrite and plan.what == wanted.what:
            raise DataError(self.refusal)
        if plan.format != FORMAT:
            raise DataError(
                f"{self.target} holds parts of a job that began with an earlier version of taskveil, which did not "
                "record the bytes that it read: it cannot be continued. Start it again in another folder; or, if its "
                "reports were never sent, overwrite them (--overwrite)."
            )
        if not plan.same(wanted):
            raise DataError(
                f"{self.target} holds parts of another job: of other rows, another release or other options. Choose "
                "another folder; or repeat the earlier command to continue it."
            )
        target.forget_drafts()
        return replace(wanted, job=plan.job)


def _publish(target: Folder, name: str, content: bytes) -> None:
    """Writes a small file, unless it is there."""
    with target.draft() as draft:
        draft.file.write(content)
        with contextlib.suppress(FileExistsError):
            draft.publish(name)


def _by_release(tables: dict[str, TableFile], known: dict[str, Files]) -> dict[str, dict[str, TableFile]]:
    """The tables of every release, or a DataError if a table is of no known release."""
    found: dict[str, dict[str, TableFile]] = {}
    for name, table in tables.items():
        stated, members = release_of(table), members_of(table)
        own = [release for release in members if release in known]
        if own:
            for release in own:
                found.setdefault(release, {})[name] = table
            continue
        if not stated:
            raise DataError(
                f"{table.path} holds no reports. If it is a table of records, make reports of it first: taskveil "
                "privatize."
            )
        if stated not in known:
            ids = ", ".join(f"{release[:12]}…" for release in known)
            raise DataError(
                f"{table.path} holds reports of release {stated[:12]}…, not of {ids}. Give the release that they were "
                "made with."
            )
        found.setdefault(stated, {})[name] = table
    return found


def _tally(work: Counting, plan: JobPlan, engine: Engine, progress: RowProgress, *, whole: bool) -> Tally:
    """The tally of all parts of a plan; `whole`: all rows are of one release."""
    waiting: dict[int, Tally] = {}
    total, due = work.empty, 0
    for part, tally in engine.run(work, plan.parts, kept="Nothing was changed: run it again."):
        waiting[part.number] = tally
        while due in waiting:  # in the order of the plan, because sums of doubles depend on it
            total, due = total + waiting.pop(due), due + 1
        progress(part.rows, plan.rows)
    if whole and total.count != plan.rows:  # missing reports would bias the estimate without a wider interval
        raise DataError(f"{total.count:,} of {plan.rows:,} reports were counted. Nothing was changed: run it again.")
    return total
