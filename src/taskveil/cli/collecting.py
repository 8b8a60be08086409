"""The releases and rounds of a collector: `collection status`, `open`, `close`, `round`, `end`, `forget`, `check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from taskveil.cli import options
from taskveil.cli.console import busy, escape, print_line, print_whole
from taskveil.cli.serving import (
    Config,
    Database,
    check_round,
    families_in,
    find_release,
    folder_id,
    name_and_id,
    opened,
    parts,
    settings_of,
)
from taskveil.client.promise import chance, rounded_up
from taskveil.collector.store.rows import SHOWN_ID_DIGITS
from taskveil.errors import DataError

if TYPE_CHECKING:
    from taskveil.client.panels import Panel
    from taskveil.collector.releases import Together
    from taskveil.collector.store import Store, StoredRelease, StoredRound
    from taskveil.veil.veil import Guarantee

collection = typer.Typer(no_args_is_help=True, help="Open, close and delete the releases and rounds of a collector.")

Named = Annotated[
    str, typer.Argument(metavar="RELEASE", help="The release's folder, its name, or the first digits of its id.")
]
RoundName = Annotated[str, typer.Argument(metavar="ROUND", help="The round's name, such as 2026-W46.")]


@collection.command()
def status(db: Database = None, config: Config = None, as_json: options.Json = False) -> None:
    """Show all releases, their rounds, the number of reports in each round, and what the rounds add up to for one
    person."""
    with opened(settings_of(db, config)) as store:
        releases = store.releases()
        lines = [] if as_json else _totals(_guarantees(store)) + _unknown(store)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in releases], indent=2))
        return
    if not releases:
        print_line("There is no release yet: taskveil collection open FOLDER")
        return
    view = Table("release", "id", "round", "takes reports")
    view.add_column("reports", justify="right")
    for release in releases:
        shown = [(escape(one.name), _taking(release, one), f"{one.reports:,}") for one in release.rounds]
        first, *others = shown or [("", "no, has no round", "")]
        view.add_row(escape(release.name), release.id[:SHOWN_ID_DIGITS], *first)
        for cells in others:
            view.add_row("", "", *cells)
    print_whole(view)
    for line in lines:
        print_line(line)


def _guarantees(store: Store) -> list[tuple[StoredRelease, Guarantee, Panel | None]]:
    """The releases that can be opened, each with the guarantee of one report and the rounds that it plans. Families
    stand for their members."""
    from taskveil.collector.releases import Releases, parts_of

    known = Releases(store)
    alone = {one.stored.id: (one.stored, one.veil.guarantee, one.panel) for one in known.all()}
    for family in known.families():
        for member in parts_of(family):
            del alone[member.stored.id]
        alone[family.stored.id] = family.stored, family.family.guarantee, family.panel
    return list(alone.values())


def _panel(store: Store, release: StoredRelease) -> Panel | None:
    """The rounds that a release or family plans."""
    return next((panel for one, _, panel in _guarantees(store) if one.id == release.id), None)


def _unknown(store: Store) -> list[str]:
    """A line that names the releases whose ε is not known, because they cannot be opened; none if all can be."""
    from taskveil.collector.releases import Releases

    known = {one.stored.id for one in Releases(store).all()}
    names = [f"{one.name} ({one.id[:SHOWN_ID_DIGITS]})" for one in store.releases() if one.id not in known]
    if not names:
        return []
    return [
        f"Not in these totals, because this taskveil cannot open them: {', '.join(names)}. Their reports count too."
    ]


def _totals(known: Sequence[tuple[StoredRelease, Guarantee, Panel | None]]) -> list[str]:
    """Lines on what the rounds of each release add up to for one person, and those of all releases."""
    from taskveil.collector.releases import Together, in_all, so_far

    def spent(total: Together) -> str:
        odds = f"ε = {rounded_up(total.epsilon)} (odds of at most {total.odds} to 1)"
        return odds + (f", except with probability {chance(total.delta)}" if total.delta else "")

    def many(count: int, noun: str) -> str:
        return f"{count} {noun}{'' if count == 1 else 's'}"

    lines = []
    for release, one, panel in known:
        now, planned = Together.of([(one, *so_far(release, panel))]), in_all(release, panel)
        exception = f", except with probability {chance(one.delta)}" if one.delta else ""
        line = f"{release.name}: ε = {rounded_up(one.epsilon)} for each report{exception}. "
        if panel is not None:
            whole = Together.of([(one, len(panel.rounds), panel.reports)])
            line += f"A person makes at most {many(whole.reports, 'report')} in {many(whole.rounds, 'planned round')}, "
            line += f"in total {spent(whole)}; in {many(now.rounds, 'round')} so far at most "
            line += f"{many(now.reports, 'report')}, {spent(now)}."
        else:
            rounds = "its round" if release.had == 1 else f"each of its {release.had} rounds"
            line += f"A person who reported in {rounds} spent {spent(now)}."
            if planned is not None:
                line += f" The {planned[0]} planned rounds add up to {spent(Together.of([(one, *planned)]))}."
        lines.append(line)
    if len(known) > 1:
        total = Together.of((one, *so_far(release, panel)) for release, one, panel in known)
        lines.append(
            f"Budgets of different releases add up too: a person who reported as often as possible in all of them "
            f"spent {spent(total)}."
        )
    return lines


@collection.command("open")
def open_release(
    named: Named,
    first: Annotated[
        str | None, typer.Option("--round", help="Also open this round, and make it the current one.")
    ] = None,
    planned: Annotated[
        int | None,
        typer.Option(
            "--planned-rounds", min=1, help="How many rounds it is to have in all, for the totals that are shown."
        ),
    ] = None,
    verify_key: options.VerifyKey = None,
    db: Database = None,
    config: Config = None,
) -> None:
    """Accept reports of a release, again or for the first time. The files of a new release are copied from its folder
    into the database. A running collector needs no restart."""
    settings = settings_of(db, config)
    from taskveil.collector.releases import register, round_name

    folder = folder_id(named, verify_key)
    with opened(settings, make=folder is not None) as store:
        if folder is not None and folder not in {*(one.id for one in store.releases()), *families_in(store)}:
            register(store, Path(named), verify_key=verify_key, **({} if first is None else {"round": first}))
        else:
            release = find_release(store, named)
            checked = None if first is None else round_name(first, _panel(store, release))
            for part in parts(store, release):
                store.set_open(part, open=True)
                if checked is not None:
                    store.open_round(part, checked)
        release = find_release(store, named)
        if planned is not None:
            if _panel(store, release) is not None:
                raise DataError(f"{name_and_id(release)} plans its rounds itself: leave out --planned-rounds.")
            for part in parts(store, release):
                store.plan(part, planned)
    if release.takes(release.current):
        after = f"reports belong to round {release.current} unless they name another"
    else:
        after = f"but it has no current round that takes reports: taskveil collection round {named} NAME opens one"
    print_line(f"{name_and_id(release)} is open; {after}.")


@collection.command()
def close(named: Named, db: Database = None, config: Config = None) -> None:
    """Accept no more reports of a release. Stored reports stay and can be read. `open` accepts reports again."""
    with opened(settings_of(db, config)) as store:
        release = find_release(store, named)
        for part in parts(store, release):
            store.set_open(part, open=False)
    print_line(f"{name_and_id(release)} takes no more reports.")


@collection.command("round")
def open_round(named: Named, name: RoundName, db: Database = None, config: Config = None) -> None:
    """Open a round and make it the current one. Reports that name no round belong to it. Other rounds do not change."""
    settings = settings_of(db, config)
    from taskveil.collector.releases import round_name

    with opened(settings) as store:
        release = find_release(store, named)
        round_name(name, _panel(store, release))
        for part in parts(store, release):
            store.open_round(part, name)
        others = [one.name for one in release.rounds if one.open and one.name != name]
    also = f" Still open: {', '.join(others)}; `taskveil collection end` ends one." if others else ""
    print_line(f"{release.name} collects round {name}.{also}")


@collection.command()
def end(named: Named, name: RoundName, db: Database = None, config: Config = None) -> None:
    """End a round: it accepts no more reports. Its reports are stored again in a random order, which hides when each
    arrived."""
    with opened(settings_of(db, config)) as store:
        release = find_release(store, named)
        check_round(release, name)
        with busy("rewriting"):
            for part in parts(store, release):
                store.close_round(part, name)
        (ended,) = (one for one in find_release(store, named).rounds if one.name == name)
    print_line(f"round {name} of {release.name} has ended with {ended.reports:,} reports.")


@collection.command()
def forget(
    named: Named,
    name: RoundName,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: deleted reports cannot be restored.")] = False,
    db: Database = None,
    config: Config = None,
) -> None:
    """Delete a round and its reports. This cannot be undone. Delete your backups of it yourself."""
    with opened(settings_of(db, config)) as store:
        release = find_release(store, named)
        check_round(release, name)
        (one,) = (one for one in release.rounds if one.name == name)
        if any(one.takes(name) for one in store.releases() if one.id in parts(store, release)):
            raise DataError(
                f"round {name} of {release.name} still accepts reports, and devices would send theirs again: end it "
                f"first (taskveil collection end {named} {name})."
            )
        if not yes:
            raise DataError(
                f"this deletes {one.reports:,} reports of round {name} of {release.name}. This cannot be undone. Add "
                "--yes to do it."
            )
        with busy("forgetting"):
            count = sum(store.forget_round(part, name) for part in parts(store, release))
    print_line(f"{count:,} reports of round {name} of {release.name} are deleted. Delete its backups and exports too.")


@collection.command()
def check(db: Database = None, config: Config = None) -> None:
    """Count all reports again, and compare with the counts that estimates use. New reports wait meanwhile."""
    with opened(settings_of(db, config)) as store:
        with busy("counting"):
            wrong = store.check()
        reports = sum(one.reports for release in store.releases() for one in release.rounds)
    if wrong:
        raise DataError(f"{'; '.join(wrong)}. Restore a backup, and report this error: it should not happen.")
    print_line(f"{reports:,} reports, and all counts are correct.")


def _taking(release: StoredRelease, one: StoredRound) -> str:
    if not release.open:
        return "no, release closed"
    if not one.open:
        return "no, ended"
    return "yes, current" if one.name == release.current else "yes"
