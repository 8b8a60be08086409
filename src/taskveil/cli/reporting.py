"""Tables of reports: `privatize` makes them, `decode` and `estimate` read them. Each takes one file or a folder."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import check_folder_of, console, escape, note, pairs, print_line, reworded, row_bar
from taskveil.cli.inputs import as_task, load_model, with_loss
from taskveil.client.families import is_family, load_family
from taskveil.client.promise import beside, rounded_up
from taskveil.client.signatures import read_key
from taskveil.errors import TaskError
from taskveil.veil.release import release_files

if TYPE_CHECKING:
    from taskveil.estimates import Estimate, Series
    from taskveil.jobs.commands import Done
    from taskveil.jobs.parts import Unfit
    from taskveil.jobs.running import Engine

ASSUMED = "dark_orange3"
"""The colour of rows that need an assumption."""


def privatize(
    source: Annotated[
        str,
        typer.Argument(help="CSV or Parquet, one person per row; or a folder of Parquet; also an address like s3://…"),
    ],
    target: Annotated[str, typer.Argument(help="Parquet or CSV of reports; a folder where the source is one.")],
    release: Annotated[Path, typer.Option(help="The release, or its client folder.")],
    column: Annotated[list[str] | None, typer.Option(help="attribute=column where names differ. Repeatable.")] = None,
    unit: Annotated[list[str] | None, typer.Option(help="attribute=unit of the file. Repeatable.")] = None,
    sep: options.Sep = ",",
    decimal: options.Decimal = ".",
    date_format: options.DateFormat = None,
    missing: options.Missing = None,
    verify_key: options.VerifyKey = None,
    overwrite: options.Overwrite = False,
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Do not show how many values are missing or out of range.")
    ] = False,
) -> None:
    """Turn a table of records into a table of private reports, one per row, in constant memory.

    For a folder, every part is made once, even if workers are lost. After an interruption, run the command again to
    continue. For one file, the command shows how many values of each column are missing or out of range. No file
    contains these numbers.
    """
    from taskveil.jobs.commands import makes_file, privatize_tables
    from taskveil.jobs.parts import Unfit

    where = options.job_engine(engine, address, workers)
    csv, unfit = options.csv_format(sep, decimal, date_format, missing), None if quiet else Unfit()
    family = load_family(release, read_key(verify_key), None)
    names = family.members[0].device.columns or ()
    mapping, units = pairs("--column", column, names), pairs("--unit", unit, names)
    with _job(source, target, where) as advance:
        done = privatize_tables(
            release,
            source,
            target,
            engine=where,
            columns=mapping,
            units=units,
            verify_key=verify_key,
            overwrite=overwrite,
            csv=csv,
            unfit=unfit,
            progress=advance,
        )
    if unfit is not None:
        _print_unfit(unfit if makes_file(source, where) else None)
    epsilon = rounded_up(family.epsilon)
    print_line(f"{done.rows:,} reports{_in_parts(done)}, ε = {epsilon}{beside(family.delta)} each: {target}")
    if family.panel is not None:
        note(
            f"a table does not know whose turn it is: every row got a report. Of this release a person reports "
            f"{family.panel}; make tables of those whose turn it is, or more is spent than the release promises."
        )


def decode(
    source: Annotated[
        str, typer.Argument(help="Parquet or CSV of reports, as written by privatize, or a folder of Parquet.")
    ],
    target: Annotated[str, typer.Argument(help="Parquet or CSV of estimates; a folder where the source is one.")],
    release: options.Release,
    column: Annotated[list[str] | None, typer.Option(help="attribute=name in the output. Repeatable.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A column beside each says how probable its value is.")
    ] = False,
    predict: Annotated[bool, typer.Option(help="Write the task's answers instead of the attributes.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="With --predict, the model of the task, as in design. It names the classes where the release does not."
        ),
    ] = None,
    loss: options.LossName = None,
    verify_key: options.VerifyKey = None,
    overwrite: options.Overwrite = False,
    verify: options.Verify = True,
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Turn a table of reports into a table of estimates or of answers, one row each, in constant memory.

    Each estimate is the best for its person, and is biased towards the volunteers. For means and shares of all people
    use taskveil estimate.
    """
    from taskveil.jobs.commands import decode_tables
    from taskveil.jobs.parts import veil_of
    from taskveil.jobs.reports import class_names, holds_log_probabilities

    where = options.job_engine(engine, address, workers)
    task = None
    if is_family(release):
        raise TaskError(f"{release} is a family: name one member, --release {release / 'NAME'}, to decode its reports.")
    files, key = tuple(release_files(release).items()), read_key(verify_key)
    veil = veil_of(files, key)
    if isinstance(veil.task, tv.MeanTask | tv.SurveyTask):
        raise TaskError(
            "a report of this release says almost nothing about one person: it is for means and shares of all people. "
            f"Run: taskveil estimate {source} --release {release}"
        )
    if model is not None:
        task = with_loss(as_task(load_model(model), loss), loss, veil.schema)
        veil = veil_of(files, key, task)
    elif predict and holds_log_probabilities(veil):
        if class_names(veil)[0] == "p0":
            note("p0, p1, … are the probabilities of the model's classes, in its order; --model names them.")
    elif predict and veil.task is None and veil.answering is not None:
        note("y0, y1, … are the model's outputs; those of a classifier are logits. For probabilities pass --model.")
    with _job(source, target, where) as advance:
        done = decode_tables(
            release,
            source,
            target,
            engine=where,
            columns=pairs("--column", column, veil.columns or ()),
            predict=predict,
            probabilities=probabilities,
            task=task,
            verify_key=verify_key,
            overwrite=overwrite,
            verify=verify,
            progress=advance,
        )
    print_line(f"{done.rows:,} {'answers' if predict else 'estimates'}{_in_parts(done)}: {target}")


