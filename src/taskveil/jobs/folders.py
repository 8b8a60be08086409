"""Folders of tables in, folders of tables out: `jobs.parquet` for what one file, or one machine, cannot hold.

Every row is one person and gets one report, however often workers are lost and jobs are started again: a part that is
there is never made again, and what an attempt that failed had drawn is gone before anybody could read it
(`jobs.storage`). A job that was interrupted goes on when it is run again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from taskveil.client.reading import client_files, read_key
from taskveil.errors import DataError
from taskveil.jobs.parquet import second_reports
from taskveil.jobs.parts import Decoding, Making, Privatizing, Settled, Settling
from taskveil.jobs.plans import MANIFEST, PART_NAME, PLAN, Plan, check_complete, check_job, opened
from taskveil.jobs.report_files import RELEASE
from taskveil.jobs.running import Engine, PartProgress
from taskveil.jobs.storage import Folder, Place
from taskveil.tasks import Task
from taskveil.veil.release import release_files

_KEPT = "Parts that are there stay, and nobody's report is drawn twice: run it again to go on."


@dataclass(frozen=True, kw_only=True)
class Done:
    """A job that has ended: the `rows` and `parts` that are there now, and how many of these `found` it had not to
    make."""

    rows: int
    parts: tuple[Settled, ...]
    found: int


def privatize_folder(
    release: Path,
    source: Place,
    target: Place,
    *,
    engine: Engine | None = None,
    columns: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    verify_key: Path | None = None,
    overwrite: bool = False,
    progress: PartProgress = lambda *_: None,
) -> Done:
    """One report for every row of all Parquet files of `source`, written to the folder `target`.

    Args:
        release: what `Veil.save` wrote, or its client folder.
        source: a folder of Parquet files, or one such file; a path, or an address that Arrow knows (s3://…).
        target: a folder that is not there, is empty, or holds what an earlier run of this very job left.
        engine: where it is computed; by default here.
        columns: from the release's names to the files' where they differ.
        units: of columns for which the files state none.
        verify_key: the release must be signed by this key.
        overwrite: delete what a job left in `target` and begin anew: a second report of the same people.
        progress: called with the number of rows done since the last call, and that of all rows.
    """
    making = Privatizing(
        files=tuple(client_files(release).items()),
        columns=dict(columns or {}),
        units=dict(units or {}),
        verify_key=read_key(verify_key),
    )
    epsilon = making.device.mechanism.epsilon
    what = {"kind": "reports", "columns": dict(making.columns), "units": dict(making.units)}
    job = _Job(source=source, target=target, making=making, what=what, refusal=lambda: second_reports(target, epsilon))
    return job.run(engine or Engine(), overwrite=overwrite, progress=progress)


def decode_folder(
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
    progress: PartProgress = lambda *_: None,
) -> Done:
    """An estimate, or an answer, for every report of all Parquet files of `source`, written to the folder `target`.

    Args:
        release: what `Veil.save` wrote, and the reports were made with.
        source: what `privatize_folder` wrote, or files that `privatize_table` or a collector's export did.
        target: a folder that is not there, is empty, or holds what an earlier run of this very job left.
        engine: where it is computed; by default here.
        columns: from the release's names to those wanted in the output where they differ.
        predict: the task's answers instead of estimates.
        probabilities: a column beside each says how probable its value is, where the release has fields.
        task: of a release that holds no model, to answer with.
        verify_key: the release must be signed by this key.
        overwrite: delete what a job left in `target` and begin anew.
        progress: called with the number of rows done since the last call, and that of all rows.
    """
    making = Decoding(
        files=tuple(release_files(release).items()),
        columns=dict(columns or {}),
        predict=predict,
        probabilities=probabilities,
        task=task,
        verify_key=read_key(verify_key),
    )
    what = {
        "kind": "answers" if predict else "estimates",
        "columns": dict(making.columns),
        "probabilities": probabilities,
        "model": making.sample() if predict and task is not None else None,
    }

    def refusal() -> str:
        return f"{target} exists already. Choose another folder, or overwrite it."

    job = _Job(source=source, target=target, making=making, what=what, refusal=refusal)
    return job.run(engine or Engine(), overwrite=overwrite, progress=progress)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """From `source` to `target`; `refusal` says why a target that is complete is left alone."""

    source: Place
    target: Place
    making: Making
    what: Mapping[str, Any]
    refusal: Callable[[], str]

    def run(self, engine: Engine, *, overwrite: bool, progress: PartProgress) -> Done:
        """All parts that are not there yet, and then the manifest."""
        target = Folder.of(self.target)
        folder, tables = opened(self.source, apart_from=target)
        for table in tables.values():
            if table.is_text:
                raise DataError(f"{table.path} is CSV, which cannot be cut into parts: convert it to Parquet first.")
            self.making.check(table)
        release = self.making.schema.metadata[RELEASE].decode()
        wanted = Plan.of(tables, folder, {**self.what, "release": release})
        if not wanted.parts:
            raise DataError(f"{self.source} holds no rows.")
        plan = self._begun(target, wanted, overwrite=overwrite)
        there = set(target.names())
        work = Settling(job=plan.job, making=self.making, sources=plan.sources, source=folder, target=target)
        settled: dict[int, Settled] = {}
        progress(0, plan.rows)
        for part, result in engine.run(work, plan.parts, kept=_KEPT):
            settled[part.number] = result
            progress(part.rows, plan.rows)
        parts = tuple(settled[part.number] for part in plan.parts)
        content = {"job": plan.job, **plan.what, "rows": plan.rows, "parts": [asdict(part) for part in parts]}
        check_job(plan.job, target)
        _publish(target, MANIFEST, (json.dumps(content, indent=1) + "\n").encode())
        check_complete(target)  # the manifest that is there may be of a job that somebody has ended meanwhile
        target.forget_drafts()
        return Done(rows=plan.rows, parts=parts, found=sum(part.name in there for part in plan.parts))

    def _begun(self, target: Folder, wanted: Plan, *, overwrite: bool) -> Plan:
        """The plan that the target keeps from now on, or a DataError if it is not for this job."""
        if target.kind() == "file":
            raise DataError(f"{self.target} is a file: a folder is needed.")
        target.create()
        names = target.names(below=True)
        if PLAN not in names and any(not name.startswith(".") for name in names):
            raise DataError(f"{self.target} exists already, and holds something else. Choose another folder.")
        if PLAN in names and overwrite:
            for name in (MANIFEST, *filter(PART_NAME.fullmatch, names), PLAN):
                target.delete(name)  # the plan last: whoever is interrupted here can still go on, or begin anew
        _publish(target, PLAN, wanted.content())  # unless one is there, perhaps since a moment ago
        plan = Plan.read(target.read(PLAN), target.at(PLAN))
        if not plan.same(wanted):
            raise DataError(
                f"{self.target} holds parts of another job: of other rows, another release or other options. Choose "
                "another folder; or give the same as before, and it goes on."
            )
        if MANIFEST in names and not overwrite:
            raise DataError(self.refusal())
        target.forget_drafts()
        return replace(wanted, job=plan.job)


def _publish(target: Folder, name: str, content: bytes) -> None:
    """Write a small file, unless it is there."""
    with target.draft() as draft:
        draft.file.write(content)
        with contextlib.suppress(FileExistsError):
            draft.publish(name)
