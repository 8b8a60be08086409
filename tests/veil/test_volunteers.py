"""A release keeps sums over at least ten volunteers each, coded as other people are, and no volunteer's record."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

import taskveil as tv
from releases import write_files
from taskveil.client.reading import folder_files, read_files
from taskveil.errors import DataError, DoubtfulColumnWarning, ReleaseError
from taskveil.veil.channels.listed import as_new_people
from taskveil.veil.volunteers import (
    FEWEST,
    FOLDS,
    Groups,
    Volunteers,
    _shares,
    merged,
    missing_in,
    truths,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
LABELS = (X[:, 0] + 0.5 * RNG.normal(size=300) > 0).astype(int)
BOX = tv.Box([-9.0] * 3, [9.0] * 3)
HONEST = tv.OnDevice(encoder="linear", share_model=True, volunteers_unseen=True)


def classifier(epsilon: float = 2.0, labels: np.ndarray = LABELS) -> tv.Veil:
    task = tv.ModelTask(LogisticRegression().fit(X, labels), loss="cross_entropy")
    return tv.design(
        X,
        task,
        y=labels,
        epsilon=epsilon,
        method="codebook",
        on_device=HONEST,
        domain=BOX,
    )


def made(kind: str) -> tv.Veil:
    linear, method = tv.LinearTask(np.eye(3)), "codebook"
    match kind:
        case "classes":
            return classifier()
        case "means":
            return tv.design(X, tv.MeanTask(np.eye(3)), epsilon=4.0, domain=BOX)
        case "laplace":
            return tv.design(X, linear, epsilon=4.0, domain=BOX, method="task_aware")
        case "listed":
            return tv.design(X, linear, epsilon=4.0, domain=BOX, method=method)
        case _:
            return tv.design(X, linear, epsilon=40.0, domain=BOX, method=method)


@pytest.fixture(scope="module", params=["classes", "listed", "means", "laplace", "lattice"])
def veil(request: pytest.FixtureRequest) -> tv.Veil:
    return made(request.param)


def test_every_group_has_ten_volunteers_or_there_is_one(veil: tv.Veil) -> None:
    known = veil.volunteers
    assert known is not None
    groups = [known.cells, *known.by_class]
    assert all(one.counts.min() >= FEWEST or len(one.counts) == 1 for one in groups)
    assert all(one.counts.sum() == len(X) for one in groups)
    np.testing.assert_allclose(known.cells.together(known.cells.means)[:3], X.mean(axis=0))
    spread = known.cells.variances + (known.cells.means - known.cells.together(known.cells.means)) ** 2
    np.testing.assert_allclose(known.cells.together(spread)[:3], X.var(axis=0))


def test_no_byte_of_a_release_is_a_volunteers_number(veil: tv.Veil, tmp_path: Path) -> None:
    """In any of the types that a release may write, as bytes or as text; digits of sums are other digits."""
    veil.save(tmp_path / "r")
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for number in X[:, :2].ravel().tolist():
        for form in (np.float64(number).tobytes(), f"{number!r}".encode(), f"{number:.9f}".encode()):
            assert not any(form in content for content in files)


def test_a_record_that_is_the_only_one_of_its_kind_is_not_kept(tmp_path: Path) -> None:
    """Its code's cell is merged with the nearest one."""
    far = X.copy()
    far[3] = 8.5
    veil = tv.design(far, tv.LinearTask(np.eye(3)), epsilon=6.0, domain=BOX, method="codebook")
    assert veil.volunteers is not None
    assert veil.volunteers.cells.counts.min() >= FEWEST
    assert np.abs(veil.volunteers.cells.means).max() < 8.5 / 2


def test_cells_are_merged_with_the_nearest() -> None:
    best = np.repeat([0, 1, 2, 3], [50, 4, 30, 3])
    vectors = np.array([[0.0], [1.0], [10.0], [2.0], [9.0]])
    counts = np.bincount(best, minlength=5)
    cell_of = merged(counts, vectors)
    # 4 (no volunteers) joins 2; 3 joins 1, seven together join 0.
    assert cell_of.tolist() == [0, 0, 1, 0, 1]
    assert np.bincount(cell_of, counts).tolist() == [57, 30]
    assert merged(counts, vectors, empty=True).tolist() == [0, 0, 1, 0, 2]  # what has none may stay
    assert merged(np.array([4, 0, 0, 0, 0]), vectors).tolist() == [0] * 5  # one cell remains


