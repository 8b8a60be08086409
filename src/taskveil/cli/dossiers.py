"""`dossier`: what to know about a release before data is collected with it, as HTML, PDF or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import busy, print_line, refuse_existing


def dossier(
    release: Annotated[Path, typer.Argument(help="The folder of a release or of a family.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The HTML page; dossier.html if no other output is asked for.")
    ] = None,
    pdf: Annotated[Path | None, typer.Option(help="Also print it on A4 to this PDF file; needs Chromium.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the content as JSON.")] = False,
    rounds: Annotated[int | None, typer.Option(help="How often each person is asked for a report.", min=1)] = None,
    people: options.People = None,
    cap: Annotated[float | None, typer.Option(help="The largest ε that devices will spend in total.")] = None,
    audit: Annotated[Path | None, typer.Option(help="What `taskveil audit RELEASE --json` printed, as a file.")] = None,
    title: Annotated[str | None, typer.Option(help="Of the page; by default the name of the folder.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What the data is for.")] = None,
    stored: Annotated[str | None, typer.Option(help="What is stored beyond what taskveil's collector stores.")] = None,
    retention: Annotated[str | None, typer.Option(help="How long reports are kept.")] = None,
    utility: Annotated[str | None, typer.Option(help="What results are expected, if you have measured it.")] = None,
    verify_key: options.VerifyKey = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write the dossier of a release: for the person who decides whether data may be collected with it.

    It says what is asked, what one report and all planned reports can reveal, what is stored, what is not protected,
    and what results to expect, with a checklist and lines to sign.
    """
    if output is None and pdf is None and not as_json:
        output = Path("dossier.html")
    for target in (output, pdf):
        if target is not None:
            refuse_existing(target, overwrite)
    with busy("reading", quiet=as_json):
        made = tv.dossier(
            release,
            rounds=rounds,
            people=people,
            cap=cap,
            audit=audit,
            verify_key=verify_key,
            title=title,
            purpose=purpose,
            stored=stored,
            retention=retention,
            utility=utility,
        )
        if output is not None:
            made.to_html(output)
        if pdf is not None:
            made.to_pdf(pdf)
    if as_json:
        typer.echo(made.to_json(), nl=False)
        return
    print_line(made.content["total"]["words"])
    for name, target in (("page", output), ("PDF", pdf)):
        if target is not None:
            print_line(f"{name}: {target}")
