"""What a sweep found, in all its forms, also where there is nothing to keep."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import matplotlib.image as mpimg
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import taskveil as tv
from taskveil import style
from taskveil.errors import BudgetError, DataError, TaskError
from taskveil.sweeps import frontier_page
from taskveil.sweeps.frontier import Frontier, Point
from taskveil.sweeps.frontier_page import off_chart

RECORDS = 400
NOISE = np.random.default_rng(0).normal(size=RECORDS) / 10
"""What makes records differ: nearly the same for all losses, less for the better designs."""


def losses(mean: float) -> np.ndarray:
    own = np.random.default_rng(round(1000 * mean)).normal(size=RECORDS) / 200
    return mean * (1 + NOISE - NOISE.mean()) + own - own.mean()


def point(method: str, epsilon: float, seed: int, loss: float) -> Point:
    return Point.of(method, epsilon, seed, losses(loss))


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
    clear_per_record=losses(0.1),
    constant_per_record=losses(1.1),
)


def test_the_share_kept_and_the_budget_for_it() -> None:
    assert FRONTIER.kept("task_aware", 4.0) == pytest.approx(0.85)
    found = FRONTIER.epsilon_for(kept=0.84)
    assert (found, found.low, found.high, found.method) == (4.0, 4.0, 4.0, "task_aware")
    assert (found.kept, found.confidence) == (0.84, 0.9)
    assert found.statement == (
        "ε = 4 with task_aware keeps at least 84% of the usable signal, with 90% confidence for other records like the "
        "400 tested, among which kinds of people rarer than 0.6% may be missing."
    )
    assert FRONTIER.epsilon_for(kept=0.39) == 1.0
    assert FRONTIER.epsilon_for(kept=0.39, method="task_agnostic") == 4.0
    with pytest.raises(BudgetError, match="share"):
        FRONTIER.epsilon_for(kept=95)
    with pytest.raises(BudgetError, match="confidence lies between"):
        FRONTIER.epsilon_for(0.5, confidence=90)
    with pytest.raises(TaskError, match="no method 'magic'"):
        FRONTIER.epsilon_for(0.5, method="magic")
    with pytest.raises(TaskError, match="no point"):
        FRONTIER.loss("task_aware", 9.0)


def test_where_no_budget_is_sure_the_answer_says_how_far_the_sweep_came() -> None:
    none = FRONTIER.epsilon_for(kept=0.95)
    assert (none, none.low, none.method) == (math.inf, math.inf, None)
    assert none.statement == (
        "No budget of the sweep is sure (90%) to keep 95% of the usable signal: 84% is the most that is sure. On "
        "average over the 400 test records the best, task_aware at ε = 4, keeps 85%. Sweep larger budgets, test on "
        "more records, or ask for less."
    )
    with pytest.raises(BudgetError, match=r"a finite number above zero, got inf\. No budget of the sweep is sure"):
        tv.design(np.eye(3), tv.LinearTask(np.eye(3)), epsilon=none)


def test_a_mean_that_is_enough_on_so_many_records_is_not_sure() -> None:
    """The defect of 0.1: the noise of the test records did not count."""
    noise = np.random.default_rng(1).normal(size=171)
    noisy = replace(
        FRONTIER,
        points=tuple(
            Point.of("codebook", epsilon, 0, 0.9 - share + 0.5 * (noise - noise.mean()))
            for epsilon, share in ((1.0, 0.3), (2.0, 0.52), (4.0, 0.8))
        ),
        clear_per_record=np.zeros(171),
        constant_per_record=np.full(171, 0.9),
        clear=0.0,
        constant=0.9,
    )
    found = noisy.epsilon_for(kept=0.5 / 0.9)
    assert noisy.kept("codebook", 2.0) > 0.5 / 0.9
    assert (found.low, found) == (2.0, 4.0)
    assert "ε = 2 may be enough, but the records do not show it." in found.statement


def test_intervals_of_every_row() -> None:
    (row,) = (r for r in FRONTIER.rows() if (r["method"], r["epsilon"]) == ("task_aware", 4.0))
    assert row["low"] < row["loss"] < row["high"]
    assert row["high"] - row["low"] == pytest.approx(2 * 1.966 * losses(0.25).std(ddof=1) / 20, rel=0.02)
    assert row["kept_low"] < row["kept"] < row["kept_high"]
    assert row["kept_high"] - row["kept_low"] < 0.02
    (wider,) = (r for r in replace(FRONTIER, block=30).rows() if (r["method"], r["epsilon"]) == ("task_aware", 4.0))
    assert (wider["low"], wider["high"]) != (row["low"], row["high"])


def test_all_forms_of_a_frontier(tmp_path: Path) -> None:
    table = FRONTIER.table()
    assert "0.25 (85%)" in table or "0.25 (84%)" in table
    assert "constant prediction: 1.1" in table
    assert FRONTIER.plot(tmp_path / "a" / "f.png").read_bytes().startswith(b"\x89PNG")
    again = Frontier.from_json(FRONTIER.to_json(tmp_path / "f.json"))
    assert again == FRONTIER
    assert again.rows() == FRONTIER.rows()
    assert vars(again.epsilon_for(0.5)) == vars(FRONTIER.epsilon_for(0.5))
    content = json.loads((tmp_path / "f.json").read_text())
    row = {name: pytest.approx(value) for name, value in FRONTIER.rows()[0].items() if name != "method"}
    assert content["rows"][0] == {**row, "method": "task_aware"}
    assert {"least", "greatest", "seeds", "low", "high", "kept_low", "kept_high"} < set(row)


def test_a_file_of_many_records_stays_small(tmp_path: Path) -> None:
    points = tuple(Point.of("codebook", e, 0, np.random.default_rng(e).random(10_000)) for e in range(1, 31))
    lines = {"clear_per_record": np.zeros(10_000), "constant_per_record": np.ones(10_000)}
    path = replace(FRONTIER, points=points, **lines).to_json(tmp_path / "f.json")
    assert path.stat().st_size < 4_000_000  # doubles: small signals on large losses must survive


OLD = replace(
    FRONTIER,
    points=tuple(replace(p, per_record=None) for p in FRONTIER.points),
    clear_per_record=None,
    constant_per_record=None,
)
"""As 0.1 kept it."""


def test_files_of_0_1_are_read_and_say_what_they_lack(tmp_path: Path) -> None:
    content = json.loads(OLD.to_json(tmp_path / "new.json").read_text())
    for name in ("block", "per_record"):
        del content[name]
    (tmp_path / "old.json").write_text(json.dumps(content))
    again = Frontier.from_json(tmp_path / "old.json")
    assert again == FRONTIER
    found = again.epsilon_for(0.5)
    assert math.isinf(found)
    assert "kept without the losses of single records" in found.statement
    assert "ε = 4 keeps 50%" in found.statement
    assert "none keeps 95%" in again.epsilon_for(0.95).statement
    assert "No budget can be promised" in again.to_html(tmp_path / "p.html").read_text()
    assert again.rows()[0]["kept_low"] is None


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    nasty = replace(FRONTIER, points=(point("</script><b>", 1.0, 0, 0.5),))
    page = nasty.to_html(tmp_path / "p.html", title="<i>title</i>").read_text()
    assert not re.search(r"https?://|<link|@import", page)
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', page))
    assert "<b>" not in page
    assert "<i>" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert json.loads(data[1])["points"][0]["method"] == "</script><b>"
    assert "ε = 1 with &lt;/script&gt;&lt;b&gt; keeps at least 50%" in page


def test_the_picture_shows_shares_from_0_to_1_with_the_loss_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(style, "save_to", lambda fig, *_, **__: drawn.append(fig))
    for narrow in (False, True):
        frontier_page.picture(FRONTIER.rows(), clear=FRONTIER.clear, constant=FRONTIER.constant, narrow=narrow)
        fig = drawn.pop()
        ax, beside = fig.axes
        assert ax.lines[0].get_ydata() == pytest.approx([FRONTIER.kept("task_aware", e) for e in (1.0, 4.0)])
        low, high = ax.get_ylim()
        assert -0.2 < low < 0
        assert 1 < high < 1.2
        assert beside.get_ylim() == pytest.approx((1.1 - low, 1.1 - high))  # the signal is 1.1 − 0.1
        assert "share" in ax.get_ylabel()
        assert "loss" in beside.get_ylabel()
        plt.close(fig)


def test_what_is_off_the_chart_is_said(tmp_path: Path) -> None:
    lines = {"clear": FRONTIER.clear, "constant": FRONTIER.constant}
    assert off_chart(FRONTIER.rows(), **lines) == ""
    assert "Off the chart" not in FRONTIER.to_html(tmp_path / "p.html").read_text()
    bad = (point("task_agnostic", 0.5, 0, 9.25), point("<b>", 0.5, 0, 2.0), point("<b>", 1.0, 0, 1.75))
    overflowed = Point.of("wild", 1.0, 0, np.full(RECORDS, math.inf))
    far = replace(FRONTIER, points=(*FRONTIER.points, *bad, overflowed))
    note = off_chart(far.rows(), **lines)
    assert note == (
        "Off the chart, worse than one answer for everybody: task_agnostic at ε = 0.5 (loss 9.25); "
        "<b> at ε = 0.5, 1 (loss 2, 1.75); wild at ε = 1 (loss inf)."
    )
    page = far.to_html(tmp_path / "p.html").read_text()
    assert f"<p>{html.escape(note)}</p>" in page
    assert "nothing kept<small>loss 9.25" in page
    far.plot(tmp_path / "f.png")
    losses_only = off_chart(replace(far, clear=1.2).rows(), clear=1.2, constant=1.1)
    assert "task_agnostic at ε = 0.5 (loss 9.25)" in losses_only


def test_a_page_on_a_phone_has_a_picture_of_its_own(tmp_path: Path) -> None:
    """The picture for screens would have letters of 6 pixels there."""
    page = FRONTIER.to_html(tmp_path / "p.html").read_text()
    (narrow,) = re.findall(r'<source media="\(max-width: 40rem\)" srcset="data:image/png;base64,([^"]*)"', page)
    (wide,) = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    sizes = [mpimg.imread(BytesIO(base64.b64decode(coded)), format="png").shape for coded in (narrow, wide)]
    assert sizes[0][1] < sizes[0][0]  # upright
    assert sizes[1][1] > sizes[1][0]


def test_a_page_holds_no_losses_of_single_records(tmp_path: Path) -> None:
    page = FRONTIER.to_html(tmp_path / "p.html").read_text()
    assert "per_record" not in page
    assert FRONTIER.points[0].content()["per_record"] not in page


USELESS = replace(FRONTIER, clear=1.2)
"""The model without privacy is worse than the constant."""

WHY = "the model without privacy is no better than a constant prediction"


def test_where_the_model_is_no_better_than_a_constant_there_is_no_share() -> None:
    for frontier in (USELESS, replace(FRONTIER, clear=FRONTIER.constant), replace(FRONTIER, clear=math.nan)):
        assert frontier.kept("task_aware", 4.0) is None
        table = frontier.table()
        assert "0.25 (–)" in table
        assert f"–: {WHY}" in table
        assert "nan%" not in table
        found = frontier.epsilon_for(0.5)
        assert math.isinf(found)
        assert WHY in found.statement
        assert "%" not in found.statement
    assert FRONTIER.nothing_to_keep is None
    assert WHY not in FRONTIER.table()


def test_the_page_and_the_json_of_a_useless_model(tmp_path: Path) -> None:
    page = USELESS.to_html(tmp_path / "p.html").read_text()
    assert f"No budget can be named: {WHY}" in page
    assert "nan" not in re.sub(r"base64,[^\"]*", "", page).lower()
    content = json.loads(USELESS.to_json(tmp_path / "f.json").read_text(), parse_constant=pytest.fail)
    assert {row["kept"] for row in content["rows"]} == {None}
    assert Frontier.from_json(tmp_path / "f.json") == USELESS


def test_a_loss_that_overflowed_is_no_share(tmp_path: Path) -> None:
    wild = Point.of("wild", 1.0, 0, np.full(RECORDS, math.inf))
    frontier = replace(FRONTIER, points=(*FRONTIER.points, wild))
    assert "inf (–)" in frontier.table()
    assert frontier.epsilon_for(0.84) == 4.0
    assert frontier.rows()[-1]["kept_low"] is None
    frontier.to_html(tmp_path / "p.html")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_hardly_any_records_are_no_reason_to_raise(tmp_path: Path, count: int) -> None:
    points = tuple(Point.of("codebook", e, 0, losses(1 / e)[:count]) for e in (1.0, 4.0))
    lines = {"clear_per_record": np.zeros(count), "constant_per_record": losses(1.1)[:count]}
    frontier = replace(FRONTIER, points=points, clear=0.0, **lines)
    assert frontier.epsilon_for(0.5) in (4.0, math.inf)
    frontier.to_html(tmp_path / "p.html")
    assert Frontier.from_json(frontier.to_json(tmp_path / "f.json")).rows() == frontier.rows()


def test_advice_does_not_repeat_itself(tmp_path: Path) -> None:
    """One budget keeps everything that is asked about; without it, nothing is sure and one sentence says so."""
    rng = np.random.default_rng(0)
    constant, clear = 2 + 0.1 * rng.random(200), 1 + 0.1 * rng.random(200)

    def frontier(losses: np.ndarray) -> Frontier:
        means = {"clear": float(clear.mean()), "constant": float(constant.mean())}
        per_record = {"clear_per_record": clear, "constant_per_record": constant}
        return Frontier(points=(Point.of("codebook", 4.0, 0, losses),), **means, **per_record)

    better, useless = frontier(clear - 0.1), frontier(constant.copy())
    (said,) = better.advice()
    assert "at least 95%" in said
    assert "does better than the model" in better.to_html(tmp_path / "better.html").read_text()
    (said,) = useless.advice()
    assert "to keep 50%" in said
    assert "does better than the model" not in useless.to_html(tmp_path / "useless.html").read_text()


NO_FRONTIERS = {
    **{text: text for text in ("", "[]", "{}", "damaged")},
    "no points": '{"points": [{"method": 1}], "clear": 0, "constant": 1}',
    "no double": f'{{"points": [], "clear": 1{"0" * 400}, "constant": 1}}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", NO_FRONTIERS.values(), ids=NO_FRONTIERS)
def test_what_is_no_frontier_is_refused_in_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "frontier.json"
    FRONTIER.to_json(path)
    whole = path.read_text()
    path.write_text(whole.replace('"per_record": "', '"per_record": "?') if text == "damaged" else text)
    with pytest.raises(DataError, match="holds no frontier"):
        Frontier.from_json(path)


def test_ticks_of_a_logarithmic_axis_are_numbers() -> None:
    fig, (ax,) = style.figure()
    ax.plot([1, 2], [1e2, 1e6])
    ax.set_yscale("log")
    style.save_to(fig, BytesIO())
    texts = [label.get_text() for label in ax.get_yticklabels()]
    assert any(texts)
    assert not [text for text in texts if "$" in text]
