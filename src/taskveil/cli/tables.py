"""Whole tables: `privatize` and `decode`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import taskveil as tv
from taskveil.cli.console import console, pairs, refuse_existing, row_bar
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
    verify_key: Annotated[Path | None, typer.Option(help="PEM file; the release must be signed by this key.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
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
    release: Annotated[Path, typer.Option(help="The release.")],
    column: Annotated[list[str] | None, typer.Option(help="attribute=name in the output. Repeatable.")] = None,
    predict: Annotated[bool, typer.Option(help="Write the task's outputs instead of the attributes.")] = False,
    verify_key: Annotated[Path | None, typer.Option(help="PEM file; the release must be signed by this key.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Turn a table of reports into a table of estimates, in constant memory."""
    from taskveil.engines.files import TableFile
    from taskveil.engines.parquet import decode_table

    _check_target(target)
    refuse_existing(target, overwrite)
    veil = tv.Veil.load(release, verify_key=verify_key)
    mapping = pairs("--column", column, veil.columns or ())
    with row_bar(TableFile.open(source).rows) as advance:
        count = decode_table(veil, source, target, columns=mapping, predict=predict, progress=advance)
    console.print(f"{count:,} estimates: {target}")


def _check_target(target: Path) -> None:
    """Only Parquet keeps the release beside the numbers; a .csv with Parquet's bytes helps nobody."""
    if target.suffix.lower() not in PARQUET:
        raise tv.TaskveilError(
            f"the result is written as Parquet: name it {target.with_suffix('.parquet')}, not {target}."
        )
