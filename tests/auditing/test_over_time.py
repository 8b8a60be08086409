"""The audit over time clears sound devices, and catches those whose rounds, silence or reports tell more than r·ε."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from auditing.gaussians import gaussian_veil
from families import answers, chosen, drawn, means
from taskveil.auditing.families import family_checks
from taskveil.auditing.over_time import NAMES, over_time_checks
from taskveil.client import Client, Ledger, entropy
from taskveil.client.families import single
from taskveil.client.panels import Panel

ROUNDS, SEQUENCES, RESTARTS = NAMES
RECORDS = [0.0, 0.0], [1.0, 1.0]
PANEL = Panel(reports=2, rounds=tuple(f"week {number}" for number in range(8)), days=0)
QUICK, FULL = 20_000, 1_000_000


def checked(veil: tv.Veil, trials: int, panel: Panel = PANEL) -> tuple[Any, ...]:
    return over_time_checks(single(replace(veil, panel=panel).device, bytes(32)), RECORDS, trials)


def broken(checks: tuple[Any, ...]) -> set[str]:
    return {check.name for check in checks if not check.passed}


def planned(family: tv.Family, panel: Panel = PANEL) -> tv.Family:
    members = {name: replace(veil, panel=panel) for name, veil in family.members.items()}
    if family.kind == "chosen":
        return tv.Family.of_budgets({float(name): veil for name, veil in members.items()})
    return tv.Family({name: (veil, family.weights[name]) for name, veil in members.items()})


@pytest.mark.parametrize(
    ("design", "reports", "rounds", "trials"),
    [
        (means, 2, 8, QUICK),
        (answers, 1, 4, QUICK),
        (answers, 3, 3, QUICK),
        pytest.param(means, 2, 52, FULL, marks=pytest.mark.slow),
        pytest.param(answers, 4, 52, FULL, marks=pytest.mark.slow),
        pytest.param(answers, 1, 52, FULL, marks=pytest.mark.slow),
        pytest.param(answers, 20, 365, FULL, marks=pytest.mark.slow),
    ],
)
def test_sound_devices_are_cleared(design: Callable[[float], tv.Veil], reports: int, rounds: int, trials: int) -> None:
    panel = Panel(reports=reports, rounds=tuple(map(str, range(rounds))), days=0)
    checks = checked(design(1.0), trials, panel)
    assert [check.name for check in checks] == list(NAMES)
    assert [check.outcome for check in checks] == ["held"] * 3, [check.detail for check in checks]


def test_what_delta_allows_is_no_alarm() -> None:
    """Noise with an ε near 0 and a large δ: most of the difference that is seen is that of δ."""
    veil = replace(gaussian_veil(0.05, 0.3), panel=Panel(reports=2, rounds=("a", "b", "c", "d"), days=0))
    checks = over_time_checks(single(veil.device, bytes(32)), ([-1e9], [1e9]), 300_000)
    assert [check.outcome for check in checks] == ["held"] * 3, [check.detail for check in checks]


def test_the_attack_comes_near_the_claim() -> None:
    """An attack that shows nothing clears everything. Of ε = 1 it shows about .57 here; .3 is five errors less."""
    (_, sequences, _) = checked(answers(1.0), 500_000, Panel(reports=1, rounds=("a", "b"), days=0))
    shown = float(sequences.detail.split("show ε ≥ ")[1].split(" ")[0])
    assert 0.3 < shown <= 1.0


REPORT, MAKE, ONCE, DRAWN, START = Client.report, Client._make, Ledger.once, Ledger.drawn, Client.__init__


def every_round(patch: pytest.MonkeyPatch) -> None:
    """A report in every round."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        self.enrol(round)
        record = self.device.record(x)
        raw = self.ledger.once(self.release, round, self.epsilon, self.cap, lambda: MAKE(self, record).to_bytes())
        return None if raw is None else self._checked(raw, round)

    patch.setattr(Client, "report", report)


def drawn_by_the_record(patch: pytest.MonkeyPatch) -> None:
    """One person in five reports early in each block if the record at enrolment is high."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        draw = Panel.draw_places

        def early(panel: Panel, place: int) -> tuple[int, ...]:
            drawn = draw(panel, place)
            looks = int(entropy.uniform_below(5, 1)[0]) == 0 and x[0] > 0.5
            return tuple(panel.start(panel.block(one)) for one in drawn) if looks else drawn

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Panel, "draw_places", early)
            return REPORT(self, x, round=round)

    patch.setattr(Client, "report", report)


def made_up_twice(patch: pytest.MonkeyPatch) -> None:
    """A report in the drawn round, and in every later round of the block."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        once = self.ledger.once

        def alone(*arguments: Any) -> Any:
            return once(*arguments[:5])

        self.ledger.once = alone  # type: ignore[method-assign]
        try:
            return REPORT(self, x, round=round)
        finally:
            del self.ledger.once  # type: ignore[attr-defined]

    patch.setattr(Client, "report", report)


def made_up_and_made_again(patch: pytest.MonkeyPatch) -> None:
    """The round that was drawn gets a report although it was made up."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        made = REPORT(self, x, round=round)
        panel, places = self.panel, self._drawn() or ()
        if made is None and panel is not None and panel.place(round) in places:
            record = self.device.record(x)
            raw = self.ledger.once(self.release, round, self.epsilon, self.cap, lambda: MAKE(self, record).to_bytes())
            return None if raw is None else self._checked(raw, round)
        return made

    patch.setattr(Client, "report", report)


def silent_by_the_record(patch: pytest.MonkeyPatch) -> None:
    """No report if the record is the one of the round before."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        before, self.before = getattr(self, "before", None), x  # type: ignore[attr-defined]
        return None if before == x and round == "week 3" else REPORT(self, x, round=round)

    patch.setattr(Client, "report", report)


