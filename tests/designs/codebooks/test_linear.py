from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from hostile import hostile_records
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, LatticeCodebook
from taskveil.decoders import LatticeDecoder
from taskveil.designs.codebooks.fitted_lattice import fit_lattice
from taskveil.designs.codebooks.linear import LatticeChoice, Plan, StagesChoice, TableChoice, _parts, candidates
from taskveil.designs.codebooks.listed import fit_table, smoothed
from taskveil.designs.codebooks.stages import fit_stages
from taskveil.designs.moments import Moments


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 8.0, 25.0])
def test_budget_kept_and_loss_below_laplace(epsilon: float, volunteers: np.ndarray, task: tv.LinearTask) -> None:
    veil = tv.design(volunteers, task, epsilon=epsilon, method="codebook")
    assert veil.guarantee.epsilon <= epsilon
    assert isinstance(veil.mechanism, LatticeCodebook if epsilon > 20 else Codebook)
    laplace = tv.design(volunteers, task, epsilon=epsilon, method="task_aware")
    assert veil.loss(volunteers).mean < laplace.loss(volunteers).mean


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_exact_losses_are_the_mean_of_what_really_happens(
    epsilon: float, volunteers: np.ndarray, task: tv.LinearTask
) -> None:
    veil = tv.design(volunteers, task, epsilon=epsilon, method="codebook")
    loss = veil.loss(volunteers)
    assert loss.exact
    drawn = np.tile(volunteers, (60, 1))
    realised = task.losses(veil.decode(veil.privatize(drawn)), drawn)
    assert abs(realised.mean() - loss.mean) < 6 * realised.std() / np.sqrt(len(realised))


def test_exact_lattice_losses_are_the_mean_of_what_really_happens(volunteers: np.ndarray) -> None:
    """With a budget at which wrong codewords are common enough to be seen (real designs make them one in 10^4)."""
    task = tv.LinearTask(np.eye(6))
    moments = Moments.of(volunteers, task)
    weights = np.sqrt(moments.eigenvalues)[:, None] * moments.principal_map
    latents = (volunteers - moments.mean) @ weights.T
    fitted = fit_lattice(latents, nats=6.0, spacing=4.0, epsilon=5.0)
    encoder = LinearEncoder.of(
        low=volunteers.min(axis=0), high=volunteers.max(axis=0), weights=weights, offset=-weights @ moments.mean
    )
    back = moments.factor @ moments.directions / np.sqrt(moments.eigenvalues)
    mechanism, decoder = _parts(fitted, encoder, latents, back, moments.mean)
    veil = tv.Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=task, method="codebook")
    loss, drawn = veil.loss(volunteers), np.tile(volunteers, (60, 1))
    realised = task.losses(veil.decode(veil.privatize(drawn)), drawn)
    assert loss.exact
    assert abs(realised.mean() - loss.mean) < 6 * realised.std() / np.sqrt(len(realised))
    assert fitted.losses(latents).mean() == pytest.approx(loss.mean, rel=1e-3)


def test_fitted_and_deployed_losses_agree(volunteers: np.ndarray) -> None:
    """What the fit believes in floats is what the integer device does, up to its grid."""
    task = tv.LinearTask(np.eye(6))
    for epsilon in (2.0, 30.0):
        veil = tv.design(volunteers, task, epsilon=epsilon, method="codebook")
        rng = np.random.default_rng(0)
        option = veil.loss(volunteers).mean
        assert 0 < option < volunteers.var(axis=0).sum()
        shuffled = volunteers[rng.permutation(len(volunteers))]
        assert veil.loss(shuffled).mean == pytest.approx(option, rel=1e-12)


