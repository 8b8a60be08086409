"""What surrounds every request: browsers, HEAD, and an answer to everything that is raised."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from fastapi import Request

import collectors
from memory_store import MemoryStore
from taskveil.collector.store import StoreUnavailableError

Client = httpx.AsyncClient


def asked(call: Callable[[Client], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with collectors.application(MemoryStore(), **settings) as client:
            await call(client)

    asyncio.run(run())


def test_everything_wrong_is_a_problem_document(caplog: pytest.LogCaptureFixture) -> None:
    async def call(client: Client) -> None:
        app = client.app  # type: ignore[attr-defined]

        @app.get("/broken")
        async def broken(request: Request) -> None:
            raise RuntimeError(request.headers["x-sent"])

        @app.get("/number/{number}")
        async def number(number: int) -> int:
            return number

        @app.get("/away")
        async def away() -> None:
            raise StoreUnavailableError("away")

        for method, path, status, kind in (
            ("GET", "/nothing", 404, "not-found"),
            ("GET", "/healthz/", 404, "not-found"),
            ("GET", "/v1/reports", 405, "method-not-allowed"),
            ("DELETE", "/healthz", 405, "method-not-allowed"),
            ("GET", "/number/secret", 422, "invalid"),
            ("GET", "/broken", 500, "fault"),
            ("GET", "/away", 503, "unavailable"),
        ):
            answer = await client.request(method, path, headers={"x-sent": "a secret"})
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["type"] == f"urn:taskveil:problem:{kind}"
            assert "secret" not in answer.text
            assert ("allow" in answer.headers) is (status == 405)
            assert ("retry-after" in answer.headers) is (status == 503)
            assert "set-cookie" not in answer.headers

    with caplog.at_level(logging.ERROR, logger="taskveil.collector"):
        asked(call)
    (written,) = [one.getMessage() for one in caplog.records if one.name == "taskveil.collector"]
    assert "RuntimeError" in written
    assert "test_guarding.py" in written
    assert "secret" not in caplog.text


def test_answers_are_not_kept_and_not_guessed_at() -> None:
    async def call(client: Client) -> None:
        for path in ("/healthz", "/nothing"):
            headers = (await client.get(path)).headers
            assert headers["cache-control"] == "no-store"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers
            assert "access-control-allow-origin" not in headers

    asked(call)


def test_whoever_may_get_may_ask_for_the_head() -> None:
    async def call(client: Client) -> None:
        got, head = await client.get("/healthz"), await client.head("/healthz")
        assert head.status_code == 200
        assert head.content == b""
        assert head.headers["content-length"] == got.headers["content-length"] == str(len(got.content))
        assert (await client.head("/v1/reports")).status_code == 405

    asked(call)


@pytest.mark.parametrize(
    ("origins", "asks", "allowed"),
    [
        (("*",), "https://a.example", "*"),
        (("https://a.example", "https://b.example"), "https://b.example", "https://b.example"),
        (("https://a.example",), "https://evil.example", None),
        ((), "https://a.example", None),
    ],
)
def test_pages_of_other_origins(origins: tuple[str, ...], asks: str, allowed: str | None) -> None:
    async def call(client: Client) -> None:
        preflight = {
            "origin": asks,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        answer = await client.options("/v1/reports", headers=preflight)
        assert answer.headers.get("access-control-allow-origin") == allowed
        assert (answer.status_code == 204) is (allowed is not None)
        if allowed is not None:
            assert {"authorization", "content-type"} <= {
                name.strip().lower() for name in answer.headers["access-control-allow-headers"].split(",")
            }
            assert "POST" in answer.headers["access-control-allow-methods"]
        # A refusal can be read by the page too, and so can its Retry-After.
        answer = await client.post("/v1/reports", content=b"", headers={"origin": asks})
        assert answer.status_code == 400
        assert answer.headers.get("access-control-allow-origin") == allowed
        if allowed is not None:
            assert "Retry-After" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers
        for path in ("/healthz", "/v1/releases", "/v1/estimates"):
            answer = await client.get(path, headers={"origin": asks})
            assert "access-control-allow-origin" not in answer.headers

    asked(call, origins=origins)