def memorised(patch: pytest.MonkeyPatch) -> None:
    """The same numbers as long as the record stays the same: what others call permanent randomised response."""

    def make(self: Client, *records: Any) -> Any:
        made = MAKE(self, *records)
        known = getattr(self, "known", None)
        if known is not None and np.array_equal(known[0], records[0]):
            return replace(made, payload=known[1])
        self.known = records[0], made.payload  # type: ignore[attr-defined]
        return made

    patch.setattr(Client, "_make", make)


def a_ledger_without_blocks(patch: pytest.MonkeyPatch) -> None:
    """The ledger allows a report for every round of a block."""
    patch.setattr(Ledger, "once", lambda self, *arguments: ONCE(self, *arguments[:5]))


def drawn_again(patch: pytest.MonkeyPatch) -> None:
    """The drawn rounds are kept in memory only."""
    kept: dict[int, bytes] = {}

    def drawn(self: Ledger, release: bytes, draw: Any = None) -> bytes | None:
        if id(self) not in kept and draw is not None:
            kept[id(self)] = draw()
        return kept.get(id(self))

    patch.setattr(Ledger, "drawn", drawn)
    patch.setattr(Ledger, "__del__", lambda self: kept.pop(id(self), None))


def failing(patch: pytest.MonkeyPatch) -> None:
    """An error in the turn of those whose record is high."""

    def make(self: Client, *records: Any) -> Any:
        return MAKE(self, *records) if records[0][0, 0] < 0.5 else 1 / 0

    patch.setattr(Client, "_make", make)


def charged_half(patch: pytest.MonkeyPatch) -> None:
    def start(self: Client, **parts: Any) -> None:
        START(self, **parts)
        self.epsilon /= 2

    patch.setattr(Client, "__init__", start)


BROKEN = [
    (every_round, ROUNDS, {SEQUENCES}),
    (drawn_by_the_record, ROUNDS, set()),
    (made_up_twice, ROUNDS, {SEQUENCES}),
    (made_up_and_made_again, ROUNDS, {SEQUENCES}),
    (silent_by_the_record, ROUNDS, set()),
    (failing, ROUNDS, set()),
    (a_ledger_without_blocks, RESTARTS, set()),
    (drawn_again, RESTARTS, set()),
    (charged_half, RESTARTS, set()),
]


@pytest.mark.parametrize(("breaks", "by", "_sampled"), BROKEN, ids=[breaks.__name__ for breaks, *_ in BROKEN])
def test_broken_devices_are_caught(
    monkeypatch: pytest.MonkeyPatch, breaks: Callable[[pytest.MonkeyPatch], None], by: str, _sampled: set[str]
) -> None:
    breaks(monkeypatch)
    assert by in broken(checked(means(1.0), QUICK))


def test_memorised_answers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reports never differ under one record, and often under two: more than 2ε, whatever a report costs."""
    memorised(monkeypatch)
    assert SEQUENCES in broken(checked(means(0.5), 300_000))


@pytest.mark.slow
@pytest.mark.parametrize(
    "breaks", [memorised] + [breaks for breaks, _, sampled in BROKEN if sampled], ids=lambda breaks: breaks.__name__
)
def test_broken_devices_are_caught_by_sampling_alone(monkeypatch: pytest.MonkeyPatch, breaks: Any) -> None:
    """The attack on sequences sees by itself what spends more than r·ε."""
    breaks(monkeypatch)
    assert SEQUENCES in broken(checked(answers(1.5), FULL))


def test_a_veil_is_audited_over_time() -> None:
    veil = replace(means(1.0), panel=PANEL)
    found = tv.audit(veil, trials=2_000)
    assert found.passed, found.verdict
    assert [check.name for check in found.checks[-3:]] == list(NAMES)


def test_without_planned_rounds_there_is_nothing_to_check() -> None:
    assert over_time_checks(single(means(1.0).device, bytes(32)), RECORDS, 2_000) == ()


def test_a_veil_whose_device_reports_in_every_round_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    every_round(monkeypatch)
    found = tv.audit(replace(means(1.0), panel=PANEL), trials=2_000)
    assert found.verdict.startswith("BROKEN. A device that was asked in order made 8 reports in 2 blocks.")


@pytest.mark.parametrize("family", [drawn, chosen])
def test_families_are_audited_over_time(family: Any) -> None:
    checks = family_checks(planned(family()), 20_000)
    assert not broken(checks), checks
    assert [check.name for check in checks[-3:]] == list(NAMES)
    assert [check.outcome for check in checks[-3:]] == ["held"] * 3


def test_a_family_that_spends_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_twice_of_members(monkeypatch)
    assert ROUNDS in broken(family_checks(planned(drawn()), 20_000))


def made_up_twice_of_members(patch: pytest.MonkeyPatch) -> None:
    """Each member counts its blocks alone."""

    def report(self: Client, x: Any, *, round: str) -> Any:
        made = REPORT(self, x, round=round)
        if made is None and self.panel is not None and self._drawn():
            records = [member.device.record(x) for member in self._offered]
            raw = self.ledger.once(self.release, round, self.epsilon, self.cap, lambda: MAKE(self, *records).to_bytes())
            return None if raw is None else self._checked(raw, round)
        return made

    patch.setattr(Client, "report", report)
