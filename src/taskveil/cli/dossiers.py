"""`dossier`: what to know about a release before data is collected with it. `central`: what a crowd adds."""

from __future__ import annotations

import json
from dataclasses import asdict
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import Annotated, Any

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import busy, print_json, print_line, refuse_existing
from taskveil.client.promise import rounded_up
from taskveil.errors import BudgetError


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
        print_json(made.to_json())
        return
    print_line(made.content["total"]["words"])
    for name, target in (("page", output), ("PDF", pdf)):
        if target is not None:
            print_line(f"{name}: {target}")


def central(
    release: Annotated[Path, typer.Argument(help="The folder of a release or of a family.")],
    reports: Annotated[
        int, typer.Option(help="How many honest reports a round has; of a family, for each member.", min=1)
    ],
    delta: Annotated[
        float | None,
        typer.Option(help="The probability that the bound fails, of each round; by default less than 1/(100 reports)."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Also add up this many rounds with the same people.", min=1)] = 1,
    as_json: options.Json = False,
    verify_key: options.VerifyKey = None,
) -> None:
    """The central ε of a round: for somebody who sees all its reports without order, time and sender."""
    if delta is not None and not 0 < delta < 1:
        raise BudgetError(f"--delta must lie between 0 and 1, got {delta:g}.")
    from taskveil.signoff.evidence import opened
    from taskveil.veil.central import usual_delta

    with busy("reading", quiet=as_json):
        found, *_ = opened(release, verify_key)
    members = {"": found} if isinstance(found, tv.Veil) else found.members
    # Of a family, members without a central guarantee are left out as long as there are others.
    known = {name: veil for name, veil in members.items() if not veil.guarantee.delta} or members
    content: dict[str, dict[str, Any]] = {}
    for name, veil in known.items():
        one = veil.central(reports=reports, delta=usual_delta(reports) if delta is None else delta)
        content[name] = {**asdict(one), "statement": one.statement, "assumes": one.assumes}
        if rounds > 1:
            # Half of the total δ is for the rounds, half for adding them up.
            total = tv.compose([tv.Cost.of(one, times=rounds)], delta=min(2 * rounds * one.delta, 1 - 2.0**-40))
            content[name]["total"] = {"rounds": rounds, "epsilon": total.epsilon, "delta": total.delta}
    if as_json:
        answer = {name: content.get(name) for name in members} if len(members) > 1 else content[""]
        print_json(json.dumps(answer, indent=1, ensure_ascii=False))
        return
    for name in members:
        if name:
            print_line(f"Member {name}:")
        said = content.get(name)
        if said is None:
            print_line("A central guarantee is known for mechanisms with δ = 0 only.")
            continue
        print_line(said["statement"])
        if said["at_least"] is not None:
            least = Context(prec=6, rounding=ROUND_FLOOR).create_decimal(str(said["at_least"]))
            print_line(f"No proof that holds for all codewords can give a central ε below {float(least):g}.")
        if "total" in said:
            added = said["total"]
            total_epsilon, total_delta = rounded_up(added["epsilon"]), rounded_up(added["delta"])
            print_line(f"{rounds:,} rounds: central ε = {total_epsilon}, δ = {total_delta}.")
    for line in next(iter(content.values()))["assumes"]:
        print_line(line)