def estimate(
    sources: Annotated[
        list[str],
        typer.Argument(help="Parquet or CSV files of reports, or folders of Parquet, as written by privatize."),
    ],
    release: Annotated[
        list[Path],
        typer.Option(help="The release. Repeatable: each file is read with its own release, and all are pooled."),
    ],
    since: Annotated[
        list[str] | None,
        typer.Option(help="Parquet of an earlier round: also show the changes since then. Repeatable."),
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(
            help="Also show rows that need an assumption. cells: people with a code are like the volunteers with that "
            "code. labels: people of a class are like the volunteers of that class."
        ),
    ] = None,
    anytime: Annotated[
        bool,
        typer.Option(
            "--anytime", help="Wider intervals that hold at all times, even if you look at the reports often."
        ),
    ] = False,
    confidence: Annotated[
        float, typer.Option(help="The confidence level of the intervals, from 0.5 to below 1.")
    ] = 0.95,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            help="column=FILE: of a survey, the words of a large vocabulary whose shares are wanted, one in each line. "
            "Repeatable."
        ),
    ] = None,
    consistent: Annotated[
        bool,
        typer.Option(
            "--consistent",
            help="Of a survey: shares that are at least 0 and add up to 1, cross-tables that add up to them, and "
            "smooth histograms. The intervals stay those of the unbiased shares.",
        ),
    ] = False,
    series: Annotated[
        Path | None,
        typer.Option(
            help="Each file or folder is a round, named like it: estimate the rows over the rounds, with intervals "
            "that hold at all planned rounds at once, and write them to this CSV file."
        ),
    ] = None,
    planned_rounds: Annotated[
        int | None,
        typer.Option(help="With --series: how many rounds there will be in all, if the release does not plan them."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all results to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the rows with their intervals into this PNG file.")] = None,
    verify_key: options.VerifyKey = None,
    verify: options.Verify = True,
    engine: options.EngineName = "plain",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Estimate population means and shares from reports, with intervals, in constant memory."""
    from taskveil.estimates.rows import finite
    from taskveil.estimates.survey import SurveyEstimate
    from taskveil.jobs.commands import tally_tables

    if assume not in (None, "cells", "labels"):
        raise tv.TaskveilError(f"--assume is cells or labels, got {assume!r}.")
    if assume is not None and anytime:
        raise tv.TaskveilError("assumed rows have no limits that hold at all times: leave out --anytime, or --assume.")
    if not 0.5 <= confidence <= 1.0 - 1e-9:
        raise tv.TaskveilError(f"--confidence takes a number from 0.5 to below 1, got {confidence:g}.")
    if series is None and planned_rounds is not None:
        raise tv.TaskveilError("--planned-rounds is for several rounds: add --series FILE.csv.")
    if series is not None and (since is not None or consistent or len(release) > 1):
        raise tv.TaskveilError("--series takes the rounds of one --release, without --since and --consistent.")
    check_folder_of("--series", series)
    check_folder_of("--json", json_file)
    check_folder_of("--plot", plot)
    where = options.job_engine(engine, address, workers)
    rule: dict[str, Any] = {"assume": assume, "anytime": anytime, "confidence": confidence}

    def read(places: Sequence[str]) -> tuple[Any, Any]:
        """What `tv.estimate` takes: releases or a family, and tallies."""
        with row_bar() as advance:
            used, tallies = tally_tables(
                release, places, engine=where, verify_key=verify_key, verify=verify, progress=advance
            )
        families = [one for one in release if is_family(one)]
        if families and len(release) > 1:
            raise tv.TaskveilError("a family is estimated alone: give its folder as the only --release.")
        rule["candidates"] = _words(candidates, used[0].columns)
        if families:
            family = tv.Family.load(families[0], verify_key=verify_key)
            names = {veil.release_id: name for name, veil in family.members.items()}
            return family, {names[one.release_id]: tally for one, tally in zip(used, tallies, strict=True)}
        return used, tallies

    if series is not None:
        with where.joined():
            rounds = {name: read([source]) for name, source in _rounds(sources).items()}
        of, *_ = [veil for veil, _ in rounds.values()]
        counted = {name: own for name, (_, own) in rounds.items()}
        _print_series(tv.estimate(of, counted, planned_rounds=planned_rounds, **rule), series, json_file, plot)
        return

    with contextlib.nullcontext() if since is None else where.joined():  # one cluster for both rounds
        now = read(sources)
        found: Estimate = tv.estimate(*now, **rule)
        changes = {}
        if since is not None:  # the same people may have reported in both: limits are subtracted
            then, rule["confidence"] = read(since), min((1 + confidence) / 2, 1.0 - 1e-9)
            changes = tv.estimate(*now, **rule).minus(tv.estimate(*then, **rule))

    if consistent:
        if not isinstance(found, SurveyEstimate):
            raise tv.TaskveilError("--consistent is for surveys (design --survey): leave it out.")
        found = found.consistent()
    rows = found.rows()
    kinds = (("Measured", "none", False), (found.assumed_title, ASSUMED, True))
    for section in found.sections() if isinstance(found, SurveyEstimate) else ():
        _print(section.title, found.header, [row.cells for row in section.rows])
    for title, style, assumed in () if isinstance(found, SurveyEstimate) else kinds:
        part = [row.cells for row in rows if (row.assumes is not None) == assumed]
        if part:
            _print(title, found.header, part, style)
    for title, style, assumed in kinds:
        ones = [one for ones in changes.values() for one in ones if (one.assumes is not None) == assumed]
        shown = [(found.label(one.name), one) for one in ones]
        cells = [(label.title, *label.interval(*one[1:4], change=True)) for label, one in shown if label.shown]
        if cells:
            _print(f"Since the earlier round. {title}", ("", "change", found.header[2]), cells, style)
    console.print(escape(f"{found.source}."))
    console.print(escape(reworded(found.drift.words)), style="yellow" if found.drift.raised else None)
    for line in found.notes:
        console.print(escape(reworded(line)), style=None if found.assumes is None else ASSUMED)
    if json_file is not None:
        differences = {kind: [finite(one._asdict()) for one in part] for kind, part in changes.items()}
        content = {**found.content(), "changes": differences}
        if "cells" in content:  # for taskveil design --like
            content["cells"]["folder"] = str(release[0])
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        json_file.write_text(text + "\n", encoding="utf-8")
        print_line(f"JSON: {json_file}")
    if plot is not None:
        print_line(f"picture: {found.plot(plot)}")


def _rounds(sources: Sequence[str]) -> dict[str, str]:
    """Files and folders of reports by the names of their rounds: their own, without the ending."""
    named = {Path(source.rstrip("/")).stem if Path(source).suffix else Path(source).name: source for source in sources}
    if len(named) < len(sources):
        raise tv.TaskveilError("two of these files have one name: a round is named like its file.")
    return named


def _print_series(found: Series, path: Path, json_file: Path | None, plot: Path | None) -> None:
    """Print the rows over the rounds, and write them to files."""
    for title, cells in found.sections():
        _print(title, ("round", *found.header[1:]), cells, ASSUMED if title.endswith("(assumed)") else "none")
    for line in found.words():
        console.print(escape(reworded(line)))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([found.columns, *found.records()])
    print_line(f"CSV: {path}")
    if json_file is not None:
        print_line(f"JSON: {found.to_json(json_file)}")
    if plot is not None:
        print_line(f"picture: {found.plot(plot)}")


def _words(candidates: list[str] | None, columns: Sequence[str] | None) -> dict[str, list[str]] | None:
    """By column the words of the files of `--candidates`; None without any."""
    found = {}
    for name, path in pairs("--candidates", candidates, tuple(columns or ())).items():
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise tv.TaskveilError(f"--candidates: cannot read {path!r} as a text file: {error}.") from None
        found[name] = [line.strip() for line in lines if line.strip()]
    return found or None


@contextlib.contextmanager
def _job(source: str, target: str, engine: Engine) -> Iterator[Callable[..., None]]:
    """The progress bar of a job. Raises a TaskveilError if the target must be a Parquet or CSV file and is none. After
    Ctrl-C, a note says that the finished parts of a folder stay."""
    from taskveil.jobs.commands import makes_file
    from taskveil.jobs.storage import PARQUET

    file = makes_file(source, engine)
    if file and Path(target).suffix.lower() not in (".csv", *PARQUET):
        raise tv.TaskveilError(
            f"the result is written as Parquet or CSV: name it {Path(target).with_suffix('.parquet')}, not {target}."
        )
    try:
        with row_bar() as advance:
            yield advance
    except KeyboardInterrupt:
        if not file:
            note("interrupted. Parts that are there stay: run the same command again to go on.")
        raise


def _print_unfit(unfit: Unfit | None) -> None:
    """Print on stderr how many values were missing or out of range; None where they were not counted."""
    screen = Console(stderr=True)
    if unfit is None:
        note("values that are missing or out of range are counted for one file, and not for a folder or a cluster.")
        return
    names = [name for name in unfit.missing if unfit.missing[name] or unfit.outside[name]]
    if not names:
        return
    title = f"Values that do not fit, in {unfit.rows:,} rows. Shown only here; off with --quiet"
    view = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("column", "missing or no value of its kind", "out of range or unknown"):
        view.add_column(heading, justify="left" if heading == "column" else "right", overflow="fold")
    for name in names:
        view.add_row(escape(name), f"{unfit.missing[name]:,}", f"{unfit.outside[name]:,}")
    screen.print(view)


def _in_parts(done: Done) -> str:
    """The number of parts of a folder, and how many of them were there before."""
    if not done.parts:
        return ""
    earlier = f", {done.found:,} of them there already" if done.found else ""
    return f" in {len(done.parts):,} {'part' if len(done.parts) == 1 else 'parts'}{earlier}"


def _print(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], style: str = "none") -> None:
    """Print a table as wide as the terminal, at least 80 columns. Long names are folded, numbers never."""
    view = Table(title=escape(title), title_justify="left", style=style, box=None, padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        view.add_column(heading, overflow="fold", no_wrap=place > 0, justify="right" if place else "left", style=style)
    for row in rows:
        view.add_row(*map(escape, row))
    Console(width=max(console.width, 80)).print(view)
