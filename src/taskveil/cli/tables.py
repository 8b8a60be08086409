"""Whole tables: `privatize` and `decode`, of one file or of a folder of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import console, note, pairs, refuse_existing, row_bar
from taskveil.cli.models import as_task, load_model, with_loss
from taskveil.cli.volunteers import PARQUET
from taskveil.client.promise import rounded_up
from taskveil.client.reading import client_files, read_device, read_key

if TYPE_CHECKING:
    from taskveil.jobs.folders import Done
    from taskveil.jobs.running import Engine


def privatize(
    source: Annotated[
        str,
        typer.Argument(help="CSV or Parquet, one person a row; or a folder of Parquet, also as s3://… and the like."),
    ],
    target: Annotated[str, typer.Argument(help="Parquet of reports; a folder where the source is one.")],
    release: Annotated[Path, typer.Option(help="The release, or its client folder.")],
    column: Annotated[list[str] | None, typer.Option(help="attribute=column where names differ. Repeatable.")] = None,
    unit: Annotated[list[str] | None, typer.Option(help="attribute=unit of the file. Repeatable.")] = None,
    missing_as_nan: Annotated[bool, typer.Option(hidden=True, help="Always so; kept for old scripts.")] = False,  # noqa: ARG001
    verify_key: options.VerifyKey = None,
    overwrite: options.Overwrite = False,
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Turn a table of records into a table of private reports, one per row, in constant memory.

    Of a folder, every part is made once, however often workers are lost: run it again after an interruption to go on.
    """
    from taskveil.jobs.files import TableFile
    from taskveil.jobs.folders import privatize_folder
    from taskveil.jobs.parquet import privatize_table, refuse_second_reports
    from taskveil.jobs.running import Engine

    where = Engine(name=engine, address=address, workers=workers)  # type: ignore[arg-type]
    device, manifest = read_device(client_files(release), read_key(verify_key), where=release)
    names = device.columns or ()
    mapping, units = pairs("--column", column, names), pairs("--unit", unit, names)
    named: dict[str, Any] = {"columns": mapping, "units": units, "overwrite": overwrite}
    each = f"ε = {rounded_up(device.mechanism.epsilon)} each: {target}"
    if _is_folder(source, where):
        with _going_on_later(), row_bar() as advance:
            done = privatize_folder(
                release, source, target, engine=where, verify_key=verify_key, progress=advance, **named
            )
        console.print(f"{done.rows:,} reports in {_in_parts(done)}, {each}", soft_wrap=True)
        return
    people, reports = Path(source), Path(target)
    _check_target(reports)
    refuse_second_reports(reports, device.mechanism.epsilon, overwrite=overwrite)
    with row_bar(TableFile.open(people).rows) as advance:
        count = privatize_table(device, manifest["digest"], people, reports, progress=advance, **named)
    console.print(f"{count:,} reports, {each}")


def decode(
    source: Annotated[str, typer.Argument(help="Parquet of reports, as written by privatize, or a folder of it.")],
    target: Annotated[str, typer.Argument(help="Parquet of estimates; a folder where the source is one.")],
    release: options.Release,
    column: Annotated[list[str] | None, typer.Option(help="attribute=name in the output. Repeatable.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A column beside each says how probable its value is.")
    ] = False,
    predict: Annotated[bool, typer.Option(help="Write the task's answers instead of the attributes.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="With --predict, the model of the task, as in design: answers are then named after its classes."
        ),
    ] = None,
    loss: options.LossName = None,
    verify_key: options.VerifyKey = None,
    overwrite: options.Overwrite = False,
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Turn a table of reports into a table of estimates or of answers, a row each, in constant memory.

    Each is the best for its person and leans towards the volunteers. For means and shares over all: taskveil estimate.
    """
    from taskveil.jobs.answers import holds_log_probabilities
    from taskveil.jobs.files import TableFile
    from taskveil.jobs.folders import decode_folder
    from taskveil.jobs.parquet import decode_table
    from taskveil.jobs.running import Engine

    where = Engine(name=engine, address=address, workers=workers)  # type: ignore[arg-type]
    task = None
    veil = tv.Veil.load(release, verify_key=verify_key)
    if model is not None:
        task = with_loss(as_task(load_model(model), loss), loss, veil.encoder.width, veil.schema)
        veil = tv.Veil.load(release, verify_key=verify_key, task=task)
    elif predict and holds_log_probabilities(veil):
        note("p0, p1, … are the probabilities of the model's classes, in its order; --model names them.")
    elif predict and veil.task is None and veil.answering is not None:
        note("y0, y1, … are the model's outputs, as they are: of a classifier, logits. For probabilities pass --model.")
    mapping = pairs("--column", column, veil.columns or ())
    wanted: dict[str, Any] = {"columns": mapping, "predict": predict, "probabilities": probabilities}
    made = "answers" if predict else "estimates"
    if _is_folder(source, where):
        with _going_on_later(), row_bar() as advance:
            done = decode_folder(
                release,
                source,
                target,
                engine=where,
                task=task,
                verify_key=verify_key,
                overwrite=overwrite,
                progress=advance,
                **wanted,
            )
        console.print(f"{done.rows:,} {made} in {_in_parts(done)}: {target}", soft_wrap=True)
        return
    reports, estimates = Path(source), Path(target)
    _check_target(estimates)
    refuse_existing(estimates, overwrite)
    with row_bar(TableFile.open(reports).rows) as advance:
        count = decode_table(veil, reports, estimates, progress=advance, **wanted)
    console.print(f"{count:,} {made}: {target}")


def _is_folder(source: str, engine: Engine) -> bool:
    """Whether the job is one of parts: of a folder, of files of other machines, or on Ray. A TaskveilError if nothing
    is there: what the target should be called depends on what the source is."""
    if "://" not in source and not Path(source).exists():
        raise tv.TaskveilError(f"cannot read {source!r}: there is no such file or folder.")
    return engine.name == "ray" or "://" in source or Path(source).is_dir()


@contextlib.contextmanager
def _going_on_later() -> Iterator[None]:
    """Says what Ctrl-C leaves."""
    try:
        yield
    except KeyboardInterrupt:
        note("interrupted. Parts that are there stay: run the same command again to go on.")
        raise


def _in_parts(done: Done) -> str:
    """How many parts there are, and how many had not to be made."""
    earlier = f", {done.found:,} of them there already" if done.found else ""
    return f"{len(done.parts):,} {'part' if len(done.parts) == 1 else 'parts'}{earlier}"


def _check_target(target: Path) -> None:
    """Only Parquet keeps the release beside the numbers; a .csv with Parquet's bytes helps nobody."""
    if target.suffix.lower() not in PARQUET:
        raise tv.TaskveilError(
            f"the result is written as Parquet: name it {target.with_suffix('.parquet')}, not {target}."
        )
