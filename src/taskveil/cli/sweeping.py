"""Choosing a budget: `sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import budgets, busy, check_share, print_json, print_line, reworded
from taskveil.cli.inputs import Job, JobOptions, SurveyOptions
from taskveil.cli.planning import planned_for, print_plan
from taskveil.errors import ResumeError, printable
from taskveil.veil.veil import as_delta


def sweep(
    data: options.Volunteers,
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
    people: options.People = None,
    margin: options.Margin = 0.02,
    epsilons: Annotated[str, typer.Option(help="Budgets to try, separated by commas.")] = "0.5,1,2,4,8,16",
    delta: options.Delta = 0.0,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods to compare, separated by commas; by default auto for a model, and codebook, task_aware and "
            "task_agnostic for columns."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Seeds for designs that learn.", min=1)] = 1,
    encoder: options.Encoder = "auto",
    share_model: options.ShareModel = False,
    client_bytes: options.ClientBytes = None,
    answers: options.AnswersName = "direct",
    folder: Annotated[Path, typer.Option(help="Folder for the table, JSON, picture and page.")] = Path("results/sweep"),
    block: Annotated[int, typer.Option(help="For rows in time order: how many neighbours count as one.", min=1)] = 1,
    segment: Annotated[
        str | None,
        typer.Option(help="A column of groups of people. Every group gets designs of its own."),
    ] = None,
    releases: Annotated[
        Path | None,
        typer.Option(help="With --segment: where the designs of the first seed go, a release each; must not exist."),
    ] = None,
    device: options.TorchDevice = "cpu",
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
    gpus: options.Gpus = 0.0,
    as_json: options.Json = False,
) -> None:
    """Loss against budget for several designs, to choose ε. After an interruption run it again to continue."""
    from taskveil.sweeps.frontier import losses_beside

    if releases is not None and segment is None and not survey:
        raise tv.TaskveilError(
            "--releases goes with --segment. For one release for everybody choose ε by this table, and then run "
            "taskveil design."
        )
    if survey and people is None:
        raise tv.TaskveilError("the margins of a survey depend on how many people report: pass --people.")
    unused = {"--methods": methods, "--segment": segment, "--releases": releases}
    if survey and (given := [name for name, value in unused.items() if value is not None]):
        raise tv.TaskveilError(f"a survey has one design for every budget: leave out {given[0]}.")
    if people is not None and not (survey or means):
        raise tv.TaskveilError("--people is about margins of statistics: pass --survey or --means too.")
    asked_budgets, asked_delta = budgets("--epsilons", epsilons.split(",")), as_delta(delta)
    check_share("--margin", margin)
    options.check_methods(methods.split(",") if methods else [], device)
    on_device, cluster = (
        options.on_device(encoder, share_model, client_bytes),
        options.cluster(engine, address, workers, gpus, device),
    )
    csv = options.csv_format(sep, decimal, date_format, missing)
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
                segment=segment,
                answers=options.answering(answers),
                survey=SurveyOptions.of(survey, fields, by, pairs, histogram),
                csv=csv,
            )
        )
    planned = None
    if people is not None:
        planned = planned_for(job, people=people, budgets=asked_budgets, quiet=as_json)
    if survey:
        assert planned is not None  # noqa: S101 - refused above
        print_plan(job, planned, folder=folder, margin=margin, as_json=as_json)
        return
    asked: dict[str, Any] = {
        "y": job.y,
        "epsilons": asked_budgets,
        "delta": asked_delta,
        "methods": None if methods is None else methods.split(","),
        "seeds": seeds,
        "on_device": on_device,
        "schema": job.schema,
        "block": block,
        "resume": folder / "finished.json",
        "engine": cluster or ("cuda" if device == "cuda" else None),
    }
    gains = None
    try:
        with busy("designing", quiet=as_json) as bar:
            if segment is None:
                frontier = tv.sweep(job.X, job.task, progress=bar, **asked)
            else:
                gains = tv.sweep_segments(job.X, job.task, segment=job.labels, releases=releases, progress=bar, **asked)
                frontier = gains.common
    except ResumeError as error:
        raise tv.TaskveilError(f"{error.found} Pass another --folder, or remove {folder}.") from error
    texts = [] if gains is None else [gains.table()]
    shown = [frontier.table(), *texts]
    (folder / "table.txt").write_text("\n\n".join(shown) + "\n", encoding="utf-8")
    # These files are made to be shown: they contain no losses of single records.
    files = [frontier.to_json(folder / "frontier.json", losses=False)]
    if gains is not None:
        files.append(gains.to_json(folder / "segments.json", losses=False))
    # Reading frontier.json again finds the losses of single records here. Only the owner may open it.
    beside = losses_beside(folder / "frontier.json")
    beside.touch(mode=0o600)
    frontier.to_json(beside)
    frontier.plot(folder / "frontier.png")
    frontier.to_html(folder / "frontier.html")
    if as_json:
        print_json(files[-1].read_text(encoding="utf-8"))
        return
    if job.about is not None:
        print_line(job.about)
    advice = [reworded(line) for line in frontier.advice()]
    if planned is not None:
        advice = [planned.table(), planned.advice(margin=margin)]
    for line in "\n".join([shown[0], *advice, *(f"\n{text}" for text in texts)]).split("\n"):
        typer.echo(printable(line))
    print_line(f"table, JSON, picture and page: {folder}")
    if releases is not None:
        print_line(f"releases: {releases}")
