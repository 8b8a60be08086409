"""The command line: parse, call, print."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from taskveil.errors import TaskveilError
from taskveil.experiments.runs import EXPERIMENTS

app = typer.Typer(help="Task-aware local differential privacy.", no_args_is_help=True, pretty_exceptions_enable=False)
console = Console()

Experiment = Enum("Experiment", {name: name for name in (*EXPERIMENTS, "all")}, type=str)  # type: ignore[misc]


@app.command()
def demo(
    picture: Annotated[Path, typer.Option(help="Where to put the picture.")] = Path("results/demo.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
) -> None:
    """Design private reports for scikit-learn's breast cancer data and compare with what tools do today."""
    from taskveil.experiments import demo as experiment
    from taskveil.experiments.report import table

    with console.status("designing…") if not as_json else _silence():
        rows, veil, nothing = experiment.run(picture)
    if as_json:
        typer.echo(json.dumps([row.as_json() for row in rows]))
        return
    _print_whole(table("Expected task loss on 171 people who were not among the volunteers", rows))
    console.print(f"For comparison: guessing the volunteers' mean without any report costs {nothing:.4f}.\n")
    console.print(f"[bold]The guarantee at ε = 2.[/bold] {veil.guarantee.statement}\n")
    console.print(f"The picture: {picture}")


