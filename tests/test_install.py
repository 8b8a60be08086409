"""What people install: the wheel, built from these sources, in fresh environments that hold nothing else.

`make install-test` runs them; they take minutes and a package index.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pages
import taskveil as tv

ROOT = Path(__file__).parents[1]
CLEAN = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

pytestmark = pytest.mark.install


class Environment:
    """A fresh virtual environment with what was asked for, away from these sources."""

    def __init__(self, folder: Path, *requirements: str) -> None:
        self.bin, self.folder = folder / "venv" / "bin", folder
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, env=CLEAN)
        pip(self.bin / "python", "install", "-q", "-c", ROOT / "constraints.txt", *requirements)

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        line = [str(self.bin / str(command[0])), *map(str, command[1:])]
        return subprocess.run(line, capture_output=True, text=True, check=False, env=CLEAN, cwd=self.folder)

    def packages(self) -> set[str]:
        listed = json.loads(self.run("pip", "list", "--format=json", "--disable-pip-version-check").stdout)
        return {package["name"] for package in listed} - {"pip", "setuptools"}


def pip(python: str | Path, *arguments: object) -> None:
    """Run pip; where no package index answers the test is skipped, but never in CI."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=CLEAN)
    offline = any(words in done.stderr for words in ("Failed to establish", "connection error", "No route to host"))
    if done.returncode and offline and os.environ.get("CI") != "true":
        pytest.skip("needs a package index")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: what an earlier build left behind in the sources must not slip in."""
    home = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, home)
    shutil.copytree(ROOT / "src", home / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    pip(sys.executable, "wheel", "-q", "--no-deps", "--wheel-dir", home / "dist", home)
    (built,) = (home / "dist").iterdir()
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    modules = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    results = {str(path.relative_to(source)) for path in source.glob("taskveil/experiments/*.json")}
    shown = {str(path.relative_to(source)) for path in source.rglob("collector/pages/**/*") if path.is_file()}
    assert results
    assert "taskveil/collector/pages/demo/taskveil.js" in shown
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    described = {name for name in names if name.startswith(f"taskveil-{tv.__version__}.dist-info/")}
    tables = {str(path.relative_to(source)) for path in source.glob("taskveil/datasets/*.csv.gz")}
    assert len(tables) == 3
    assert names - described == modules | results | shown | tables | {"taskveil/py.typed"}
    assert described


def test_a_device_needs_numpy_alone(wheel: Path, veil: tv.Veil, tmp_path: Path) -> None:
    """A report is made, and whatever needs more says in one line what to type."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from taskveil.veil.release import sign

    key = Ed25519PrivateKey.generate()
    nothing = serialization.NoEncryption()
    veil.save(tmp_path / "release")
    sign(
        tmp_path / "release",
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, nothing),
    )
    device = Environment(tmp_path, str(wheel))
    assert device.packages() == {"numpy", "taskveil"}

    (tmp_path / "report.py").write_text(
        "from taskveil.client import Client\n"
        "client = Client.load('release', ledger='budget.sqlite')\n"
        "print(client.report([1, 2, 3, float('nan'), 5, 6]).to_bytes().hex())\n"
    )
    made = device.run("python", "-W", "error::DeprecationWarning", "report.py")
    received = veil.receive(bytes.fromhex(made.stdout.strip()))
    assert (len(received.reports), received.refused) == (1, ()), made.stderr

    def last_line(code: str) -> str:
        done = device.run("python", "-c", code)
        assert done.returncode == 1
        return done.stderr.strip().splitlines()[-1].partition(": ")[2]

    assert last_line("import taskveil as tv; tv.design") == "tv.design needs scipy: pip install 'taskveil[design]'"
    said = last_line("import taskveil as tv; tv.Veil.load('release').save('copy')")
    assert said == "writing a release needs safetensors: pip install 'taskveil[design]'"
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    said = last_line(f"from taskveil.client import Client; Client.load('release', verify_key={public!r})")
    assert "pip install 'taskveil[sign]'" in said
    command = device.run("taskveil", "demo")
    assert (command.returncode, command.stdout) == (2, "")
    assert command.stderr == "error: the taskveil command needs typer: pip install 'taskveil[design]'\n"


def test_the_design_extra_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    office = Environment(tmp_path, f"{wheel}[design]")
    assert office.run("pip", "check").returncode == 0
    demo = office.run("taskveil", "demo", "--json", "--picture", "demo.png")
    assert demo.returncode == 0, demo.stderr
    assert {row["design"] for row in json.loads(demo.stdout)} >= {"auto", "codebook", "task_aware"}
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert office.run("taskveil", "--version").stdout == f"taskveil {tv.__version__}\n"
    assert office.run("python", "-c", "import cryptography, dp_accounting, pyarrow").returncode == 0
    assert office.packages().isdisjoint({"torch", "onnx", "onnxruntime", "ray", "fastapi"})
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    assert sum(file.stat().st_size for file in packages.rglob("*") if file.is_file()) < 700e6


