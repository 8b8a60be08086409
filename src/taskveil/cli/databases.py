"""The collector's database, for commands that work on it beside a running collector, which follows within a second."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskveil.client.reading import CLIENT, MANIFEST, client_files, read_device, read_key
from taskveil.errors import DataError, needs

if TYPE_CHECKING:
    from taskveil.collector.settings import Settings
    from taskveil.collector.store import Store, StoredRelease

Database = Annotated[
    str | None,
    typer.Option("--db", help="sqlite:///FILE or postgresql://…; TASKVEIL_DB in the environment says the same."),
]
Config = Annotated[Path | None, typer.Option(help="The collector's TOML file, which may name the database.")]

SHOWN = 12
"""Digits of a release's id that people see: enough to tell releases apart, and to name one."""


def settings_of(db: str | None, config: Path | None) -> Settings:
    """The collector's configuration as `taskveil serve` with these options would have it."""
    with needs("this command", extra="server"):
        from taskveil.collector.settings import Settings

    return Settings.read(config, db=db)


@contextlib.contextmanager
def opened(settings: Settings, *, make: bool = False) -> Iterator[Store]:
    """The store that the settings name, for as long as it is needed.

    Args:
        settings: of the collector.
        make: whether a database that is not there yet is made; else that is an error, because an empty one would
            answer every question with 'nothing', where the name was mistyped.
    """
    with needs("this command", extra="server"):
        from taskveil.collector.store.opening import open_store

    file = _file_of(settings.db)
    if file is not None and not make and not file.exists():
        raise DataError(
            f"there is no database {file}. Name the collector's with --db, --config or TASKVEIL_DB; `taskveil serve` "
            "and `taskveil collection open` make a new one."
        )
    store = open_store(settings.db)
    try:
        yield store
    finally:
        store.close()


def find_release(store: Store, named: str) -> StoredRelease:
    """The release that a person means by its folder, its name or the beginning of its id; a DataError for none or
    several."""
    releases = store.releases()
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
            f"the release in the folder {named} ({folder[:SHOWN]}…) is not in this database: `taskveil collection open "
            f"{named}` puts it there. {_known(releases)}"
        )
    if len(found) > 1 and named:
        raise DataError(f"{named!r} may be {_listed(found)}: name one by more of its id.")
    raise DataError(f"there is no release {named!r} here, and no such folder. {_known(releases)}")


def folder_id(named: str, verify_key: Path | None = None) -> str | None:
    """The id of the release in a folder, after every check, that of its signature too if a key is given; None if there
    is no release folder of this name."""
    homes = (Path(named) / CLIENT, Path(named)) if named else ()
    home = next((one for one in homes if os.path.isfile(one / MANIFEST)), None)  # False for what is no path at all
    if home is None:
        return None
    _, manifest = read_device(client_files(home), read_key(verify_key), where=home)
    return str(manifest["digest"])


def check_round(release: StoredRelease, name: str) -> None:
    """A DataError unless the release has this round."""
    if name not in [one.name for one in release.rounds]:
        raise DataError(f"{release.name} has no round {name!r}, only {', '.join(one.name for one in release.rounds)}.")


def address_of(settings: Settings) -> str:
    """Where the collector is reached from this machine, or a name to be replaced where only you know it."""
    try:
        local = settings.host == "localhost" or ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        local = False
    if not local:
        return "https://collector.example"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.certificate else 'http'}://{host}:{settings.port}"


def _file_of(url: str) -> Path | None:
    """The file of an SQLite database; None for one that is elsewhere."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return Path(rest.partition("?")[0].removeprefix("/"))
    return None if rest else Path(os.path.normpath(url))


def _known(releases: tuple[StoredRelease, ...]) -> str:
    return f"There is {_listed(releases)}." if releases else "There is none yet."


def _listed(releases: tuple[StoredRelease, ...] | list[StoredRelease]) -> str:
    return ", ".join(f"{one.name} ({one.id[:SHOWN]})" for one in releases)
