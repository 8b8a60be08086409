"""Designing releases: `design`, `sweep` and `sign`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import taskveil as tv
from taskveil.cli.console import console, numbers, pairs, refuse_existing
from taskveil.cli.volunteers import as_table, read_volunteers
from taskveil.client.verifying import read_key
from taskveil.errors import ResumeError
from taskveil.release.folder import sign as sign_release


def design(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet of volunteers' records, one column per attribute.")],
    folder: Annotated[Path, typer.Argument(help="Where the release goes.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one report.")],
    method: Annotated[
        str,
        typer.Option(
            help="auto, codebook, task_aware, task_agnostic, privacy_agnostic, matrix_factorization or nothing."
        ),
    ] = "auto",
    weight: Annotated[list[str] | None, typer.Option(help="column=weight; others count 1. Repeatable.")] = None,
    unit: Annotated[list[str] | None, typer.Option(help="column=unit, written into the release. Repeatable.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the release in that folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Design a veil for weighted means of a table's columns and write the release."""
    # Now, and not after the design.
    refuse_existing(folder, overwrite, " Reports of the release that is there could then not be decoded any more.")
    names, X = read_volunteers(data)
    weights = np.ones(len(names))
    weighted = pairs("--weight", weight, names)
    weights[[names.index(name) for name in weighted]] = numbers("--weight", list(weighted.values()))
    units = pairs("--unit", unit, names)
    task = tv.LinearTask(np.diag(weights) / np.sqrt(len(names)))
    veil = tv.design(as_table(names, X), task, epsilon=epsilon, method=method)  # type: ignore[arg-type]
    given = tuple(units.get(name, "") for name in names) if units else None
    veil = dataclasses.replace(veil, units=given)
    veil.save(folder, overwrite=overwrite)
    # What was seen on volunteers held out, where methods were judged so: the others' losses have helped to design.
    judged = veil.considered[0].held_out_loss if veil.considered else None
    loss = float(veil.losses(X).mean()) if judged is None else judged
    result = {
        "folder": str(folder),
        "epsilon": veil.guarantee.epsilon,
        "loss": loss,
        "method": veil.method,
        "considered": [dataclasses.asdict(entry) for entry in veil.considered],
    }
    if as_json:
        typer.echo(json.dumps(result))
    else:
        whom = "the volunteers" if judged is None else "volunteers held out"
        console.print(f"{veil.guarantee.statement}\n\nExpected task loss on {whom}: {loss:.6g}")
        for entry in veil.considered:
            lead = entry.held_out_loss - veil.considered[0].held_out_loss
            behind = f"{lead:+.2g} ± {entry.standard_error:.2g}" if entry.method != veil.method else "chosen"
            console.print(f"  {entry.method}: {entry.held_out_loss:.6g} ({behind})")
        console.print(f"Release written to {folder}")


def sweep(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet of volunteers' records.")],
    target: Annotated[str | None, typer.Option(help="The column the model predicts; no attribute of a record.")] = None,
    model: Annotated[Path | None, typer.Option(help="ONNX file; without one, the columns' means are the task.")] = None,
    loss: Annotated[
        str | None, typer.Option(help="mse, cross_entropy or zero_one; by default by the model's outputs.")
    ] = None,
    epsilons: Annotated[str, typer.Option(help="Budgets to try, with commas between.")] = "0.5,1,2,4,8,16",
    methods: Annotated[
        str, typer.Option(help="Methods to compare, with commas between.")
    ] = "codebook,task_aware,task_agnostic",
    seeds: Annotated[int, typer.Option(help="Seeds for designs that learn.", min=1)] = 3,
    folder: Annotated[Path, typer.Option(help="Where table, JSON, picture and page go.")] = Path("results/sweep"),
    block: Annotated[
        int, typer.Option(help="For rows in the order of time: so many neighbours belong together.", min=1)
    ] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Loss against budget for several designs: helps to choose ε. Run it again after an interruption to go on."""
    names, values = read_volunteers(data)
    if target is not None and target not in names:
        raise tv.TaskveilError(f"{data} has no column {target!r}, only {', '.join(names)}.")
    attributes = [place for place, name in enumerate(names) if name != target]
    X, y = values[:, attributes], None if target is None else values[:, names.index(target)]
    mean = np.eye(len(attributes)) / np.sqrt(len(attributes))
    try:
        frontier = tv.sweep(
            as_table([names[place] for place in attributes], X),
            tv.LinearTask(mean) if model is None else _model_task(model, loss, X.shape[1]),
            y=y,
            epsilons=numbers("--epsilons", epsilons.split(","), "numbers with commas between"),
            methods=methods.split(","),  # type: ignore[arg-type]
            seeds=seeds,
            block=block,
            device=device,
            progress=console.is_terminal and not as_json,
            resume=folder / "finished.json",
        )
    except ResumeError as error:
        raise tv.TaskveilError(f"{error.found} Pass another --folder, or remove {folder}.") from error
    (folder / "table.txt").write_text(frontier.table() + "\n", encoding="utf-8")
    frontier.to_json(folder / "frontier.json", losses=False)  # nothing of single records, in what is made to be shown
    frontier.plot(folder / "frontier.png")
    frontier.to_html(folder / "frontier.html")
    if as_json:
        typer.echo((folder / "frontier.json").read_text(encoding="utf-8"))
    else:
        typer.echo("\n".join([frontier.table(), *frontier.advice()]))
        console.print(f"table, JSON, picture and page: {folder}")


def _model_task(model: Path, loss: str | None, width: int) -> tv.ModelTask:
    """The model of an ONNX file; one number is an estimate, several are classes, unless `loss` says otherwise."""
    if loss is None:
        found = tv.ModelTask(model)
        found.check_width(width)
        loss = "mse" if found.outputs == 1 else "cross_entropy"
    task = tv.ModelTask(model, loss=loss)  # type: ignore[arg-type]
    task.check_width(width)
    return task


def sign(
    folder: Annotated[Path, typer.Argument(help="The release.")],
    key: Annotated[Path, typer.Option(help="PEM file with an Ed25519 private key.")],
) -> None:
    """Sign a release, so that devices which know the public key accept no other."""
    sign_release(folder, read_key(key) or b"")
    console.print(f"{folder} is signed: {folder / 'client'} and {folder / 'server'} hold a manifest.sig each.")
