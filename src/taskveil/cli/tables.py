"""Whole tables: `privatize` and `decode`, of one file or of a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import console, note, pairs, row_bar
from taskveil.cli.models import as_task, load_model, settled
from taskveil.client.promise import rounded_up
from taskveil.client.reading import client_files, read_device, read_key
from taskveil.veil.release import release_files

if TYPE_CHECKING:
    from taskveil.jobs.commands import Done
    from taskveil.jobs.running import Engine


def privatize(
    source: Annotated[
        str,
        typer.Argument(help="CSV or Parquet, one person per row; or a folder of Parquet; also an address like s3://…"),
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

    For a folder, every part is made once, even if workers are lost. After an interruption, run the command again to
    continue.
    """
    from taskveil.jobs.commands import privatize_tables
    from taskveil.jobs.running import Engine

    where = Engine(name=engine, address=address, workers=workers)  # type: ignore[arg-type]
    device, _ = read_device(client_files(release), read_key(verify_key), where=release)
    names = device.columns or ()
    mapping, units = pairs("--column", column, names), pairs("--unit", unit, names)
    with _job(source, target, where) as advance:
        done = privatize_tables(
            release,
            source,
            target,
            engine=where,
            columns=mapping,
            units=units,
            verify_key=verify_key,
            overwrite=overwrite,
            progress=advance,
        )
    epsilon = rounded_up(device.mechanism.epsilon)
    console.print(f"{done.rows:,} reports{_in_parts(done)}, ε = {epsilon} each: {target}", soft_wrap=True)


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
    """Turn a table of reports into a table of estimates or of answers, one row each, in constant memory.

    Each estimate is the best for its person, and is biased towards the volunteers. For means and shares of all people
    use taskveil estimate.
    """
    from taskveil.jobs.answers import holds_log_probabilities
    from taskveil.jobs.commands import decode_tables
    from taskveil.jobs.parts import veil_of
    from taskveil.jobs.running import Engine

    where = Engine(name=engine, address=address, workers=workers)  # type: ignore[arg-type]
    task = None
    files, key = tuple(release_files(release).items()), read_key(verify_key)
    veil = veil_of(files, key)
    if model is not None:
        task = settled(as_task(load_model(model), loss), loss, veil.schema)
        veil = veil_of(files, key, task)
    elif predict and holds_log_probabilities(veil):
        note("p0, p1, … are the probabilities of the model's classes, in its order; --model names them.")
    elif predict and veil.task is None and veil.answering is not None:
        note("y0, y1, … are the model's outputs; those of a classifier are logits. For probabilities pass --model.")
    with _job(source, target, where) as advance:
        done = decode_tables(
            release,
            source,
            target,
            engine=where,
            columns=pairs("--column", column, veil.columns or ()),
            predict=predict,
            probabilities=probabilities,
            task=task,
            verify_key=verify_key,
            overwrite=overwrite,
            progress=advance,
        )
    console.print(f"{done.rows:,} {'answers' if predict else 'estimates'}{_in_parts(done)}: {target}", soft_wrap=True)


@contextlib.contextmanager
def _job(source: str, target: str, engine: Engine) -> Iterator[Callable[..., None]]:
    """The progress bar of a job. A TaskveilError is raised if its target has a wrong name; a note says what Ctrl-C
    leaves of a folder."""
    from taskveil.jobs.commands import makes_file
    from taskveil.jobs.storage import PARQUET

    file = makes_file(source, engine)
    if file and Path(target).suffix.lower() not in PARQUET:  # only Parquet keeps the release's id beside the numbers
        raise tv.TaskveilError(
            f"the result is written as Parquet: name it {Path(target).with_suffix('.parquet')}, not {target}."
        )
    try:
        with row_bar() as advance:
            yield advance
    except KeyboardInterrupt:
        if not file:
            note("interrupted. Parts that are there stay: run the same command again to go on.")
        raise


def _in_parts(done: Done) -> str:
    """The number of parts of a folder, and how many of them were there before."""
    if not done.parts:
        return ""
    earlier = f", {done.found:,} of them there already" if done.found else ""
    return f" in {len(done.parts):,} {'part' if len(done.parts) == 1 else 'parts'}{earlier}"
