"""One command of the command line, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from taskveil.cli.app import app


def run(*arguments: object, code: int = 0) -> str:
    """What the command printed, on both streams; its exit code must be `code`."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output or repr(result.exception)
    return result.output


def one_line(*arguments: object) -> str:
    """The one line that a command which cannot be done prints, with exit code 2 and no traceback."""
    output = run(*arguments, code=2)
    assert output.startswith("error: ")
    assert output.count("\n") == 1
    return output
