"""The collector: `serve` and `token`, and its database, which other commands use too.

A running collector sees changes in the database within a second.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from taskveil.cli import options
from taskveil.cli.console import busy, escape, note, print_line, print_whole
from taskveil.client.families import family_files, is_family, read_family
from taskveil.client.reading import CLIENT, MANIFEST, client_files, read_device
from taskveil.client.signatures import read_key
from taskveil.collector.store.rows import SHOWN_ID_DIGITS
from taskveil.errors import DataError, needs, printable

if TYPE_CHECKING:
    from taskveil.collector.releases import OpenRelease
    from taskveil.collector.settings import Settings
    from taskveil.collector.store import Store, StoredRelease

Database = Annotated[
    str | None,
    typer.Option("--db", help="sqlite:///FILE or postgresql://…; or set TASKVEIL_DB in the environment."),
]
Config = Annotated[Path | None, typer.Option(help="The collector's TOML file. It may name the database.")]


def settings_of(db: str | None, config: Path | None) -> Settings:
    """The collector's settings, as `taskveil serve` would read them with these options."""
    with needs("this command", extra="server"):
        from taskveil.collector.settings import Settings

    return Settings.read(config, db=db)


@contextlib.contextmanager
def opened(settings: Settings, *, make: bool = False) -> Iterator[Store]:
    """The store that the settings name, for one `with` block.

    Args:
        settings: of the collector.
        make: whether a missing database is created. Otherwise it is an error, because its name may be mistyped.
    """
    with needs("this command", extra="server"):
        from taskveil.collector.store import open_store

    file = _file_of(settings.db)
    if file is not None and not make and not file.exists():
        raise DataError(
            f"there is no database {file}. Name the collector's with --db, --config or TASKVEIL_DB; `taskveil serve` "
            "and `taskveil collection open` create a new one."
        )
    store = open_store(settings.db)
    try:
        yield store
    finally:
        store.close()


def find_release(store: Store, named: str) -> StoredRelease:
    """The release or family with this folder, name or beginning of an id. DataError if there is none, or more than one.

    A family is a release with the rounds that all members have; `parts` are its members' ids.
    """
    releases = (*store.releases(), *(merged for merged, _ in families_in(store).values()))
    folder = folder_id(named)
    if folder is not None:
        found = [one for one in releases if one.id == folder]
    else:
        begins = named.lower()
        found = [one for one in releases if one.name == named] or [one for one in releases if one.id.startswith(begins)]
    if len(found) == 1 and named:
        return found[0]
    if folder is not None:
        raise DataError(
            f"the release in the folder {named} ({folder[:SHOWN_ID_DIGITS]}…) is not in this database. Add it with "
            f"`taskveil collection open {named}`. {_there_is(releases)}"
        )
    if len(found) > 1 and named:
        raise DataError(f"{named!r} may be {_listed(found)}: name one by more of its id.")
    raise DataError(f"there is no release {named!r} here, and no such folder. {_there_is(releases)}")


def families_in(store: Store) -> dict[str, tuple[StoredRelease, tuple[str, ...]]]:
    """The families in a store by id: each as one release, and the ids of its members."""
    from taskveil.collector.releases import Releases

    return {
        one.family.release_id: (one.stored, tuple(member.stored.id for member in one.members.values()))
        for one in Releases(store).families()
    }


def parts(store: Store, release: StoredRelease) -> tuple[str, ...]:
    """The ids of the members of a family; of any other release, its own."""
    return families_in(store).get(release.id, (release, (release.id,)))[1]


def folder_id(named: str, verify_key: Path | None = None) -> str | None:
    """The id of the release or family in a folder, after all checks (with a key, of its signature too). None: no such
    folder."""
    if named and "\0" not in named and is_family(Path(named)):
        return read_family(family_files(Path(named)), read_key(verify_key), where=named).release.hex()
    homes = (Path(named) / CLIENT, Path(named)) if named else ()
    home = next((one for one in homes if os.path.isfile(one / MANIFEST)), None)  # False for a text that is no path
    if home is None:
        return None
    _, manifest = read_device(client_files(home), read_key(verify_key), where=home)
    return str(manifest["digest"])


def check_round(release: StoredRelease, name: str) -> None:
    """DataError unless the release has this round."""
    if name not in [one.name for one in release.rounds]:
        raise DataError(f"{release.name} has no round {name!r}, only {', '.join(one.name for one in release.rounds)}.")


def address_of(settings: Settings) -> str:
    """The collector's address on this machine, or a placeholder if it listens elsewhere."""
    try:
        local = settings.host == "localhost" or ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        local = False
    if not local:
        return "https://collector.example"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.certificate else 'http'}://{host}:{settings.port}"


def _file_of(url: str) -> Path | None:
    """The file of an SQLite database; None for another database."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return Path(rest.partition("?")[0].removeprefix("/"))
    return None if rest else Path(os.path.normpath(url))


def _there_is(releases: tuple[StoredRelease, ...]) -> str:
    return f"There is {_listed(releases)}." if releases else "There is none yet."


def _listed(releases: tuple[StoredRelease, ...] | list[StoredRelease]) -> str:
    return ", ".join(map(name_and_id, releases))


def name_and_id(release: StoredRelease) -> str:
    """The release's name and the first digits of its id."""
    return f"{release.name} ({release.id[:SHOWN_ID_DIGITS]})"