def test_classes_are_kept_if_each_has_ten_volunteers() -> None:
    known = classifier().volunteers
    assert known is not None
    assert known.classes is not None
    assert known.classes.counts.tolist() == np.bincount(LABELS).tolist()
    np.testing.assert_allclose(known.classes.means, np.eye(2))  # no sum over records: cells − classes could be one
    rare = np.zeros(300, dtype=int)
    rare[np.argsort(X[:, 0])[-9:]] = 1
    alone = classifier(labels=rare).volunteers
    assert alone is not None
    assert alone.classes is None


def test_codes_of_volunteers_are_those_of_people() -> None:
    """Trees fit volunteers better than other people. The means by cell are those of other people with these codes;
    by the codes that the encoder gives to the volunteers it was fitted with, they are not."""
    rng = np.random.default_rng(1)
    records = rng.normal(size=(21_000, 6))
    labels = (records[:, 0] + records[:, 1] * records[:, 2] + 2 * rng.normal(size=21_000) > 0).astype(int)
    model = GradientBoostingClassifier(n_estimators=100, max_depth=4, random_state=0).fit(records[:1000], labels[:1000])
    veil = tv.design(
        records[:1000], tv.ModelTask(model, loss="cross_entropy"), y=labels[:1000], epsilon=4.0, method="codebook",
        on_device=tv.OnDevice(encoder="trees", share_model=True, volunteers_unseen=False),
    )  # fmt: skip
    known = veil.volunteers
    assert known is not None
    best = veil.mechanism.stages[0].favoured(veil.mechanism.region.enforce(veil.encoder(records)))[:, 0]
    groups = [Groups.of(known.cell_of[best[part]], np.zeros((len(best[part]), 1)), labels[part, None].astype(float))
              for part in (slice(1000), slice(1000, None))]  # fmt: skip
    by_heart, people = (np.ptp(group.means) for group in groups)
    kept = np.ptp(known.cells.means[:, -1])
    error = np.sqrt(2 * 0.25 / known.cells.counts.min())
    assert abs(kept - people) < 2 * error
    assert by_heart - people > 2 * abs(kept - people)


def test_rows_that_are_drawn_several_times_count_once() -> None:
    veil = made("listed")
    drawn = np.repeat(np.arange(100), 3)
    task = tv.LinearTask(np.eye(3))
    answers = truths(task, X[drawn], None)
    known = Volunteers.of(veil.mechanism, veil.decoder, veil.encoder(X[drawn]), X[drawn], task, answers, None, drawn)
    assert known is not None
    assert known.count == 100
    np.testing.assert_allclose(known.cells.together(known.cells.means)[:3], X[:100].mean(axis=0))


def test_of_fewer_than_ten_volunteers_nothing_is_kept() -> None:
    veil, few = made("listed"), X[: FEWEST - 1]
    task = tv.LinearTask(np.eye(3))
    answers = truths(task, few, None)
    assert Volunteers.of(veil.mechanism, veil.decoder, veil.encoder(few), few, task, answers) is None


def test_devices_get_none_of_it_and_the_release_id_is_the_same(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "with")
    veil.save(tmp_path / "without", volunteers=False)
    assert tv.Veil.load(tmp_path / "without").volunteers is None
    assert veil.release_id == tv.Veil.load(tmp_path / "without").release_id == replace(veil, volunteers=None).release_id
    client, arrays = read_files(folder_files(tmp_path / "with" / "client", "client"), "client")
    assert "volunteers" not in str(client.keys()) + str(arrays.keys())


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
def test_other_users_of_the_machine_do_not_read_the_sums(veil: tv.Veil, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        veil.save(tmp_path / "with")
        veil.save(tmp_path / "without", volunteers=False)
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in tmp_path.glob("*/*")}
    assert modes == {"with/client": 0o755, "with/server": 0o700, "without/client": 0o755, "without/server": 0o755}


def test_a_value_that_one_person_has_does_not_give_away_the_record() -> None:
    """The covariance of a flag that one volunteer has, with all other columns, is that volunteer's record."""
    table = pd.DataFrame({"age": X[:, 0].round(2), "salary": X[:, 1].round(2), "ward": np.where(X[:, 2] > 0, "a", "b")})
    table.loc[123, "ward"] = "zoo"
    known = tv.design(table, tv.MeanTask(np.eye(3)), epsilon=1.0).volunteers
    assert known is not None
    assert known.variance.ndim == 1
    assert known.cells.measured.shape[0] == 1
    assert known.by_class == ()


def test_records_are_summed_by_one_partition_alone() -> None:
    """Where a cell and a class differ by one person, the difference of two sums of records would be the record."""
    known = classifier().volunteers
    assert known is not None
    assert known.classes is not None
    assert known.cells.means.shape[1] == X.shape[1] + 2
    assert not hasattr(known.by_class[0], "means")


