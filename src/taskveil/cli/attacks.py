"""The sceptic: `audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

import taskveil as tv
from taskveil.cli.console import console


def audit(
    folder: Annotated[Path, typer.Argument(help="A release, as written by `taskveil design`.")],
    trials: Annotated[int, typer.Option(help="Reports of each input of a pair.", min=1000)] = 1_000_000,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 1 - 1e-6,
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
