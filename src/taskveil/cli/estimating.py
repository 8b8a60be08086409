"""Population estimates from reports: `estimate`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import console, row_bar
from taskveil.cli.wording import reworded

if TYPE_CHECKING:
    from taskveil.estimates import Estimate

ASSUMED = "dark_orange3"
"""The colour of rows that need an assumption."""


def estimate(
    sources: Annotated[
        list[str], typer.Argument(help="Parquet files of reports, or folders of them, as privatize writes them.")
    ],
    release: Annotated[
        list[Path],
        typer.Option(help="The release. Repeatable: each file is read with its own release, and all are pooled."),
    ],
    since: Annotated[
        list[str] | None,
        typer.Option(help="Parquet of an earlier round: also show the changes since then. Repeatable."),
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(
            help="Also show rows that need an assumption. cells: people with a code are like the volunteers with that "
            "code. labels: people of a class are like the volunteers of that class."
        ),
    ] = None,
    anytime: Annotated[
        bool,
        typer.Option(
            "--anytime", help="Wider intervals that hold at all times, even if you look at the reports often."
        ),
    ] = False,
    confidence: Annotated[
        float, typer.Option(help="The confidence level of the intervals, from 0.5 to below 1.")
    ] = 0.95,
    gone: Annotated[list[str] | None, typer.Option("--quantiles", "--histogram", hidden=True)] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all results to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the rows with their intervals into this PNG file.")] = None,
    verify_key: options.VerifyKey = None,
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Estimate population means and shares from reports, with intervals, in constant memory."""
    from taskveil.estimates.rows import finite
    from taskveil.jobs.commands import tally_tables
    from taskveil.jobs.running import Engine

    if gone:
        raise tv.TaskveilError(
            "--quantiles and --histogram no longer exist: reports do not measure distributions. For means and shares "
            "collect with a release of taskveil design --means."
        )
    if assume not in (None, "cells", "labels"):
        raise tv.TaskveilError(f"--assume is cells or labels, got {assume!r}.")
    where = Engine(name=engine, address=address, workers=workers)  # type: ignore[arg-type]

    def read(places: Sequence[str]) -> Estimate:
        with row_bar() as advance:
            used, tallies = tally_tables(release, places, engine=where, verify_key=verify_key, progress=advance)
        return tv.estimate(
            used,
            tallies,
            assume=assume,  # type: ignore[arg-type]
            anytime=anytime,
            confidence=confidence,
        )

    with nullcontext() if since is None else where.joined():  # one cluster for both rounds
        found = read(sources)
        changes = {} if since is None else found.minus(read(since))

    rows = found.rows()
    kinds = (("Measured", "none", False), (found.assumed_title, ASSUMED, True))
    for title, style, assumed in kinds:
        part = [row.cells for row in rows if (row.assumes is not None) == assumed]
        if part:
            _print(title, found.header, part, style)
    for title, style, assumed in kinds:
        ones = [one for ones in changes.values() for one in ones if (one.assumes is not None) == assumed]
        shown = [(found.label(one.name), one) for one in ones]
        cells = [(label.title, *label.interval(*one[1:4], change=True)) for label, one in shown if label.shown]
        if cells:
            _print(f"Since the earlier round. {title}", ("", "change", found.header[2]), cells, style)
    console.print(f"{found.source}.")
    console.print(escape(reworded(found.drift.words)), style="yellow" if found.drift.raised else None)
    for note in found.notes:
        console.print(escape(reworded(note)), style=None if found.assumes is None else ASSUMED)
    if json_file is not None:
        differences = {kind: [finite(one._asdict()) for one in part] for kind, part in changes.items()}
        content = {**found.content(), "changes": differences}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        json_file.write_text(text + "\n", encoding="utf-8")
        console.print(f"JSON: {json_file}", soft_wrap=True)
    if plot is not None:
        console.print(f"picture: {found.plot(plot)}", soft_wrap=True)


def _print(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], style: str = "none") -> None:
    """Print a table as wide as the terminal, at least 80 columns. Long names are folded, numbers never."""
    view = Table(title=escape(title), title_justify="left", style=style, box=None, padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        view.add_column(heading, overflow="fold", no_wrap=place > 0, justify="right" if place else "left", style=style)
    for row in rows:
        view.add_row(*map(escape, row))
    Console(width=max(console.width, 80)).print(view)
