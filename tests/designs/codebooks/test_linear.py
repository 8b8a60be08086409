"""Codebooks for linear tasks: worth their budget, exact, and chosen among what the plan leaves open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import taskveil as tv
from conftest import some_task, some_volunteers
from hostile import hostile_records
from taskveil.client.mechanisms import Codebook, LatticeCodebook, SumCodebook
from taskveil.designs.codebooks import linear
from taskveil.designs.codebooks.codes import LatticeChoice, ListedChoice, SumChoice
from taskveil.designs.codebooks.linear import CodePlan, candidates
from taskveil.designs.problem import OnDevice, Problem

Designed = Callable[[float], tv.Veil]


@pytest.fixture(scope="module")
def designed() -> Designed:
    """The codebook of the volunteers for a budget, designed once for all tests."""
    made: dict[float, tv.Veil] = {}

    def design(epsilon: float) -> tv.Veil:
        if epsilon not in made:
            made[epsilon] = tv.design(some_volunteers(), some_task(), epsilon=epsilon, method="codebook")
        return made[epsilon]

    return design


@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")  # large budgets leave few losses
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 8.0, 25.0])
def test_budget_kept_and_loss_below_laplace(
    epsilon: float, volunteers: np.ndarray, task: tv.LinearTask, designed: Designed
) -> None:
    veil = designed(epsilon)
    assert veil.guarantee.epsilon <= epsilon
    assert isinstance(veil.mechanism, LatticeCodebook | SumCodebook if epsilon > 8 else Codebook)
    laplace = tv.design(volunteers, task, epsilon=epsilon, method="task_aware")
    assert veil.loss(volunteers).mean < laplace.loss(volunteers).mean


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_exact_losses_are_the_mean_of_what_really_happens(
    epsilon: float, volunteers: np.ndarray, task: tv.LinearTask, designed: Designed
) -> None:
    veil = designed(epsilon)
    loss = veil.loss(volunteers)
    assert loss.exact
    drawn = np.tile(volunteers, (60, 1))
    realised = task.losses(veil.decode(veil.privatize(drawn)), drawn)
    assert abs(realised.mean() - loss.mean) < 6 * realised.std() / np.sqrt(len(realised))


def test_hostile_records_give_ordinary_reports(designed: Designed) -> None:
    for epsilon in (1.0, 25.0):
        veil = designed(epsilon)
        assert np.isfinite(veil.decode(veil.privatize(hostile_records(6)))).all()


@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")
def test_saved_codebooks_are_the_same(
    volunteers: np.ndarray, task: tv.LinearTask, designed: Designed, tmp_path: Path
) -> None:
    small = tv.design(volunteers, task, epsilon=2.0, method="codebook", on_device=OnDevice(latent_dim=3))
    for veil in (small, designed(25.0)):
        folder = tmp_path / veil.release_id
        veil.save(folder)
        again = tv.Veil.load(folder)
        assert again.loss(volunteers) == veil.loss(volunteers)
        assert again.guarantee == veil.guarantee


def test_the_plan_spends_more_on_larger_budgets() -> None:
    variances = np.array([4.0, 1.0, 0.25, 0.05])
    plans = [CodePlan.of(variances, e) for e in (0.1, 1.0, 5.0, 20.0)]
    assert [p.nats for p in plans] == sorted(p.nats for p in plans)
    assert plans[0].nats == pytest.approx(np.log(2))
    assert plans[-1].active == 4
    assert all(p.nats < max(e, 0.7) for p, e in zip(plans, (0.1, 1.0, 5.0, 20.0), strict=True))


def test_categorical_records_get_a_codeword_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(400, 2)).astype(float)
    options = candidates(X - X.mean(axis=0), np.array([0.25, 0.25]), 6.0)
    assert ListedChoice(size=4, favoured=1, dim=2, smoothing=0.0) in options
    veil = tv.design(X, tv.LinearTask(np.eye(2)), epsilon=6.0, method="codebook")
    assert veil.loss(X).mean < 0.01


def test_large_budgets_consider_lattices_and_sums_and_what_less_would_buy() -> None:
    latents = np.random.default_rng(0).normal(size=(300, 10))
    options = candidates(latents, np.ones(10), 24.0)
    assert {type(option) for option in options} == {LatticeChoice, SumChoice}
    sums = [option for option in options if isinstance(option, SumChoice)]
    assert {option.smoothing for option in sums} == {1.0, linear.CLUSTERED}
    half = CodePlan.of(np.ones(10), 12.0).nats
    assert any(option.stages * np.log(option.size) == pytest.approx(half, rel=0.1) for option in sums)
    few = candidates(latents[:, :3], np.ones(3), 24.0)
    assert {type(option) for option in few} == {LatticeChoice}  # finer than volunteers can place codewords


@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")
@pytest.mark.parametrize(
    ("few", "many", "stored"),
    [
        (7.0, 12.0, 16_000),  # on devices that store little, lists end earlier
        pytest.param(11.0, 16.0, OnDevice().max_bytes, marks=pytest.mark.slow),
    ],
)
def test_more_budget_costs_nothing_where_lists_end(few: float, many: float, stored: int) -> None:
    """Clustered records, weights 1/spread: between ε = 10 and 16, 0.1 lost more with more budget."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(12, 16)) * 2
    X = (rng.normal(size=(600, 16)) * 0.7 + centres[rng.integers(12, size=600)]) @ rng.normal(size=(16, 16))
    task = tv.LinearTask(np.diag(1 / X[:400].std(axis=0)))
    less, more = (
        tv.design(X[:400], task, epsilon=epsilon, method="codebook", on_device=OnDevice(max_bytes=stored))
        for epsilon in (few, many)
    )
    assert isinstance(more.mechanism, SumCodebook)
    assert more.loss(X[400:]).mean < 0.95 * less.loss(X[400:]).mean


