"""The collector on this machine: `serve`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskveil.cli import options
from taskveil.cli.console import busy, note
from taskveil.errors import DataError, needs

if TYPE_CHECKING:
    from taskveil.collector.releases import OpenRelease
    from taskveil.collector.settings import Settings
    from taskveil.collector.store import Store

LOCAL = ("127.0.0.1", "::1", "localhost")
FIRST_ROUND = "0"


def serve(
    releases: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RELEASE…", help="Folders of releases to collect for, beside those that it knows."),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(help="sqlite:///FILE or postgresql://USER@HOST/NAME; or put it into TASKVEIL_DB.", metavar="URL"),
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 is this machine only.")] = None,
    port: Annotated[int | None, typer.Option(help="0 for any that is free.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that share the work.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with these and more settings; options win over it.", exists=True)
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file, to speak https; with --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file, of the certificate.")] = None,
    round: Annotated[
        str | None, typer.Option(help="Open this round of the releases named here, and make it the current one.")
    ] = None,
    uploads: Annotated[str | None, typer.Option(help="Who may send reports: token or anyone.")] = None,
    verify_key: options.VerifyKey = None,
    print_tokens: Annotated[
        bool,
        typer.Option("--print-tokens", help="Print the first tokens although this is no terminal. Logs keep them."),
    ] = False,
) -> None:
    """Collect reports, keep them and nothing else, and show what they say on a page, until Ctrl-C.

    A release that the database knows stays as it is, closed or open, unless a round is named.
    """
    with needs("this command", extra="server"):
        from taskveil.collector.serving import serve as run
        from taskveil.collector.settings import Settings
        from taskveil.collector.store import open_store

    if round is not None and not releases:
        raise DataError(
            f"--round {round} is of the releases that are named, and none is: taskveil serve RELEASE --round {round}, "
            f"or, for one that the database knows, taskveil collection round RELEASE {round}."
        )
    settings = Settings.read(
        config, db=db, host=host, port=port, workers=workers, certificate=certificate, key=key, uploads=uploads
    )
    with busy("reading releases"):
        store = open_store(settings.db)
        try:
            lines = _known(store, releases or [], round, verify_key)
        except BaseException:
            store.close()
            raise
    shown = print_tokens or sys.stdout.isatty()
    code = run(settings, bound=partial(_say, store, settings, lines, shown))
    if code:
        raise typer.Exit(code)


def _known(store: Store, folders: list[Path], round: str | None, verify_key: Path | None) -> list[str]:
    """Make the releases known to the store; returns what to say of all that are."""
    from taskveil.collector.releases import Releases, register
    from taskveil.veil import Veil

    known = {stored.id for stored in store.releases()}
    for folder in folders:
        if round is not None or Veil.load(folder, verify_key=verify_key).release_id not in known:
            register(store, folder, round=round or FIRST_ROUND, verify_key=verify_key)
    found = Releases(store).all()
    if not found:
        # Not an error: in a container the collector is up before anybody can open a release in its database.
        note("there is no release to collect for yet: taskveil collection open RELEASE --db URL.")
    return [line for release in found for line in _about(release)]


def _about(release: OpenRelease) -> tuple[str, str]:
    """A release in a line, and its guarantee in another."""
    stored, promise = release.stored, release.veil.guarantee.statement
    state = "closed" if not stored.open else "open" if stored.takes(stored.current) else "round ended"
    rounds = ", ".join(f"{one.name} ({one.reports:,} reports{'' if one.open else ', ended'})" for one in stored.rounds)
    return (
        f"  {stored.name} ({stored.id[:12]}…): {state}; current round {stored.current or 'none'}; rounds {rounds}",
        f"    {promise.split('. ')[0]}.",  # who wants to read on finds the rest on the page
    )


def _say(store: Store, settings: Settings, lines: list[str], shown: bool, address: str) -> None:
    """Where the collector listens and how to use it. Tokens go to stdout only, once, and never into a log."""
    page = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    typer.echo("\n".join([f"The collector listens on {address}. Ctrl-C stops it.", *lines]))
    try:
        tokens = {} if store.tokens() or not shown else first_tokens(store, uploads=settings.uploads)
        missing = not store.tokens()
    finally:
        store.close()
    typer.echo(f"The page: {page}/" + (f"#token={tokens['read']}" if tokens else " (it asks for a read token)"))
    if "upload" in tokens:
        typer.echo(f'Uploads: upload(reports, "{page}/v1/reports", token="{tokens["upload"]}")')
    if tokens:
        typer.echo(
            "Tokens are shown this once: keep them. Others: taskveil token create NAME --scope upload|read|admin"
        )
    sys.stdout.flush()
    if missing:
        note("there is no token yet: taskveil token create NAME --scope read --db URL (upload and admin likewise).")
    if settings.certificate is None and settings.host not in LOCAL:
        note("devices send over https only: put a proxy that speaks it in front, or pass --certificate and --key.")


def first_tokens(store: Store, *, uploads: str = "token", admin: bool = False) -> dict[str, str]:
    """Make a token to read with, unless anyone may upload one to upload with, and an `admin` one if asked for; returns
    their texts by scope."""
    from taskveil.collector.tokens import Scope, new_token

    scopes: dict[Scope, bool] = {"read": True, "upload": uploads != "anyone", "admin": admin}
    made: dict[str, str] = {}
    for scope in (scope for scope, wanted in scopes.items() if wanted):
        made[scope], kept = new_token(scope, f"first {scope}")
        store.add_token(kept)
    return made