# serve

LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    releases: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RELEASE…", help="Folders of releases to collect for, beside those in the database."),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(help="sqlite:///FILE or postgresql://USER@HOST/NAME; or set TASKVEIL_DB.", metavar="URL"),
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 for this machine only.")] = None,
    port: Annotated[int | None, typer.Option(help="0 for any free port.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of processes.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with these and more settings; options overrule it.", exists=True)
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file for https; with --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file: the certificate's key.")] = None,
    round: Annotated[
        str | None, typer.Option(help="Open this round of the releases named here, and make it the current one.")
    ] = None,
    uploads: Annotated[str | None, typer.Option(help="Who may send reports: token or anyone.")] = None,
    verify_key: options.VerifyKey = None,
    print_tokens: Annotated[
        bool,
        typer.Option("--print-tokens", help="Print the first tokens even without a terminal. A log may keep them."),
    ] = False,
) -> None:
    """Collect reports and show estimates on a page, until Ctrl-C.

    A release that is already in the database stays closed or open, unless you name a round.
    """
    with needs("this command", extra="server"):
        from taskveil.collector.serving import serve as run
        from taskveil.collector.settings import Settings
        from taskveil.collector.store import open_store

    if round is not None and not releases:
        raise DataError(
            f"--round {round} needs a release: taskveil serve RELEASE --round {round}. For a release in the database: "
            f"taskveil collection round RELEASE {round}."
        )
    settings = Settings.read(
        config, db=db, host=host, port=port, workers=workers, certificate=certificate, key=key, uploads=uploads
    )
    with contextlib.closing(open_store(settings.db)) as store:
        with busy("reading releases"):
            lines = _known(store, releases or [], round, verify_key)
        shown = print_tokens or sys.stdout.isatty()
        # `_say` closes the store as soon as the collector listens: the collector opens its own.
        code = run(settings, bound=partial(_say, store, settings, lines, shown))
    if code:
        raise typer.Exit(code)


def _known(store: Store, folders: list[Path], round: str | None, verify_key: Path | None) -> list[str]:
    """Add the releases in these folders to the store. Returns lines about all releases in it."""
    from taskveil.collector.releases import Releases, register
    from taskveil.veil import Family, Veil

    known = {stored.id for stored in store.releases()} | families_in(store).keys()
    for folder in folders:
        loaded = (Family if is_family(folder) else Veil).load(folder, verify_key=verify_key)
        if round is not None or loaded.release_id not in known:
            register(store, folder, round=round, verify_key=verify_key)
    found = Releases(store).all()
    if not found:
        # Not an error: in a container the collector starts before a release can be opened in its database.
        note("there is no release to collect for yet: taskveil collection open RELEASE --db URL.")
    totals = ["  That is for one report. What all rounds add up to: taskveil collection status"] if found else []
    return [*(line for release in found for line in _about(release)), *totals]


def _about(release: OpenRelease) -> tuple[str, str]:
    """A line about a release, and one about its guarantee."""
    stored, statement = release.stored, release.veil.guarantee.statement
    state = "closed" if not stored.open else "open" if stored.takes(stored.current) else "round ended"
    rounds = ", ".join(f"{one.name} ({one.reports:,} reports{'' if one.open else ', ended'})" for one in stored.rounds)
    name = f"{stored.name} ({stored.id[:SHOWN_ID_DIGITS]}…)"
    return (
        f"  {name}: {state}; current round {stored.current or 'none'}; rounds {rounds}",
        f"    {statement.split('. ')[0]}.",  # the page shows the rest
    )


def _say(store: Store, settings: Settings, lines: list[str], shown: bool, address: str) -> None:
    """Print where the collector listens and how to use it. Tokens go only to stdout, once, and never into a log."""
    page = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    typer.echo("\n".join([f"The collector listens on {address}. Ctrl-C stops it.", *map(printable, lines)]))
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
            "Tokens are shown only once: keep them. For more: taskveil token create NAME --scope upload|read|admin"
        )
    sys.stdout.flush()
    if missing:
        note("there is no token yet: taskveil token create NAME --scope read --db URL (upload and admin likewise).")
    if settings.certificate is None and settings.host not in LOCAL:
        note("devices send only over https: put a proxy in front, or pass --certificate and --key.")


def first_tokens(store: Store, *, uploads: str = "token", admin: bool = False) -> dict[str, str]:
    """Make a read token, an upload token unless `uploads` is "anyone", and with `admin` an admin token. Returns their
    texts by scope."""
    from taskveil.collector.tokens import Scope, new_token

    scopes: dict[Scope, bool] = {"read": True, "upload": uploads != "anyone", "admin": admin}
    made: dict[str, str] = {}
    for scope in (scope for scope, wanted in scopes.items() if wanted):
        made[scope], kept = new_token(scope, f"first {scope}")
        store.add_token(kept)
    return made


