"""Dockerfile and compose.yaml: what can be told without an engine that builds and runs them.

`docker compose config` reads the latter as well, in the workflow.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.running import run
from taskveil.collector.settings import Settings

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
KNOWN = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
    "STOPSIGNAL",
}


def instructions(text: str) -> list[tuple[str, str]]:
    """A Dockerfile's instructions in order, comments left out and continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    found = [line.strip().partition(" ") for line in joined.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


def stages(text: str) -> list[list[tuple[str, str]]]:
    """The same, one list for every FROM."""
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions(text):
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def values(stage: list[tuple[str, str]], name: str) -> list[str]:
    return [rest for word, rest in stage if word == name]


def sent(path: str) -> bool:
    """Whether .dockerignore lets a path of the checkout through: the last pattern that fits it, or a folder above it,
    decides."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    parts = Path(path).parts
    allowed = True
    for line in (line for line in lines if line and not line.startswith("#")):
        pattern = line.removeprefix("!")
        anywhere = pattern.startswith("**/")
        if any(fnmatch(part, pattern.removeprefix("**/")) for part in (parts if anywhere else parts[:1])):
            allowed = line.startswith("!")
    return allowed


def faults(text: str) -> list[str]:
    """What is wrong with a Dockerfile, by a few rules."""
    found = [f"unknown: {word}" for word, _ in instructions(text) if word not in KNOWN]
    for stage in stages(text):
        for source in (name for rest in values(stage, "COPY") if "--from=" not in rest for name in rest.split()[:-1]):
            if not (ROOT / source).exists() or not sent(source):
                found.append(f"nothing to copy: {source}")
    *_, last = stages(text)
    if (values(last, "USER") or ["root"])[-1].partition(":")[0] in ("root", "0"):
        found.append("runs as root")
    if any(re.search(r"\b(apt-get|gcc|pip install|pip wheel)\b", rest) for rest in values(last, "RUN")):
        found.append("builds in the last stage")
    for name in ("ENTRYPOINT", "CMD"):
        for rest in values(last, name):
            if not isinstance(json.loads(rest), list):
                found.append(f"{name} goes through a shell, which keeps signals to itself")
    extras = re.findall(r"\[(\w+)\]\"", " ".join(rest for word, rest in instructions(text) if word == "RUN"))
    found += [f"no such extra: {extra}" for extra in extras if extra not in EXTRAS]
    return found if extras else [*found, "installs no extra"]


DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_dockerfile_keeps_the_rules() -> None:
    assert faults(DOCKERFILE) == []
    assert "--constraint constraints.txt" in DOCKERFILE
    assert "[server]" in DOCKERFILE
    assert not any("torch" in package for package in EXTRAS["server"])
    assert not sent("tests/conftest.py")
    assert not sent("secrets/database_password")
    assert sent("src/taskveil/veil/veil.py")
    assert not sent("src/taskveil/__pycache__/veil.pyc")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("USER 10001", ""), "runs as root"),
        (("USER 10001", "USER root"), "runs as root"),
        (("[server]", "[collector]"), "no such extra: collector"),
        (("COPY src src", "COPY sources src"), "nothing to copy: sources"),
        (("COPY src src", "COPY tests src"), "nothing to copy: tests"),
        (("WORKDIR /data", "WROKDIR /data"), "unknown: WROKDIR"),
        (("useradd", "apt-get install -y gcc && useradd"), "builds in the last stage"),
    ],
)
def test_the_rules_see_mistakes(change: tuple[str, str], fault: str) -> None:
    assert change[0] in DOCKERFILE
    assert fault in faults(DOCKERFILE.replace(*change))


def compose() -> dict[str, Any]:
    read = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(read, dict)
    return read


def test_the_compose_file_names_only_what_it_defines() -> None:
    whole = compose()
    assert set(whole) == {"services", "volumes", "secrets"}
    for service in whole["services"].values():
        assert set(service.get("secrets", ())) <= set(whole["secrets"])
        assert set(service.get("depends_on", ())) <= set(whole["services"])
        assert service["healthcheck"]["test"][0] == "CMD"
        named = [volume.partition(":")[0] for volume in service.get("volumes", ())]
        assert {name for name in named if not name.startswith((".", "/"))} <= set(whole["volumes"])
    collector, database = whole["services"]["collector"], whole["services"]["database"]
    assert collector["depends_on"]["database"]["condition"] == "service_healthy"
    image, _, version = database["image"].partition(":")
    assert (image, int(version) >= 15) == ("postgres", True)
    assert all(port.startswith("127.0.0.1:") for port in collector["ports"])


def test_no_password_stands_in_it() -> None:
    whole = compose()
    secret = f"/run/secrets/{next(iter(whole['secrets']))}"
    assert whole["services"]["database"]["environment"]["POSTGRES_PASSWORD_FILE"] == secret
    assert secret in whole["services"]["collector"]["entrypoint"][2]
    assert "@" in (url := whole["services"]["collector"]["environment"]["TASKVEIL_DB"])
    assert ":" not in url.partition("://")[2].partition("@")[0]
    assert "secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_its_options_are_options_of_the_command() -> None:
    """And the time it leaves for stopping is longer than the collector takes."""
    service = compose()["services"]["collector"]
    command, *rest = service["command"]
    (told,) = values(stages(DOCKERFILE)[-1], "CMD")
    helped = run(command, "--help")
    for option in (*rest, *json.loads(told)):
        assert not option.startswith("--") or option in helped
    assert float(service["stop_grace_period"].removesuffix("s")) > Settings().stop_seconds


def test_its_shell_line_hands_over_password_and_arguments(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("one two\n")
    shell, option, line, zeroth = compose()["services"]["collector"]["entrypoint"]
    line = line.replace("$$", "$").replace("/run/secrets/database_password", str(secret))
    line = line.replace(
        "exec taskveil", "exec python3 -c 'import os, sys; print(os.environ[\"PGPASSWORD\"], sys.argv[1:])'"
    )
    done = subprocess.run([shell, option, line, zeroth, "serve", "--x y"], capture_output=True, text=True, check=True)
    assert done.stdout == "one two ['serve', '--x y']\n"
