"""Experiments: `demo`, the paper's figures and the comparison with simple methods (`reproduce`), and their `data`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from taskveil.cli import options
from taskveil.cli.console import busy, console, print_line, print_whole, refuse_existing
from taskveil.datasets import NAMES, Name, as_csv
from taskveil.errors import DataError, TaskError
from taskveil.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from taskveil.experiments import field
    from taskveil.experiments.parts import Finished, Part
    from taskveil.experiments.runs import Run

R = TypeVar("R")

FIELD = "field"
Experiment = Enum("Experiment", {name: name for name in (*EXPERIMENTS, "all", FIELD)}, type=str)  # type: ignore[misc]


def demo(
    picture: Annotated[Path, typer.Option(help="Where to put the picture.")] = Path("results/demo.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Instead: a collector whose page fills with simulated people's reports.")
    ] = False,
    port: Annotated[int, typer.Option(help="With --serve; 0 for any that is free.", min=0, max=65535)] = 8000,
    devices: Annotated[int, typer.Option(help="With --serve: simulated people.", min=1, max=100_000)] = 3000,
    seconds: Annotated[float, typer.Option(help="With --serve: how long they take.", min=0.1, max=3600)] = 45.0,
) -> None:
    """Design private reports for scikit-learn's breast cancer data and compare with what tools do today."""
    if serve:
        from taskveil.cli.demonstrating import serve_demo

        serve_demo(port=port, devices=devices, seconds=seconds)
        return
    from taskveil.experiments import demo as experiment
    from taskveil.experiments.report import table

    with busy("designing", quiet=as_json) as bar:
        rows, veil, nothing = experiment.run(picture, progress=bar)
    if as_json:
        typer.echo(json.dumps([row.as_json() for row in rows]))
        return
    print_whole(table("Expected task loss on 171 people who were not among the volunteers", rows))
    console.print(f"For comparison: guessing the volunteers' mean without any report costs {nothing:.4f}.\n")
    console.print(f"[bold]The guarantee at ε = 2.[/bold] {veil.guarantee.statement}\n")
    print_line(f"The picture: {picture}")
    print_line("See reports arrive, from simulated people and from your browser: taskveil demo --serve")


def reproduce(
    experiment: Annotated[list[Experiment], typer.Argument(help="Which figures, or all; field by itself.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds for designs that depend on one.", min=1)] = 5,
    splits: Annotated[
        int, typer.Option(help="Random splits beside the paper's own; of field, 3 or so many.", min=0)
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda, for designs that learn from pictures.")] = "cpu",
    summary: Annotated[
        Path | None, typer.Option(help="Write a Markdown summary here (results.md and field.md in docs/results).")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Keep finished parts here, and reuse them.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes that share the parts, one thread each.", min=1)] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Parts by name: mnist-codebook, iris-forest, …")] = None,
    held_back: Annotated[
        bool, typer.Option("--held-back", help="Of field, also the pairs that are measured once, at the end.")
    ] = False,
    commit: Annotated[str | None, typer.Option(help="The version that is measured; by default what git says.")] = None,
) -> None:
    """The paper's figures and ours beside them; or field, the comparison with simple methods on other people's data."""
    asked = [entry.value for entry in experiment]
    if FIELD in asked:
        if len(set(asked)) > 1:
            raise TaskError("field is a comparison of its own: run it by itself.")
        from taskveil.experiments import field

        chosen = field.parts(splits or field.SPLITS, only or [], held_back=held_back)
        _field(chosen, json_file, plot, summary, resume, jobs, commit)
        return
    if plot and only:
        raise TaskError("pictures are drawn from all parts of an experiment: leave out --plot or --only.")
    from taskveil.experiments import runs

    names = EXPERIMENTS if "all" in asked else tuple(dict.fromkeys(asked))
    parts = runs.parts(names, seeds=seeds, splits=splits, device=device, only=only or [])
    finished = _finished(parts, resume, jobs, commit)
    measured = [runs.Run.of(name, seeds, parts, finished) for name in dict.fromkeys(part.experiment for part in parts)]
    _figures(measured, json_file, plot, summary)