def test_hostile_records_give_ordinary_reports(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    for epsilon in (1.0, 30.0):
        veil = tv.design(volunteers, task, epsilon=epsilon, method="codebook")
        assert np.isfinite(veil.decode(veil.privatize(hostile_records(6)))).all()


def test_saved_codebooks_are_the_same(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: object) -> None:
    from pathlib import Path

    for epsilon in (2.0, 30.0):
        veil = tv.design(volunteers, task, epsilon=epsilon, method="codebook", latent_dim=3)
        folder = Path(str(tmp_path)) / f"{epsilon}"
        veil.save(folder)
        again = tv.Veil.load(folder)
        assert again.loss(volunteers) == veil.loss(volunteers)
        assert again.guarantee == veil.guarantee


def test_the_plan_spends_more_on_larger_budgets() -> None:
    variances = np.array([4.0, 1.0, 0.25, 0.05])
    plans = [Plan.of(variances, e) for e in (0.1, 1.0, 5.0, 20.0)]
    assert [p.nats for p in plans] == sorted(p.nats for p in plans)
    assert plans[0].nats == pytest.approx(np.log(2))
    assert plans[-1].active == 4
    assert all(p.nats < max(e, 0.7) for p, e in zip(plans, (0.1, 1.0, 5.0, 20.0), strict=True))


def test_categorical_records_get_a_codeword_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(400, 2)).astype(float)
    options = candidates(X - X.mean(axis=0), np.array([0.25, 0.25]), 6.0)
    assert TableChoice(size=4, favoured=1, dim=2, smooth=False) in options
    veil = tv.design(X, tv.LinearTask(np.eye(2)), epsilon=6.0, method="codebook")
    assert veil.loss(X).mean < 0.01


def test_large_budgets_consider_lattices_and_stages() -> None:
    options = candidates(np.random.default_rng(0).normal(size=(300, 4)), np.ones(4), 30.0)
    kinds = {type(option) for option in options}
    assert {LatticeChoice, StagesChoice} <= kinds


def test_smoothing_keeps_the_covariance() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 3)) * [3.0, 1.0, 0.1]
    draws = smoothed(Z, 200_000, rng)
    assert np.cov(draws.T) == pytest.approx(np.cov(Z.T), abs=0.03 * 9)


def test_alternation_beats_a_random_codebook() -> None:
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(600, 2)) * [2.0, 0.5]
    table = fit_table(Z, size=12, favoured=3, dim=2, epsilon=3.0, smooth=False, rng=rng)
    random = type(table)(codewords=Z[:12], response=table.response)
    assert table.losses(Z).mean() < 0.9 * random.losses(Z).mean()


def test_stages_correct_what_earlier_stages_left() -> None:
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(500, 2))
    fitted = fit_stages(Z, stages=3, size=16, favoured=1, dim=2, epsilon=24.0, rng=rng)
    assert sum(t.response.epsilon for t in fitted.tables) <= 24.0
    one = type(fitted)(tables=fitted.tables[:1])
    assert fitted.losses(Z).mean() < 0.3 * one.losses(Z).mean()


def test_lattice_losses_equal_the_sum_over_all_codewords() -> None:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(40, 2)) * [2.0, 0.7]
    fitted = fit_lattice(Z, nats=5.0, spacing=0.8, epsilon=6.0)
    points = np.array([fitted.lattice.unrank(i) for i in range(fitted.lattice.size)])
    values = fitted.lattice.points(points) * fitted.step
    distances = ((Z[:, None] - values) ** 2).sum(axis=2)
    brute = fitted.response.extra * distances.min(axis=1) + fitted.response.base * distances.sum(axis=1)
    assert fitted.losses(Z) == pytest.approx(brute, rel=2e-2)
    assert fitted.losses(Z).mean() == pytest.approx(brute.mean(), rel=1e-4)


def test_lattices_in_oblique_directions_are_judged_by_real_reports(volunteers: np.ndarray) -> None:
    from dataclasses import replace

    veil = tv.design(volunteers, tv.LinearTask(np.eye(6)), epsilon=30.0, method="codebook")
    assert isinstance(veil.decoder, LatticeDecoder)
    oblique = replace(veil, task=tv.LinearTask(np.ones((1, 6)) + np.eye(6)))
    loss = oblique.loss(volunteers[:20])
    assert not loss.exact
    assert loss.mean > 0


def test_auto_says_what_it_considered(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: object) -> None:
    from pathlib import Path

    veil = tv.design(volunteers, task, epsilon=2.0)
    assert [c.method for c in veil.considered] == ["codebook", "task_aware"]
    assert veil.considered[0].held_out_loss <= veil.considered[1].held_out_loss
    assert veil.method == veil.considered[0].method
    veil.save(Path(str(tmp_path)) / "r")
    assert tv.Veil.load(Path(str(tmp_path)) / "r").considered == veil.considered


def test_a_seed_repeats_the_design_but_never_the_reports(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    one, two = (tv.design(volunteers, task, epsilon=3.0, method="codebook", seed=5) for _ in range(2))
    assert one.loss(volunteers) == two.loss(volunteers)
    assert not np.array_equal(one.privatize(volunteers), two.privatize(volunteers))
