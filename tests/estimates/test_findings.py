"""Ten ways in which estimates misled before rows were measured or carried their assumption, as tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import collections_drawn as drawn
import taskveil as tv
from taskveil.veil.losses import _simulated

HONEST: dict[str, Any] = {
    "on_device": tv.OnDevice(encoder="linear", share_model=True, volunteers_unseen=True),
    "method": "codebook",
}
EVERYBODY = drawn.records(50_000, np.random.default_rng(5))


@cache
def churn() -> tuple[tv.Veil, pd.DataFrame]:
    """A release of a classifier, and 20,000 people like its 2,000 volunteers."""
    rng = np.random.default_rng(0)
    plan = rng.choice(["Basic", "Plus", "Pro"], 22_000, p=[0.5, 0.3, 0.2])
    table = pd.DataFrame({"plan": plan, "income": rng.lognormal(3, 0.4, 22_000), "invoice": rng.random(22_000) < 0.2})
    score = 1.0 * (plan == "Pro") - 1.0 * (plan == "Basic") + 0.02 * (table["income"] - 20) + 2.0 * table["invoice"]
    label = pd.Series(np.where(score + rng.logistic(size=22_000) > 0, "yes", "no"), name="renewed")
    schema = tv.Schema.of(table)
    model = LogisticRegression(max_iter=500).fit(schema.expand(table[2000:4000]), label[2000:4000])
    task = tv.ModelTask(model, loss="cross_entropy")
    return tv.design(table[:2000], task, y=label[:2000], epsilon=3.0, schema=schema, **HONEST), table[2000:]


def more_basic(table: pd.DataFrame) -> pd.DataFrame:
    weight = table["plan"].map({"Basic": 3.0, "Plus": 1.0, "Pro": 1.0})
    return table.sample(8000, replace=True, weights=weight, random_state=0)


def simulated(veil: tv.Veil, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return _simulated(veil.mechanism, veil.encoder(people), rng)


def test_1_a_changed_mix_of_plans_gives_no_unmarked_row_about_plans() -> None:
    """The old code printed `plan=Plus` 28.1% [22.6, 33.6] where 14.8% were true, without a mark, in all draws."""
    veil, table = churn()
    reports = veil.privatize(more_basic(table))
    found = tv.estimate(veil, reports)
    assert set(found.groups) == {"frequencies"}
    assert not any(word in found.table() for word in ("plan", "income", "invoice"))
    assumed = tv.estimate(veil, reports, assume="cells")
    assert {row.name for row in assumed.attributes} >= {"plan=Basic", "income"}
    for row in (*assumed.attributes, *assumed.shares):
        assert row.assumes is not None
        assert "covariate shift" in row.assumes
    assert all(row.assumes is None for row in assumed.frequencies)


def test_2_no_attribute_is_named_by_a_release_that_does_not_measure_it() -> None:
    """Only `invoice` changed, and the old code blamed tickets, `plan=Basic` and tenure."""
    veil, table = churn()
    people = table.assign(invoice=np.random.default_rng(0).random(len(table)) < 0.45)
    found = tv.estimate(veil, veil.privatize(people)).drift
    assert found.raised
    assert found.moved
    assert all(name.startswith("code ") for name in found.moved)
    assert not any(word in found.words for word in ("invoice", "plan", "income"))
    assert "instead of" in found.words


@cache
def means(epsilon: float = 2.0) -> tv.Veil:
    box = tv.Box([-3.0, -8.0], [7.0, 8.0])
    return tv.design(EVERYBODY[:500], tv.MeanTask(np.eye(2)), epsilon=epsilon, domain=box)


def covered(veils: list[tv.Veil], people: list[np.ndarray], truth: np.ndarray, count: int, draws: int) -> float:
    """How often pooled intervals of attributes hold the truth (n,)."""
    rng, held = np.random.default_rng(1), []
    for _ in range(draws):
        own = [who[rng.integers(len(who), size=count)] for who in people]
        reports = [simulated(veil, who, rng) for veil, who in zip(veils, own, strict=True)]
        found = tv.estimate(veils, reports).attributes
        held.append([row.low <= mean <= row.high for row, mean in zip(found, truth, strict=True)])
    return float(np.mean(held))


def test_3_pooled_with_a_codebook_a_means_release_keeps_its_coverage() -> None:
    """The old code gave the weight to the codebook's narrow guess: 2% instead of 93%."""
    codes = drawn.with_volunteers(drawn.codebook_veil(2.0), EVERYBODY[:500])
    moved = EVERYBODY[EVERYBODY[:, 1] > 0.5]  # unlike the volunteers
    truth = moved.mean(axis=0)
    assert covered([means(), codes], [moved, moved], truth, 1000, 60) >= 0.9
    both = tv.estimate(
        [means(), codes], [simulated(veil, moved[:500], np.random.default_rng(0)) for veil in (means(), codes)]
    )
    alone = tv.estimate(means(), simulated(means(), moved[:500], np.random.default_rng(0)))
    assert both.attributes == alone.attributes