def _finished(chosen: Sequence[Part[R]], resume: Path | None, jobs: int, commit: str | None) -> list[Finished[R]]:
    """The finished parts, in the order in which they finish. Each is printed at once."""
    from taskveil.experiments.parts import finished_parts

    found = []
    for part in finished_parts(chosen, folder=resume, jobs=jobs, commit=commit):
        found.append(part)
        console.print(f"{part.name}: {part.seconds:.0f} s ({len(found)} of {len(chosen)})")
    return found


def _figures(measured: list[Run], json_file: Path | None, plot: Path | None, summary: Path | None) -> None:
    """Print the tables of the paper's figures, and write the files of the options."""
    from taskveil.experiments.report import shares_table, table, write_json
    from taskveil.experiments.splits import table as splits_table

    rows = [row for run in measured for row in run.rows]
    for title in dict.fromkeys(row.experiment for row in rows):
        mine = [row for row in rows if row.experiment == title]
        print_whole(table(title, mine))
        shares = shares_table(mine)
        if shares:
            print_whole(shares)
    for run in measured:
        if len(run.splits) > 1:
            print_whole(splits_table(run.name, run.splits))
        if plot:
            print_line(f"picture: {run.draw(plot)}")
    if json_file:
        write_json(json_file, rows)
        print_line(f"rows: {json_file}")
    if summary:
        from taskveil.experiments.summary import write_summary

        write_summary(summary, measured)
        print_line(f"summary: {summary}")


def _field(
    chosen: list[field.FieldPart],
    json_file: Path | None,
    plot: Path | None,
    summary: Path | None,
    resume: Path | None,
    jobs: int,
    commit: str | None,
) -> None:
    """Print the tables of the comparison with simple methods, and write the files of the options."""
    from taskveil.experiments import field_page
    from taskveil.experiments.field import write_rows

    found = {part.name: part for part in _finished(chosen, resume, jobs, commit)}
    rows = [replace(row, commit=found[part.name].commit) for part in chosen for row in found[part.name].rows]
    for table in field_page.print_tables(rows):
        print_whole(table)
    for line in field_page.share_lines(rows):
        console.print(line)
    if json_file:
        write_rows(json_file, rows)
        print_line(f"rows: {json_file}")
    picture = field_page.plot(rows, plot / "field.png") if plot else None
    if picture:
        print_line(f"picture: {picture}")
    if summary:
        field_page.write_page(summary, rows, picture=picture)
        print_line(f"summary: {summary}")


def data(
    name: Annotated[
        Name | None, typer.Argument(help="A data set of simulated people that is part of taskveil.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="With a name: the CSV file; by default NAME.csv.")
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a small data set as CSV, to try taskveil with. Without a name: fetch the data of reproduce.

    The data of reproduce are real. What the folder TASKVEIL_DATA does not have is downloaded.
    """
    if name is not None:
        _write_data(name, output or Path(f"{name}.csv"), overwrite)
        return
    if output is not None:
        raise DataError(f"-o is for one data set: taskveil data NAME -o {output}, NAME one of {', '.join(NAMES)}.")
    from taskveil.experiments.data import breast_cancer, household, mnist, real_estate

    with busy("fetching"):
        days, (houses, _), (people, _), (digits, _, tests, _) = household(), real_estate(), breast_cancer(), mnist()
    console.print(f"household: {days.shape[0]} days of {days.shape[1]} hours, digest checked")
    console.print(f"real-estate: {len(houses)} houses, digest checked")
    console.print(f"breast-cancer: {len(people)} people, digest checked")
    console.print(f"mnist: {len(digits)} and {len(tests)} digits, digest checked")


def _write_data(name: Name, output: Path, overwrite: bool) -> None:
    """Write a data set of the package."""
    refuse_existing(output, overwrite)
    written = as_csv(name)
    output.write_bytes(written)
    header, *rows = written.decode().splitlines()
    print_line(
        f"{len(rows):,} simulated people in {output}: {header if name != 'power' else '24 hours of a day, in kW'}"
    )
