"""`taskveil`: all commands in the order of its help, and what they have in common."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from taskveil import __version__
from taskveil.cli.collecting import collection
from taskveil.cli.console import friendly
from taskveil.cli.designing import audit, design, sign
from taskveil.cli.estimating import estimate
from taskveil.cli.figures import data, demo, reproduce
from taskveil.cli.schemas import schema
from taskveil.cli.serving import serve, token
from taskveil.cli.sweeping import sweep
from taskveil.cli.tables import decode, privatize


class _Commands(TyperGroup):
    """The commands, none of which ends in a traceback that was foreseen."""

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


for command in (demo, schema, design, sign, privatize, decode, estimate, serve, sweep, audit, reproduce, data):
    app.command()(command)
for name, group in (("token", token), ("collection", collection)):
    app.add_typer(group, name=name)
