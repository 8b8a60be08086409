"""The experiments with learned tasks: their data, their splits, and the numbers that were promised."""

from __future__ import annotations

import gzip
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import needs
from taskveil.errors import DataError
from taskveil.experiments import breast_cancer, data, mnist, models, real_estate
from taskveil.experiments.parts import Finished
from taskveil.experiments.published_algorithm import Recipe
from taskveil.experiments.report import ResultRow, published_order, published_points
from taskveil.experiments.runs import Run
from taskveil.experiments.summary import write_summary

HAVE = data.local_file("real_estate/valuation.csv") is not None
HAVE_MNIST = data.local_file("mnist/t10k-images-idx3-ubyte.gz") is not None

REAL_ESTATE = {1.0: 0.0127, 1.5: 0.0120, 3.0: 0.0098, 5.0: 0.0080, 10.0: 0.0063, 30.0: 0.0052}


def finished(name: str, rows: list[ResultRow]) -> Run:
    part = Finished(name=name, seconds=12.3, machine="a machine", date="2026-01-02", commit="abc1234", rows=rows)
    return Run(name=name, seeds=2, parts=[part], rows=rows, splits=[])


def honest(experiment: models.Experiment, seeds: int) -> dict[float, float]:
    return {row.epsilon: row.loss for row in models.honest_rows(experiment, "task_aware", range(seeds))}


@needs(HAVE, "the real estate data in TASKVEIL_DATA")
def test_real_estate_reaches_its_numbers() -> None:
    experiment = real_estate.problem()
    assert (experiment.X.shape, experiment.X_test.shape) == ((289, 6), (125, 6))
    found = honest(experiment, seeds=2)
    for epsilon, bar in REAL_ESTATE.items():
        assert found[epsilon] <= bar


def test_breast_cancer_lies_below_the_published_losses() -> None:
    experiment = breast_cancer.problem()
    assert (experiment.X.shape, experiment.X_test.shape) == ((398, 30), (171, 30))
    found = honest(experiment, seeds=1)
    for epsilon, (loss, _) in published_points("breast_cancer", "task_aware_Z3").items():
        if epsilon <= 50:
            assert found[epsilon] < loss


@needs(HAVE_MNIST, "the MNIST files in TASKVEIL_DATA")
def test_digits_and_their_network() -> None:
    X, y, X_test, y_test = data.mnist()
    assert (X.shape, X_test.shape) == ((6000, 784), (1000, 784))
    assert (X >= 0).all()
    assert (X <= 1).all()
    assert set(y) == set(y_test) == set(range(10))
    task = models.ModelTask(mnist.network(), loss="cross_entropy")
    task.check_width(784)
    assert task.outputs == 10


@needs(HAVE, "the real estate data in TASKVEIL_DATA")
def test_rows_as_published_and_the_picture(tmp_path: Path) -> None:
    experiment = real_estate.problem()
    quick = Recipe(penalty=0.2, epochs=3, steps=2, quiet_steps=4)
    rows = models.published_rows(experiment, quick, seeds=2, starts=2, latent_dims=(1, 3), draws=3)
    rows += models.published_rows(experiment, quick, method="task_agnostic", seeds=1, draws=3)
    names = {"task_aware", "task_aware_single_start", "task_aware_Z1", "task_aware_Z1_single_start", "task_agnostic"}
    assert {row.design for row in rows} == names
    assert all(row.as_published and row.low <= row.loss <= row.high for row in rows)
    by_name = {(row.design, row.epsilon): row for row in rows}
    assert by_name["task_aware_Z1", 5.0].published == published_points("real_estate", "task_aware_Z1")[5.0][0]
    rows += models.reference_rows(experiment)
    assert rows[-1].loss < 0.006 < 0.012 < rows[-7].loss
    run = finished("real-estate", rows)
    assert run.draw(tmp_path).read_bytes().startswith(b"\x89PNG")
    write_summary(tmp_path / "results.md", [run])
    page = (tmp_path / "results.md").read_text()
    assert "## real-estate" in page
    assert "Measured on 2026-01-02 at commit abc1234, 12 s of computing on a machine." in page
    assert "taskveil reproduce real-estate --seeds 2" in page
    assert page.count("*published*") == 5


def test_the_order_of_designs_is_compared_where_it_is_clear() -> None:
    points = {name: published_points("breast_cancer", series) for name, series in
              {"task_aware": "task_aware_Z3", "task_agnostic": "task_agnostic"}.items()}  # fmt: skip
    rows = [
        ResultRow(experiment="breast-cancer", design=name, as_published=True, epsilon=e, loss=loss, low=0, high=1)
        for name, curve in points.items()
        for e, (loss, _) in curve.items()
    ]
    clear, kept = published_order("breast-cancer", rows)
    assert clear == kept > 0
    upside_down = [replace(row, loss=-row.loss) for row in rows]
    assert published_order("breast-cancer", upside_down) == (clear, 0)


def test_the_summary_shows_every_row(tmp_path: Path) -> None:
    rows = [
        ResultRow(experiment="e", design="codebook", as_published=False, epsilon=2.0, loss=0.5, low=0.4, high=0.6),
        ResultRow(
            experiment="e", design="codebook", as_published=False, epsilon=1.0, loss=1234.5, low=1.0, high=2000.0
        ),
    ]
    write_summary(tmp_path / "r.md", [finished("e", rows), finished("f", rows)])
    page = (tmp_path / "r.md").read_text()
    assert page.count("| codebook | 1 | 1234 [1.0000, 2000] | 0.5000 [0.4000, 0.6000] |") == 2
    assert "reproduce e f --seeds 2" in page


def sheet(rows: list[list[str]]) -> str:
    cells = "".join("<row>" + "".join(f"<c><v>{v}</v></c>" for v in row) + "</row>" for row in rows)
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return f'<worksheet xmlns="{space}"><sheetData>{cells}</sheetData></worksheet>'


def test_the_download_of_the_houses_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as book:
        book.writestr("xl/worksheets/sheet1.xml", sheet([["0", "1"], ["1", "2.5"], ["2", "-3"]]))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "book.xlsx", "Real estate.xlsx")
    assert data._first_sheet(tmp_path / "a.zip").tolist() == [[1.0, 2.5], [2.0, -3.0]]


def test_other_digits_are_not_mistaken_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mnist").mkdir()
    for stem, header in (("images-idx3", 16), ("labels-idx1", 8)):
        for name in ("train10k", "t10k"):
            with gzip.open(tmp_path / "mnist" / f"{name}-{stem}-ubyte.gz", "wb") as stream:
                stream.write(bytes(header + 784 * 3 if header == 16 else header + 3))
    monkeypatch.setenv("TASKVEIL_DATA", str(tmp_path))
    with pytest.raises(DataError, match="MNIST"):
        data.mnist()


def test_other_houses_are_not_mistaken_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real_estate").mkdir()
    np.savetxt(tmp_path / "real_estate" / "valuation.csv", np.eye(8), delimiter=",", header="x")
    monkeypatch.setenv("TASKVEIL_DATA", str(tmp_path))
    with pytest.raises(DataError, match="real estate"):
        data.real_estate()
