"""Making and checking releases: `design`, `sign` and `audit`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import busy, console, refuse_existing
from taskveil.cli.jobs import Asked, Job
from taskveil.cli.judging import FEWEST, NO_SIGNAL, Judgement, judge
from taskveil.client.reading import read_key
from taskveil.veil.losses import Considered
from taskveil.veil.release import sign as sign_release
from taskveil.veil.veil import in_words
from taskveil.veil.volunteers import FEWEST as SMALLEST

MAX_NAMED_COLUMNS = 12
"""At most this many columns are named."""


def design(
    data: options.Volunteers,
    folder: Annotated[Path, typer.Argument(help="Where the release goes.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one report.")],
    model: options.Model = None,
    target: options.Target = None,
    loss: options.LossName = None,
    schema: options.SchemaFile = None,
    columns: options.Columns = None,
    drop: options.Drop = None,
    domain: options.Bounds = None,
    weight: options.Weight = None,
    means: options.Means = False,
    unit: options.Units = None,
    method: Annotated[
        str,
        typer.Option(help="auto, codebook, task_aware, means, constant, or a method to compare with (taskveil.peers)."),
    ] = "auto",
    encoder: options.Encoder = "auto",
    share_model: options.ShareModel = False,
    client_bytes: options.ClientBytes = None,
    answers: options.AnswersName = "direct",
    seed: options.Seed = 0,
    device: options.TorchDevice = "cpu",
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
    """Design a veil for a model, for the columns of a table or for their means, and write the release."""
    # Now, and not after the design.
    refuse_existing(folder, overwrite, " You could then no longer decode reports of the release in it.")
    asked = Asked(
        data=data, target=target, model=model, loss=loss, schema=schema, columns=options.joined(columns),
        drop=options.joined(drop), bounds=domain, weights=weight, units=unit, means=means,
        answers=options.answering(answers),
    )  # fmt: skip
    chosen: dict[str, Any] = {
        "epsilon": epsilon, "torch_device": device,
        "on_device": options.on_device(encoder, share_model, client_bytes),
    }  # fmt: skip
    with busy("reading", quiet=as_json):
        job = Job.of(asked)
    with busy("designing", quiet=as_json) as bar:
        bar.begin("designing", 2.0 if judged else 1.0)
        judgement = None
        if judged:
            with bar.part("judging by volunteers held out", 1.0) as part:
                judgement = judge(job, method=method, seed=seed, progress=part, **chosen)
        # The method was chosen without the held-out volunteers, and that choice was judged.
        chosen["method"] = method if judgement is None or method != "auto" else judgement.twin.method
        with bar.part("with all volunteers", 1.0) as part:
            veil = tv.design(job.X, job.task, y=job.y, schema=job.schema, seed=seed, progress=part, **chosen)
    if judgement is not None:
        veil = dataclasses.replace(veil, considered=judgement.twin.considered)
    if target is not None and veil.outputs is not None:
        veil = dataclasses.replace(veil, outputs=veil.outputs.called(target))
    veil.save(folder, overwrite=overwrite, volunteers=volunteers)
    if as_json:
        typer.echo(json.dumps(_result(folder, veil, judgement)))
        return
    console.print(f"{veil.guarantee.statement}\n")
    if job.about is not None:
        console.print(job.about, soft_wrap=True)
    if isinstance(job.task, tv.MeanTask):
        _print_error(judgement)
    else:
        _print_judgement(judgement, judged)
    print_considered(veil.method, veil.considered)
    console.print(f"Release written to {folder}: {veil.size}", soft_wrap=True, markup=False)
    if volunteers and veil.volunteers is not None:
        console.print(
            f"{folder / 'server'} holds sums over groups of at least {SMALLEST} of the {veil.volunteers.count:,} "
            "volunteers, for taskveil estimate, and no records. To leave them out: --no-volunteers.",
            soft_wrap=True,
            markup=False,
        )


def _result(folder: Path, veil: tv.Veil, judgement: Judgement | None) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "folder": str(folder),
        "epsilon": veil.guarantee.epsilon,
        "method": veil.method,
        "columns": list(veil.columns or ()),
        "considered": [dataclasses.asdict(entry) for entry in veil.considered],
        **({"held_out": 0, "loss": None} if judgement is None else judgement.as_json()),
    }


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
        why = f"fewer than {FEWEST} volunteers: none were held out" if asked else "no volunteers were held out"
        console.print(f"The loss of the task was not measured ({why}).")
        return
    loss = judgement.loss
    right = "" if loss.accuracy is None else f", right in {loss.accuracy:.1%}"
    kept = "" if judgement.kept is None else f"; {judgement.kept:.0%} of the usable signal is kept"
    console.print(
        f"Expected task loss on {judgement.held_out} volunteers held out: {loss.mean:.6g} "
        f"({loss.low:.4g} to {loss.high:.4g}){right}{kept}\n"
        f"  constant prediction: {judgement.nothing:.6g}\n"
        f"  no privacy:          {judgement.clear:.6g}\n"
        "(measured with a design made from the other volunteers; the release is made from all of them)",
        soft_wrap=True,
        highlight=False,
    )
    if not judgement.unseen:
        console.print(
            "If the model was fitted to these volunteers, its losses without privacy and on devices are too low. Test "
            "it on other people: taskveil sweep, or veil.loss.",
            soft_wrap=True,
        )
    if judgement.silent:
        more = (
            f" and {len(judgement.silent) - MAX_NAMED_COLUMNS} more"
            if len(judgement.silent) > MAX_NAMED_COLUMNS
            else ""
        )
        console.print(
            f"At this ε, reports contain almost no information ({NO_SIGNAL:.0%} of the variance at most) about "
            f"{', '.join(judgement.silent[:MAX_NAMED_COLUMNS])}{more}. "
            "Raise --epsilon or their --weight, or leave them out: --drop.",
            soft_wrap=True,
            markup=False,  # a column may have any name
        )


def sign(
    folder: Annotated[Path, typer.Argument(help="The release.")],
    key: Annotated[Path, typer.Option(help="PEM file with an Ed25519 private key.")],
) -> None:
    """Sign a release, so that devices which know the public key accept no other."""
    sign_release(folder, read_key(key) or b"")
    console.print(f"{folder} is signed: {folder / 'client'} and {folder / 'server'} each contain a manifest.sig.")


def audit(
    folder: Annotated[Path, typer.Argument(help="A release, as written by `taskveil design`.")],
    trials: Annotated[int, typer.Option(help="Number of reports for each of the two inputs.", min=1000)] = 1_000_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 1 - 1e-6,
    picture: Annotated[Path | None, typer.Option(help="Draw the two output distributions here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Attack a release and say whether its guarantee held. Exit code 1 if it did not."""
    from taskveil.auditing.picture import audit_table, draw

    veil = tv.Veil.load(folder)
    screen = Console(stderr=True)
    with Progress(console=screen, disable=as_json or not screen.is_terminal, transient=True) as bar:
        job = bar.add_task("loading", total=1.0)
        result = tv.audit(
            veil,
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