# token

token = typer.Typer(no_args_is_help=True, help="Tokens to send reports to a collector, read from it, or administer it.")


class TokenScope(StrEnum):
    """What a token allows."""

    UPLOAD = "upload"
    READ = "read"
    ADMIN = "admin"


DAYS_UNTIL_EXPIRY = {TokenScope.UPLOAD: 365, TokenScope.READ: 90, TokenScope.ADMIN: 90}
"""An upload token is part of an app that people update late, and it can only send reports. The others belong to people
who can make a new one, and they do more harm in wrong hands."""


@token.command()
def create(
    name: Annotated[str, typer.Argument(help="A name to list and revoke it: phones, grafana, anna.")],
    scope: Annotated[
        TokenScope,
        typer.Option(help="upload: send reports. read: see estimates, exports. admin: all."),
    ],
    release: Annotated[
        str | None, typer.Option(help="Only for this release: its folder, name or the beginning of its id.")
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="Days until it expires; 0 for never. Default: 365 for upload, 90 for others.", min=0),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="At most so many reports (for other scopes, requests) a second. Default: the collector's for uploads.",
            min=0,
        ),
    ] = None,
    db: Database = None,
    config: Config = None,
) -> None:
    """Make a token, print it once, and show how to use it. The database keeps only its digest.

    Only the token goes to standard output, so that TOKEN=$(taskveil token create …) works.
    """
    settings = settings_of(db, config)
    from taskveil.collector.tokens import new_token

    valid = DAYS_UNTIL_EXPIRY[scope] if days is None else days
    with opened(settings, make=True) as store:
        # The folder may be of a release that is not in the database yet.
        one = None if release is None else folder_id(release) or find_release(store, release).id
        text, kept = new_token(scope.value, name, release=one, days=valid or None, rate=rate)
        try:
            store.add_token(kept)
        except ValueError:
            raise DataError(
                f"there is already a token {name!r}: choose another name, or revoke it first (taskveil token revoke)."
            ) from None
    typer.echo(text)
    until = "never expires" if kept.expires is None else f"expires on {kept.expires:%Y-%m-%d}"
    where = "every release" if one is None else f"release {one[:SHOWN_ID_DIGITS]}…"
    if scope is TokenScope.UPLOAD:
        until += f" and takes {settings.rate if rate is None else rate:,g} reports a second (--rate)"
    about = f"It is shown only once. Scope {scope.value}, for {where}; it {until}."
    for line in (about, *_used(scope, settings)):
        Console(stderr=True).print(escape(line), soft_wrap=True)


@token.command("list")
def list_tokens(db: Database = None, config: Config = None, as_json: options.Json = False) -> None:
    """List all tokens, also expired ones. Their secrets are not shown."""
    with opened(settings_of(db, config)) as store:
        tokens, names = store.tokens(), {one.id: one for one in store.releases()}
        names |= {id: one for id, (one, _) in families_in(store).items()}
    if as_json:
        shown = ("name", "scope", "release", "expires", "rate")
        content = [{name: getattr(one, name) for name in shown} for one in tokens]
        typer.echo(json.dumps(content, indent=2, default=datetime.isoformat))
        return
    if not tokens:
        print_line("There is no token yet: taskveil token create NAME --scope upload")
        return
    view = Table("name", "scope", "release", "expires", "rate")
    for one in tokens:
        known = names.get(one.release or "")
        release = "all" if one.release is None else name_and_id(known) if known else one.release[:SHOWN_ID_DIGITS]
        expired = " (expired)" if one.expires is not None and one.expires <= datetime.now(UTC) else ""
        expires = "never" if one.expires is None else f"{one.expires:%Y-%m-%d}{expired}"
        view.add_row(
            escape(one.name), one.scope, escape(release), expires, "" if one.rate is None else f"{one.rate:g}/s"
        )
    print_whole(view)


@token.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The token's name.")], db: Database = None, config: Config = None
) -> None:
    """Revoke a token. A running collector refuses it after a second."""
    with opened(settings_of(db, config)) as store:
        try:
            store.revoke_token(name)
        except KeyError:
            raise DataError(f"there is no token {name!r}: taskveil token list shows all.") from None
    print_line(f"{name} is revoked.")


def _used(scope: TokenScope, settings: Settings) -> list[str]:
    """Examples to copy."""
    address = address_of(settings)
    if scope is TokenScope.UPLOAD:
        reports = f"{address}/v1/reports"
        return [
            f'  Python      upload(reports, "{reports}", token="tv_…")',
            f'  JavaScript  await upload(reports, "{reports}", {{ token: "tv_…" }})',
            f"  curl        curl {reports} -H 'Authorization: Bearer tv_…' --data-binary @reports "
            "-H 'Content-Type: application/vnd.taskveil.reports'",
        ]
    what = "'{}/v1/releases'" if scope is TokenScope.READ else "-X POST '{}/v1/releases/ID/close'"
    return [
        f"  the page    {address}/#token=tv_…",
        f"  curl        curl {what.format(address)} -H 'Authorization: Bearer tv_…'",
    ]
