"""Designs for means: unbiased for any population, within the budget, small, released and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.client import Client
from taskveil.client.mechanisms import LevelResponse
from taskveil.designs.problem import Problem
from taskveil.errors import DataError, HardlyAskedWarning, TaskError
from taskveil.peers.literature import LITERATURE

RNG = np.random.default_rng(3)
X = RNG.beta(2, 5, size=(120, 4)) * [1.0, 10.0, 100.0, 2.0]
BOX = tv.Box([0.0, 0.0, -20.0, 0.0], [1.0, 12.0, 100.0, 2.0])
SCALED = np.diag([1.0, 0.1, 0.01, 0.5])
ANYWHERE = RNG.uniform(BOX.low, BOX.high, (300, 4))
CORNERS = np.where((np.arange(16)[:, None] >> np.arange(4)) % 2, BOX.high, BOX.low)
GRID = 2e-6
"""Attributes are rounded to 2^20 levels on devices."""


def expected(veil: tv.Veil, records: np.ndarray) -> np.ndarray:
    """What a report of each record (N, n) decodes to in expectation, by the chances of all reports."""
    reports = np.arange(veil.mechanism.layout.high[0] + 1)[:, None]
    chances = np.exp(veil.mechanism.log_likelihood(reports, veil.encoder(records)))
    return np.asarray(chances.T @ veil.estimates(reports))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 8.0, 40.0])
def test_every_record_of_the_domain_is_told_without_bias(epsilon: float) -> None:
    """Then so is the mean of every population in it, however far from the volunteers."""
    veil = tv.design(X, tv.MeanTask(SCALED), epsilon=epsilon, domain=BOX)
    assert veil.method == "means"
    assert veil.guarantee.epsilon <= epsilon
    for records in (ANYWHERE, CORNERS, X):
        assert np.abs((expected(veil, records) - records) / (BOX.high - BOX.low)).max() < GRID


@pytest.mark.parametrize(
    "K", [np.ones((1, 4)) / [1, 10, 100, 2], RNG.normal(size=(2, 4)), RNG.normal(size=(7, 4)), np.diag([0, 1.0, 0, 0])]
)
def test_so_is_whatever_the_task_weighs(K: np.ndarray) -> None:
    veil = tv.design(X, tv.MeanTask(K), epsilon=3.0, domain=BOX)
    reach = np.abs(K) @ (BOX.high - BOX.low)
    assert np.abs((expected(veil, ANYWHERE) - ANYWHERE) @ K.T / np.maximum(reach, 1e-9)).max() < GRID


@pytest.mark.parametrize("domain", [None, tv.Ball(120.0, X.mean(axis=0))])
def test_other_domains(domain: tv.Ball | None) -> None:
    K = SCALED if domain is None else np.diag([1.0, 1e-3, 1e-3, 1e-3])  # most is asked of one: no vectors are reported
    veil = tv.design(X, tv.MeanTask(K), epsilon=3.0, domain=domain)
    assert isinstance(veil.mechanism, LevelResponse)
    reach = np.ptp(X, axis=0) if domain is None else np.full(4, 240.0)
    assert np.abs((expected(veil, X) - X) / reach).max() < 2 * GRID


def test_the_loss_divided_by_the_people_is_the_squared_error_of_their_mean() -> None:
    veil = tv.design(X, tv.MeanTask(SCALED), epsilon=6.0, domain=BOX)
    loss = veil.loss(X)
    assert loss.exact
    means = np.array([veil.estimates(veil.privatize(X)).mean(axis=0) for _ in range(400)])
    errors = (((means - X.mean(axis=0)) @ SCALED) ** 2).sum(axis=1)
    # A mean of 400 squared errors: within five of its own standard errors.
    assert abs(errors.mean() - loss.mean / len(X)) < 5 * errors.std() / 20


def test_what_has_no_weight_is_not_asked_and_decodes_to_the_volunteers_mean() -> None:
    veil = tv.design(X, tv.MeanTask(np.diag([1.0, 0.0, 0.01, 0.0])), epsilon=2.0, domain=BOX)
    assert veil.encoder.latent_dim == 2
    decoded = veil.estimates(veil.privatize(X))
    assert np.ptp(decoded[:, [1, 3]], axis=0).max() == 0
    assert decoded[0, [1, 3]] == pytest.approx(X.mean(axis=0)[[1, 3]])


def test_heavier_attributes_are_asked_more_often() -> None:
    veil = tv.design(X, tv.MeanTask(SCALED @ np.diag([4.0, 1.0, 1.0, 1.0])), epsilon=1.0, domain=BOX)
    chances = {int(group.places[0]): group.chance for group in veil.mechanism.groups}  # type: ignore[union-attr]
    assert chances[0] > 3 * max(chances[place] for place in (1, 2, 3))


def test_correlated_attributes_are_told_in_rotated_directions() -> None:
    level = RNG.normal(size=(200, 1))
    alike = level + 0.05 * RNG.normal(size=(200, 6))
    veil = tv.design(alike, tv.MeanTask(np.eye(6)), epsilon=1.0)
    assert (veil.encoder.weights != 0).sum() > 6  # type: ignore[union-attr]
    plain = tv.design(alike, tv.MeanTask(np.eye(6)), epsilon=1.0, domain=tv.Box(alike.min(axis=0), alike.max(axis=0)))
    assert veil.loss(alike).mean < 0.5 * plain.loss(alike).mean


def test_more_budget_never_costs() -> None:
    losses = [
        tv.design(X, tv.MeanTask(SCALED), epsilon=e, domain=BOX).loss(X).mean for e in (0.5, 1.4, 1.6, 5.5, 6, 8, 12)
    ]
    assert losses == sorted(losses, reverse=True)


def test_small_clients_get_small_tables() -> None:
    roomy = tv.design(X, tv.MeanTask(SCALED), epsilon=6.0, domain=BOX)
    tight = tv.design(X, tv.MeanTask(SCALED), epsilon=6.0, domain=BOX, on_device=tv.OnDevice(max_bytes=6000))
    assert tight.size.client_bytes <= 6000 < roomy.size.client_bytes
    assert tight.loss(X).mean > roomy.loss(X).mean
    assert np.abs((expected(tight, ANYWHERE) - ANYWHERE) / (BOX.high - BOX.low)).max() < GRID


def test_fewer_latents_than_the_task_has_would_be_biased() -> None:
    with pytest.raises(TaskError, match="latent_dim=2 leaves out some of the 4 directions"):
        tv.design(X, tv.MeanTask(SCALED), epsilon=1.0, on_device=tv.OnDevice(latent_dim=2))
    assert (
        tv.design(X, tv.MeanTask(np.ones((1, 4))), epsilon=1.0, on_device=tv.OnDevice(latent_dim=1)).encoder.latent_dim
        == 1
    )


def test_a_release_knows_its_task_and_reports_from_devices_count(tmp_path: Path) -> None:
    veil = tv.design(X, tv.MeanTask(SCALED), epsilon=6.0, domain=BOX)
    veil.save(tmp_path / "release")
    loaded = tv.Veil.load(tmp_path / "release")
    assert isinstance(loaded.task, tv.MeanTask)
    assert np.array_equal(loaded.task.K, SCALED)
    assert loaded.loss(X) == veil.loss(X)
    assert loaded.release_id == veil.release_id
    with Client.load(tmp_path / "release", ledger=tmp_path / "ledger") as client:
        assert np.isfinite(loaded.estimates(loaded.receive(client.report(X[0], round="1").to_bytes()))).all()


def test_tables_with_text_and_holes() -> None:
    table = pd.DataFrame(
        {
            "power": np.where(RNG.random(200) < 0.1, np.nan, RNG.gamma(9.0, 13.0, 200)),
            "origin": pd.Series(RNG.choice(["a", "b", "c"], 200), dtype="str"),
            "new": RNG.random(200) < 0.4,
        }
    )
    veil = tv.design(table, tv.MeanTask(np.diag([0.01, 1.0, 1.0])), epsilon=6.0)
    assert veil.schema is not None
    assert veil.task is not None
    numbers = veil.schema.expand(table)
    reports = np.arange(veil.mechanism.layout.high[0] + 1)[:, None]
    chances = np.exp(veil.mechanism.log_likelihood(reports, veil.encoder(numbers)))
    wrong = veil.task.predict(chances.T @ veil.decoder(reports) - numbers)
    assert np.abs(wrong).max() < 10 * GRID


@pytest.mark.parametrize("saved", [False, True])
def test_single_reports_of_means_are_not_decoded(saved: bool) -> None:
    """All rows would be nearly the same, and clipped ones have a biased mean."""
    veil = tv.design(X, tv.MeanTask(SCALED), epsilon=2.0, domain=BOX)
    veil = tv.Veil.from_files(veil.files()) if saved else veil
    reports = veil.privatize(X)
    for refused in (veil.decode, veil.predict):
        with pytest.raises(DataError, match=r"Use tv\.estimate\(veil, reports\), or taskveil estimate"):
            refused(reports)
    assert veil.estimates(reports).shape == X.shape
    assert tv.estimate(veil, reports).reports == len(X)


@pytest.mark.parametrize("method", ["codebook", "task_aware", "task_agnostic", "constant", "attribute_laplace"])
def test_methods_that_are_biased_refuse_and_say_so(method: str) -> None:
    with pytest.raises(TaskError, match=f"{method} shrinks the answers for single records.*biased"):
        tv.design(X, tv.MeanTask(SCALED), epsilon=1.0, method=method)  # type: ignore[arg-type]


def test_it_refuses_other_tasks() -> None:
    with pytest.raises(TaskError, match="it serves a MeanTask"):
        tv.design(X, tv.LinearTask(SCALED), epsilon=1.0, method="means")


@pytest.mark.parametrize("unit", [1e-140, 1e-9, 1e140])
def test_the_unit_of_the_error_does_not_matter(unit: float) -> None:
    """Solvers tolerate errors in numbers near one: with answers in nanounits they would accept any channel."""
    losses = [
        np.mean(tv.design(X, tv.MeanTask(SCALED * size), epsilon=1.0, domain=BOX).losses(X) / size / size)
        for size in (1.0, unit)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_one_attribute_by_itself_is_told_at_many_levels_where_the_budget_is_large() -> None:
    """At eight levels rounding would cost more than privacy does."""
    box, task = tv.Box([0.0], [1.0]), tv.MeanTask([[1.0]])
    veil, problem = tv.design(X[:, :1], task, epsilon=8.0, domain=box), Problem.of(X[:, :1], task, domain=box)
    others = [way.expected_losses(problem, 8.0, X[:, :1]).mean() for way in LITERATURE]
    assert veil.losses(X[:, :1]).mean() < 0.8 * min(others)


def test_columns_that_hardly_any_report_is_about_are_named() -> None:
    """Incomes in euros took 99.9% of the reports, without a word, where K weighs euros and shares alike."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.uniform(0, 100_000, 400), rng.random(400) < 0.3, rng.random(400)])
    schema = tv.Schema({"income": tv.Number(0, 100_000), "owner": tv.Flag(), "share": tv.Number(0, 1)})
    with pytest.warns(HardlyAskedWarning, match=r"about owner, share: one in .*leave out K") as said:
        tv.design(table, tv.MeanTask(np.eye(3)), epsilon=1.0, schema=schema)
    assert len(said) == 1
    assert said[0].filename == __file__
    for task in (tv.MeanTask(), tv.MeanTask(np.diag([1e-5, 1.0, 0.0])), tv.MeanTask(np.diag([1e-5, 0.1, 0.01]))):
        tv.design(table, task, epsilon=1.0, schema=schema)  # in which all warnings are errors
