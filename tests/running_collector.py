"""A collector in this process, asked without a network: for tests of what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI

import taskveil as tv
from collections_drawn import codebook_veil, records, with_volunteers
from databases import options
from taskveil.client.wire import BINARY, Report, pack_batch
from taskveil.collector.api import create_app
from taskveil.collector.releases import register
from taskveil.collector.running import Collector
from taskveil.collector.settings import Settings
from taskveil.collector.store import Store, open_store
from taskveil.collector.tokens import Scope, new_token


def small_veil(epsilon: float = 3.0) -> tv.Veil:
    """Two attributes, five codewords, volunteers to compare people with."""
    veil = with_volunteers(codebook_veil(epsilon), records(400, np.random.default_rng(0)))
    return replace(veil, columns=("age", "income"))


def batch(veil: tv.Veil, reports: Any, rng: np.random.Generator) -> bytes:
    """The body with these reports (N, width), under random ids."""
    release, layout = bytes.fromhex(veil.release_id), veil.mechanism.layout
    return pack_batch([Report(release=release, id=rng.bytes(16), payload=layout.pack(row)) for row in reports.tolist()])


@dataclass
class Asked:
    """A running collector and who asks it: `ask("GET", "/v1/releases", "read")`."""

    app: FastAPI
    store: Store
    runner: asyncio.Runner
    client: httpx.AsyncClient
    tokens: dict[str, str]

    @property
    def collector(self) -> Collector:
        """Its parts."""
        found: Collector = self.app.state.collector
        return found

    def ask(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        """What is answered to somebody with the `token` of this name."""
        headers = {**more.pop("headers", {})}
        if token is not None:
            headers["Authorization"] = f"Bearer {self.tokens[token]}"
        return self.runner.run(self.client.request(method, path, headers=headers, **more))

    def token(self, scope: Scope, name: str | None = None, **more: Any) -> None:
        """Make one more."""
        text, kept = new_token(scope, name or scope, **more)
        self.store.add_token(kept)
        self.tokens[name or scope] = text
        self.runner.run(self.collector.refresh())

    def send(self, veil: tv.Veil, reports: Any, *, round: str | None = None, seed: int = 0) -> None:
        """Reports (N, width), all of which must be taken."""
        body = batch(veil, reports, np.random.default_rng([seed, len(reports)]))
        path = "/v1/reports" if round is None else f"/v1/reports?round={round}"
        answer = self.ask("POST", path, "upload", content=body, headers={"Content-Type": BINARY})
        assert answer.json() == {"accepted": len(reports), "duplicate": 0, "rejected": []}, answer.text


@contextmanager
def running(
    folder: Path,
    *veils: tv.Veil,
    db: str | None = None,
    client: str = "127.0.0.1",
    demo: Path | None = None,
    **settings: Any,
) -> Iterator[Asked]:
    """A collector on a new database (in SQLite unless `db` says where), with these veils registered (round "one") and a
    token of each scope, asked from the address of a `client`."""
    db = db or f"sqlite:///{folder / 'collector.db'}"
    store = open_store(db, **options(db))
    for place, veil in enumerate(veils):
        veil.save(folder / f"release-{place}")
        register(store, folder / f"release-{place}", round="one")
    app = create_app(Settings(**settings), store, demo=demo)
    transport = httpx.ASGITransport(app, client=(client, 40000))
    with asyncio.Runner() as runner:
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        http = httpx.AsyncClient(transport=transport, base_url="http://collector")
        asked = Asked(app, store, runner, http, {})
        scopes: tuple[Scope, ...] = ("upload", "read", "admin")
        for scope in scopes:
            asked.token(scope)
        try:
            yield asked
        finally:
            runner.run(http.aclose())
            runner.run(lifespan.__aexit__(None, None, None))
            store.close()
