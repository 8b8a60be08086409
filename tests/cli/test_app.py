"""What all commands have in common."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import taskveil as tv
from cli.running import one_line, run

COMMANDS = (
    *(
        "demo",
        "schema",
        "plan",
        "design",
        "family",
        "sign",
        "privatize",
        "decode",
        "estimate",
        "serve",
        "sweep",
        "audit",
        "dossier",
        "central",
        "reproduce",
    ),
    *("data", "token", "collection"),
)


def test_the_version() -> None:
    assert run("--version") == f"taskveil {tv.__version__}\n"


def test_help_lists_every_command_and_says_what_it_does() -> None:
    output = run("--help")
    assert re.findall(r"^│ (\w+) ", output, re.MULTILINE) == list(COMMANDS)
    for command in COMMANDS:
        assert "Usage:" in run(command, "--help")


def test_the_package_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "taskveil", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"taskveil {tv.__version__}\n"


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from taskveil.experiments import demo

    def full(picture: Path, **_: object) -> None:
        raise OSError(28, "No space left on device", str(picture))

    monkeypatch.setattr(demo, "run", full)
    assert "No space left on device" in one_line("demo", "--picture", tmp_path / "x.png")


def without(package: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which the package cannot be imported, as if it had never been installed."""
    hide = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['taskveil', *sys.argv[1:]]; "
    return subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, check=False)


def test_without_typer_the_command_says_what_to_install() -> None:
    done = without("typer", "from taskveil.cli import main; main()")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the taskveil command needs typer: pip install 'taskveil[design]'\n"


@pytest.mark.parametrize(("package", "command"), [("sklearn", "'demo'"), ("scipy", "'reproduce', 'theory'")])
def test_a_command_without_its_packages_says_what_to_install(package: str, command: str) -> None:
    done = without(package, f"sys.argv += [{command}]; from taskveil.cli import main; main()")
    assert done.returncode == 2
    assert done.stderr.replace("\n", "") == f"error: this command needs {package}: pip install 'taskveil[design]'"