def test_the_first_hour(wheel: Path, tmp_path: Path) -> None:
    """README's parts Install and Design, word by word, without torch; then the first tutorial.

    Only the name of what is installed differs: the wheel of these sources in place of the folder.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = [code.strip() for language, code in pages.blocks(text) if code.startswith("pip install ")]
    asked = shlex.split(line)[2:]
    assert asked[0] == ".[design]"
    office = Environment(tmp_path, f"{wheel}[design]", *asked[1:])
    assert office.packages().isdisjoint({"torch", "onnx", "onnxruntime", "ray", "fastapi"})
    hour = text[text.index("## Install") : text.index("## 2. Collect")]
    environment = {**CLEAN, "PATH": f"{office.bin}{os.pathsep}{CLEAN['PATH']}"}
    said = []
    for language, code in pages.blocks(hour):
        if code.startswith("pip install "):
            continue
        file = tmp_path / f"block.{language}"
        file.write_text(code, encoding="utf-8")
        program = {"python": [office.bin / "python"], "sh": ["bash", "-e"]}[language]
        began = time.monotonic()
        done = subprocess.run(
            [*program, file], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - began < 60, "a first result takes less than a minute"
        said.append(done.stdout)
    first, design, _ = said
    assert "no report becomes more than 7.39 times as likely" in first
    assert "place_of_work=home" in first
    assert "no report becomes more than 20.1 times as likely" in design
    stated = re.search(r"accuracy is \d+% from records and (\d+)% from reports", hour)
    found = re.search(r"accuracy=(0\.\d+)", design)
    assert stated is not None
    assert found is not None
    assert abs(float(found[1]) - int(stated[1]) / 100) < 0.02  # half a standard error of 500 answers is 0.01
    assert (tmp_path / "renewal/client/manifest.json").exists()
    tutorial = ROOT / "docs/tutorial/01-first-design.ipynb"
    pip(office.bin / "python", "install", "-q", "-c", ROOT / "constraints.txt", "nbconvert", "ipykernel")
    done = office.run("jupyter", "nbconvert", "--to", "notebook", "--execute", "--output-dir", tmp_path, tutorial)
    assert done.returncode == 0, done.stderr


def test_the_torch_extra_takes_networks(wheel: Path, tmp_path: Path) -> None:
    office = Environment(tmp_path, f"{wheel}[torch]")
    assert office.run("pip", "check").returncode == 0
    (tmp_path / "network.py").write_text(
        "import numpy as np, onnx, taskveil as tv, torch\n"
        "X = np.random.default_rng(0).normal(size=(60, 3))\n"
        "task = tv.ModelTask(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)))\n"
        "print(tv.design(X, task, epsilon=4.0).guarantee.epsilon)\n"
    )
    done = office.run("python", "-W", "ignore", "network.py")
    assert done.returncode == 0, done.stderr
    assert 3.99 < float(done.stdout) <= 4.0  # whole-number chances stay just below the budget


def test_the_server_extra_decodes_tables(wheel: Path, veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "release")
    (tmp_path / "people.csv").write_text("a,b,c,d,e,f\n1,2,3,4,5,6\n")
    server = Environment(tmp_path, f"{wheel}[server]")
    assert server.packages().isdisjoint({"torch", "scikit-learn", "matplotlib", "ray"})
    made = server.run("taskveil", "privatize", "people.csv", "reports.parquet", "--release", "release")
    assert made.returncode == 0, made.stderr
    decoded = server.run("taskveil", "decode", "reports.parquet", "estimates.parquet", "--release", "release")
    assert decoded.returncode == 0, decoded.stderr
    demo = server.run("taskveil", "demo")
    assert (demo.returncode, demo.stdout) == (2, "")
    assert demo.stderr.startswith("error: this command needs ")
    assert demo.stderr.endswith(": pip install 'taskveil[design]'\n")
    assert server.run("python", "-c", "import fastapi, pydantic, uvicorn, psycopg, scipy").returncode == 0


def test_the_ray_extra_runs_on_this_machines_cores(wheel: Path, veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "release")
    (tmp_path / "people").mkdir()
    names, rows = list("abcdef"), np.random.default_rng(0).normal(size=(300, 6))
    for place, some in enumerate(np.array_split(rows, 3)):
        pq.write_table(pa.table(dict(zip(names, some.T, strict=True))), tmp_path / "people" / f"{place}.parquet")
    office = Environment(tmp_path, f"{wheel}[ray]")
    assert office.run("pip", "check").returncode == 0
    steps = {
        "privatize": ("people", "reports", "300 reports in 3 parts"),
        "decode": ("reports", "out", "300 estimates"),
    }
    for command, (source, target, says) in steps.items():
        quiet = ["--quiet"] if command == "privatize" else []  # else a note says what is not counted
        done = office.run("taskveil", command, source, target, "--release", "release", "--engine", "ray", *quiet)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(says)
