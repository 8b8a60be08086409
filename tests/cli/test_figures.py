from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import taskveil as tv
from cli.running import one_line, run
from conftest import needs
from taskveil.experiments import EXPERIMENTS
from taskveil.experiments.data import local_file

HAVE_DATA = local_file("household/hourly.csv") is not None


@pytest.fixture(scope="module")
def designs_of_the_demo() -> dict[tuple[str, float], tv.Veil]:
    """Made by the first test that shows the demo."""
    return {}


@pytest.fixture
def quick_demo(monkeypatch: pytest.MonkeyPatch, designs_of_the_demo: dict[tuple[str, float], tv.Veil]) -> None:
    from taskveil.experiments import demo

    def design(X: Any, task: Any, *, epsilon: float, method: str = "auto", **options: Any) -> tv.Veil:
        if (method, epsilon) not in designs_of_the_demo:
            designs_of_the_demo[method, epsilon] = tv.design(X, task, epsilon=epsilon, method=method, **options)
        return designs_of_the_demo[method, epsilon]

    monkeypatch.setattr(demo, "EPSILONS", (1.0, 4.0))
    monkeypatch.setattr(demo, "design", design)


@pytest.mark.usefixtures("quick_demo")
def test_the_demo_shows_table_guarantee_and_picture(tmp_path: Path) -> None:
    picture = tmp_path / "demo.png"
    output = run("demo", "--picture", str(picture))
    for design in ("auto", "codebook", "task aware", "matrix"):
        assert design in output
    assert "7.39" in output
    assert "times as likely" in " ".join(output.split())
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert output.rstrip().endswith("taskveil demo --serve")


@pytest.mark.usefixtures("quick_demo")
def test_the_demo_as_json(tmp_path: Path) -> None:
    rows = json.loads(run("demo", "--json", "--picture", str(tmp_path / "demo.png")))
    loss = {(row["design"], row["epsilon"]): row["loss"] for row in rows}
    for epsilon in {row["epsilon"] for row in rows}:
        order = [loss[design, epsilon] for design in ("codebook", "task_aware", "privacy_agnostic", "task_agnostic")]
        assert order == sorted(order)
        assert loss["auto", epsilon] <= 1.03 * order[0]


@needs(HAVE_DATA, "the household data in TASKVEIL_DATA")
def test_reproduce_household(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from taskveil.experiments import household

    monkeypatch.setattr(household, "METHODS", ("codebook", *household.SERIES))
    monkeypatch.setattr(household, "EPSILONS", (3.0,))
    run("reproduce", "household", "--json", str(tmp_path / "rows.json"), "--plot", str(tmp_path), "--seeds", "1")
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert set(rows[0]) == {
        "experiment", "design", "as_published", "epsilon", "loss", "low", "high", "published",
    }  # fmt: skip
    assert (tmp_path / "household.png").exists()


def test_reproduce_passes_seeds_and_device_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from taskveil.experiments import real_estate
    from taskveil.experiments.report import ResultRow

    asked = []

    def experiment(
        way: str, seeds: tuple[int, ...], split: int | None, *, device: str, progress: None
    ) -> list[ResultRow]:
        asked.append((way, seeds, split, device, progress))
        point = {"experiment": "real-estate", "epsilon": 1.0, "low": 1, "high": 2}
        if way != "references":
            as_published = way.startswith("published")
            return [ResultRow(design="task_aware", as_published=as_published, loss=1.5, seeds=len(seeds), **point)]
        return [
            ResultRow(design="constant", as_published=False, loss=3.0, **point),
            ResultRow(design="no_privacy", as_published=False, loss=0.5, **point),
        ]

    monkeypatch.setattr(real_estate, "SECONDS", {"published-task_aware": 1.0, "task_aware": 1.0, "references": 1.0})
    monkeypatch.setattr(real_estate, "rows", experiment)
    monkeypatch.setattr(real_estate, "ACCELERATED", True)
    page, log = tmp_path / "docs" / "results.md", tmp_path / "log"
    options = ("--seeds", "3", "--device", "cuda", "--summary", str(page), "--resume", str(log), "--commit", "abc1234")
    run("reproduce", "real-estate", *options)
    assert asked == [
        ("published-task_aware", (0, 1, 2), None, "cuda", None),
        ("task_aware", (0, 1, 2), None, "cuda", None),
        ("references", (), None, "cuda", None),
    ]
    assert "| task aware | 3 | 1.5000 [1.0000, 2.0000] |" in page.read_text()
    assert "at commit abc1234, " in page.read_text()
    # What is finished is not run again, but its picture is drawn wherever it is asked for.
    run("reproduce", "real-estate", *options, "--plot", str(tmp_path / "pictures"))
    assert len(asked) == 3
    assert (tmp_path / "pictures" / "real_estate.png").exists()
    run("reproduce", "real-estate", "--seeds", "2", "--resume", str(log), "--only", "real-estate-task", "--splits", "1")
    assert asked[3:] == [("task_aware", (0, 1), None, "cpu", None)]
    assert "choose among real-estate-published-task_aware-" in one_line("reproduce", "real-estate", "--only", "houses")
    assert "leave out --plot" in one_line("reproduce", "real-estate", "--only", "real-estate", "--plot", tmp_path)


def test_every_experiment_is_a_module() -> None:
    for name in EXPERIMENTS:
        assert find_spec(f"taskveil.experiments.{name.replace('-', '_')}") is not None


def test_a_finished_part_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "theory-all.json").write_text("{}")
    assert "keeps no finished part" in one_line("reproduce", "theory", "--resume", tmp_path)
