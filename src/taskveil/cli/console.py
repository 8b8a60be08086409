"""Shared by all commands: printing, progress bars, `column=value` options, and errors of one line."""

from __future__ import annotations

import contextlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from rich import markup
from rich.console import Console
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table

from taskveil.errors import TaskveilError, needs, printable
from taskveil.progress import Progress

console = Console()


def escape(text: str) -> str:
    """Text for `console.print`: square brackets are not markup, and control characters of names have no effect."""
    return markup.escape(printable(text))


@contextlib.contextmanager
def friendly() -> Iterator[None]:
    """Turns errors raised on purpose, files that cannot be used and missing packages into one line and exit code 2, and
    our warnings into one line: people who type a command do not want to see lines of Python."""
    try:
        with needs("this command"), warnings.catch_warnings():
            warnings.showwarning = _one_line(warnings.showwarning)
            yield
    except BrokenPipeError:
        raise  # the reader of our output has closed it (`| head`), and typer ends quietly
    except (TaskveilError, OSError) as error:
        # Not wrapped: people search for the line, or copy it as a command.
        Console(stderr=True).print(f"[red]error:[/red] {escape(reworded(str(error)))}", soft_wrap=True)
        raise typer.Exit(2) from error


def _one_line(other: Callable[..., None]) -> Callable[..., None]:
    """Shows our own warnings in one line on stderr, and leaves those of `other` packages as they are."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        if category.__module__.partition(".")[0] == "taskveil":
            Console(stderr=True).print(f"[yellow]warning:[/yellow] {escape(reworded(str(message)))}", soft_wrap=True)
        else:
            other(message, category, *where, **options)

    return show


def note(message: str) -> None:
    """Print one line with a note on stderr."""
    Console(stderr=True).print(f"[yellow]note:[/yellow] {escape(message)}", soft_wrap=True)


@contextlib.contextmanager
def busy(what: str, *, quiet: bool = False) -> Iterator[Progress]:
    """The progress bar of a command, shown after two seconds of work on a terminal and not if `quiet`. Pass it to the
    work as `progress=`."""
    with Progress.of(False if quiet else None) as bar:
        bar.begin(what, 0.0)
        yield bar


def pairs(option: str, items: list[str] | None, names: tuple[str, ...]) -> dict[str, str]:
    """`column=value` options as a dictionary, columns checked."""
    found = {}
    for item in items or []:
        column, _, value = item.partition("=")
        if column not in names or not value:
            raise TaskveilError(f"{option} takes name={option[2:]}, with a name of {', '.join(names)}; got {item!r}.")
        found[column] = value
    return found


def numbers(option: str, items: list[str], form: str = "numbers") -> list[float]:
    """The numbers that an option was given; `form` says how they are written."""
    try:
        return [float(item) for item in items]
    except ValueError:
        raise TaskveilError(f"{option} takes {form}, got {','.join(items)!r}.") from None


def budgets(option: str, items: list[str]) -> list[float]:
    """The budgets ε that an option was given: finite numbers above zero."""
    found = numbers(option, items, "numbers separated by commas")
    wrong = [item for item, value in zip(items, found, strict=True) if not 0.0 < value < math.inf]
    if wrong:
        raise TaskveilError(f"{option} takes finite numbers above zero, got {wrong[0]}.")
    return found


def check_share(option: str, value: float | None, low: float = 0.0, high: float = math.inf) -> None:
    """A TaskveilError unless the value of an option lies above `low` and below `high`, or is None."""
    if value is not None and not low < value < high:
        limit = "" if high == math.inf else f" and below {high:g}"
        raise TaskveilError(f"{option} is a number above {low:g}{limit}, got {value:g}.")


def check_folder_of(option: str, path: Path | None) -> None:
    """A TaskveilError if a file that an option names cannot be written, because its folder does not exist."""
    if path is not None and not path.absolute().parent.is_dir():
        raise TaskveilError(f"{option} {path}: there is no folder {path.parent}. Make it first.")


def refuse_existing(target: Path, overwrite: bool, lost: str = "") -> None:
    """A TaskveilError if the target exists and must not be overwritten; `lost` says what would be lost."""
    if target.exists() and not overwrite:
        raise TaskveilError(f"{target} exists already. Choose another name, or pass --overwrite.{lost}")


@contextlib.contextmanager
def row_bar(total: int | None = None) -> Iterator[Callable[..., None]]:
    """A progress bar over rows on the terminal. Yields a function of the number of rows of each batch, and of the total
    if it was not known before. The bar stays when the work is done, and is removed after an error."""
    screen, shown = Console(stderr=True), (BarColumn(), MofNCompleteColumn(), "rows", TimeElapsedColumn())
    with Bar(*shown, TimeRemainingColumn(), console=screen, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=total)
        try:
            yield lambda rows, total=None: bar.update(task, advance=rows, total=total)
        except BaseException:  # an interruption too
            bar.update(task, visible=False)
            bar.live.transient = True
            raise


def print_line(text: str) -> None:
    """Print a line without wrapping it, so that it can be copied. Square brackets are text, not markup."""
    console.print(printable(text), soft_wrap=True, markup=False)


def print_json(text: str) -> None:
    """Print JSON. What a terminal obeys or does not show, in names and values, is escaped: the JSON means the same."""
    escaped = (one if one == "\n" or printable(one) == one else json.dumps(one)[1:-1] for one in text.rstrip("\n"))
    typer.echo("".join(escaped))


def print_whole(view: Table) -> None:
    """Print the table as wide as it needs to be, so that no number is cut off."""
    needed = Measurement.get(console, console.options.update(max_width=1000), view).maximum
    Console(width=max(console.width, needed)).print(view)


_OPTIONS = (
    (r"schema\.replace\(\{'(.*?)': tv\.Number\(low, high\)\}\)", r"--domain \1=low:high"),
    (r"write them as 2021-03-04 \(in pandas .*?\)\.", "pass --date-format, such as %d.%m.%Y or %m/%d/%Y."),
    (
        r"without units and separators of thousands, and nothing where there is none \(in pandas .*?commas\);",
        "without units and separators of thousands (for decimal commas pass --decimal ,);",
    ),
    (r"leave such cells empty \(in pandas column\.where\(column != (-?\d+)\)\)", r"pass --missing \1"),
    (r"\bpass overwrite=True\b", "pass --overwrite"),
    (r"\bdomain=\.\.\. says", "--domain column=low:high says"),
    (r"List its values with tv\.Category, or drop it", "List its values in a --schema, or leave it out: --drop"),
    (r"\bwith tv\.Category\b", "in a --schema"),
    (r"\bleave the column out\.", "leave the column out: --drop."),
    (r"\bshare_model=True\b", "--share-model"),
    (r"(?<!['-])\bmax_bytes=", "--client-bytes "),
    (r"(?<!['-])\bmax_bytes\b(?!')", "--client-bytes"),
    (r"\bengine=tv\.Ray\(gpus=(\d+)\)", r"--engine ray --gpus \1"),
    (r"\btorch_device='(\w+)'", r"--device \1"),
    (r"\bfor tv\.MeanTask\(K\)", "of taskveil design --means"),
    (r"\bsave it with volunteers=True\b", "design it without --no-volunteers"),
    (r"(?<!['-])\b(encoder|answers|loss|method|engine|assume)=[\"'](\w+)[\"']", r"--\1 \2"),
    (r"\bassume=(?!\w)", "--assume"),
    (r"\btv\.plan\(X, task, people=N, epsilons=\[…\]\)", "--people N, and --margin 0.02 if that is enough"),
    (r"\bleave out anytime\b", "leave out --anytime"),
    (r"(?<=Give bins: )histograms=\{'(.*)': \[edge, edge, …\]\}", r"--histogram '\1=edge,edge,edge'"),
    (r"\bpass candidates=\{'(.*)': \[\.\.\.\]\}", r"pass --candidates '\1=FILE'"),
)


def reworded(message: str) -> str:
    """A message of the package for people who type commands: one line, options instead of arguments, rows counted
    from 1."""
    message = " ".join(message.splitlines())
    for argument, option in _OPTIONS:
        message = re.sub(argument, option, message)
    return re.sub(r"(?<=\brow )\d+(?=, column |\W+\d+% of the labels)", lambda row: str(int(row[0]) + 1), message)
