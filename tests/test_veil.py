from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import taskveil as tv
from hostile import hostile_records
from taskveil.errors import DataError


def test_the_promise_holds_for_hostile_records(veil: tv.Veil) -> None:
    """Whatever comes in, two bounded latents are never farther apart than what the noise was made for."""
    latents = veil.encode(hostile_records(6))
    steps = latents / veil.mechanism.region.step
    assert pdist(steps, "cityblock").max() <= veil.mechanism.region.l1_diameter
    assert np.isfinite(veil.privatize(hostile_records(6))).all()


def test_the_statement_names_the_budget(veil: tv.Veil) -> None:
    guarantee = veil.guarantee
    assert guarantee.epsilon <= 2.0
    assert guarantee.epsilon == pytest.approx(2.0, rel=1e-9)
    assert guarantee.delta == 0.0
    assert guarantee.assumptions == ()
    assert "7.39 times" in guarantee.statement
    assert "every input" in guarantee.statement


def test_shapes(veil: tv.Veil, volunteers: np.ndarray) -> None:
    reports = veil.privatize(volunteers)
    assert reports.shape == (300, veil.mechanism.latent_dim)
    assert veil.decode(reports).shape == (300, 6)
    assert veil.predict(reports).shape == (300, 6)
    assert veil.privatize(volunteers[0]).shape == (1, veil.mechanism.latent_dim)


def test_reports_are_fresh_every_time(veil: tv.Veil, volunteers: np.ndarray) -> None:
    assert not np.array_equal(veil.privatize(volunteers), veil.privatize(volunteers))


def test_numpy_seeds_change_nothing(veil: tv.Veil, volunteers: np.ndarray) -> None:
    np.random.seed(0)
    first = veil.privatize(volunteers)
    np.random.seed(0)
    assert not np.array_equal(first, veil.privatize(volunteers))


def test_loss_has_an_interval(veil: tv.Veil, volunteers: np.ndarray) -> None:
    loss = veil.loss(volunteers)
    assert loss.exact
    assert loss.low < loss.mean < loss.high
    with pytest.raises(DataError, match="finite"):
        veil.loss(np.full((2, 6), np.nan))


def test_parts_must_fit_together(veil: tv.Veil, volunteers: np.ndarray) -> None:
    from dataclasses import replace

    wide = tv.design(volunteers, veil.task, epsilon=1.0, method="task_agnostic")
    with pytest.raises(DataError, match="agree"):
        replace(veil, mechanism=wide.mechanism)
    with pytest.raises(DataError, match="column names"):
        replace(veil, columns=("a",))


def test_the_statement_never_rounds_the_budget_down() -> None:
    from taskveil.guarantee import Guarantee, rounded_up

    assert [rounded_up(e) for e in (2.0, 2.0000004, 2.9999999999999, 40.00004, 0.1)] == [
        "2", "2.00001", "3", "40.0001", "0.1",
    ]  # fmt: skip
    assert "e^40.0001" in Guarantee(epsilon=40.00004, enforced_by="").statement


@pytest.mark.parametrize("records", [[["secret", 1.0, 2.0]], [["1", "secret", "2"]], [[1.0], [2.0, 3.0]]])
def test_refusals_do_not_quote_records(veil: tv.Veil, records: list) -> None:
    with pytest.raises(tv.errors.DataError) as refusal:
        veil.privatize(records)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__suppress_context__


def test_numbers_beyond_doubles_are_brought_inside(veil: tv.Veil, volunteers: np.ndarray) -> None:
    record = [10**400, *volunteers[0, 1:].tolist()]
    assert np.isfinite(veil.privatize([record])).all()