def test_a_seed_repeats_the_design_but_never_the_reports(
    volunteers: np.ndarray, task: tv.LinearTask, designed: Designed
) -> None:
    one, two = designed(3.0), tv.design(volunteers, task, epsilon=3.0, method="codebook")
    assert one.loss(volunteers) == two.loss(volunteers)
    assert not np.array_equal(one.privatize(volunteers), two.privatize(volunteers))


def test_one_thread_and_the_callers_setting_afterwards(
    volunteers: np.ndarray, task: tv.LinearTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, original = set(), linear.Latents.of

    def spy(problem: object) -> object:
        threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return original(problem)

    options = [linear.ListedChoice(size=2, favoured=1, dim=1)]
    monkeypatch.setattr(linear, "candidates", lambda *_, **__: options)
    problem = Problem.of(volunteers, task).linear
    (one,) = linear.linear_candidates(problem, 1.0, 0, np.arange(300) % 5, OnDevice().max_bytes)
    monkeypatch.setattr(linear.Latents, "of", spy)
    with threadpool_limits(2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        linear._judged(problem, options, 1.0, 0, np.arange(300) % 5)
        one.make()
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert threads == {1}


def test_held_out_losses_are_those_of_codes_made_without_them(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    """What a fold costs does not change when its own records are moved; and not everybody judges."""
    fold, other = np.arange(300) % 5, volunteers.copy()
    rows = np.flatnonzero(fold == 3)
    other[rows[1:]] = 100.0 + volunteers[rows[1:]]
    problem = Problem.of(volunteers, task, domain=tv.Box(-1e3, 1e3))
    changed = Problem.of(other, task, domain=tv.Box(-1e3, 1e3))
    options = [linear.ListedChoice(size=4, favoured=1, dim=2), linear.ListedChoice(size=12, favoured=2, dim=2)]
    one, two = (linear._judged(each.linear, options, 2.0, 0, fold) for each in (problem, changed))
    for option in options:
        assert np.isfinite(one[option]).all()
        assert one[option][rows[0]] == pytest.approx(two[option][rows[0]], rel=1e-12)
        assert not np.allclose(one[option][rows[1:]], two[option][rows[1:]])


def test_candidates_say_what_they_take(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    problem = Problem.of(volunteers, task).linear
    for each in linear.linear_candidates(problem, 1.0, 0, np.arange(300) % 5, OnDevice().max_bytes):
        veil = each.make()
        assert (each.method, each.encoder) == ("codebook", "linear")
        assert each.bytes == pytest.approx(veil.size.client_bytes, abs=4096)
        assert each.operations > 0


def test_two_thousand_volunteers_judge(task: tv.LinearTask) -> None:
    records = np.random.default_rng(3).normal(size=(2100, 6))
    found = linear.linear_candidates(
        Problem.of(records, task).linear, 1.0, 0, np.arange(2100) % 5, OnDevice().max_bytes
    )
    for each in found:
        assert np.isfinite(each.losses).sum() == linear.JUDGED


def test_lists_are_as_short_as_small_devices_need_them() -> None:
    X = np.random.default_rng(5).normal(size=(300, 20))
    roomy, small = (
        tv.design(X, tv.LinearTask(np.eye(20)), epsilon=7.0, method="codebook", on_device=tv.OnDevice(max_bytes=b))
        for b in (10**6, 16_000)
    )
    assert roomy.size.client_bytes > 16_000 >= small.size.client_bytes


def people(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=count)
    return pd.DataFrame(
        {
            "income": np.where(rng.random(count) < 0.5 / (1 + np.exp(-3 * z)), np.nan, 50 + 10 * z),
            "kind": np.array(list("abcd"))[np.digitize(z + 0.5 * rng.normal(size=count), [-1.0, 0.3, 1.0])],
            "owner": rng.random(count) < 1 / (1 + np.exp(-2 * z)),
        }
    )


def test_what_reports_of_a_table_say_to_be_probable_is_as_often_so() -> None:
    """Linear estimates of chances were off by up to a third: of categories in the middle, and of holes, which have no
    weight."""
    volunteers, others = people(3000, 0), people(20_000, 1)
    task = tv.LinearTask(np.diag([0.1, 1.0, 1.0]))
    veil = tv.design(volunteers, task, epsilon=5.0, method="codebook")
    reports = veil.privatize(others)
    said = veil.decode(reports, probabilities=True)
    for name in ("kind", "owner"):
        right = (said[name] == others[name]).to_numpy()
        chance = said[f"{name} probability"].to_numpy()
        for low in np.arange(0.3, 1.0, 0.1):
            part = (chance >= low) & (chance < low + 0.1)
            if part.sum() > 1000:
                assert abs(chance[part].mean() - right[part].mean()) < 0.06
    hole = veil.decoder(veil.mechanism.values(reports))[:, 1]
    for part in np.array_split(np.argsort(hole), 5):
        assert abs(hole[part].mean() - others["income"].isna().to_numpy()[part].mean()) < 0.1
