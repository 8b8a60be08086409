"""What to expect before anything is collected: `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import busy, numbers, print_line
from taskveil.cli.inputs import Job, JobOptions, SurveyOptions
from taskveil.errors import DataError

if TYPE_CHECKING:
    from taskveil.sweeps.planning import Plan


def plan(
    data: Annotated[
        Path,
        typer.Argument(help="CSV or Parquet file of volunteers' records; or, with --survey, a schema (.json) alone."),
    ],
    people: Annotated[int, typer.Option(help="How many people will report.", min=1)],
    target: options.Target = None,
    model: options.Model = None,
    loss: options.LossName = None,
    schema: options.SchemaFile = None,
    columns: options.Columns = None,
    drop: options.Drop = None,
    domain: options.Bounds = None,
    weight: options.Weight = None,
    means: options.Means = False,
    survey: options.Survey = False,
    fields: options.AskedFields = None,
    by: options.By = None,
    pairs: options.PairsOfColumns = None,
    histogram: options.Histograms = None,
    epsilons: Annotated[str, typer.Option(help="Budgets to compare, separated by commas.")] = "0.5,1,2,4",
    margin: Annotated[
        float | None,
        typer.Option(
            help="Also name the smallest budget whose 95% margins are within this: 0.02 is 2 points of a share, and 2% "
            "of the range of a number."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the table, JSON and picture; by default none is written.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Expected margins of a survey or of means for a number of people; for a model, the share of the signal kept."""
    budgets = numbers("--epsilons", epsilons.split(","), "numbers separated by commas")
    asked = SurveyOptions.of(survey, fields, by, pairs, histogram)
    if margin is not None and not margin > 0:
        raise DataError(f"--margin is a number above 0, got {margin:g}.")
    if margin is not None and not (survey or means):
        raise DataError("--margin is about margins of statistics: pass --survey or --means too.")
    if data.suffix.lower() == ".json":
        if asked is None:
            raise DataError(f"{data} is a schema, and a schema alone is enough for a survey only: pass --survey.")
        known = tv.Schema.from_json(data)
        job = Job(X=known, y=None, task=asked.task(known.names, weight), names=known.names, schema=known)
    else:
        with busy("reading", quiet=as_json):
            job = Job.of(
                JobOptions(
                    data=data,
                    target=target,
                    model=model,
                    loss=loss,
                    schema=schema,
                    columns=options.joined(columns),
                    drop=options.joined(drop),
                    bounds=domain,
                    weights=weight,
                    means=means,
                    survey=asked,
                )
            )
    found = planned_for(job, people=people, budgets=budgets, quiet=as_json)
    print_plan(job, found, folder=folder, margin=margin, as_json=as_json)


def planned_for(job: Job, *, people: int, budgets: Sequence[float], quiet: bool) -> Plan:
    """The plan of a job."""
    given = None if isinstance(job.X, tv.Schema) else job.schema
    with busy("planning", quiet=quiet) as bar:
        return tv.plan(job.X, job.task, people=people, epsilons=budgets, y=job.y, schema=given, progress=bar)


def print_plan(job: Job, found: Plan, *, folder: Path | None, margin: float | None, as_json: bool) -> None:
    """Print a plan, with the budget for a `margin` if one is asked for, and write it into a folder."""
    if folder is not None:
        from taskveil.sweeps.frontier import written

        written(folder / "table.txt", f"{found.table()}\n".encode())
        written(folder / "plan.json", f"{found.to_json()}\n".encode())
        found.plot(folder / "plan.png")
    if as_json:
        typer.echo(found.to_json())
        return
    if job.about is not None:
        print_line(job.about)
    for line in found.table().split("\n"):
        print_line(line)
    if margin is not None and found.rows:
        print_line(found.advice(margin=margin))
    if folder is not None:
        print_line(f"table, JSON and picture: {folder}")
