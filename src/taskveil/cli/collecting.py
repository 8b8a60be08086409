"""What a collector takes: `collection status`, `open`, `close`, `round`, `end`, `forget` and `check`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from taskveil.cli import options
from taskveil.cli.console import busy, console, print_whole
from taskveil.cli.serving import Config, Database, check_round, find_release, folder_id, opened, settings_of
from taskveil.collector.store.rows import SHOWN_ID_DIGITS as SHOWN
from taskveil.errors import DataError

if TYPE_CHECKING:
    from taskveil.collector.store import StoredRelease, StoredRound

collection = typer.Typer(
    no_args_is_help=True, help="Releases and rounds of a collector: what it takes, and what it forgets for good."
)

Named = Annotated[str, typer.Argument(metavar="RELEASE", help="Its folder, its name or the beginning of its id.")]
RoundName = Annotated[str, typer.Argument(metavar="ROUND", help="The round's name, such as 2026-W46.")]


@collection.command()
def status(db: Database = None, config: Config = None, as_json: options.Json = False) -> None:
    """Show all releases, their rounds, and how many reports each has."""
    with opened(settings_of(db, config)) as store:
        releases = store.releases()
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in releases], indent=2))
        return
    if not releases:
        console.print("There is no release yet: taskveil collection open FOLDER", soft_wrap=True)
        return
    view = Table("release", "id", "round", "takes reports")
    view.add_column("reports", justify="right")
    for release in releases:
        shown = [(escape(one.name), _taking(release, one), f"{one.reports:,}") for one in release.rounds]
        first, *others = shown or [("", "no, has no round", "")]
        view.add_row(escape(release.name), release.id[:SHOWN], *first)
        for cells in others:
            view.add_row("", "", *cells)
    print_whole(view)


@collection.command("open")
def open_release(
    named: Named,
    first: Annotated[str | None, typer.Option("--round", help="Also open this round, for reports from now on.")] = None,
    verify_key: options.VerifyKey = None,
    db: Database = None,
    config: Config = None,
) -> None:
    """Take reports of a release, again or for the first time: of a folder that the collector does not know, its files
    are put into the database. A collector that runs needs no restart."""
    settings = settings_of(db, config)
    from taskveil.collector.releases import register, round_name

    folder = folder_id(named, verify_key)
    with opened(settings, make=folder is not None) as store:
        if folder is not None and folder not in [one.id for one in store.releases()]:
            register(store, Path(named), verify_key=verify_key, **({} if first is None else {"round": first}))
        else:
            release = find_release(store, named)
            store.set_open(release.id, open=True)
            if first is not None:
                store.open_round(release.id, round_name(first))
        (release,) = (one for one in store.releases() if one.id == (folder or release.id))
    if release.takes(release.current):
        after = f"reports belong to round {release.current} unless they say otherwise"
    else:
        after = f"but it has no current round that takes reports: taskveil collection round {named} NAME opens one"
    console.print(escape(f"{release.name} ({release.id[:SHOWN]}) is open; {after}."), soft_wrap=True)


@collection.command()
def close(named: Named, db: Database = None, config: Config = None) -> None:
    """Take no more reports of a release. What is stored stays and can be read; `open` takes reports again."""
    with opened(settings_of(db, config)) as store:
        release = find_release(store, named)
        store.set_open(release.id, open=False)
    console.print(escape(f"{release.name} ({release.id[:SHOWN]}) takes no more reports."), soft_wrap=True)


@collection.command("round")
def open_round(named: Named, name: RoundName, db: Database = None, config: Config = None) -> None:
    """Open a round and make it the current one, to which reports belong that name none. Others stay as they are."""
    settings = settings_of(db, config)
    from taskveil.collector.releases import round_name

    with opened(settings) as store:
        release = find_release(store, named)
        store.open_round(release.id, round_name(name))
        others = [one.name for one in release.rounds if one.open and one.name != name]
    also = f" Still open: {', '.join(others)}; `taskveil collection end` ends one." if others else ""
    console.print(escape(f"{release.name} collects round {name}.{also}"), soft_wrap=True)


@collection.command()
def end(named: Named, name: RoundName, db: Database = None, config: Config = None) -> None:
    """End a round: it takes no more reports, and they are rewritten in an order that tells nothing of their arrival."""
    with opened(settings_of(db, config)) as store:
        release = find_release(store, named)
        check_round(release, name)
        with busy("rewriting"):
            store.close_round(release.id, name)
        (ended,) = (
            one for kept in store.releases() for one in kept.rounds if (kept.id, one.name) == (release.id, name)
        )
    console.print(escape(f"round {name} of {release.name} has ended with {ended.reports:,} reports."), soft_wrap=True)


@collection.command()
def forget(
    named: Named,
    name: RoundName,
    yes: Annotated[bool, typer.Option("--yes", help="Really: nothing brings them back.")] = False,
    db: Database = None,
    config: Config = None,
) -> None:
    """Delete a round and its reports for good. Backups are yours to delete."""
    with opened(settings_of(db, config)) as store:
        release = find_release(store, named)
        check_round(release, name)
        (one,) = (one for one in release.rounds if one.name == name)
        if release.takes(name):
            raise DataError(
                f"round {name} of {release.name} still takes reports, and devices would send theirs again: end it "
                f"first (taskveil collection end {named} {name})."
            )
        if not yes:
            raise DataError(
                f"this deletes {one.reports:,} reports of round {name} of {release.name}, and nothing brings them "
                "back. Add --yes to do it."
            )
        with busy("forgetting"):
            count = store.forget_round(release.id, name)
    console.print(
        escape(f"{count:,} reports of round {name} of {release.name} are gone. Delete its backups and exports too."),
        soft_wrap=True,
    )


@collection.command()
def check(db: Database = None, config: Config = None) -> None:
    """Count all reports again and compare with what estimates are made of. Reports wait meanwhile."""
    with opened(settings_of(db, config)) as store:
        with busy("counting"):
            wrong = store.check()
        reports = sum(one.reports for release in store.releases() for one in release.rounds)
    if wrong:
        raise DataError(f"{'; '.join(wrong)}. Restore a backup, and tell us: this should not be possible.")
    console.print(f"{reports:,} reports, and all counts are as they should be.")


def _taking(release: StoredRelease, one: StoredRound) -> str:
    if not release.open:
        return "no, release closed"
    if not one.open:
        return "no, ended"
    return "yes, current" if one.name == release.current else "yes"
