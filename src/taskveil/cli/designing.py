"""Designing releases: `design` and `sign`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
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

LISTED = 12
"""Columns that are named one by one."""


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
        typer.Option(
            help="auto, codebook, task_aware, task_agnostic, privacy_agnostic, matrix_factorization, nothing or means."
        ),
    ] = "auto",
    encoder: options.Encoder = "auto",
    share_model: options.ShareModel = False,
    client_bytes: options.ClientBytes = options.CLIENT_BYTES,
    answers: options.AnswersName = "direct",
    seed: options.Seed = 0,
    device: options.TorchDevice = "cpu",
    judged: Annotated[
        bool,
        typer.Option(
            " /--unjudged", help="Do not hold volunteers out to say what the design is worth.", show_default=False
        ),
    ] = True,
    volunteers: Annotated[
        bool,
        typer.Option(
            " /--no-volunteers",
            help="Keep no sums over the volunteers in server/: estimates then cannot compare people with them.",
            show_default=False,
        ),
    ] = True,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Design a veil for a model, for a table's columns, or for their means over all people; write the release."""
    # Now, and not after the design.
    refuse_existing(folder, overwrite, " Reports of the release that is there could then not be decoded any more.")
    if encoder == "own" and not share_model:
        raise tv.TaskveilError(
            "--encoder own puts the model on every device, and whoever has a device has it then. If that is meant, "
            "pass --share-model."
        )
    asked = Asked(
        data=data, target=target, model=model, loss=loss, schema=schema, columns=options.joined(columns),
        drop=options.joined(drop), bounds=domain, weights=weight, units=unit, means=means,
    )  # fmt: skip
    chosen: dict[str, Any] = {
        "epsilon": epsilon, "encoder": encoder, "share_model": share_model, "client_bytes": client_bytes,
        "answers": answers, "device": device,
    }  # fmt: skip
    with busy("reading", quiet=as_json):
        job = Job.of(asked)
    with busy("designing", quiet=as_json) as bar:
        bar.begin("designing", 2.0 if judged else 1.0)
        judgement = None
        if judged:
            with bar.part("judging by volunteers held out", 1.0) as part:
                judgement = judge(job, method=method, seed=seed, progress=part, **chosen)
        # The method was chosen without the volunteers held out: that choice is the one that was judged.
        chosen["method"] = method if judgement is None or method != "auto" else judgement.twin.method
        with bar.part("with all volunteers", 1.0) as part:
            veil = tv.design(job.X, job.task, y=job.y, domain=job.schema, seed=seed, progress=part, **chosen)
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
    """The method, and a table of what it was chosen from: of every method and encoder the best design."""
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
            "–" if entry.method == "nothing" else entry.encoder,
            f"{entry.held_out_loss:.4g}",
            f"{entry.standard_error:.2g}" if place else "",
            in_words(entry.bytes, "B"),
            in_words(entry.operations, "").strip(),
        )
    console.print(view, highlight=False)
    if more := len(considered) - len(shown):
        console.print(f"{more} more designs of the same methods and encoders: --json lists them.", highlight=False)


def _print_error(judgement: Judgement | None) -> None:
    """What means of a given number of people are worth, in standard deviations of the columns."""
    if judgement is None:
        return
    one = math.sqrt(judgement.loss.mean / len(judgement.twin.columns or (None,)))
    errors = ", ".join(f"{one / math.sqrt(people):.2g} with {people:,}" for people in (1_000, 10_000, 100_000))
    console.print(
        f"Expected error of a column's mean, in standard deviations of the column: {errors} people.\n"
        "Single reports say next to nothing: read many of them with taskveil estimate.",
        soft_wrap=True,
        highlight=False,
    )


def _print_judgement(judgement: Judgement | None, asked: bool) -> None:
    if judgement is None:
        why = f"fewer than {FEWEST} volunteers: none were held out" if asked else "no volunteers were held out"
        console.print(f"What this costs the task was not measured ({why}).")
        return
    loss = judgement.loss
    right = "" if loss.accuracy is None else f", right in {loss.accuracy:.1%}"
    kept = "" if judgement.kept is None else f"; {judgement.kept:.0%} of what records tell is kept"
    console.print(
        f"Expected task loss on {judgement.held_out} volunteers held out: {loss.mean:.6g} "
        f"({loss.low:.4g} to {loss.high:.4g}){right}{kept}\n"
        f"  nothing sent: {judgement.nothing:.6g}\n"
        f"  no privacy:   {judgement.clear:.6g}\n"
        "(measured with a twin that was designed with the others; the release is designed with all)",
        soft_wrap=True,
        highlight=False,
    )
    if not judgement.unseen:
        console.print(
            "If the model was fitted to these volunteers, it knows those held out by heart: what it says without "
            "privacy, and on devices, is then too good. Judge it on others: taskveil sweep, or veil.loss.",
            soft_wrap=True,
        )
    if judgement.silent:
        more = f" and {len(judgement.silent) - LISTED} more" if len(judgement.silent) > LISTED else ""
        console.print(
            f"At this ε, reports tell nothing ({NO_SIGNAL:.0%} of the variance at most) of "
            f"{', '.join(judgement.silent[:LISTED])}{more}. "
            "Raise --epsilon or their --weight, or leave them out: --drop.",
            soft_wrap=True,
            markup=False,  # columns may be called what they like
        )


def sign(
    folder: Annotated[Path, typer.Argument(help="The release.")],
    key: Annotated[Path, typer.Option(help="PEM file with an Ed25519 private key.")],
) -> None:
    """Sign a release, so that devices which know the public key accept no other."""
    sign_release(folder, read_key(key) or b"")
    console.print(f"{folder} is signed: {folder / 'client'} and {folder / 'server'} hold a manifest.sig each.")
