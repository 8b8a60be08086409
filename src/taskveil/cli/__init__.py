"""The command line: parse, call, print. One file per group of commands; `main` is what `taskveil` runs.

Engines and experiments are imported by the command that runs them, and everything else through `tv`, so that
`taskveil --help` answers at once and works in an install that has not everything.
"""

from __future__ import annotations

import sys

from taskveil.errors import MissingExtraError, needs


def main() -> None:
    """Run the command line, or say in one line which packages it lacks and exit with 2."""
    try:
        with needs("the taskveil command"):
            from taskveil.cli.app import app
    except MissingExtraError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    app()
