from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.spatial.distance import pdist

import releases
import taskveil as tv
from hostile import hostile_records
from taskveil.client import Client
from taskveil.client.wire import Report, pack_batch, to_json
from taskveil.errors import DataError, FewRecordsWarning, WireError


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


def test_the_loss_is_the_mean_of_the_records_losses(veil: tv.Veil, volunteers: np.ndarray) -> None:
    """In the order of time, neighbours that are alike make it less certain."""
    losses, loss = veil.losses(volunteers), veil.loss(volunteers)
    assert losses.shape == (300,)
    assert loss.mean == losses.mean()
    sorted_days = volunteers[np.argsort(losses)]
    together = veil.loss(sorted_days, block=20)
    assert together.mean == pytest.approx(loss.mean)
    assert together.high - together.low > 2 * (loss.high - loss.low)
    with pytest.raises(DataError, match="whole number of neighbouring records"):
        veil.loss(volunteers, block=0)
    with pytest.raises(DataError, match="less than two blocks of"):
        veil.loss(volunteers, block=len(volunteers) // 2 + 1)


def test_few_records_that_carry_the_loss_are_said(veil: tv.Veil, volunteers: np.ndarray) -> None:
    wild = volunteers.copy()
    wild[3] *= 1e4
    with pytest.warns(
        FewRecordsWarning, match="of 300, 1 record carries half of what the losses differ.*rests on it"
    ) as said:
        veil.loss(wild)
    assert said[0].filename == __file__
    veil.losses(wild)  # every warning is an error here


def test_parts_must_fit_together(veil: tv.Veil, volunteers: np.ndarray) -> None:
    from dataclasses import replace

    wide = tv.design(volunteers, veil.task, epsilon=1.0, method="task_agnostic")
    with pytest.raises(DataError, match="agree"):
        replace(veil, mechanism=wide.mechanism)
    with pytest.raises(DataError, match="column names"):
        replace(veil, columns=("a",))


@pytest.mark.parametrize("records", [[["secret", 1.0, 2.0]], [["1", "secret", "2"]], [[1.0], [2.0, 3.0]]])
def test_refusals_do_not_quote_records(veil: tv.Veil, records: list) -> None:
    with pytest.raises(tv.errors.DataError) as refusal:
        veil.privatize(records)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__suppress_context__


def test_numbers_beyond_doubles_are_brought_inside(veil: tv.Veil, volunteers: np.ndarray) -> None:
    record = [10**400, *volunteers[0, 1:].tolist()]
    assert np.isfinite(veil.privatize([record])).all()


def bodies(veil: tv.Veil, folder: Path, records: np.ndarray) -> list[Report]:
    """Reports as devices send them."""
    veil.save(folder / "release")
    with Client.load(folder / "release", ledger=folder / "ledger", cap=1e9) as client:
        return [client.report(record, round=place) for place, record in enumerate(records)]


def test_a_veil_knows_its_release(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "release")
    loaded = tv.Veil.load(tmp_path / "release")
    assert veil.release_id == loaded.release_id
    assert len(bytes.fromhex(veil.release_id)) == 32
    renamed = dataclasses.replace(loaded, units=("kW",) * 6)
    assert renamed.release_id != veil.release_id  # what devices get has changed
    assert dataclasses.replace(loaded, method="another name").release_id == veil.release_id


def test_reports_of_another_release_are_refused(
    veil: tv.Veil, volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path
) -> None:
    """Same shape, same budget, other numbers: 0.1 decoded them without a word."""
    reports = bodies(veil, tmp_path, volunteers[:5])
    other = tv.design(volunteers * 2 + 1, task, epsilon=2.0, method="task_aware")
    assert other.mechanism.report_width == veil.mechanism.report_width
    for body in (pack_batch(reports), to_json(reports), reports[0].to_bytes()):
        with pytest.raises(WireError, match=f"release {veil.release_id[:12]}"):
            other.receive(body)
    received = veil.receive(pack_batch(reports))
    assert received.ids == tuple(report.id for report in reports)
    assert veil.decode(received).shape == (5, 6)
    assert np.array_equal(received, veil.receive(to_json(reports)))
    assert len(veil.receive(reports[0].to_bytes())) == 1


def test_a_number_no_device_can_make_is_refused_by_itself() -> None:
    """Each digit may be in range and the number they form too large: it used to fail the whole batch when decoding."""
    device = releases.devices()["lattice_digits"]
    veil = releases.veil(device.encoder, device.mechanism)
    release, lattice = bytes.fromhex(veil.release_id), veil.mechanism.lattice
    assert veil.mechanism.report_width > 1
    digits = lattice.digits([0, lattice.size - 1, lattice.size, 5]).tolist()
    made = [
        Report(release=release, id=struct.pack("<QQ", place, 0), payload=veil.mechanism.layout.pack(row))
        for place, row in enumerate(digits)
    ]
    received = veil.receive(pack_batch(made))
    assert [one.place for one in received.refused] == [2]
    assert received.refused[0].id == made[2].id
    assert np.array_equal(received.reports, np.array(digits)[[0, 1, 3]])
    assert np.isfinite(veil.decode(received)).all()


@pytest.mark.parametrize("name", ["codebook", "codebook_ties", "lattice", "laplace_box"])
def test_only_whole_numbers_that_a_device_makes_are_decoded(name: str) -> None:
    """0.1 decoded code 1.9 as 1 and NaN Laplace reports as NaN."""
    device = releases.devices()[name]
    veil = releases.veil(device.encoder, device.mechanism)
    reports = veil.privatize(np.zeros((4, device.encoder.width)))
    assert reports.dtype == np.int64
    assert np.array_equal(veil.decode(reports.astype(float)), veil.decode(reports))
    for wrong in (reports + 0.9, np.where(np.eye(4, reports.shape[1]) > 0, np.nan, reports), reports - 2.0**60):
        with pytest.raises(DataError, match="report 0"):
            veil.decode(wrong)
    beyond = reports.copy()
    beyond[2, 0] = veil.mechanism.layout.high[0] + 1
    with pytest.raises(DataError, match="report 2"):
        veil.decode(beyond)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_tables_are_matched_by_name(kind: object, volunteers: np.ndarray, task: tv.LinearTask) -> None:
    """Reordered columns were used as they came: a loss of 0.97 became 1.13."""
    names = list("abcdef")
    table = kind(dict(zip(names, volunteers.T, strict=True)))  # type: ignore[operator]
    shuffled = kind({name: volunteers[:, names.index(name)] for name in "fxacbed" if name != "x"})  # type: ignore[operator]
    more = kind({"id": np.arange(len(volunteers)), **dict(zip(names, volunteers.T, strict=True))})  # type: ignore[operator]
    veil = tv.design(table, task, epsilon=2.0, method="task_aware")
    assert veil.columns == tuple(names)
    expected = veil.loss(volunteers)
    assert veil.loss(table) == veil.loss(shuffled) == veil.loss(more) == expected
    assert np.array_equal(veil.encode(shuffled), veil.encode(volunteers))
    with pytest.raises(DataError, match="no column named 'a'"):
        veil.privatize(kind(dict.fromkeys("bcdefg", volunteers[:, 0])))  # type: ignore[operator]


def test_two_columns_of_one_name_are_refused(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    veil = tv.design(pd.DataFrame(volunteers, columns=list("abcdef")), task, epsilon=2.0, method="task_aware")
    with pytest.raises(DataError, match="two columns named 'a'"):
        veil.encode(pd.DataFrame(volunteers, columns=list("abcdea")))


def test_a_veil_is_shown_in_one_line(veil: tv.Veil) -> None:
    shown = repr(veil)
    assert len(shown) < 120
    assert "\n" not in shown
    for word in ("task_aware", "ε = 2", "6 attributes", f"{veil.mechanism.layout.length} bytes"):
        assert word in shown


def test_one_record_may_be_a_series_or_a_mapping(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    names = list("abcdef")
    veil = tv.design(pd.DataFrame(volunteers, columns=names), task, epsilon=2.0, method="task_aware")
    record = dict(zip(names, volunteers[0].tolist(), strict=True))
    backwards = {name: record[name] for name in reversed(names)}
    expected = veil.encode(volunteers[:1])
    assert np.array_equal(veil.encode(backwards), expected)
    assert np.array_equal(veil.encode(pd.Series(backwards)), expected)
    with pytest.raises(DataError, match="lacks a"):
        veil.privatize(dict.fromkeys("bcdef", 0.0))


def test_received_reports_are_decoded_with_their_own_release_only(veil: tv.Veil) -> None:
    """Both releases have the same layout: the numbers alone would pass for the other's."""
    other = dataclasses.replace(veil, columns=tuple("uvwxyz"))
    made = veil.privatize(np.zeros((2, 6)))
    layout, release = veil.mechanism.layout, bytes.fromhex(veil.release_id)
    reports = [
        Report(release=release, id=bytes([place]) * 16, payload=layout.pack(row))
        for place, row in enumerate(made.tolist())
    ]
    received = veil.receive(pack_batch(reports))
    assert np.array_equal(veil.decode(received), veil.decode(made))
    with pytest.raises(DataError, match="release"):
        other.decode(received)
