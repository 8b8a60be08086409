"""The `taskveil` program: all commands, in the order of its help."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from taskveil import __version__
from taskveil.cli.collecting import collection
from taskveil.cli.console import friendly
from taskveil.cli.designing import audit, design, schema, sign
from taskveil.cli.dossiers import central, dossier
from taskveil.cli.experiments import data, demo, reproduce
from taskveil.cli.families import family
from taskveil.cli.planning import plan
from taskveil.cli.reporting import decode, estimate, privatize
from taskveil.cli.serving import serve, token
from taskveil.cli.sweeping import sweep


class _Commands(TyperGroup):
    """The commands. An expected error ends a command with one line instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        with friendly():
            return super().invoke(ctx)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"taskveil {__version__}")
        raise typer.Exit


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def _options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Which version.")] = False,
) -> None:
    """Task-aware local differential privacy."""


COMMANDS = (
    demo,
    schema,
    plan,
    design,
    family,
    sign,
    privatize,
    decode,
    estimate,
    serve,
    sweep,
    audit,
    dossier,
    central,
    reproduce,
    data,
)
for command in COMMANDS:
    app.command()(command)
for name, group in (("token", token), ("collection", collection)):
    app.add_typer(group, name=name)
