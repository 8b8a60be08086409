"""What a sweep found, in all its forms, also where there is nothing to keep."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from taskveil.designs.frontier import Frontier, Point
from taskveil.errors import BudgetError, TaskError


def point(method: str, epsilon: float, seed: int, loss: float) -> Point:
    return Point(method=method, epsilon=epsilon, seed=seed, loss=loss, low=loss, high=loss)


FRONTIER = Frontier(
    points=(
        point("task_aware", 1.0, 0, 0.8),
        point("task_aware", 1.0, 1, 0.6),
        point("task_aware", 4.0, 0, 0.2),
        point("task_aware", 4.0, 1, 0.3),
        point("task_agnostic", 1.0, 0, 1.0),
        point("task_agnostic", 4.0, 0, 0.6),
    ),
    clear=0.1,
    constant=1.1,
)


def test_the_share_kept_and_the_budget_for_it() -> None:
    assert FRONTIER.kept("task_aware", 4.0) == pytest.approx(0.85)
    assert FRONTIER.epsilon_for(kept=0.85) == 4.0
    assert FRONTIER.epsilon_for(kept=0.4) == 1.0
    assert FRONTIER.epsilon_for(kept=0.4, method="task_agnostic") == 4.0
    with pytest.raises(BudgetError, match=r"the most is 85.0% at ε = 4"):
        FRONTIER.epsilon_for(kept=0.95)
    with pytest.raises(BudgetError, match="share"):
        FRONTIER.epsilon_for(kept=95)
    with pytest.raises(TaskError, match="no method 'magic'"):
        FRONTIER.epsilon_for(0.5, method="magic")
    with pytest.raises(TaskError, match="no point"):
        FRONTIER.loss("task_aware", 9.0)


def test_all_forms_of_a_frontier(tmp_path: Path) -> None:
    table = FRONTIER.table()
    assert "0.25 (85%)" in table
    assert "constant answer: 1.1" in table
    assert FRONTIER.plot(tmp_path / "a" / "f.png").read_bytes().startswith(b"\x89PNG")
    assert Frontier.from_json(FRONTIER.to_json(tmp_path / "f.json")) == FRONTIER
    content = json.loads((tmp_path / "f.json").read_text())
    assert content["rows"][0] == {
        "method": "task_aware", "epsilon": 1.0, "loss": 0.7, "least": 0.6, "greatest": 0.8, "seeds": 2,
        "kept": pytest.approx(0.4),
    }  # fmt: skip


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    nasty = Frontier(points=(point("</script><b>", 1.0, 0, 0.5),), clear=0.0, constant=1.0)
    page = nasty.to_html(tmp_path / "p.html", title="<i>title</i>").read_text()
    assert not re.search(r"https?://|<link|@import", page)
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', page))
    assert "<b>" not in page
    assert "<i>" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert json.loads(data[1])["points"][0]["method"] == "</script><b>"
    assert "ε = 1 keeps 50%" in page


USELESS = replace(FRONTIER, clear=1.2)
"""The model without privacy is worse than the constant."""

WHY = "the model without privacy is no better than a constant answer"


def test_where_the_model_is_no_better_than_a_constant_there_is_no_share() -> None:
    for frontier in (USELESS, replace(FRONTIER, clear=FRONTIER.constant), replace(FRONTIER, clear=math.nan)):
        assert frontier.kept("task_aware", 4.0) is None
        table = frontier.table()
        assert "0.25 (–)" in table
        assert f"–: {WHY}" in table
        assert "nan%" not in table
        with pytest.raises(BudgetError, match=WHY) as refused:
            frontier.epsilon_for(0.5)
        assert "%" not in str(refused.value)
    assert FRONTIER.nothing_to_keep is None
    assert WHY not in FRONTIER.table()


def test_the_page_and_the_json_of_a_useless_model(tmp_path: Path) -> None:
    page = USELESS.to_html(tmp_path / "p.html").read_text()
    assert f"No budget can be advised: {WHY}" in page
    assert "nan" not in re.sub(r"base64,[^\"]*", "", page).lower()
    content = json.loads(USELESS.to_json(tmp_path / "f.json").read_text(), parse_constant=pytest.fail)
    assert {row["kept"] for row in content["rows"]} == {None}
    assert Frontier.from_json(tmp_path / "f.json") == USELESS


def test_a_loss_that_overflowed_is_no_share(tmp_path: Path) -> None:
    frontier = replace(FRONTIER, points=(*FRONTIER.points, point("wild", 1.0, 0, math.inf)))
    assert "inf (–)" in frontier.table()
    assert frontier.epsilon_for(0.85) == 4.0
