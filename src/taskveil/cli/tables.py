"""Whole tables: `privatize` and `decode`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import console, note, pairs, refuse_existing, row_bar
from taskveil.cli.models import as_task, load_model, settled
from taskveil.cli.volunteers import PARQUET
from taskveil.client.reading import CLIENT, read_device
from taskveil.client.rounding import rounded_up
from taskveil.client.verifying import read_key


def privatize(
    source: Annotated[Path, typer.Argument(help="CSV or Parquet, one person a row.")],
    target: Annotated[Path, typer.Argument(help="Parquet of reports.")],
    release: Annotated[Path, typer.Option(help="The release, or its client folder.")],
    column: Annotated[list[str] | None, typer.Option(help="attribute=column where names differ. Repeatable.")] = None,
    unit: Annotated[list[str] | None, typer.Option(help="attribute=unit of the file. Repeatable.")] = None,
    missing_as_nan: Annotated[bool, typer.Option(hidden=True, help="Always so; kept for old scripts.")] = False,  # noqa: ARG001
    verify_key: options.VerifyKey = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Turn a table of records into a table of private reports, one per row, in constant memory."""
    from taskveil.engines.files import TableFile
    from taskveil.engines.parquet import privatize_table, refuse_second_reports

    _check_target(target)
    home = release / CLIENT if (release / CLIENT).is_dir() else release
    device, manifest = read_device(home, read_key(verify_key))
    names = device.columns or ()
    mapping, units = pairs("--column", column, names), pairs("--unit", unit, names)
    refuse_second_reports(target, device.mechanism.epsilon, overwrite=overwrite)
    with row_bar(TableFile.open(source).rows) as advance:
        count = privatize_table(
            device,
            manifest["digest"],
            source,
            target,
            columns=mapping,
            units=units,
            overwrite=overwrite,
            progress=advance,
        )
    console.print(f"{count:,} reports, ε = {rounded_up(device.mechanism.epsilon)} each: {target}")


def decode(
    source: Annotated[Path, typer.Argument(help="Parquet of reports, as written by privatize.")],
    target: Annotated[Path, typer.Argument(help="Parquet of estimates.")],
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
) -> None:
    """Turn a table of reports into a table of estimates or of answers, a row each, in constant memory.

    Each is the best for its person and leans towards the volunteers. For means and shares over all: taskveil estimate.
    """
    from taskveil.engines.answers import holds_log_probabilities
    from taskveil.engines.files import TableFile
    from taskveil.engines.parquet import decode_table

    _check_target(target)
    refuse_existing(target, overwrite)
    veil = tv.Veil.load(release, verify_key=verify_key)
    if model is not None:
        task = settled(as_task(load_model(model), loss), loss, veil.encoder.width, veil.schema)
        veil = tv.Veil.load(release, verify_key=verify_key, task=task)
    elif predict and holds_log_probabilities(veil):
        note("p0, p1, … are the probabilities of the model's classes, in its order; --model names them.")
    elif predict and veil.task is None and veil.answering is not None:
        note("y0, y1, … are the model's outputs, as they are: of a classifier, logits. For probabilities pass --model.")
    mapping = pairs("--column", column, veil.columns or ())
    with row_bar(TableFile.open(source).rows) as advance:
        count = decode_table(
            veil,
            source,
            target,
            columns=mapping,
            predict=predict,
            probabilities=probabilities,
            progress=advance,
        )
    console.print(f"{count:,} {'answers' if predict else 'estimates'}: {target}")


def _check_target(target: Path) -> None:
    """Only Parquet keeps the release beside the numbers; a .csv with Parquet's bytes helps nobody."""
    if target.suffix.lower() not in PARQUET:
        raise tv.TaskveilError(
            f"the result is written as Parquet: name it {target.with_suffix('.parquet')}, not {target}."
        )
