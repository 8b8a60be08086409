"""What the OpenAPI document says beside what the routes themselves do: problems, tokens, and bodies with examples."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from fastapi import FastAPI, Response

from taskveil.client.wire import BINARY, JSON, PROBLEM, Report, pack_batch
from taskveil.collector.api.shapes import EXAMPLE_RELEASE
from taskveil.collector.problems import Problem

_PROBLEM_REF = {"$ref": "#/components/schemas/Problem"}

COMPONENTS: dict[str, Any] = {
    "schemas": {
        "Problem": {
            "type": "object",
            "title": "Problem",
            "description": "Why the collector said no (RFC 9457). It never quotes what was sent.",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string", "enum": [one.document().type for one in Problem]},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string", "description": "What to do, where there is something to do."},
            },
        },
    },
}

ANY = (Problem.BAD_REQUEST, Problem.TOO_SLOW, Problem.TOO_LARGE, Problem.FAULT, Problem.UNAVAILABLE, Problem.STOPPING)
"""What any request may be answered with."""
TOKEN = (
    Problem.TOKEN_MISSING,
    Problem.TOKEN_UNKNOWN,
    Problem.TOKEN_EXPIRED,
    Problem.TOKEN_WRONG_SCOPE,
    Problem.TOKEN_OTHER_RELEASE,
    Problem.TOO_MANY,
)
"""What a request that takes a token may be."""


def problems(*which: Problem) -> dict[int | str, dict[str, Any]]:
    """These problems and those of `ANY` request, by status, as FastAPI's `responses`."""
    found: dict[int | str, dict[str, Any]] = {}
    for one in dict.fromkeys((*which, *ANY)):
        document = one.document()
        answer = found.setdefault(
            document.status,
            {"description": "", "content": {PROBLEM: {"schema": _PROBLEM_REF, "examples": {}}}},
        )
        answer["description"] = f"{answer['description']} {document.title}.".strip()
        answer["content"][PROBLEM]["examples"][one.name.lower()] = {
            "value": {"type": document.type, "title": document.title, "status": document.status, "detail": ""}
        }
        if document.status in (429, 503):
            answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
        elif document.status == 401:
            answer["headers"] = {"WWW-Authenticate": {"schema": {"type": "string", "enum": ["Bearer"]}}}
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def described(app: FastAPI) -> None:
    """Give the application its OpenAPI document, made once, when somebody asks for it."""
    plain: Callable[[], dict[str, Any]] = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = plain()
            for kind, members in COMPONENTS.items():
                found.setdefault("components", {}).setdefault(kind, {}).update(members)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
    written = cache(lambda: json.dumps(document()).encode())  # for everybody: it takes a millisecond

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(written(), media_type=JSON)


_IDS = ("00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100")
_BATCH = [Report(release=bytes.fromhex(EXAMPLE_RELEASE), id=bytes.fromhex(id), payload=bytes([7])) for id in _IDS]

REPORTS: dict[str, Any] = {
    "security": [{"token": []}],
    "parameters": [
        {
            "name": "round",
            "in": "query",
            "description": "The round that the reports belong to; by default the release's current one.",
            "schema": {"type": "string"},
            "example": "2026-W46",
        }
    ],
    "requestBody": {
        "required": True,
        "description": "One or many reports of one release: bytes as devices make them, or the same in JSON.",
        "content": {
            BINARY: {
                "schema": {"type": "string", "format": "binary"},
                "example": b64encode(pack_batch(_BATCH)).decode(),  # JSON has no bytes
            },
            JSON: {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["version", "release", "reports"],
                    "properties": {
                        "version": {"type": "integer", "enum": [1]},
                        "release": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                        "reports": {
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["id", "payload"],
                                "properties": {
                                    "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
                                    "payload": {"type": "string", "pattern": "^([0-9a-f]{2})+$"},
                                },
                            },
                        },
                    },
                },
                "example": {
                    "version": 1,
                    "release": EXAMPLE_RELEASE,
                    "reports": [{"id": id, "payload": "07"} for id in _IDS],
                },
            },
        },
    },
    "responses": {
        "200": {
            "description": "What became of every report. What was accepted is stored durably.",
            "content": {
                JSON: {
                    "schema": {
                        "type": "object",
                        "required": ["accepted", "duplicate", "rejected"],
                        "properties": {
                            "accepted": {"type": "integer", "minimum": 0},
                            "duplicate": {
                                "type": "integer",
                                "minimum": 0,
                                "description": "That were there already, with the same bytes: they count once.",
                            },
                            "rejected": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["place", "id", "reason"],
                                    "properties": {
                                        "place": {"type": "integer", "description": "In the body, from 0."},
                                        "id": {"type": "string"},
                                        "reason": {"type": "string"},
                                    },
                                },
                            },
                        },
                    },
                    "example": {
                        "accepted": 3,
                        "duplicate": 1,
                        "rejected": [{"place": 4, "id": _IDS[0], "reason": "no device can have made this number."}],
                    },
                }
            },
        },
        **{
            str(status): answer
            for status, answer in problems(
                Problem.NO_REPORTS,
                *TOKEN,
                Problem.RELEASE_UNKNOWN,
                Problem.ROUND_UNKNOWN,
                Problem.RELEASE_CLOSED,
                Problem.ROUND_CLOSED,
                Problem.WRONG_TYPE,
                Problem.BUSY,
            ).items()
        },
    },
}
"""For the `openapi_extra` of POST /v1/reports, which reads its body itself."""
