"""`family`: several releases become one, with one signature and one ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import print_line, refuse_existing

Key = TypeVar("Key")
Value = TypeVar("Value")


def family(
    out: Annotated[Path, typer.Argument(help="Where the family goes.")],
    member: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FOLDER:WEIGHT, for example survey=means:0.1. Devices draw by weight. Repeatable."),
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option(help="EPSILON=FOLDER, for example 0.5=small. People choose their ε. Repeatable."),
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Put several releases of the same records into one family.

    With --member, the device draws one of them in every round, before it looks at the record. With --budgets, people
    choose their ε. The choice is visible, and must not depend on the record.
    """
    if bool(member) == bool(budgets):
        raise tv.TaskveilError("name the members by --member NAME=FOLDER:WEIGHT, or by --budgets EPSILON=FOLDER.")
    refuse_existing(out, overwrite)
    if member:
        made = tv.Family(_once([_member(one) for one in member], "--member"))
    else:
        made = tv.Family.of_budgets(_once([_budget(one) for one in budgets or ()], "--budgets"))
    made.save(out, overwrite=overwrite)
    print_line(f"{out}: {made!r}".replace("<", "").replace(">", ""))
    print_line(made.statement)


def _once(found: list[tuple[Key, Value]], option: str) -> dict[Key, Value]:
    """The pairs as a mapping; an error if a name comes twice."""
    if len(dict(found)) < len(found):
        raise tv.TaskveilError(f"{option} names a member twice: give each member its own name or ε.")
    return dict(found)


def _member(text: str) -> tuple[str, tuple[tv.Veil, float]]:
    """A name, and its veil and weight."""
    name, equals, rest = text.partition("=")
    folder, colon, weight = rest.rpartition(":")
    try:
        if equals and colon and folder:
            return name, (tv.Veil.load(folder), float(weight))
    except ValueError as error:
        if isinstance(error, tv.TaskveilError):
            raise
    raise tv.TaskveilError(f"--member is NAME=FOLDER:WEIGHT, such as survey=means:0.1; got {text!r}.")


def _budget(text: str) -> tuple[float, tv.Veil]:
    """An ε and its veil."""
    epsilon, equals, folder = text.partition("=")
    try:
        if equals and folder:
            return float(epsilon), tv.Veil.load(folder)
    except ValueError as error:
        if isinstance(error, tv.TaskveilError):
            raise
    raise tv.TaskveilError(f"--budgets is EPSILON=FOLDER, such as 0.5=small; got {text!r}.")
