"""A release that names its encoder: the client brings the model, and no value of a record ever shows as an error."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import releases
import taskveil as tv
from hostile import hostile_records
from taskveil.arrays import Floats
from taskveil.client import Client
from taskveil.client.latent_encoders import NamedEncoder
from taskveil.errors import DataError

LOW, HIGH = np.array([-1.0, 0.0]), np.array([1.0, 4.0])


def total(X: Floats) -> Floats:
    """One latent; raises for what a careless model does not expect."""
    if not np.isfinite(X).all() or (X[:, 0] > 0.9).any():
        raise ValueError("a record the model cannot take")
    return X.sum(axis=1)


def encoder() -> NamedEncoder:
    return NamedEncoder.of(total, name="package:total", low=LOW, high=HIGH, latents=1)


def test_records_are_brought_inside_before_the_function_sees_them() -> None:
    assert encoder()(np.array([[-5.0, 9.0], [np.nan, np.nan], [0.5, -np.inf]]))[:, 0].tolist() == [3.0, 2.0, 0.5]


def test_a_record_that_raises_is_silent_and_costs_its_neighbours_nothing() -> None:
    found = encoder()(np.array([[0.0, 1.0], [1.0, 1.0], [0.5, 2.0]]))
    assert np.isnan(found[1, 0])
    assert found[[0, 2], 0].tolist() == [1.0, 2.5]


@pytest.mark.parametrize("answer", [lambda X: X, lambda X: ["text"] * len(X), lambda X: None, lambda X: np.zeros(7)])
def test_other_shapes_than_promised_are_silence(answer: object) -> None:
    odd = NamedEncoder.of(answer, name="odd", low=LOW, high=HIGH, latents=1)  # type: ignore[arg-type]
    assert np.isnan(odd(np.zeros((3, 2)))).all()


def test_complex_numbers_are_silence_without_a_warning() -> None:
    """A square root of numbers below zero is complex: numpy warned about such records, and of no others."""
    root = NamedEncoder.of(lambda X: np.emath.sqrt(X[:, 0]), name="root", low=LOW, high=HIGH, latents=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(root(np.array([[-0.25, 0.0]]))).all()
        mixed = root(np.array([[-0.25, 0.0], [0.25, 0.0]]))[:, 0]
    assert np.isnan(mixed[0])
    assert mixed[1] == 0.5
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        root(np.array([[-0.25, 0.0]]))
    assert not said


def test_a_function_that_would_end_the_program_is_silence() -> None:
    def leaves(X: Floats) -> Floats:
        raise SystemExit(3)

    assert np.isnan(NamedEncoder.of(leaves, name="leaves", low=LOW, high=HIGH, latents=1)(np.zeros((2, 2)))).all()


def panicking(X: Floats) -> Floats:
    """Latents of a model in Rust, which panics far away from its volunteers."""
    days = pl.Series((X[:, 0] * 1e9).astype(np.int64)).cast(pl.Int32, strict=False).cast(pl.Date)
    return days.dt.truncate("1mo").to_physical().to_numpy().astype(np.float64)


@pytest.mark.parametrize("error", [GeneratorExit, asyncio.CancelledError, pl.exceptions.PanicException])
def test_a_function_may_raise_errors_that_are_no_exceptions(error: type[BaseException]) -> None:
    """The record decides whether it raises: there must be a report nevertheless."""

    def raises(X: Floats) -> Floats:
        if (X[:, 0] > 0.5).any():
            raise error
        return X[:, 0]

    named = NamedEncoder.of(raises, name="raises", low=LOW, high=HIGH, latents=1)
    found = named(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert np.isnan(found).ravel().tolist() == [False, True]


def test_a_model_that_panics_makes_a_report(capfd: pytest.CaptureFixture[str]) -> None:
    found = NamedEncoder.of(panicking, name="dates", low=LOW, high=HIGH, latents=1)(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert found.shape == (2, 1)
    assert np.isnan(found[1, 0])
    capfd.readouterr()  # the panic itself writes to the terminal, before Python sees it


def test_a_persons_own_interruption_passes() -> None:
    def interrupted(X: Floats) -> Floats:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NamedEncoder.of(interrupted, name="slow", low=LOW, high=HIGH, latents=1)(np.zeros((1, 2)))


def test_ranges_as_wide_as_doubles_go_are_no_error() -> None:
    wide = NamedEncoder.of(lambda X: X, name="same", low=np.full(1, -1.7e308), high=np.full(1, 1.7e308), latents=1)
    with np.errstate(all="raise"):
        assert wide(np.array([[np.nan], [np.inf]])).tolist() == [[1.7e308], [1.7e308]]


def test_hostile_records_make_reports_of_one_length() -> None:
    veil = releases.veil(
        encoder(),
        releases.devices()["laplace_box"].mechanism.__class__(
            region=releases.BoxRegion(step=2.0**-10, low=np.array([-5000]), high=np.array([5000])), scale=2.0**14
        ),
    )
    assert veil.privatize(hostile_records(2)).shape == (len(hostile_records(2)), 1)


def test_a_release_names_it_and_does_not_contain_it(tmp_path: Path) -> None:
    mechanism = releases.devices()["codebook"].mechanism
    named = NamedEncoder.of(
        lambda X: X[:, : mechanism.latent_dim],
        name="package:model",
        low=LOW[[0] * 5],
        high=HIGH[[0] * 5],
        latents=mechanism.latent_dim,
    )
    veil = replace(releases.veil(named, mechanism), columns=None)
    veil.save(tmp_path / "r")
    with pytest.raises(DataError, match=r"package:model.*does not contain.*encoder="):
        Client.load(tmp_path / "r", ledger=tmp_path / "l")
    with Client.load(tmp_path / "r", ledger=tmp_path / "l", encoder=lambda X: X[:, : mechanism.latent_dim]) as client:
        report = client.report([0.1] * 5, round="1")
    again = tv.Veil.load(tmp_path / "r")
    assert again.decode(again.receive(report.to_bytes()).reports).shape == (1, 5)  # servers do without the model
    with pytest.raises(DataError, match="does not contain"):
        again.privatize(np.zeros((1, 5)))
    whole = tv.Veil.load(tmp_path / "r", encoder=lambda X: X[:, : mechanism.latent_dim])
    assert np.array_equal(whole.encode(np.full((1, 5), 0.3)), veil.encode(np.full((1, 5), 0.3)))
    assert whole.release_id == veil.release_id


def test_a_release_that_contains_its_encoder_takes_no_other(tmp_path: Path) -> None:
    device = releases.devices()["codebook"]
    releases.veil(device.encoder, device.mechanism).save(tmp_path / "r")
    with pytest.raises(DataError, match="contains its encoder"):
        Client.load(tmp_path / "r", ledger=tmp_path / "l", encoder=total)
