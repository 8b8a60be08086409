"""Releases, from the schema to the audit: `schema`, `design`, `sign` and `audit`."""

from __future__ import annotations

import json
import math
import textwrap
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn
from rich.table import Table

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.cli import options
from taskveil.cli.console import (
    budgets,
    busy,
    check_folder_of,
    check_share,
    console,
    escape,
    print_json,
    print_line,
    print_whole,
    refuse_existing,
)
from taskveil.cli.inputs import (
    Job,
    JobOptions,
    SurveyOptions,
    check_there,
    chosen_columns,
    left_out,
    population,
    read_volunteers,
)
from taskveil.client.base_field import Coded
from taskveil.client.families import FAMILY_SIGNATURE, is_family
from taskveil.client.panels import Panel
from taskveil.client.signatures import read_key
from taskveil.errors import NothingToReportWarning
from taskveil.records.schema import shown
from taskveil.records.tables import read_column, select, take_rows
from taskveil.tasks import LinearTask, take_labels
from taskveil.veil.family import sign as sign_family
from taskveil.veil.losses import REPORTS, Considered, Loss
from taskveil.veil.release import sign as sign_release
from taskveil.veil.veil import as_delta, in_words
from taskveil.veil.volunteers import FEWEST as MIN_GROUP

if TYPE_CHECKING:
    from taskveil.auditing import Audit, FamilyAudit
    from taskveil.sweeps.planning import Plan

HELD_OUT_PARTS = 4
"""The volunteers are split into this many parts, and one part is held out."""

MIN_VOLUNTEERS = HELD_OUT_PARTS * MIN_GROUP
"""With fewer volunteers none are held out, because the mean loss of so few people is too uncertain. With fewer held out
no column is named: with fifteen, one in six would be named by mistake."""

NO_SIGNAL = 0.01
"""Reports that explain at most this share of a column's variance contain almost no information about the column."""


def schema(
    data: options.Volunteers,
    target: options.Target = None,
    columns: options.Columns = None,
    drop: options.Drop = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the schema goes.")] = Path("schema.json"),
    sep: options.Sep = ",",
    decimal: options.Decimal = ".",
    date_format: options.DateFormat = None,
    missing: options.Missing = None,
    overwrite: options.Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the schema as JSON, and write no file.")] = False,
) -> None:
    """Infer what a record consists of from volunteers' records, and write it as JSON to read and to correct."""
    listed, dropped = options.joined(columns), options.joined(drop)
    csv = options.csv_format(sep, decimal, date_format, missing)
    check_there(data)
    check_folder_of("--output", output)
    if not as_json:
        refuse_existing(output, overwrite)
    with busy("reading", quiet=as_json):
        table = read_volunteers(data, unused=left_out(listed, dropped, target), csv=csv, target=target)
        found = tuple(table.column_names)
        names = chosen_columns(listed, dropped, found, tuple(name for name in found if name != target))
        inferred = tv.Schema.of(table.select(names))
    if as_json:
        print_json(inferred.to_json())
        return
    inferred.to_json(output)
    view = Table("column", "field", "different", "missing", "outside", title=f"{table.num_rows:,} volunteers")
    for name, column in zip(inferred, select(table, inferred.names), strict=True):
        values = read_column(column)[1]
        counts = (_different(values), *inferred[name].outside(values))
        view.add_row(escape(name), escape(shown(inferred[name])), *(f"{count:,}" for count in counts))
    print_whole(view)
    print_line(f"Written to {output}: correct it, and pass it to design and sweep with --schema.")


def _different(values: Any) -> int:
    """The number of different values (N,). A column of few whole numbers may be a category; one value is constant."""
    if isinstance(values, Coded):
        return len(np.unique(values.codes[values.codes >= 0]))
    if isinstance(values, list):
        return len({value for value in values if value is not None})
    return len(np.unique(values[values == values]))  # NaN and NaT are missing values, and not equal to themselves


