"""The comparison in the field: what every part holds, how parts are chosen and kept, and the page."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

import simple_ways as referee
from cli.running import one_line, run
from taskveil.designs.designing import DESIGNERS
from taskveil.designs.selection import folds_of
from taskveil.errors import DataError
from taskveil.experiments import field, field_page, field_peers
from taskveil.experiments.field import FieldPart, FieldRow
from taskveil.experiments.field_data import load, split
from taskveil.experiments.field_models import MODELS
from taskveil.experiments.parts import current_commit, finished_parts
from taskveil.peers.own_model import held_out_answers as held_out


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair, one budget, and in our place methods that take no time: every designer and peer is run alike."""
    monkeypatch.setattr(field, "NAMED", (("iris", "linear"),))
    monkeypatch.setattr(field, "OTHERS", ())
    monkeypatch.setattr(field_peers, "our_predictor", lambda problem, _: (problem.task.answers, held_out(problem, 0)))
    monkeypatch.setattr(field, "EPSILONS", (2.0,))
    monkeypatch.setitem(DESIGNERS, "auto", DESIGNERS["label_response"])


def made_up(part: FieldPart) -> list[FieldRow]:
    losses = {"no_privacy": 0.2, "auto": 0.9, "auto_shared": 0.8, "label_response": 0.9, "constant": 1.1}
    row = FieldRow(data=part.data, model=part.model, split=part.split, epsilon=1, design="", loss=0, accuracy=0.5)
    return [
        replace(row, epsilon=epsilon, design=design, loss=loss / epsilon)
        for epsilon in (1.0, 2.0)
        for design, loss in losses.items()
    ]


@pytest.mark.usefixtures("quick")
def test_reproduce_field(tmp_path: Path) -> None:
    kept, page, rows = tmp_path / "kept", tmp_path / "docs" / "field.md", tmp_path / "rows.json"
    options = ("--splits", 1, "--resume", kept, "--json", rows, "--summary", page, "--plot", tmp_path / "docs")
    printed = run("reproduce", "field", "--only", "iris", "--commit", "abc1234", *options)
    assert "label response" in printed
    assert "of 1 points" in " ".join(printed.split())
    found = json.loads(rows.read_text())
    assert set(found[0]) == {"experiment", "data", "model", "split", "epsilon", "design", "loss", "accuracy", "commit"}
    assert {row["experiment"] for row in found} == {"field"}
    assert {row["design"] for row in found} == {
        *field.OURS, *field.FOR_ACCURACY, "label_response", "attribute_laplace", "constant", "no_privacy",
        "label_response_ours",
    }  # fmt: skip
    assert "### iris, linear" in page.read_text()
    assert "](field.png)" in page.read_text()
    assert "Measured at commit abc1234." in page.read_text()
    assert (tmp_path / "docs" / "field.png").read_bytes().startswith(b"\x89PNG")
    # Finished parts are not computed again: what is in the file is believed.
    file = kept / "iris-linear-0.json"
    file.write_text(file.read_text().replace('"iris"', '"irises"'))
    assert "irises, linear" in run("reproduce", "field", "--splits", 1, "--resume", kept)


@pytest.mark.usefixtures("quick")
def test_label_response_is_what_the_referee_says() -> None:
    (part,) = finished_parts([FieldPart("iris", "linear", 1)])
    rows = {row.design: row for row in part.rows}
    records = split(load("iris"), 1)
    model = MODELS["linear"](records.X, records.y, "cross_entropy", 1)
    fold = folds_of(np.arange(90), 5, np.random.default_rng(0))
    predicted = referee.out_of_fold(model, records.X, records.y, fold, classes=np.arange(3))
    inside = np.clip(records.X_test, records.X.min(axis=0), records.X.max(axis=0))
    loss, accuracy = referee.label_response(predicted, records.y, model.predict(inside), records.y_test, 2.0)
    assert rows["label_response"].loss == pytest.approx(loss)
    assert rows["label_response"].accuracy == pytest.approx(accuracy)
    assert rows["accurate"].loss == pytest.approx(1 - accuracy)
    assert rows["no_privacy"].accuracy == model.score(records.X_test, records.y_test)
    assert rows["constant"].accuracy == np.mean(records.y_test == np.bincount(records.y).argmax())


def test_parts_are_chosen_by_name() -> None:
    assert len(field.parts(3)) == 3 * (len(field.NAMED) + len(field.OTHERS))
    assert field.parts(2, ["iris-forest"]) == [FieldPart("iris", "forest", 0), FieldPart("iris", "forest", 1)]
    assert [part.name for part in field.parts(3, ["wine-forest-2", "iris-linear-0"])] == [
        "iris-linear-0",
        "wine-forest-2",
    ]
    with pytest.raises(DataError, match="choose among anes96-forest"):
        field.parts(3, ["tulips"])


def test_held_back_pairs_take_part_only_where_that_is_said() -> None:
    usual, every = field.parts(3), field.parts(3, held_back=True)
    assert every[: len(usual)] == usual
    assert {(part.data, part.model) for part in every[len(usual) :]} == set(field.HELD_BACK)
    with pytest.raises(DataError, match="choose among"):
        field.parts(3, ["moons"])
    assert [part.name for part in field.parts(1, ["moons"], held_back=True)] == ["moons-network-0"]
    assert "choose among" in one_line("reproduce", "field", "--only", "moons")


def test_a_part_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "iris-forest-0.json").write_text("[{}]")
    assert "keeps no finished part" in one_line("reproduce", "field", "--only", "iris-forest-0", "--resume", tmp_path)
    assert "by itself" in one_line("reproduce", "field", "theory")


def test_the_page_holds_shares_and_every_pair(tmp_path: Path) -> None:
    rows = [row for part in field.parts(2, ["iris-forest", "wine"]) for row in made_up(part)]
    field_page.write_page(tmp_path / "field.md", rows)
    text = (tmp_path / "field.md").read_text()
    assert "| auto shared | 0.8 (50.0) | 0.4 (50.0) |" in text
    assert "model shipped: 4 of 4 points (100.0%; asked for: 90%)" in text
    assert "model shipped: 2 of 2 points (100.0%; asked for: 95%)" in text
    assert text.index("## Named pairs") < text.index("### iris, forest") < text.index("### wine, forest")
    assert "random splits 0 to 1" in text
    assert "The held-back pairs are not on this page" in text
    assert asdict(rows[0])["experiment"] == "field"


def test_the_page_names_the_commits_it_was_measured_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def page(*commits: str | None) -> str:
        rows = [replace(row, commit=each) for each in commits for row in made_up(FieldPart("moons", "network", 0))]
        field_page.write_page(tmp_path / "field.md", rows)
        return (tmp_path / "field.md").read_text()

    assert "Measured at commit abc1234. Losses" in page("abc1234")
    assert "## Held-back pairs" in page("abc1234")
    assert "Measured at commits abc1234, def5678+. A + stands for" in page("def5678+", "abc1234")
    assert "Measured at commit abc1234 (and parts of which" in page(None, "abc1234")
    assert "Measured at" not in page(None)
    monkeypatch.setenv("PATH", str(tmp_path))  # no git here
    assert current_commit() is None


def test_the_iris_table_is_the_one_everybody_knows() -> None:
    assert load("iris").X.tolist() == load_iris().data.tolist()
