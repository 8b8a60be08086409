"""What devices fetch: exactly the client files, to everybody, and only when they have changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import taskveil as tv
from running_collector import Asked, running, small_veil
from taskveil.collector.releases import register


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asked, tv.Veil, Path]]:
    veil, folder = small_veil(), tmp_path_factory.mktemp("served")
    with running(folder, veil) as asked:
        (folder / "release-0" / "frontier.json").write_text("{}")
        register(asked.store, folder / "release-0", round="one")
        asked.runner.run(asked.collector.refresh())
        yield asked, veil, folder / "release-0"


def test_client_files_are_as_they_were_registered(served: tuple[Asked, tv.Veil, Path]) -> None:
    asked, veil, folder = served
    kinds = {}
    for file in (folder / "client").iterdir():
        answer = asked.ask("GET", f"/v1/releases/{veil.release_id}/client/{file.name}")
        assert answer.status_code == 200
        assert answer.content == file.read_bytes()
        assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
        assert answer.headers["cache-control"] == "no-cache"
        kinds[file.name] = answer.headers["content-type"]
    assert kinds == {"manifest.json": "application/json", "weights.safetensors": "application/octet-stream"}


def test_who_has_the_file_gets_nothing(served: tuple[Asked, tv.Veil, Path]) -> None:
    asked, veil, _ = served
    path = f"/v1/releases/{veil.release_id}/client/weights.safetensors"
    tag = asked.ask("GET", path).headers["etag"]
    for held in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = asked.ask("GET", path, headers={"If-None-Match": held})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    for other in ('"other"', tag.strip('"'), ""):
        assert asked.ask("GET", path, headers={"If-None-Match": other}).status_code == 200
    head = asked.ask("HEAD", path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    assert int(head.headers["content-length"]) > 0


def test_web_pages_of_other_origins_may_have_them(served: tuple[Asked, tv.Veil, Path]) -> None:
    asked, veil, _ = served
    path = f"/v1/releases/{veil.release_id}/client/manifest.json"
    answer = asked.ask("GET", path, headers={"Origin": "https://example.org"})
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "etag" in answer.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize(
    "name",
    [
        "../server/manifest.json",
        "..%2Fserver%2Fmanifest.json",
        "%2e%2e/server/manifest.json",
        "....//server/manifest.json",
        "manifest.json/",
        "manifest.json%00",
        "Manifest.json",
        "manifest.json/../../server/manifest.json",
        "",
        "server",
        "frontier.json",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
    ],
)
def test_nothing_else_is_given_away(served: tuple[Asked, tv.Veil, Path], name: str) -> None:
    asked, veil, _ = served
    answer = asked.ask("GET", f"/v1/releases/{veil.release_id}/client/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


def test_a_closed_release_can_still_be_checked(served: tuple[Asked, tv.Veil, Path]) -> None:
    asked, veil, _ = served
    path = f"/v1/releases/{veil.release_id}"
    assert asked.ask("POST", f"{path}/close", "admin").json()["open"] is False
    assert asked.ask("GET", f"{path}/client/manifest.json").status_code == 200
    assert asked.ask("POST", f"{path}/open", "admin").json()["open"] is True


def test_other_releases_are_not_known(served: tuple[Asked, tv.Veil, Path]) -> None:
    asked, _, _ = served
    answer = asked.ask("GET", f"/v1/releases/{'0' * 64}/client/manifest.json")
    assert answer.json()["type"] == "urn:taskveil:problem:release-unknown"