def test_values_that_fewer_than_ten_have_are_in_no_sum() -> None:
    """What stands in for a missing value is public: the sum of a cell in which one person has a value would be it."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {"a": rng.normal(size=400), "rare": np.where(rng.random(400) < 0.1, rng.normal(50, 9, 400), np.nan)}
    )
    schema = tv.Schema({"a": tv.Number(-5, 5), "rare": tv.Number(0, 100, missing=True, fill=7.0)})
    veil = tv.design(table, tv.LinearTask(np.diag([1.0, 0.0])), epsilon=5.0, schema=schema, method="codebook")
    known = veil.volunteers
    assert known is not None
    (place, flag, fill), *_ = missing_in(schema)
    counts, means = known.cells.counts, known.cells.means
    present = (1.0 - means[:, flag]) * counts
    assert ((present > 0.5) & (present < FEWEST - 0.5)).any()
    own = (means[:, place] * counts - fill * (counts - present)) / np.maximum(present, 1)
    # Cells with the same mean were joined: together at least ten have a value, and their sum is right.
    for mean in np.unique(own[present > 0.5].round(9)):
        assert present[(own.round(9) == mean)].sum() > FEWEST - 0.5
    total = float((own * present).sum())
    assert total == pytest.approx(table["rare"].clip(0, 100).sum())
    almost = table.copy()
    almost.loc[almost.index[np.flatnonzero(table["rare"].notna())[3:]], "rare"] = np.nan  # three people have a value
    with pytest.warns(DoubtfulColumnWarning, match="few volunteers have a value of rare"):
        few = tv.design(almost, tv.MeanTask(np.eye(2)), epsilon=1.0, schema=schema)
    assert few.volunteers is not None
    assert few.volunteers.cells.means[0, place] == fill
    found = tv.estimate(few, few.privatize(table.sample(4000, replace=True, random_state=0)))
    (row,) = (row for row in found.groups["attributes"] if row.label.name == "rare")
    assert np.isnan(row.volunteers)  # unknown, and not compared
    assert "rare" not in found.drift.moved


def test_sums_over_fewer_than_ten_are_refused() -> None:
    known = classifier().volunteers
    assert known is not None
    with pytest.raises(DataError, match="at least 10"):
        replace(known, cells=replace(known.cells, counts=np.full_like(known.cells.counts, 9)))


def arrays_of(veil: tv.Veil) -> list[np.ndarray]:
    assert veil.volunteers is not None
    cells = veil.volunteers.cells.with_answers(veil.task)
    return [cells.means * cells.counts[:, None], cells.measured * cells.counts[:, None]]


@pytest.mark.filterwarnings("ignore:few volunteers")
@pytest.mark.parametrize("kind", ["means", "codes", "laplace", "model"])
def test_the_only_value_of_a_column_is_nowhere(kind: str) -> None:
    """Sums of outputs, latents and the decoder's own mean would be that value times something known."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(18, 90, 200), "income": np.nan})
    table.loc[17, "income"] = 123456.78
    schema = tv.Schema({"age": tv.Number(18, 90), "income": tv.Number(0, 2e5, missing=True, fill=0.0)})
    K = np.diag([1 / 20, 1e-5])
    if kind == "model":
        model = LinearRegression().fit(schema.expand(table), table["age"] + 1e-3 * table["income"].fillna(0))
        task: Any = tv.ModelTask(model, loss="mse")
    else:
        task = tv.MeanTask(K) if kind == "means" else tv.LinearTask(K)
    method = {"means": "means", "codes": "codebook", "laplace": "task_aware", "model": "codebook"}[kind]
    veil = tv.design(table, task, epsilon=2.0, schema=schema, method=method)
    other = tv.design(table.assign(income=table["income"] / 2), task, epsilon=2.0, schema=schema, method=method)
    for one, two in zip(arrays_of(veil), arrays_of(other), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(
        veil.estimates(veil.privatize(table[:0])), other.estimates(other.privatize(table[:0]))
    )


def test_variances_of_answers_do_not_give_covariances() -> None:
    """var(Kx) less the variances of the attributes would be twice their covariance: of a trait that one person has,
    the person's other attribute."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.zeros(300), rng.normal(50_000, 9_000, 300)])
    X[4, 0] = 1.0
    box = tv.Box([0.0, 0.0], [1.0, 1e5])
    veil = tv.design(X, tv.LinearTask(np.array([[3.0, 1e-4]])), epsilon=2.0, domain=box, method="codebook")
    assert veil.volunteers is not None
    assert veil.volunteers.cells.means.shape[1] == 2  # outputs are not kept
    model = LinearRegression().fit(X, X @ [3.0, 1e-4])
    known = tv.design(X, tv.ModelTask(model, loss="mse"), epsilon=2.0, domain=box, method="codebook").volunteers
    assert known is not None
    kept = known.cells.variances[:, 2:]
    np.testing.assert_array_equal(np.log2(kept[kept > 0]) % 1, 0.0)


def test_classes_have_no_sums_of_answers() -> None:
    """Cells and classes are two partitions: the difference of their sums could be one person's answer."""
    known = classifier().volunteers
    assert known is not None
    (classes,) = known.by_class
    assert {field.name for field in fields(classes)} == {"counts", "measured"}


def codes(favoured: np.ndarray) -> np.ndarray:
    """(…, V, 2): indicators of codes 0 and 1."""
    return np.stack([favoured == 0, favoured == 1], axis=-1).astype(float)


def test_encoders_that_are_all_alike_need_no_correction() -> None:
    own = codes(RNG.integers(0, 2, 100))
    corrected, variance = as_new_people(own, np.stack([own] * FOLDS), np.arange(100) % FOLDS)
    np.testing.assert_array_equal(corrected, own)
    np.testing.assert_array_equal(variance, 0.0)


def test_what_encoders_know_by_heart_is_taken_off() -> None:
    """Encoders that give code 1 to all whom they have seen and, of others, to one in four: so do new people."""
    rng, fold = np.random.default_rng(0), np.arange(4000) % FOLDS
    one_in_four = (rng.random(4000) < 0.25).astype(int)
    without = np.array([codes(np.where(fold == part, one_in_four, 1)) for part in range(FOLDS)])
    corrected, variance = as_new_people(codes(np.ones(4000, dtype=int)), without, fold)
    np.testing.assert_allclose(corrected.mean(axis=0), [1 - one_in_four.mean(), one_in_four.mean()])
    assert variance == pytest.approx(np.full(2, 0.25 * 0.75 / 4000), rel=2.0)


def test_a_threshold_that_only_refits_cross_moves_no_share() -> None:
    """All have the same record: the released encoder gives it code 0, two of the refits code 1."""
    without = codes(np.repeat([[0], [0], [1], [1], [0]], 100, axis=1))
    fold = np.arange(100) % FOLDS
    corrected, variance = as_new_people(codes(np.zeros(100, dtype=int)), without, fold)
    np.testing.assert_allclose(corrected.mean(axis=0), [1.0, 0.0], atol=1e-12)
    assert (variance > 0.01).all()  # and it is said to be uncertain


@pytest.mark.parametrize("m", [1, 2])
def test_shares_are_the_nearest_that_add_up(m: int) -> None:
    found = _shares(np.array([[0.7, 0.4, -0.1, m - 1.0], [0.25 * m] * 4]), m)
    np.testing.assert_allclose(found.sum(axis=1), m)
    assert found.min() >= 0
    assert found.max() <= 1
    np.testing.assert_allclose(found[1], 0.25 * m)


def test_releases_that_do_not_store_the_mean_keep_loading(tmp_path: Path) -> None:
    """As earlier versions wrote them: without `mean`, and with one zero as the variance of codes."""
    veil = classifier()
    cells = veil.volunteers.cells
    old = replace(veil.volunteers, variance=np.zeros(1), mean=cells.together(cells.measured))
    replace(veil, volunteers=old).save(tmp_path / "r")
    content, arrays = read_files(folder_files(tmp_path / "r" / "server", "server"), "server")
    for name in ("schema", "digest", "weights_sha256"):
        del content[name]
    del content["volunteers"]["mean"]
    kept = {name: array for name, array in arrays.items() if name != "volunteers.mean"}
    assert len(kept) == len(arrays) - 1
    write_files(tmp_path / "r" / "server", content, kept)
    np.testing.assert_allclose(tv.Veil.load(tmp_path / "r").volunteers.mean, old.mean)
    del content["volunteers"]["cells"]
    write_files(tmp_path / "r" / "server", content, {})
    with pytest.raises(ReleaseError):
        tv.Veil.load(tmp_path / "r")


def test_a_table_put_together_four_times_is_no_more_certain_than_once() -> None:
    """The shares are the same, and their variance is that of a quarter of the volunteers."""
    task = tv.ModelTask(LogisticRegression().fit(X, LABELS), loss="cross_entropy")
    options = {"epsilon": 4.0, "method": "codebook", "domain": BOX, "on_device": tv.OnDevice(encoder="linear")}
    once = tv.design(X, task, y=LABELS, **options).volunteers
    often = tv.design(np.tile(X, (4, 1)), task, y=np.tile(LABELS, 4), **options).volunteers
    assert once is not None
    assert often is not None
    assert often.count == 4 * once.count
    assert often.design_effect >= 4.0
    assert 1.0 <= once.design_effect < 3.0