def design(
    data: options.Volunteers,
    folder: Annotated[Path, typer.Argument(help="Where the release goes.")],
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of one report.")] = None,
    delta: options.Delta = 0.0,
    lifetime: options.Lifetime = None,
    rounds: options.Rounds = None,
    per_report: options.PerReport = None,
    first_round: options.FirstRound = None,
    days: options.Days = None,
    model: options.Model = None,
    target: options.Target = None,
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
    unit: options.Units = None,
    sep: options.Sep = ",",
    decimal: options.Decimal = ".",
    date_format: options.DateFormat = None,
    missing: options.Missing = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto, codebook, task_aware, gaussian, means, constant, or a method to compare with (taskveil.peers)."
        ),
    ] = "auto",
    encoder: options.Encoder = "auto",
    share_model: options.ShareModel = False,
    client_bytes: options.ClientBytes = None,
    answers: options.AnswersName = "direct",
    seed: options.Seed = 0,
    device: options.TorchDevice = "cpu",
    like: Annotated[
        Path | None,
        typer.Option(
            help="A file of `taskveil estimate --assume cells --json`: volunteers are weighted to be like those people."
        ),
    ] = None,
    judged: Annotated[
        bool,
        typer.Option(
            " /--unjudged", help="Hold no volunteers out to measure the loss of the design.", show_default=False
        ),
    ] = True,
    volunteers: Annotated[
        bool,
        typer.Option(
            " /--no-volunteers",
            help="Keep no sums over the volunteers in server/; estimates then cannot compare people with them.",
            show_default=False,
        ),
    ] = True,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Design a veil for a model, for the columns of a table, for their means or for a survey, and write the release."""
    # All arguments are checked before anything is read or designed, which may take long.
    over_time = options.over_time(lifetime, rounds, per_report, first_round, days)
    if (epsilon is None) == (over_time is None):
        raise tv.TaskveilError("pass --epsilon, the budget of one report, or --lifetime and --rounds.")
    budget = over_time or budgets("--epsilon", [str(epsilon)])[0]
    options.check_methods([method], device)
    refuse_existing(folder, overwrite, " You could then no longer decode reports of the release in it.")
    asked = JobOptions(
        data=data, target=target, model=model, loss=loss, schema=schema, columns=options.joined(columns),
        drop=options.joined(drop), bounds=domain, weights=weight, units=unit, means=means,
        answers=options.answering(answers), survey=SurveyOptions.of(survey, fields, by, pairs, histogram),
        csv=options.csv_format(sep, decimal, date_format, missing),
    )  # fmt: skip
    judged = judged and not survey  # its error is known exactly
    chosen: dict[str, Any] = {
        "epsilon": budget, "delta": as_delta(delta), "torch_device": device,
        "on_device": options.on_device(encoder, share_model, client_bytes),
    }  # fmt: skip
    asked.check()
    chosen["like"] = None if like is None else population(like)
    with busy("reading", quiet=as_json):
        alone = data.suffix.lower() == ".json"
        job = Job.of_schema(data, asked.survey, weight) if alone else Job.of(asked)
    with busy("designing", quiet=as_json) as bar:
        bar.begin("designing", 2.0 if judged else 1.0)
        judgement = None
        if judged:
            with bar.part("judging by volunteers held out", 1.0) as part:
                judgement = judge(job, method=method, seed=seed, progress=part, **chosen)
        # Method and number of reports were chosen without the held-out volunteers, and that choice was judged.
        chosen["method"] = method if judgement is None or method != "auto" else judgement.twin.method
        if judgement is not None and over_time is not None and judgement.twin.panel is not None:
            chosen["epsilon"] = over_time.fixed(judgement.twin.panel.reports)
        with bar.part("with all volunteers", 1.0) as part:
            known = None if alone else job.schema
            veil = tv.design(job.X, job.task, y=job.y, schema=known, seed=seed, progress=part, **chosen)
    if judgement is not None:
        twin = judgement.twin
        veil = replace(veil, considered=twin.considered, considered_panels=twin.considered_panels)
    if target is not None and veil.outputs is not None:
        veil = replace(veil, outputs=veil.outputs.called(target))
    veil.save(folder, overwrite=overwrite, volunteers=volunteers)
    margins = None
    if isinstance(job.task, tv.SurveyTask):
        from taskveil.sweeps.planning import plan_of

        margins = plan_of(veil)
    if as_json:
        typer.echo(json.dumps(_result(folder, veil, judgement, margins)))
        return
    console.print(f"{veil.guarantee.statement}\n")
    if job.about is not None:
        print_line(job.about)
    if margins is not None:
        for line in margins.table().split("\n"):
            print_line(line)
    elif isinstance(job.task, tv.MeanTask):
        _print_error(judgement)
    else:
        _print_judgement(judgement, judged)
    print_considered(veil.method, veil.considered)
    _print_panels(veil)
    print_line(f"Release written to {folder}: {veil.size}")
    if volunteers and veil.volunteers is not None:
        print_line(
            f"{folder / 'server'} holds sums over groups of at least {MIN_GROUP} of the {veil.volunteers.count:,} "
            "volunteers, for taskveil estimate, and no records. To leave them out: --no-volunteers."
        )


def _result(folder: Path, veil: tv.Veil, judgement: Judgement | None, margins: Plan | None) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "folder": str(folder),
        "epsilon": veil.guarantee.epsilon,
        "delta": veil.guarantee.delta,
        **({} if veil.panel is None else _panel_content(veil.panel, veil)),
        "method": veil.method,
        "columns": list(veil.columns or ()),
        "considered": [asdict(entry) for entry in veil.considered],
        **({} if margins is None else {"margins": margins.to_dicts()}),
        **({"held_out": 0, "loss": None} if judgement is None else judgement.as_json()),
    }


def _panel_content(panel: Panel, veil: tv.Veil) -> dict[str, Any]:
    """What `--json` prints about planned rounds."""
    return {
        "lifetime": veil.guarantee.lifetime,
        "reports": panel.reports,
        "rounds": list(panel.rounds),
        "considered_panels": [asdict(entry) for entry in veil.considered_panels],
    }


def _print_panels(veil: tv.Veil) -> None:
    """Print the numbers of reports that were compared."""
    if veil.panel is None or len(veil.considered_panels) < 2:
        return
    everybody = isinstance(veil.task, tv.MeanTask | tv.SurveyTask)
    what = "variance of a round × people" if everybody else "mean loss of all people and rounds"
    title = f"Reports of a person in {len(veil.panel.rounds)} rounds; the first was chosen"
    view = Table("reports", "ε of each", what, title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for entry in veil.considered_panels:
        view.add_row(str(entry.reports), f"{entry.epsilon:.4g}", f"{entry.error:.4g}")
    console.print(view, highlight=False)


def print_considered(method: str, considered: Sequence[Considered]) -> None:
    """Print the method and the designs it was chosen from: the best of every method and encoder."""
    console.print(f"Method: {method}", highlight=False)
    if len(considered) < 2:
        return
    shown: dict[tuple[str, str], Considered] = {}
    for entry in considered:  # the chosen one comes first, then those of the lowest losses
        shown.setdefault((entry.method, entry.encoder), entry)
    view = Table(title="Compared by cross-validation; the first was chosen", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("method", "encoder"):
        view.add_column(name, overflow="fold")
    for name in ("held-out loss", "± vs first", "size", "operations"):
        view.add_column(name, justify="right", no_wrap=True)
    for place, entry in enumerate(shown.values()):
        view.add_row(
            entry.method,
            "–" if entry.method == "constant" else entry.encoder,
            f"{entry.held_out_loss:.4g}",
            f"{entry.standard_error:.2g}" if place else "",
            in_words(entry.bytes, "B"),
            in_words(entry.operations, "").strip(),
        )
    console.print(view, highlight=False)
    if more := len(considered) - len(shown):
        console.print(f"{more} more designs of the same methods and encoders: --json lists them.", highlight=False)


def _print_error(judgement: Judgement | None) -> None:
    """Print the expected error of means over many people, in standard deviations of the columns."""
    if judgement is None:
        return
    one = math.sqrt(judgement.loss.mean / len(judgement.twin.columns or (None,)))
    errors = ", ".join(f"{one / math.sqrt(people):.2g} with {people:,}" for people in (1_000, 10_000, 100_000))
    console.print(
        f"Expected error of a column's mean, in standard deviations of the column: {errors} people.\n"
        "A single report contains almost no information. Read many of them with taskveil estimate.",
        soft_wrap=True,
        highlight=False,
    )


def _print_judgement(judgement: Judgement | None, asked: bool) -> None:
    if judgement is None:
        why = f"fewer than {MIN_VOLUNTEERS} volunteers: none were held out" if asked else "no volunteers were held out"
        console.print(f"The loss of the task was not measured ({why}).")
        return
    loss = judgement.loss
    right = "" if loss.accuracy is None else f", right in {loss.accuracy:.1%}"
    kept = "" if judgement.kept is None else f"; {judgement.kept:.0%} of the usable signal is kept"
    console.print(
        f"Expected task loss on {judgement.held_out} volunteers held out: {loss.mean:.6g} "
        f"({loss.low:.4g} to {loss.high:.4g}){right}{kept}\n"
        f"  constant prediction: {judgement.constant:.6g}\n"
        f"  no privacy:          {judgement.clear:.6g}\n"
        "(measured with a design made from the other volunteers; the release is made from all of them)",
        soft_wrap=True,
        highlight=False,
    )
    if not judgement.unseen:
        print_line(
            "If the model was fitted to these volunteers, its losses without privacy and on devices are too low. Test "
            "it on other people: taskveil sweep, or veil.loss."
        )
    if judgement.silent:
        named = textwrap.shorten(", ".join(judgement.silent), console.width, placeholder=" …")
        print_line(
            f"At this ε, reports contain almost no information ({NO_SIGNAL:.0%} of the variance at most) about "
            f"{len(judgement.silent)} of {len(judgement.twin.schema)} columns: {named}. Raise --epsilon or their "
            "--weight, or leave them out: --drop."
        )


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Losses on the same held-out volunteers: of the twin's reports (`loss`), of a constant prediction (`constant`) and
    without privacy (`clear`).

    `silent` names the columns about which reports contain almost no information. `unseen` is whether the model was not
    fitted to the held-out volunteers, as far as is known. Otherwise its losses are too low.
    """

    twin: tv.Veil
    held_out: int
    loss: Loss
    constant: float
    clear: float
    silent: tuple[str, ...]
    unseen: bool

    @property
    def kept(self) -> float | None:
        """The share of the gain over a constant prediction that is left with privacy; None if there is no gain."""
        gain = self.constant - self.clear
        return None if gain <= 0 else (self.constant - self.loss.mean) / gain

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints about the judgement."""
        return {
            "held_out": self.held_out,
            "loss": self.loss.mean,
            "low": self.loss.low,
            "high": self.loss.high,
            "accuracy": self.loss.accuracy,
            "nothing_sent": self.constant,
            "no_privacy": self.clear,
            "kept": self.kept,
            "no_signal": list(self.silent),
            "unseen_by_model": self.unseen,
        }


def judge(job: Job, *, seed: int, **chosen: Any) -> Judgement | None:
    """The losses, on volunteers held out, of a twin designed with the others; None if there are too few volunteers.

    Copies of a record stay on one side of the split. A scikit-learn model may have been fitted to all volunteers, so it
    is fitted again without those held out.

    Args:
        job: records and task.
        seed: of the split and of the design.
        chosen: other arguments of `tv.design`.
    """
    from taskveil.designs.selection import folds_of, people

    records = job.numbers()
    if len(records) < MIN_VOLUNTEERS:
        return None
    held = folds_of(people(records), HELD_OUT_PARTS, np.random.default_rng(seed)) == 0
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    y = take_labels(job.task, job.y, train)
    with warnings.catch_warnings():  # the design with all volunteers shows the other warnings
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("always", NothingToReportWarning)
        copy = None
        if isinstance(job.task, tv.ModelTask):
            bound = job.task.on(job.schema).fitted_again(records[train], y)
            copy = None if bound is None else tv.ModelTask(bound.model, loss=bound.loss, answering=bound.answering)
        twin = tv.design(take_rows(job.X, train), copy or job.task, y=y, schema=job.schema, seed=seed, **chosen)
        X, labels = records[test], take_labels(job.task, job.y, test)
        loss = twin.loss(X, labels)
    task, enough = twin.task or job.task, len(test) >= MIN_VOLUNTEERS
    return Judgement(
        twin=twin,
        held_out=len(test),
        loss=loss,
        constant=task.constant_loss(records[train], y, X, labels),
        clear=float(task.losses(X, X, labels).mean()),
        silent=_silent(twin, task, job, records[train], X) if isinstance(task, LinearTask) and enough else (),
        unseen=copy is not None or job.y is None or not isinstance(job.task, tv.ModelTask),
    )


def _silent(twin: tv.Veil, task: LinearTask, job: Job, train: Floats, X: Floats) -> tuple[str, ...]:
    """The columns about which reports contain almost no information.

    For each column, R² compares estimates of X (N, n) from reports with the means of `train`. Many reports are drawn,
    so that their noise averages out.
    """
    draws = int(np.clip(REPORTS // len(X), 1, 256))
    wrong = np.mean([((twin.estimates(twin.privatize(X)) - X) ** 2).mean(axis=0) for _ in range(draws)], axis=0)
    constant = ((X - train.mean(axis=0)) ** 2).mean(axis=0)
    places = job.schema.fields.places
    weighted = np.any(task.K, axis=0)
    silent = []
    for name, place in zip(job.names, places, strict=True):
        used = np.asarray(weighted[place])
        spread = float(constant[place][used].sum())  # 0 if all people have the same value: it is known
        if spread > 0 and wrong[place][used].sum() >= (1.0 - NO_SIGNAL) * spread:
            silent.append(name)
    return tuple(silent)


def sign(
    folder: Annotated[Path, typer.Argument(help="The release.")],
    key: Annotated[Path, typer.Option(help="PEM file with an Ed25519 private key.")],
) -> None:
    """Sign a release or a family, so that devices which know the public key accept no other."""
    if is_family(folder):
        sign_family(folder, read_key(key) or b"")
        print_line(f"{folder} is signed: {folder / FAMILY_SIGNATURE} covers all members, and each is signed too.")
        return
    sign_release(folder, read_key(key) or b"")
    print_line(f"{folder} is signed: {folder / 'client'} and {folder / 'server'} each contain a manifest.sig.")


def audit(
    folder: Annotated[Path, typer.Argument(help="A release, as written by `taskveil design`.")],
    trials: Annotated[int, typer.Option(help="Number of reports for each of the two inputs.", min=1000)] = 1_000_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 1 - 1e-6,
    picture: Annotated[Path | None, typer.Option(help="Draw the two output distributions here.")] = None,
    as_json: options.Json = False,
) -> None:
    """Attack a release and say whether its guarantee held. Exit code 1 if it did not.

    At the end it says which ε so many trials, and ten times as many, could show at most.
    """
    from taskveil.auditing import FamilyAudit

    check_share("--confidence", confidence, 0.0, 1.0)
    check_folder_of("--picture", picture)
    what: Any = (tv.Family if is_family(folder) else tv.Veil).load(folder)
    if picture and isinstance(what, tv.Family):
        raise tv.TaskveilError(f"a picture is of one release: audit one member, {folder / next(iter(what.members))}.")
    screen, began = Console(stderr=True), time.monotonic()
    columns = ("[progress.description]{task.description}", BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, disable=as_json or not screen.is_terminal, transient=True) as bar:
        job = bar.add_task("loading", total=1.0)
        result: Audit | FamilyAudit = tv.audit(
            what,
            trials=trials,
            confidence=confidence,
            progress=lambda what, share: bar.update(job, description=what, completed=share),
        )
        if picture and not isinstance(result, FamilyAudit):
            result.plot(picture)
    seconds = time.monotonic() - began
    if as_json:
        typer.echo(json.dumps({**result.to_dict(), "seconds": round(seconds, 1)}))
    else:
        console.print(audit_table(result))
        console.print(escape(result.verdict), style="green" if result.passed else "bold red")
        if not isinstance(result, FamilyAudit):
            more = 10 * trials
            print_line(
                f"{trials:,} trials took {seconds:.0f} s and can show ε ≥ {result.provable_with(trials):.3g} at most. "
                f"With --trials {more}, which takes up to ten times as long, it is {result.provable_with(more):.3g}."
            )
        if picture:
            print_line(f"The picture: {picture}")
    if not result.passed:
        raise typer.Exit(1)


def audit_table(audit: Audit | FamilyAudit) -> Table:
    """What was tried, what was seen, and the outcome of each."""
    from taskveil.auditing.result import HEADINGS, outcome

    table = Table(title=audit.title, title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in audit.rows():
        said = escape(outcome(row))
        table.add_row(
            escape(str(row["tried"])), escape(str(row["seen"])), said if row["held"] else f"[red]{said}[/red]"
        )
    return table
