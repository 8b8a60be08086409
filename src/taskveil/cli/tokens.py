"""Who may do what at a collector: `token create`, `token list` and `token revoke`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from taskveil.cli import options
from taskveil.cli.console import console, print_whole
from taskveil.cli.databases import SHOWN, Config, Database, address_of, find_release, folder_id, opened, settings_of
from taskveil.errors import DataError

if TYPE_CHECKING:
    from taskveil.collector.settings import Settings
    from taskveil.collector.store import StoredRelease, StoredToken

token = typer.Typer(no_args_is_help=True, help="Who may send reports to a collector, read from it, or administer it.")


class Scope(StrEnum):
    """What a token allows."""

    UPLOAD = "upload"
    READ = "read"
    ADMIN = "admin"


DAYS = {Scope.UPLOAD: 365, Scope.READ: 90, Scope.ADMIN: 90}
"""An upload token is shipped in an app that people update when they like, and can do no more than send reports; the
others are held by people who can make themselves a new one, and do more harm in wrong hands."""


@token.command()
def create(
    name: Annotated[str, typer.Argument(help="For you, to list and revoke it by: phones, grafana, anna.")],
    scope: Annotated[Scope, typer.Option(help="upload: send reports. read: see what they say. admin: all.")],
    release: Annotated[
        str | None, typer.Option(help="For this release alone: its folder, name or the beginning of its id.")
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="After which it expires; 0 for never. By default 365 for upload, 90 for others.", min=0),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Reports (of other scopes, requests) a second, at most.", min=0)
    ] = None,
    db: Database = None,
    config: Config = None,
) -> None:
    """Make a token, print it once, and say how it is used. Only its digest is kept.

    The token alone goes to standard output, so that TOKEN=$(taskveil token create …) has it.
    """
    settings = settings_of(db, config)
    from taskveil.collector.tokens import new_token

    lasting = DAYS[scope] if days is None else days
    with opened(settings, make=True) as store:
        # A folder names its release before the collector knows it.
        one = None if release is None else folder_id(release) or find_release(store, release).id
        text, kept = new_token(scope.value, name, release=one, days=lasting or None, rate=rate)
        try:
            store.add_token(kept)
        except ValueError:
            raise DataError(
                f"there is a token {name!r} already: choose another name, or revoke it first (taskveil token revoke)."
            ) from None
    typer.echo(text)
    until = "never expires" if kept.expires is None else f"expires on {kept.expires:%Y-%m-%d}"
    where = "every release" if one is None else f"release {one[:SHOWN]}…"
    about = f"This is the only time it is shown. Scope {scope.value}, for {where}; it {until}."
    for line in (about, *_used(scope, settings)):
        Console(stderr=True).print(escape(line), soft_wrap=True)


@token.command("list")
def list_tokens(db: Database = None, config: Config = None, as_json: options.Json = False) -> None:
    """List all tokens, expired ones too: what they allow, never what they are."""
    with opened(settings_of(db, config)) as store:
        tokens, names = store.tokens(), {one.id: one for one in store.releases()}
    if as_json:
        typer.echo(json.dumps([_content(one) for one in tokens], indent=2))
        return
    if not tokens:
        console.print("There is no token yet: taskveil token create NAME --scope upload", soft_wrap=True)
        return
    view = Table("name", "scope", "release", "expires", "rate")
    for one in tokens:
        rate = "" if one.rate is None else f"{one.rate:g}/s"
        view.add_row(escape(one.name), one.scope, escape(_release(one, names)), _expires(one), rate)
    print_whole(view)


@token.command()
def revoke(
    name: Annotated[str, typer.Argument(help="As it was created.")], db: Database = None, config: Config = None
) -> None:
    """Make a token worthless. A running collector refuses it from the next second on."""
    with opened(settings_of(db, config)) as store:
        try:
            store.revoke_token(name)
        except KeyError:
            raise DataError(f"there is no token {name!r}: taskveil token list shows all.") from None
    console.print(f"{escape(name)} is revoked.", soft_wrap=True)


def _used(scope: Scope, settings: Settings) -> list[str]:
    """Lines that can be copied."""
    address = address_of(settings)
    reports = f"{address}/v1/reports"
    ways = {
        Scope.UPLOAD: [
            f'  Python      upload(reports, "{reports}", token="tv_…")',
            f'  JavaScript  await upload(reports, "{reports}", {{ token: "tv_…" }})',
            f"  curl        curl {reports} -H 'Authorization: Bearer tv_…' --data-binary @reports "
            "-H 'Content-Type: application/vnd.taskveil.reports'",
        ],
        Scope.READ: [
            f"  the page    {address}/#token=tv_…",
            f"  curl        curl '{address}/v1/releases' -H 'Authorization: Bearer tv_…'",
        ],
        Scope.ADMIN: [
            f"  curl        curl -X POST '{address}/v1/releases/ID/close' -H 'Authorization: Bearer tv_…'",
            f"  the page    {address}/#token=tv_…",
        ],
    }
    return ways[scope]


def _content(one: StoredToken) -> dict[str, object]:
    expires = None if one.expires is None else one.expires.isoformat()
    return {"name": one.name, "scope": one.scope, "release": one.release, "expires": expires, "rate": one.rate}


def _release(one: StoredToken, releases: dict[str, StoredRelease]) -> str:
    if one.release is None:
        return "all"
    known = releases.get(one.release)
    return f"{known.name} ({known.id[:SHOWN]})" if known else one.release[:SHOWN]


def _expires(one: StoredToken) -> str:
    if one.expires is None:
        return "never"
    over = " (over)" if one.expires <= datetime.now(UTC) else ""
    return f"{one.expires:%Y-%m-%d}{over}"
