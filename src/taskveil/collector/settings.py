"""The collector's configuration: all keys with their defaults. Unknown keys are refused."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taskveil.errors import DataError

DATABASE = "TASKVEIL_DB"
"""The environment variable for the database's address. A password does not belong on a command line."""

RETRY_SECONDS = 1.0
"""How often a worker reads the changes in the database, and the pause before anything that failed is tried again."""

Seconds = Annotated[float, Field(gt=0, le=3600)]


class Settings(BaseModel):
    """The settings of `taskveil serve`, from options or from a TOML file with these keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    db: str = "sqlite:///collector.db"
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    certificate: Path | None = None
    """PEM file. With `key`, the collector speaks https itself. Without, put a proxy in front."""
    key: Path | None = None
    uploads: Literal["token", "anyone"] = "token"
    """Who may send reports. Reading and administration always need a token."""
    origins: tuple[str, ...] = ("*",)
    """Web pages that may read answers and fetch client files (CORS)."""
    most_bytes: Annotated[int, Field(ge=1024)] = 8 * 2**20
    """Maximum size of a body."""
    most_waiting: Annotated[int, Field(ge=1)] = 100_000
    """Maximum number of reports that wait for a commit in one worker; more get 503."""
    most_connections: Annotated[int, Field(ge=1)] = 1000
    """Maximum for one worker; more get 503."""
    rate: Annotated[float, Field(gt=0)] = 1000.0
    """Reports a second for each upload token without a rate of its own, or for all senders without a token together.
    `inf` for no limit."""
    request_seconds: Seconds = 10.0
    """Time for a request to arrive completely."""
    idle_seconds: Seconds = 5.0
    """How long a connection may stay open between requests."""
    commit_seconds: Seconds = 10.0
    """How long a request waits for the database before it gets 503."""
    stop_seconds: Seconds = 20.0
    """Time for running requests when the collector stops."""

    @classmethod
    def read(cls, file: Path | None = None, **given: Any) -> Settings:
        """The settings of a TOML file. Arguments that are not None overrule it. DataError for a wrong key or value."""
        found: dict[str, Any] = {}
        if os.environ.get(DATABASE):
            found["db"] = os.environ[DATABASE]
        if file is not None:
            try:
                found |= tomllib.loads(file.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise DataError(f"{file} is not a TOML file: {error}.") from None
        try:
            return cls(**found | {name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise DataError(f"the collector's configuration is wrong. {wrong}.") from None
