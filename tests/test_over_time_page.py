"""docs/guides/over-time.md: its code runs, and its numbers are what it says they are."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from math import exp, prod
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from pages import Shell, blocks, run_code

PAGE = Path(__file__).parents[1] / "docs/guides/over-time.md"
TEXT = PAGE.read_text(encoding="utf-8")


def rows(pattern: str) -> list[tuple[str, ...]]:
    """The cells of the tables' lines that the pattern begins."""
    found = [line for line in TEXT.splitlines() if re.match(rf"\| {pattern} \|", line)]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in found]


def test_the_code_and_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_code(PAGE)
    printed = capsys.readouterr().out
    assert f"in {names['veil'].panel.reports} of 52 rounds>" in printed
    assert "change between rounds" in printed
    assert "constant prediction" not in printed  # a mean
    assert names["client"].cap == names["veil"].guarantee.lifetime
    shell = Shell(tmp_path)
    for language, code in blocks(TEXT):
        if language == "sh":
            shell.type(code)
    made = tv.Veil.load("release").panel
    assert made is not None
    assert len(made.rounds) == 52


def test_the_shares_of_the_table_are_those_of_designs() -> None:
    """One Gaussian direction, by a quick design: its error is below 2% of the signal for 4,000 volunteers."""
    volunteers = np.random.default_rng(0).normal(size=(4_000, 1))
    for count, epsilon, said, _ in rows(r"(?:1|2|4|52)"):
        if not said.startswith("."):
            continue
        each = 4 / int(count)
        assert float(epsilon) == pytest.approx(each, abs=5e-4)
        if each < 0.5:  # two codewords, half of the line each: (2/π)·tanh²(ε/2), by formula
            assert float(said) == pytest.approx(2 / np.pi * np.tanh(each / 2) ** 2, abs=1e-4)
            continue
        veil = tv.design(volunteers, tv.LinearTask([[1.0]]), epsilon=each, method="codebook")
        kept = 1 - veil.loss(volunteers).mean / volunteers.var()
        assert float(said) == pytest.approx(kept, abs=0.01)


def test_memorised_answers_exceed_their_bound_exactly_as_the_page_says() -> None:
    kept, same = Fraction(3, 4), Fraction(3, 4)  # ε = ln 3 of a memorised answer; fresh noise flips it with ¼
    assert kept / (1 - kept) == 3

    def likelihood(seen: tuple[int, ...], values: list[int]) -> Fraction:
        """Of reports, by a person with these values: over the memorised answers to 0 and to 1."""
        return sum(
            (
                prod((kept if answer == value else 1 - kept for value, answer in enumerate(memory)), start=Fraction(1))
                * prod((same if one == memory[value] else 1 - same for one, value in zip(seen, values, strict=True)))
                for memory in product((0, 1), repeat=2)
            ),
            start=Fraction(0),
        )

    table = [row for row in rows(r"(?:6|12)") if len(row) == 3]
    assert [row[0] for row in table] == ["6", "12"]
    for count, said, bound in table:
        total = int(count)
        constant, changing = [0] * total, [place % 2 for place in range(total)]
        pairs = [(likelihood(seen, constant), likelihood(seen, changing)) for seen in product((0, 1), repeat=total)]
        assert sum(one for one, _ in pairs) == sum(other for _, other in pairs) == 1
        largest = max(max(one / other, other / one) for one, other in pairs)
        assert f"{float(largest):.3g}" == said
        assert bound == "9"
        assert largest > 9


def test_a_panel_of_the_same_budget_keeps_its_bound_for_the_same_people() -> None:
    """The same question with two reports of ε = ln 3 in six rounds: every schedule and report, in fractions."""
    right = Fraction(3, 4)
    schedules = list(product((0, 1, 2), (3, 4, 5)))

    def likelihood(schedule: tuple[int, ...], reports: tuple[int, ...], values: list[int]) -> Fraction:
        chances = [right if values[place] == one else 1 - right for place, one in zip(schedule, reports, strict=True)]
        return Fraction(1, len(schedules)) * prod(chances)

    constant, changing = [0] * 6, [place % 2 for place in range(6)]
    ratios = [
        likelihood(schedule, reports, constant) / likelihood(schedule, reports, changing)
        for schedule in schedules
        for reports in product((0, 1), repeat=2)
    ]
    assert max(*ratios, *(1 / ratio for ratio in ratios)) == 9
    assert exp(2 * np.log(3)) == pytest.approx(9)


@pytest.mark.parametrize(
    ("reports", "total"), [(1, 5), (2, 4), (3, 7), pytest.param(7, 52, marks=pytest.mark.slow), (9, 9)]
)
def test_a_lost_ledger_costs_one_report_more_at_most(reports: int, total: int, tmp_path: Path) -> None:
    X = np.linspace(0, 1, 20)[:, None]
    veil = tv.design(X, tv.MeanTask(), epsilon=tv.OverTime(lifetime=float(reports), rounds=total, per_report=1.0))
    veil.save(tmp_path / "release")
    most = 0
    for lost in range(total):  # after this round's report, in which the device joins again
        made = 0
        for number, places in enumerate([range(lost + 1), range(lost, total)]):
            ledger = tmp_path / f"ledger-{lost}-{number}"
            with tv.Client.load(tmp_path / "release", ledger=ledger) as client:
                made += sum(client.report([0.5], round=client.panel.rounds[place]) is not None for place in places)
        most = max(most, made)
        assert made <= reports + 1
    assert most >= reports - 1
