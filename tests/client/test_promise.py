from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.client.promise import chance, statement, together


@given(st.floats(1e-6, 30.0))
def test_the_factor_is_never_smaller_than_the_mathematics(epsilon: float) -> None:
    shown = Decimal(statement(epsilon, 0.0, "").split("more than ")[1].split(" times")[0].replace(",", ""))
    exact = Context(prec=60).exp(Decimal(epsilon))
    assert exact <= shown <= exact * Decimal("1.011")


def test_the_factor_is_rounded_in_decimal() -> None:
    """e^ε = 1.010000000000000009: doubles would print 1.01."""
    assert "more than 1.02 times" in statement(0.009950330853168092, 0.0, "")


@pytest.mark.parametrize(("epsilon", "shown"), [(2.0, "ε = 2)"), (2.0000004, "ε = 2.00001)"), (40.00004, "e^40.0001 ")])
def test_the_budget_is_never_rounded_down(epsilon: float, shown: str) -> None:
    assert shown in statement(epsilon, 0.0, "")


@pytest.mark.parametrize(
    ("epsilon", "odds"), [(5.0, None), (5.01, "150"), (8.0, "2,981"), (16.0, "8,886,111"), (40.0, "e^40")]
)
def test_above_five_the_sentence_says_in_odds_how_weak_it_is(epsilon: float, odds: str | None) -> None:
    told = statement(epsilon, 0.0, "By counting.")
    turned = f"a report can turn even odds between two possible records into odds of up to {odds} to 1."
    assert ("weak" in told) == (odds is not None)
    if odds:
        assert (
            f"(ε = {epsilon:g}). This is weak protection: {turned} By counting. This holds for one report per person"
            in told
        )
        assert f"more than {odds} times as likely" in told  # one factor, however it is put


def test_exceptions_and_enforcement_are_named() -> None:
    assert "except" not in statement(1.0, 0.0, "")
    assert statement(1.0, 1e-6, "").startswith(
        "Whatever a person's record contains, no report becomes more than 2.72 times as likely as it would be for any "
        "other record (ε = 1), except with probability δ = 1e-06 (1 in 1,000,000): then a report may reveal more, at "
        "worst the whole record. "
    )
    assert "By counting." in statement(1.0, 0.0, "By counting.")


@given(st.builds(lambda power: 2.0**-power, st.floats(0, 100)))
def test_a_chance_is_never_rounded_down(delta: float) -> None:
    """From the shortest decimal that names the double: 1e-05 is 1 in 100,000, although the double is above that."""
    words, named = chance(delta), Fraction(repr(delta))
    assert named <= Fraction(words.split()[2]) <= named * Fraction(100_001, 100_000)
    number = int(words.split("1 in ")[1].rstrip(")").replace(",", ""))
    assert number <= 1 / named < number + 1
    assert chance(1e-5) == "δ = 1e-05 (1 in 100,000)"
    assert chance(1e-6, 52) == "δ = 5.2e-05 (1 in 19,230)"
    assert chance(1e-6, 2_000_000) == "δ = 1 (1 in 1)"
    assert chance(0.5) == "δ = 0.5 (1 in 2)"


@pytest.mark.parametrize("spent", [0.0, 2.0, 9.0])
def test_the_delta_of_a_report_stands_beside_the_cap(spent: float) -> None:
    added = " Every report of this release adds δ = 1e-06 (1 in 1,000,000) to the probability that this does not hold."
    assert together(spent, 9.0, 1e-6) == together(spent, 9.0) + added


def shown_odds(words: str) -> list[Decimal]:
    return [Decimal(text.split(" to 1")[0].replace(",", "")) for text in words.split("at most ")[1:]]


@given(st.floats(1e-6, 30.0), st.floats(1e-6, 30.0))
def test_the_odds_of_all_reports_are_never_smaller_than_the_mathematics(spent: float, cap: float) -> None:
    found = shown_odds(together(spent, cap))
    exact = [Context(prec=60).exp(Decimal(epsilon)) for epsilon in ((spent, cap) if spent < cap else (spent,))]
    for shown, factor in zip(found, exact, strict=True):
        assert factor <= shown <= factor * Decimal("1.011")


def test_a_person_who_has_not_reported_reads_what_the_cap_means() -> None:
    assert together(0.0, 9.0) == (
        "Reports add up. With all reports that the cap of ε = 9 allows, even odds between two people's records become "
        "odds of at most 8,104 to 1."
    )


def test_after_reports_the_total_stands_beside_the_cap() -> None:
    assert together(9.0, 60.0) == (
        "Reports add up. With the reports that this device has recorded so far (ε = 9), even odds between two people's "
        "records become odds of at most 8,104 to 1. With all reports that the cap of ε = 60 allows, they become at "
        "most e^60 to 1."
    )


@pytest.mark.parametrize("spent", [3.0, 9.0])
def test_a_cap_that_is_reached_promises_nothing_below_the_total(spent: float) -> None:
    """Another release may have spent more than this client's cap."""
    words = together(spent, 3.0)
    assert words.endswith("The cap of ε = 3 is reached.")
    assert shown_odds(words) == shown_odds(together(spent, 20.0))[:1]


def test_totals_are_rounded_up() -> None:
    """Three reports of 0.1 cost more than 0.3, which the ledger allows."""
    words = together(0.1 + 0.1 + 0.1, 0.3)
    assert "(ε = 0.300001)" in words
    assert "ε = 2.00001 allows" in together(0.0, 2.0000004)
