"""Databases for tests: a real PostgreSQL, from the machine's own binaries, in a folder of its own, on a socket of its
own; and small submissions to fill a store with."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import numpy as np
import psycopg
import pytest

from processes import end_with_us, kill_all
from taskveil.collector.store import Store, Submission


def binaries() -> Path | None:
    """The folder of `postgres` and `initdb`: in PATH, or where Debian puts them (the newest)."""
    found = [Path(path).parent for path in [shutil.which("postgres")] if path and shutil.which("initdb")]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda at: float(at.parent.name), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


POSTGRES = binaries()


def _servant() -> str | None:
    """PostgreSQL refuses to run as root: whom it runs as then."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


@dataclass
class Server:
    """A PostgreSQL that runs in `folder` until it is stopped, and may be started again."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    spare: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Of the database that is always there."""
        return self.address("postgres")

    def address(self, database: str) -> str:
        """Of one database."""
        return f"postgresql://tester@/{database}?host={self.folder}"

    def restart(self, seconds: float = 20.0) -> None:
        """Start it (again) and wait until it answers."""
        assert POSTGRES is not None
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [POSTGRES / "postgres", "-D", self.folder / "data", "-k", self.folder, "-h", "", *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=_servant(),
                start_new_session=True,  # a Ctrl-C is for the tests: they stop the server themselves
            )
        end_with_us(self.process, signal.SIGQUIT, user=_servant())
        until = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        """At once, without waiting for anybody's connections, and properly."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=30)

    def kill(self) -> None:
        """As a crash would: SIGKILL to the server and all of its processes (each leads a group of its own). None of
        them is left: the next server would not start beside one."""
        if self.process is not None and self.process.poll() is None:
            kill_all(self.process)

    @contextmanager
    def database(self) -> Iterator[str]:
        """The address of a database that holds nothing. One that was used before is emptied: that is quicker."""
        name = self.spare.pop() if self.spare else f"d{uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                connection.execute(f"CREATE DATABASE {name}")
        yield self.address(name)
        if self.process is not None and self.process.poll() is None:
            with psycopg.connect(self.address(name), autocommit=True) as connection:
                others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND pid <> %s"
                connection.execute(others, (name, connection.info.backend_pid))
                found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_)'")
                for (schema,) in found.fetchall():
                    connection.execute(f"DROP SCHEMA {schema} CASCADE")
                connection.execute("CREATE SCHEMA public")
            self.spare.append(name)


def start(folder: Path, **settings: str) -> Server:
    """A new cluster in an empty `folder`, which the server's user must be able to enter. `settings` are PostgreSQL's
    own (`fsync="off"` makes tests quick)."""
    assert POSTGRES is not None, "no PostgreSQL here: look at POSTGRES first"
    user = _servant()
    folder.mkdir(parents=True, exist_ok=True)
    if user is not None:
        shutil.chown(folder, user)
    subprocess.run(
        [POSTGRES / "initdb", "-D", folder / "data", "-U", "tester", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        cwd=folder,
        user=user,
    )
    server = Server(folder, settings)
    server.restart()
    return server


@contextmanager
def running(**settings: str) -> Iterator[Server]:
    """A server for a `with` block, in a folder that goes with it."""
    # Not pytest's own folder: only its owner may enter that. And a socket's path has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="tvpg") as name:
        Path(name).chmod(0o755)
        server = start(Path(name) / "pg", **settings)
        try:
            yield server
        finally:
            server.kill()  # its folder goes, and what it would have tidied up


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One for the session (of each worker of the test run), without fsync: what is lost with the power is lost."""
    if POSTGRES is None and os.environ.get("CI") != "true":
        pytest.skip("needs PostgreSQL")
    with running(fsync="off", full_page_writes="off", max_connections="30", wal_recycle="off") as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'collector.db'}"
    else:
        with request.getfixturevalue("postgres_server").database() as url:
            yield url


def options(url: str) -> dict[str, bool]:
    """With which `open_store` takes the session's server."""
    return {"allow_unsafe": True} if url.startswith("postgresql") else {}


RELEASE = "ab" * 32


def opened(store: Store, *, release: str = RELEASE, round: str = "week 1", counted: bool = True) -> int:
    """The number of a round that is open, of a release made for it."""
    store.add_release(release, name="a release", counted=counted, files={"client/manifest.json": b"{}"}, round=round)
    known = next(one for one in store.releases() if one.id == release)
    return next(one.number for one in known.rounds if one.name == round)


def submission(number: int, count: int, rng: np.random.Generator, *, size: int = 1, values: int = 5) -> Submission:
    """Reports with random ids, of payloads of `size` bytes below `values`."""
    return Submission(
        round=number,
        ids=rng.integers(0, 256, size=(count, 16), dtype=np.uint8),
        payloads=rng.integers(0, values, size=(count, size), dtype=np.uint8),
        moments=None,
    )