@app.command()
def design(
    data: Annotated[Path, typer.Argument(help="CSV of volunteers' records, one column per attribute.")],
    folder: Annotated[Path, typer.Argument(help="Where the release goes.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one report.")],
    method: Annotated[str, typer.Option(help="auto, task_aware, task_agnostic, …")] = "auto",
    weight: Annotated[list[str] | None, typer.Option(help="column=weight; others count 1. Repeatable.")] = None,
    unit: Annotated[list[str] | None, typer.Option(help="column=unit, written into the release. Repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Design a veil for weighted means of a table's columns and write the release."""
    import numpy as np

    from taskveil.designs import design as make
    from taskveil.records import read_csv
    from taskveil.tasks import LinearTask

    with _friendly():
        names, X = read_csv(data)
        weights = np.ones(len(names))
        for column, value in _pairs("--weight", weight, names).items():
            weights[names.index(column)] = float(value)
        units = _pairs("--unit", unit, names)
        task = LinearTask(np.diag(weights) / np.sqrt(len(names)))
        veil = make(X, task, epsilon=epsilon, method=method)  # type: ignore[arg-type]
        given = tuple(units.get(name, "") for name in names) if units else None
        veil = dataclasses.replace(veil, columns=names, units=given)
        veil.save(folder)
        loss = veil.loss(X)
    result = {
        "folder": str(folder),
        "epsilon": veil.guarantee.epsilon,
        "loss": loss.mean,
        "method": veil.method,
    }
    if as_json:
        typer.echo(json.dumps(result))
    else:
        console.print(f"{veil.guarantee.statement}\n\nExpected task loss on the volunteers: {loss.mean:.6g}")
        console.print(f"Release written to {folder}")


@app.command()
def sign(
    folder: Annotated[Path, typer.Argument(help="The release.")],
    key: Annotated[Path, typer.Option(help="PEM file with an Ed25519 private key.")],
) -> None:
    """Sign a release, so that devices which know the public key accept no other."""
    from taskveil.client.verifying import read_key
    from taskveil.release.folder import sign as sign_release

    with _friendly():
        sign_release(folder, read_key(key) or b"")
    console.print(f"{folder} is signed: {folder / 'client'} and {folder / 'server'} hold a manifest.sig each.")


@app.command()
def privatize(
    source: Annotated[Path, typer.Argument(help="CSV or Parquet, one person a row.")],
    target: Annotated[Path, typer.Argument(help="Parquet of reports.")],
    release: Annotated[Path, typer.Option(help="The release, or its client folder.")],
    column: Annotated[list[str] | None, typer.Option(help="attribute=column where names differ. Repeatable.")] = None,
    unit: Annotated[list[str] | None, typer.Option(help="attribute=unit of the file. Repeatable.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace reports that are there: a second draw, if seen.")] = False,
    missing_as_nan: Annotated[bool, typer.Option(hidden=True, help="Always so; accepted for old scripts.")] = False,  # noqa: ARG001
    verify_key: Annotated[Path | None, typer.Option(help="PEM file; the release must be signed by this key.")] = None,
) -> None:
    """Turn a table of records into a table of private reports, one per row, in constant memory."""
    from taskveil.client.reading import CLIENT, read_device
    from taskveil.client.rounding import rounded_up
    from taskveil.client.verifying import read_key

    with _friendly():
        from taskveil.engines.parquet import TableFile, privatize_table

        home = release / CLIENT if (release / CLIENT).is_dir() else release
        device, manifest = read_device(home, read_key(verify_key))
        names = device.columns or ()
        mapping, units = _pairs("--column", column, names), _pairs("--unit", unit, names)
        with _rows(TableFile.open(source).rows) as advance:
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


@app.command()
def decode(
    source: Annotated[Path, typer.Argument(help="Parquet of reports, as written by privatize.")],
    target: Annotated[Path, typer.Argument(help="Parquet of estimates.")],
    release: Annotated[Path, typer.Option(help="The release.")],
    column: Annotated[list[str] | None, typer.Option(help="attribute=name in the output. Repeatable.")] = None,
    predict: Annotated[bool, typer.Option(help="Write the task's outputs instead of the attributes.")] = False,
    verify_key: Annotated[Path | None, typer.Option(help="PEM file; the release must be signed by this key.")] = None,
) -> None:
    """Turn a table of reports into a table of estimates, in constant memory."""
    from taskveil.veil import Veil

    with _friendly():
        from taskveil.engines.parquet import TableFile, decode_table

        veil = Veil.load(release, verify_key=verify_key)
        mapping = _pairs("--column", column, veil.columns or ())
        with _rows(TableFile.open(source).rows) as advance:
            count = decode_table(veil, source, target, columns=mapping, predict=predict, progress=advance)
    console.print(f"{count:,} estimates: {target}")


@app.command()
def sweep(
    data: Annotated[Path, typer.Argument(help="CSV of volunteers' records with a header.")],
    target: Annotated[str | None, typer.Option(help="The column the model predicts; no attribute of a record.")] = None,
    model: Annotated[Path | None, typer.Option(help="ONNX file; without one, the columns' means are the task.")] = None,
    loss: Annotated[str | None, typer.Option(help="mse or cross_entropy; by default by the model's outputs.")] = None,
    epsilons: Annotated[str, typer.Option(help="Budgets to try, with commas between.")] = "0.5,1,2,4,8,16",
    methods: Annotated[
        str, typer.Option(help="Methods to compare, with commas between.")
    ] = "codebook,task_aware,task_agnostic",
    seeds: Annotated[int, typer.Option(help="Seeds for designs that learn.", min=1)] = 3,
    folder: Annotated[Path, typer.Option(help="Where table, JSON, picture and page go.")] = Path("results/sweep"),
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Loss against budget for several designs: helps to choose ε. Run it again after an interruption to go on."""
    import numpy as np

    from taskveil.designs.sweeps import sweep as run
    from taskveil.records import read_csv
    from taskveil.tasks import LinearTask, Task

    with _friendly():
        names, values = read_csv(data)
        if target is not None and target not in names:
            raise TaskveilError(f"{data} has no column {target!r}, only {', '.join(names)}.")
        attributes = [place for place, name in enumerate(names) if name != target]
        X, y = values[:, attributes], None if target is None else values[:, names.index(target)]
        try:
            budgets = [float(item) for item in epsilons.split(",")]
        except ValueError as error:
            raise TaskveilError(f"--epsilons takes numbers with commas between, got {epsilons!r}.") from error
        task: Task = LinearTask(np.eye(len(attributes)) / np.sqrt(len(attributes)))
        if model is not None:
            task = _model_task(model, loss, X.shape[1])
        frontier = run(
            X,
            task,
            y=y,
            epsilons=budgets,
            methods=methods.split(","),  # type: ignore[arg-type]
            seeds=seeds,
            device=device,
            progress=console.is_terminal and not as_json,
            resume=folder / "finished.json",
        )
        (folder / "table.txt").write_text(frontier.table() + "\n", encoding="utf-8")
        frontier.to_json(folder / "frontier.json")
        frontier.plot(folder / "frontier.png")
        frontier.to_html(folder / "frontier.html")
    if as_json:
        typer.echo((folder / "frontier.json").read_text(encoding="utf-8"))
    else:
        typer.echo(frontier.table())
        console.print(f"table, JSON, picture and page: {folder}")


def _model_task(model: Path, loss: str | None, width: int) -> Any:
    from taskveil.tasks import ModelTask

    if loss is None:
        found = ModelTask(model)
        found.check_width(width)
        loss = "mse" if found.outputs == 1 else "cross_entropy"
    task = ModelTask(model, loss=loss)  # type: ignore[arg-type]
    task.check_width(width)
    return task


@app.command()
def audit(
    folder: Annotated[Path, typer.Argument(help="A release, as written by `taskveil design`.")],
    trials: Annotated[int, typer.Option(help="Reports of each input of a pair.", min=1000)] = 1_000_000,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 1 - 1e-6,
    picture: Annotated[Path | None, typer.Option(help="Draw the two output distributions here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Attack a release and say whether its guarantee held. Exit code 1 if it did not."""
    from rich.progress import Progress

    from taskveil.auditing import audit as attack
    from taskveil.auditing.picture import audit_table, draw
    from taskveil.veil import Veil

    with _friendly(), Progress(console=Console(stderr=True), disable=as_json, transient=True) as bar:
        job = bar.add_task("loading", total=1.0)
        result = attack(
            Veil.load(folder),
            trials=trials,
            confidence=confidence,
            progress=lambda what, share: bar.update(job, description=what, completed=share),
        )
        if picture:
            draw(result, picture)
    if as_json:
        typer.echo(json.dumps(result.to_dict()))
    else:
        console.print(audit_table(result))
        console.print(result.verdict, style="green" if result.passed else "bold red")
        if picture:
            console.print(f"The picture: {picture}")
    if not result.passed:
        raise typer.Exit(1)


@app.command()
def reproduce(
    experiment: Annotated[list[Experiment], typer.Argument(help="Which figures, or all.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds for designs that depend on one.", min=1)] = 5,
    device: Annotated[str, typer.Option(help="cpu or cuda, for designs that learn.")] = "cpu",
    summary: Annotated[Path | None, typer.Option(help="Write a Markdown summary here (docs/results.md).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Keep finished experiments here, and reuse them.")] = None,
) -> None:
    """The paper's figures, and ours beside them."""
    from taskveil.experiments.report import shares_table, table, write_json
    from taskveil.experiments.runs import Finished

    asked = [entry.value for entry in experiment]
    names = EXPERIMENTS if "all" in asked else tuple(dict.fromkeys(asked))
    finished: list[Finished] = []
    with _friendly():
        for name in names:
            run = Finished.read(resume, name, seeds) if resume else None
            if run is None:
                console.print(f"{name}…")
                run = Finished.by_running(name, seeds, device=device, progress=console.is_terminal)
                if resume:
                    run.write(resume)
            finished.append(run)
            if plot:
                console.print(f"picture: {run.draw(plot)}")
    rows = [row for run in finished for row in run.rows]
    for title in dict.fromkeys(row.experiment for row in rows):
        mine = [row for row in rows if row.experiment == title]
        _print_whole(table(title, mine))
        shares = shares_table(mine)
        if shares:
            _print_whole(shares)
    if json_file:
        write_json(json_file, rows)
        console.print(f"rows: {json_file}")
    if summary:
        from taskveil.experiments.summary import write_summary

        write_summary(summary, finished)
        console.print(f"summary: {summary}")


def _print_whole(view: Table) -> None:
    """As wide as the table needs, because a number cut off says nothing."""
    needed = Measurement.get(console, console.options.update(max_width=1000), view).maximum
    Console(width=max(console.width, needed)).print(view)


@app.command()
def data() -> None:
    """Say where the experiments' data comes from, fetching what is missing."""
    from taskveil.experiments.data import breast_cancer, household, mnist, real_estate

    with _friendly(), console.status("fetching…"):
        days, (houses, _), (people, _), (digits, _, tests, _) = household(), real_estate(), breast_cancer(), mnist()
    console.print(f"household: {days.shape[0]} days of {days.shape[1]} hours, digest checked")
    console.print(f"real-estate: {len(houses)} houses, digest checked")
    console.print(f"breast-cancer: {len(people)} people, digest checked")
    console.print(f"mnist: {len(digits)} and {len(tests)} digits, digest checked")


def _pairs(option: str, items: list[str] | None, names: tuple[str, ...]) -> dict[str, str]:
    """column=value options as a dictionary, columns checked."""
    pairs = {}
    for item in items or []:
        column, _, value = item.partition("=")
        if column not in names or not value:
            raise TaskveilError(
                f"{option} takes column={option[2:]} with a column of {', '.join(names)}; got {item!r}."
            )
        pairs[column] = value
    return pairs


@contextlib.contextmanager
def _rows(total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar over rows on the terminal; yields what to call with every batch."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(
        BarColumn(), MofNCompleteColumn(), "rows", TimeRemainingColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda rows: bar.advance(task, rows)


class _friendly:
    """Turns errors raised on purpose into one line and exit code 2."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, TaskveilError):
            Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}")
            raise typer.Exit(2) from error


class _silence:
    """A status display that displays nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None