def test_4_no_interval_depends_on_the_drift_test() -> None:
    """The old code widened the intervals where the test raised: 72% and 60% held, which is how often it did. Here one
    report more in a code moves every limit by about one report, wherever the alarm begins."""
    veil = drawn.with_volunteers(drawn.codebook_veil(2.0), EVERYBODY[:1000])
    people = drawn.People.of(veil, EVERYBODY)
    codes = np.rint(5000 * people.chances).astype(np.int64)
    tally = people.reports(5000, np.random.default_rng(0))
    widths, raised = [], []
    for shift in range(0, 300, 3):
        moved = codes + shift * np.array([1, -1, 0, 0, 0])
        found = tv.estimate(veil, type(tally)(**{**tally.__dict__, "codes": moved, "count": int(moved.sum())}))
        raised.append(found.drift.raised)
        widths.append([row.high - row.low for row in found.frequencies])
    assert not raised[0]
    assert raised[-1]
    assert np.abs(np.diff(np.log(widths), axis=0)).max() < 0.005


def mixture_of(counts: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Shares (G,) of groups whose reports have these chances (G, K): maximum likelihood by plain EM."""
    shares = np.full(len(chances), 1 / len(chances))
    for _ in range(3000):
        weight = shares[:, None] * chances
        shares = (weight / weight.sum(axis=0)) @ counts / counts.sum()
    return shares


def rmse(assumption: str, draws: int = 40) -> tuple[float, float]:
    """Of `tv.estimate` and of the plain maximum likelihood, where people differ as the assumption says."""
    rng = np.random.default_rng(2)
    labels = (EVERYBODY[:, 0] + 0.7 * rng.normal(size=len(EVERYBODY)) > 0.3).astype(int)
    veil = drawn.with_volunteers(drawn.codebook_veil(4.0), EVERYBODY[:2000], labels[:2000])
    stage, known = veil.mechanism.stages[0], veil.volunteers
    cell = known.cell_of[stage.favoured(veil.mechanism.region.enforce(veil.encoder(EVERYBODY)))[:, 0]]
    groups, member = (known.cells, cell) if assumption == "cells" else (known.classes, labels)
    factor = np.array([3.0, 0.3, 1.0, 2.0, 0.5])[: len(groups.counts)][member]
    people = EVERYBODY[rng.choice(len(EVERYBODY), 100_000, p=factor / factor.sum())]
    truth = np.average(np.column_stack([EVERYBODY, labels == 0, labels == 1]), axis=0, weights=factor)
    spread = np.column_stack([EVERYBODY, labels == 0, labels == 1]).std(axis=0)
    sending = drawn.People.of(veil, people)
    ours, plain = [], []
    for _ in range(draws):
        reports = sending.reports(5000, rng)
        found = tv.estimate(veil, reports, assume=assumption)
        ours.append([row.mean for row in (*found.attributes, *found.shares)])
        shares = mixture_of(reports.codes, stage.response.base + stage.response.extra * groups.measured)
        plain.append(shares @ groups.means)
    truth, spread = truth[-len(ours[0]) :], spread[-len(ours[0]) :]  # labels give the shares of classes alone
    return tuple(float(np.sqrt((((np.array(one) - truth) / spread) ** 2).mean())) for one in (ours, plain))


@pytest.mark.parametrize("assumption", ["cells", "labels"])
def test_5_where_an_assumption_is_made_it_is_used_as_well_as_maximum_likelihood_does(assumption: str) -> None:
    """The old code had .130 against .025 of EM on cells, and .076 against .050 under label shift."""
    ours, plain = rmse(assumption)
    assert ours <= 1.1 * plain


def test_6_the_same_volunteers_in_two_releases_make_no_pooled_row_too_sure() -> None:
    """The old code took volunteers with other answers for other volunteers: 84 and 91% were covered. Pooled rows are
    measured, and no volunteer has a part in them."""
    weighed = tv.design(
        EVERYBODY[:500],
        tv.MeanTask(np.array([[1.0, 0.0], [0.0, 3.0]])),
        epsilon=2.0,
        domain=tv.Box([-3.0, -8.0], [7.0, 8.0]),
    )
    veils = [means(), weighed]
    held = covered(veils, [EVERYBODY, EVERYBODY], EVERYBODY.mean(axis=0), 1000, 150)
    assert held >= 0.92


def test_7_missing_values_with_a_number_written_by_hand_are_covered() -> None:
    """The old code filled with the middle of the range: 0% were covered."""
    rng = np.random.default_rng(0)
    there = rng.random(20_000) > 0.3
    age = np.where(there, rng.gamma(4, 8, 20_000).clip(0, 99), np.nan)
    table = pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], 20_000)})
    schema = tv.Schema.of(table[:300]).replace(age=tv.Number(0, 1000, missing=True))
    veil = tv.design(table[:300], tv.MeanTask(np.eye(2)), epsilon=4.0, schema=schema)
    truth, held = np.nanmean(age), []
    numbers = veil.schema.expand(table)
    for _ in range(60):
        found = tv.estimate(veil, simulated(veil, numbers[rng.integers(20_000, size=1000)], rng))
        (row,) = (row for row in found.attributes if row.name == "age")
        held.append(row.low <= truth <= row.high)
        assert row.high - row.low < 500
    assert np.mean(held) >= 0.88


@pytest.mark.parametrize("count", [10, 30, 100, 300])
def test_8_from_ten_reports_there_are_intervals(count: int) -> None:
    """The old code said for 30 attributes that 520 reports were needed at N = 100, and 12,541 at N = 5,000."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30))
    veil = tv.design(X[:100], tv.MeanTask(np.eye(30)), epsilon=1.0, domain=tv.Box([-5.0] * 30, [5.0] * 30))
    found = tv.estimate(veil, veil.privatize(X[:count]))
    assert len(found.attributes) == 30
    assert all(-5 <= row.low <= row.high <= 5 for row in found.attributes)


@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_9_a_hundred_reports_of_a_lognormal_attribute_are_covered(sigma: float) -> None:
    """The old code covered 61 to 88%."""
    rng = np.random.default_rng(0)
    X = np.minimum(rng.lognormal(0, sigma, size=(50_000, 1)), 200.0)
    veil = tv.design(X[:300], tv.MeanTask(np.eye(1)), epsilon=4.0, domain=tv.Box([0.0], [200.0]))
    assert covered([veil], [X], X.mean(axis=0), 100, 300) >= 0.93


def test_10_rows_are_called_by_the_target_and_its_classes() -> None:
    """The old code called them "0", "1" and "y0"."""
    veil, table = churn()
    assert veil.outputs.names == ("renewed = no", "renewed = yes")
    reports = veil.privatize(table[:500])
    names = [row.name for row in tv.estimate(veil, reports).frequencies]
    assert all("(renewed = yes, " in name or "(renewed = no, " in name for name in names)
    shares = tv.estimate(veil, reports, assume="labels").shares
    assert [row.name for row in shares] == ["share of labels: renewed = no", "share of labels: renewed = yes"]
