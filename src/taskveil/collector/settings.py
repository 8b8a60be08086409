"""The collector's configuration: every key with its default, unknown ones refused."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taskveil.errors import DataError

DATABASE = "TASKVEIL_DB"
"""The environment variable that may hold the database's address: a password does not belong on a command line."""

Seconds = Annotated[float, Field(gt=0, le=3600)]


class Settings(BaseModel):
    """What `taskveil serve` is told by options, or by a TOML file with these keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    db: str = "sqlite:///collector.db"
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    certificate: Path | None = None
    """PEM file; with `key`, the collector speaks https itself. Without, put it behind a proxy that does."""
    key: Path | None = None
    uploads: Literal["token", "anyone"] = "token"
    """Who may send reports. Reading and administering always takes a token."""
    origins: tuple[str, ...] = ("*",)
    """Web pages that browsers may send reports from and fetch a release's client files for (CORS)."""
    most_bytes: Annotated[int, Field(ge=1024)] = 8 * 2**20
    """Of a body."""
    most_waiting: Annotated[int, Field(ge=1)] = 100_000
    """Reports that wait for a commit in one worker; beyond, 503."""
    most_connections: Annotated[int, Field(ge=1)] = 1000
    """Of one worker."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Reports a second for every upload token that does not say otherwise, or for everybody without a token."""
    request_seconds: Seconds = 10.0
    """From a connection's first byte, or its opening, to the last byte of the request."""
    idle_seconds: Seconds = 5.0
    """That a connection may stay open between requests."""
    commit_seconds: Seconds = 10.0
    """That a request waits for the database before it is told to come again."""
    stop_seconds: Seconds = 20.0
    """For requests that were under way when the collector was told to stop."""

    @classmethod
    def read(cls, file: Path | None = None, **given: Any) -> Settings:
        """From a TOML file, overruled by what is given and not None; DataError for a wrong key or value."""
        found: dict[str, Any] = {}
        if os.environ.get(DATABASE):
            found["db"] = os.environ[DATABASE]
        if file is not None:
            try:
                found |= tomllib.loads(file.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise DataError(f"{file} is no TOML file: {error}.") from None
        try:
            return cls(**found | {name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise DataError(f"the collector's configuration is not as it should be. {wrong}.") from None
