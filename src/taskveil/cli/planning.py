"""What to expect before anything is collected: `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import budgets, busy, check_share, print_line
from taskveil.cli.inputs import Job, JobOptions, SurveyOptions, check_there
from taskveil.errors import DataError

if TYPE_CHECKING:
    from taskveil.designs.over_time import Budget
    from taskveil.sweeps.planning import Plan


def plan(
    data: Annotated[
        Path,
        typer.Argument(help="CSV or Parquet file of volunteers' records; or, with --survey, a schema (.json) alone."),
    ],
    people: Annotated[
        int, typer.Option(help="How many people will report; with --lifetime, how many take part.", min=1)
    ],
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
    sep: options.Sep = ",",
    decimal: options.Decimal = ".",
    date_format: options.DateFormat = None,
    missing: options.Missing = None,
    epsilons: Annotated[
        str | None,
        typer.Option(help="Budgets to compare, separated by commas; without --lifetime by default 0.5,1,2,4."),
    ] = None,
    lifetime: options.Lifetime = None,
    rounds: options.Rounds = None,
    per_report: options.PerReport = None,
    first_round: options.FirstRound = None,
    days: options.Days = None,
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
    over_time = options.over_time(lifetime, rounds, per_report, first_round, days)
    listed = "0.5,1,2,4" if epsilons is None and over_time is None else epsilons
    asked_budgets: list[Budget] = [] if listed is None else [*budgets("--epsilons", listed.split(","))]
    asked_budgets += [] if over_time is None else [over_time]
    check_share("--margin", margin)
    asked = SurveyOptions.of(survey, fields, by, pairs, histogram)
    csv = options.csv_format(sep, decimal, date_format, missing)
    if margin is not None and not (survey or means):
        raise DataError("--margin is about margins of statistics: pass --survey or --means too.")
    check_there(data)
    if data.suffix.lower() == ".json":
        job = Job.of_schema(data, asked, weight)
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
                    csv=csv,
                )
            )
    found = planned_for(job, people=people, budgets=asked_budgets, quiet=as_json)
    print_plan(job, found, folder=folder, margin=margin, as_json=as_json)


def planned_for(job: Job, *, people: int, budgets: Sequence[Budget], quiet: bool) -> Plan:
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
