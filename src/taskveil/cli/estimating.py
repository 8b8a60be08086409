"""What many reports say together: `estimate`."""

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
from taskveil.client.rounding import rounded_up

if TYPE_CHECKING:
    from taskveil.server.estimates import Estimate

Names = list[str] | None


def estimate(
    sources: Annotated[
        list[str], typer.Argument(help="Parquet of reports, or folders of it, as written by privatize; one or several.")
    ],
    release: Annotated[
        list[Path], typer.Option(help="The release. Repeatable: every file is read with its own, and all are pooled.")
    ],
    since: Annotated[
        list[str] | None, typer.Option(help="Parquet of an earlier round: also say what changed since. Repeatable.")
    ] = None,
    quantiles: Annotated[
        Names, typer.Option(help="Also the quantiles of this answer or attribute. Repeatable.")
    ] = None,
    histogram: Annotated[
        Names, typer.Option(help="Also the distribution of this answer or attribute. Repeatable.")
    ] = None,
    simplex: Annotated[
        bool, typer.Option("--simplex", help="Bring frequencies of codewords between 0 and 1, at the cost of a bias.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all of it here, frequencies too.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the means with their intervals here, as PNG.")] = None,
    verify_key: options.VerifyKey = None,
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Estimate means and shares over all people who sent a report, with 95% intervals, in constant memory."""
    from taskveil.engines.running import Engine
    from taskveil.engines.tallies import tally_folders
    from taskveil.server.estimates.natural import Label
    from taskveil.server.estimates.result import HEADER, finite

    where = Engine(name=engine, address=address, workers=workers)  # type: ignore[arg-type]

    def read(places: Sequence[str]) -> Estimate:
        with row_bar() as advance:
            used, tallies = tally_folders(release, places, engine=where, verify_key=verify_key, progress=advance)
        return tv.estimate(used, tallies, simplex=simplex)

    with nullcontext() if since is None else where.joined():  # one cluster for both rounds
        found = read(sources)
        changes = {} if since is None else found.minus(read(since))
    spread = {name: found.quantiles(name) for name in quantiles or []}
    bins = {name: found.histogram(name) for name in histogram or []}

    _print("", HEADER, (row.cells for row in found.rows()))
    shown = [(found.label(one.name), one) for part in changes.values() for one in part]
    if changes:
        cells = ((label.title, *label.interval(*one[1:], change=True)) for label, one in shown if label.shown)
        _print("Since the earlier round", ("", "change", "95% interval"), cells)
    for name, values in spread.items():
        cells = ((one.name, *found.label(name).interval(*one[1:])) for one in values)
        _print(f"Where {name} lies, by the share of people below", ("", "value", "95% interval"), cells)
    for name, values in bins.items():
        cells = ((one.name, *Label(one.name, "share").interval(*one[1:])) for one in values)
        _print(f"How many people have which {name}", ("", "share", "95% interval"), cells)
    if spread or bins:
        console.print("Distributions are those of the volunteers, reweighted to be as the reports say people are.")
    console.print(f"{found.reports:,} reports, ε = {rounded_up(found.epsilon)} each.")
    console.print(escape(reworded(found.drift.words)), style="yellow" if found.drift.raised else None)
    console.print(f"Assumed: {escape(found.assumes)}")
    if json_file is not None:
        more = {"changes": changes, "quantiles": spread, "histograms": bins}
        content = {
            name: {key: [finite(one._asdict()) for one in part] for key, part in parts.items()}
            for name, parts in more.items()
        }
        text = json.dumps({**found.content(), **content}, indent=1, ensure_ascii=False, allow_nan=False)
        json_file.write_text(text + "\n", encoding="utf-8")
        console.print(f"JSON: {json_file}", soft_wrap=True)
    if plot is not None:
        console.print(f"picture: {found.plot(plot)}", soft_wrap=True)


def _print(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table as wide as the terminal, where that has 80 columns: long names are folded, numbers never."""
    view = Table(title=escape(title), title_justify="left")
    for place, heading in enumerate(headings):
        view.add_column(heading, overflow="fold", no_wrap=place > 0, justify="right" if place else "left")
    for row in rows:
        view.add_row(*map(escape, row))
    Console(width=max(console.width, 80)).print(view)
