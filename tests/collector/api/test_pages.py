"""The page and its files: from here alone, under a policy that lets nothing else in."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import taskveil.collector
from running_collector import Asked, running

POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Asked]:
    with running(tmp_path) as asked:
        yield asked


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_comes_with_everything_it_names(served: Asked, path: str) -> None:
    page = served.ask("GET", path)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == POLICY
    named = re.findall(r'(?:src|href)="(?!data:|#)([^"]+)"', page.text)
    assert named
    for name in named:
        assert "//" not in name, "nothing comes from elsewhere"
        assert served.ask("GET", f"/{name.removeprefix('.')}").status_code == 200, name


def test_assets_are_the_packages_files_and_nothing_else(served: Asked) -> None:
    kinds = {".html": "text/html", ".js": mimetypes.guess_type("a.js")[0], ".css": "text/css", ".svg": "image/svg+xml"}
    folder = Path(taskveil.collector.__file__).parent / "pages"
    for name, content in {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}.items():
        answer = served.ask("GET", f"/assets/{name}")
        assert (answer.status_code, answer.content) == (200, content)
        assert answer.headers["content-type"].split(";")[0] == kinds[Path(name).suffix]
        assert answer.headers["content-security-policy"] == POLICY
        again = served.ask("GET", f"/assets/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304
    for name in ("../settings.py", "..%2Fsettings.py", "%2e%2e/settings.py", "none.js", ""):
        assert served.ask("GET", f"/assets/{name}").status_code == 404


def test_a_demonstration_is_there_only_when_asked_for(served: Asked, tmp_path: Path) -> None:
    assert served.ask("GET", "/demo/").status_code == 404
    folder = tmp_path / "demo"
    (folder / "lib").mkdir(parents=True)
    (folder / "index.html").write_text("<p>demo")
    (folder / "lib" / "client.mjs").write_text("export {}")
    (tmp_path / "secret").write_text("")
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other", demo=folder) as shown:
        assert shown.ask("GET", "/demo").headers["location"] == "/demo/"
        assert shown.ask("GET", "/demo/").text == "<p>demo"
        script = shown.ask("GET", "/demo/lib/client.mjs")
        assert (script.text, "javascript" in script.headers["content-type"]) == ("export {}", True)
        outside = ("../secret", "..%2Fsecret", "%2e%2e/secret", "lib/../../secret", f"{tmp_path}/secret", "lib", "lib/")
        for name in outside:
            assert shown.ask("GET", f"/demo/{name}").status_code == 404, name
