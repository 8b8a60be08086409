"""The OpenAPI document: complete, with examples that are what they say, and kept by every answer to what it allows."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import taskveil as tv
from collections_drawn import records
from running_collector import Asked, running, small_veil
from taskveil.client.wire import BINARY, JSON, arrived
from taskveil.collector.api.openapi import REPORTS, REPORTS_PROBLEMS
from taskveil.collector.problems import ProblemType

ROUTES = {
    "POST /v1/reports",
    "GET /v1/releases",
    "GET /v1/status",
    "GET /v1/releases/{id}/client/{name}",
    "GET /v1/releases/{id}/family.json",
    "GET /v1/releases/{id}/family.sig",
    "GET /v1/releases/{id}/{member}/client/{name}",
    "GET /v1/releases/{id}/frontier",
    "GET /v1/estimates",
    "GET /v1/estimates/series",
    "GET /v1/export",
    "POST /v1/releases/{id}/open",
    "POST /v1/releases/{id}/close",
    "PUT /v1/releases/{id}/rounds/{name}",
    "POST /v1/releases/{id}/rounds/{name}/close",
    "DELETE /v1/releases/{id}/rounds/{name}",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asked, tv.Veil]]:
    """A collector that has something to say."""
    veil = small_veil()
    with running(tmp_path_factory.mktemp("attacked"), veil) as asked:
        asked.send(veil, veil.privatize(records(500, np.random.default_rng(5))))
        yield asked, veil


@pytest.fixture(scope="module")
def document(attacked: tuple[Asked, tv.Veil]) -> dict[str, Any]:
    answer = attacked[0].ask("GET", "/openapi.json")
    found: dict[str, Any] = answer.json()
    return found


def test_every_route_is_described(document: dict[str, Any]) -> None:
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == ROUTES
    assert all(operation["summary"] and operation["description"] for operation in operations.values())
    files = ("client/{name}", "{member}/client/{name}", "family.json", "family.sig")
    health = {"GET /healthz", "GET /readyz", "GET /metrics", *(f"GET /v1/releases/{{id}}/{file}" for file in files)}
    assert {name for name, operation in operations.items() if not operation.get("security")} == health
    for name in ROUTES - health:
        assert {"401", "403", "408", "413", "429", "503"} <= set(operations[name]["responses"]), name


def test_the_bodies_that_are_shown_are_reports() -> None:
    content = REPORTS["requestBody"]["content"]
    bodies = [
        base64.b64decode(content[BINARY]["example"]),
        str(content[JSON]["example"]).replace("'", '"').encode(),
    ]
    for body in bodies:
        assert len(arrived(body)) == 2


def test_every_problem_of_a_status_has_an_example() -> None:
    shown = {
        name
        for answer in REPORTS_PROBLEMS.values()
        for name in answer["content"]["application/problem+json"]["examples"]
    }
    elsewhere = {
        ProblemType.NOT_FOUND,
        ProblemType.METHOD_NOT_ALLOWED,
        ProblemType.TOO_FEW,
        ProblemType.ROUND_OPEN,
        ProblemType.INVALID,
    }
    assert shown == {one.name.lower() for one in set(ProblemType) - elsewhere}


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def schema(document: dict[str, Any]) -> Any:
    return schemathesis.openapi.from_dict(document)


@pytest.mark.parametrize("examples", [10, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("route", sorted(ROUTES))
def test_whatever_is_sent_the_answer_is_one_that_was_promised(
    attacked: tuple[Asked, tv.Veil], schema: Any, route: str, examples: int
) -> None:
    asked, veil = attacked
    method, path = route.split(" ")
    operation = schema[path][method]
    statuses: set[int] = set()
    modes = [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if path.startswith("/v1/") else [])]

    @given(
        case=st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes]),
        token=st.sampled_from(["admin", "admin", "admin", "read", "upload", None]),
        aimed=st.sampled_from([True, True, True, False]),
    )
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def attack(case: schemathesis.Case, token: str | None, aimed: bool) -> None:
        if aimed:  # at what is there
            for parameters in (case.path_parameters, case.query):
                for name, value in (("id", veil.release_id), ("release", veil.release_id), ("round", "one")):
                    if name in (parameters or {}):
                        parameters[name] = value
        given = case.as_transport_kwargs(base_url="http://collector")
        headers = {name: value for name, value in (given.get("headers") or {}).items() if name != "Authorization"}
        if token is not None:
            headers["Authorization"] = f"Bearer {asked.tokens[token]}"
        body = {"content" if name == "data" else name: given[name] for name in ("json", "data") if given.get(name)}
        request = httpx.Request(method, given["url"], params=given.get("params"), headers=headers, **body)
        answer = asked.runner.run(asked.client.send(request))
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    attack()
    assert route in RARE or 200 in statuses  # else nothing was attacked but the door


RARE = {
    *(f"GET /v1/releases/{{id}}/{file}" for file in ("family.json", "family.sig", "{member}/client/{name}")),
    "POST /v1/reports",  # reports are made by nobody but devices
    "DELETE /v1/releases/{id}/rounds/{name}",
    "POST /v1/releases/{id}/rounds/{name}/close",
    "GET /v1/releases/{id}/client/{name}",
    "GET /v1/releases/{id}/frontier",
}
"""What is never right by chance."""
