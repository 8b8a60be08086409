"""Parts of experiments: computed in processes of their own, kept, found again, and put together on one page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from taskveil.errors import DataError
from taskveil.experiments.parts import Finished, finished_parts
from taskveil.experiments.report import ResultRow, averaged
from taskveil.experiments.runs import Run, parts
from taskveil.experiments.summary import write_summary
from taskveil.veil.losses import Loss

POINT = ResultRow(experiment="e", design="codebook", as_published=False, epsilon=1.0, loss=1.0, low=0.0, high=2.0)


@dataclass(frozen=True)
class MadeUp:
    """A part that takes no time, and the parts that were computed."""

    name: str
    asked: list[str]
    device: str = "cpu"
    size: float = 1.0
    row_type: type[ResultRow] = ResultRow

    def rows(self, progress: object) -> list[ResultRow]:
        self.asked.append(self.name)
        if self.asked == ["a", "b"]:
            raise KeyboardInterrupt
        return [replace(POINT, design=self.name)]


def finished(commit: str | None, date: str = "2026-01-02", rows: list[ResultRow] | None = None) -> Finished[ResultRow]:
    return Finished(name="e", seconds=2.4, machine="a machine", date=date, commit=commit, rows=rows or [POINT])


def page_of(
    tmp_path: Path, *found: Finished[ResultRow], rows: list[ResultRow], splits: list[list[ResultRow]] | None = None
) -> str:
    write_summary(tmp_path / "r.md", [Run(name="e", seeds=1, parts=list(found), rows=rows, splits=splits or [])])
    return (tmp_path / "r.md").read_text()


def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    chosen = parts(["breast-cancer"], seeds=1, splits=2, only=["breast-cancer-references", "breast-cancer-split-1-ref"])
    assert [part.name for part in chosen] == ["breast-cancer-references", "breast-cancer-split-1-references"]
    in_turn = {part.name: part.rows for part in finished_parts(chosen)}
    together = {part.name: part.rows for part in finished_parts(chosen, jobs=2, folder=tmp_path)}
    assert together == in_turn
    assert in_turn["breast-cancer-references"] != in_turn["breast-cancer-split-1-references"]
    assert {part.name: part.rows for part in finished_parts(chosen, folder=tmp_path)} == in_turn


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    asked: list[str] = []
    chosen = [MadeUp(name, asked) for name in ("a", "b", "c")]

    def run() -> Iterator[Finished[ResultRow]]:
        return finished_parts(chosen, folder=tmp_path, commit="abc1234")

    with pytest.raises(KeyboardInterrupt):
        list(run())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json"]
    found = list(run())
    assert [part.name for part in found] == ["a", "b", "c"]
    assert asked == ["a", "b", "b", "c"]
    assert found[0] == Finished.read(tmp_path, chosen[0])
    assert (found[0].commit, found[0].rows) == ("abc1234", [replace(POINT, design="a")])


@pytest.mark.parametrize("text", ["", "[]", '{"seconds": 2}', '{"seconds": 2, "rows": [{"old": 1}]}'])
def test_what_is_no_finished_part_is_explained(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match="keeps no finished part"):
        Finished.read(tmp_path, MadeUp("a", []))


def test_seeds_measured_apart_are_averaged_record_by_record() -> None:
    losses = np.random.default_rng(0).gamma(1.0, size=(3, 60))
    rows = [
        replace(POINT, loss=seed.mean(), losses=seed.tolist(), network=not place) for place, seed in enumerate(losses)
    ]
    (mean,) = averaged([*rows[:2], rows[2]], block=10)
    expected = Loss.of(losses.mean(axis=0), exact=False, block=10)
    assert (mean.loss, mean.low, mean.high) == (expected.mean, expected.low, expected.high)
    assert (mean.seeds, mean.network) == (3, True)
    assert averaged([POINT, replace(POINT, as_published=True)]) == [POINT, replace(POINT, as_published=True)]


def test_the_page_says_which_commits_were_measured(tmp_path: Path) -> None:
    alike = page_of(tmp_path, finished("abc1234"), finished("abc1234"), rows=[POINT])
    assert "Measured on 2026-01-02 at commit abc1234, 5 s of computing on a machine.\n" in alike
    differing = page_of(tmp_path, finished("abc1234"), finished("def5678+", "2026-01-04"), rows=[POINT])
    assert "Measured from 2026-01-02 to 2026-01-04 at commits abc1234, def5678+, 5 s" in differing
    assert "The commits differ" in differing
    assert "A + stands for" in differing
    assert "Measured on 2026-01-02, 2 s of" in page_of(tmp_path, finished(None), rows=[POINT])


def test_rows_whose_devices_run_a_network_are_marked(tmp_path: Path) -> None:
    network = replace(POINT, design="light", network=True)
    some = [replace(POINT, design="auto"), replace(POINT, design="auto", epsilon=2.0, network=True)]
    page = page_of(tmp_path, finished(None), rows=[POINT, network, *some], splits=[[network, *some]] * 2)
    assert "| codebook | 1 | 1.0000 [0.0000, 2.0000] |  |" in page
    assert "| light † | 1 | 1.0000 [0.0000, 2.0000] |  |" in page
    assert "| auto | 1 | 1.0000 [0.0000, 2.0000] | 1.0000 [0.0000, 2.0000] † |" in page
    assert "| light † | 1.0000 ± 0.0000 |  |" in page
    assert "| auto | 1.0000 ± 0.0000 | 1.0000 ± 0.0000 † |" in page
    assert set(network.as_json()) == set(POINT.as_json())
    assert "network" not in network.as_json()
