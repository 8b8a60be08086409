"""Randomly forged `server/` halves, all digests repaired: a release is refused when it is read, or it works."""

from __future__ import annotations

import contextlib
import copy
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from auditing.exhibits import laplace_veil, lattice_veil, sum_veil
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.reading import read_files
from taskveil.errors import ReleaseError, TaskveilError
from taskveil.veil.release import (
    MANIFEST,
    SERVER,
    SERVER_KINDS,
    WEIGHTS,
    _schema,
    canonical,
    manifest_of,
    pack,
)
from taskveil.veil.surveys import BlockQuestion
from taskveil.veil.volunteers import Volunteers, truths

RNG = np.random.default_rng(5)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
TABLE = pd.DataFrame(
    {
        "height": np.where(RNG.random(80) < 0.2, np.nan, X[:, 0]),
        "origin": np.array(["north", "south", "east"])[RNG.integers(3, size=80)],
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(900, size=80), unit="D"),
        "member": RNG.random(80) < 0.4,
        "visits": RNG.integers(0, 9, size=80),
    }
)


QUESTIONS = tv.SurveyTask(
    ["height", "visits", "member"],
    by="origin",
    pairs=[("origin", "member")],
    weights={"visits": 2.0},
    histograms={"visits": [0, 3, 6, 9]},
)


def with_volunteers(veil: tv.Veil, width: int) -> tv.Veil:
    """The veil with sums over volunteers and a task, as a design would give it."""
    records, task = X[:, :width] / 4, tv.LinearTask(np.eye(width))
    answers = truths(task, records, None)
    known = Volunteers.of(veil.mechanism, veil.decoder, veil.encoder(records), records, task, answers)
    return replace(veil, task=task, volunteers=known, outputs=answers[1], method="codebook")


@cache
def releases() -> dict[str, tuple[tv.Veil, tv.LinearTask | tv.ModelTask | None, Any, Any]]:
    """Veils of every kind, with the task that a release does not hold, records and labels for losses."""
    model = tv.ModelTask(LogisticRegression().fit(X, Y), "cross_entropy")
    width, box = tv.Schema.of(TABLE).width, tv.Box([-4.0] * 3, [4.0] * 3)
    return {
        "means": (tv.design(X, tv.MeanTask(np.eye(3)), epsilon=2.0, domain=box), None, X, None),
        "answers": (tv.design(X, tv.LinearTask(np.eye(3)), epsilon=2.0, method="codebook"), None, X, None),
        "classes": (tv.design(X, model, y=Y, epsilon=2.0, method="codebook"), model, X, Y),
        "noise": (tv.design(X, tv.LinearTask(np.eye(3)), epsilon=2.0, method="task_aware"), None, X, None),
        "a survey": (tv.design(TABLE, tv.MeanTask(np.eye(width)), epsilon=2.0), None, TABLE, None),
        "a table": (tv.design(TABLE, tv.LinearTask(np.eye(width)), epsilon=2.0, method="codebook"), None, TABLE, None),
        "lattice": (with_volunteers(lattice_veil(3.0), 2), None, X[:, :2] / 4, None),
        "sums": (with_volunteers(sum_veil(3.0), 2), None, X[:, :2] / 4, None),
        "plain noise": (with_volunteers(laplace_veil(1.0), 1), None, X[:, :1] / 4, None),
        "questions": (tv.design(TABLE, QUESTIONS, epsilon=2.0), None, TABLE, None),
    }


NAMES = ("means", "answers", "classes", "noise", "a survey", "a table", "lattice", "sums", "plain noise", "questions")


def places(part: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a manifest."""
    if at:
        yield at
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield from places(value, (*at, key))


def otherwise(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array with another type, shape or content."""
    some = rng.random(array.shape) < 0.3
    changes: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda a: a.astype(rng.choice(["f8", "f4", "i8", "i4", "i1"])),
        lambda a: a.ravel(),
        lambda a: a[None],
        lambda a: a.T,
        lambda a: a[: max(1, len(a) - 1)] if a.ndim else a,
        lambda a: np.concatenate([a, a[:1]]) if a.ndim else a,
        lambda a: a[..., : max(1, a.shape[-1] - 1)] if a.ndim else a,
        lambda a: np.zeros_like(a),
        lambda a: np.ones_like(a),
        lambda a: -a,
        lambda a: a[::-1],
        lambda a: np.where(some, a.flat[0], a).astype(a.dtype),
        lambda a: np.where(some, np.array(rng.choice([0, 1, -1, 2, 127])), a).astype(a.dtype),
    ]
    if array.dtype.kind == "f":
        wild = rng.choice([np.nan, np.inf, 1e150, -1e150, 1e80, 1e-300, 1e308, -0.0])
        far = 10.0 ** rng.integers(-160, 150)
        changes += [lambda a: np.where(some, wild, a), lambda a: np.full_like(a, wild), lambda a: a * far] * 2
        changes += [lambda a: a + far, lambda a: np.where(some, far, a)] * 3
    else:
        changes += [
            lambda a: np.where(some, np.iinfo(a.dtype).max // 2, a),
            lambda a: a + 1,
            lambda a: np.full_like(a, 100),
        ]
    return np.ascontiguousarray(changes[rng.integers(len(changes))](array))


def forged(files: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """The release with one to three changes in the manifest or the weights of its server half."""
    manifest, arrays = read_files(files, SERVER)
    for name in ("schema", "digest", "weights_sha256"):
        del manifest[name]
    for _ in range(rng.integers(1, 4)):
        if arrays and rng.random() < 0.5:
            name = str(rng.choice(sorted(arrays)))
            arrays[name] = otherwise(arrays[name], rng)
            continue
        known = [place for place in places(manifest) if place[0] != "release"]
        *path, last = known[rng.integers(len(known))]
        holder = manifest
        for key in path:
            holder = holder[key]
        other = known[rng.integers(len(known))]
        borrowed: Any = manifest
        for key in other:
            borrowed = borrowed[key]
        values = [
            None,
            True,
            -1,
            0,
            1.5,
            10**6,
            10**15,
            "x",
            "",
            "array",
            [],
            {},
            [1],
            [[]],
            {"kind": "layer"},
            borrowed,
        ]
        if rng.random() < 0.2:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(values[rng.integers(len(values))])
    text = str(manifest)  # tensors that are left over would be refused for that alone
    arrays = {name: array for name, array in arrays.items() if f"'{name}'" in text}
    content, weights = manifest_of(manifest, arrays)
    return {**files, f"{SERVER}/{MANIFEST}": canonical(content), f"{SERVER}/{WEIGHTS}": weights}


def use(veil: tv.Veil, reports: np.ndarray, records: Any, y: Any) -> None:
    """All that a server does with a release."""
    if isinstance(veil.task, tv.SurveyTask):
        veil.loss(records)
    elif isinstance(veil.task, tv.MeanTask):
        veil.estimates(reports)
        veil.loss(records, y)
    else:
        veil.decode(reports)
        veil.decode(reports, probabilities=True) if not veil.schema.unbounded else None
        if veil.task is not None:
            veil.predict(reports)
            veil.loss(records, y)
    str(veil), veil.size, veil.guarantee.statement
    for options in ({}, {"anytime": True}, {"assume": "cells"}, {"assume": "labels"}):
        try:
            found = tv.estimate(veil, reports, **options)
            found.table(), found.content(), found.forged()
        except TaskveilError:
            pass


def attacked(name: str, seed: int) -> str | None:
    """What went wrong with one forged release; None if it was refused, or works."""
    veil, task, records, y = releases()[name]
    rng = np.random.default_rng([seed, *name.encode()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = forged(veil.files(), rng)
        try:
            again = tv.Veil.from_files(files, task=task)
        except ReleaseError:
            return None
        except Exception as error:
            return f"{name}, seed {seed}: reading raised {error!r}"
        try:
            use(again, np.tile(veil.privatize(records), (5, 1)), records, y)
        except Exception as error:
            return f"{name}, seed {seed}: use raised {error!r}"
    return None


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 3000), marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("name", sorted(releases()))
def test_a_forged_server_half_is_refused_when_it_is_read_or_works(name: str, seeds: range) -> None:
    faults = [fault for seed in seeds if (fault := attacked(name, seed))]
    assert faults == []


@pytest.mark.parametrize("last", [1e9, 1e30, 1e92, 1e149])
def test_a_histogram_with_a_bin_of_any_width_is_estimated(last: float) -> None:
    """`estimate` raised a ZeroDivisionError: doubles do not tell how a density over such bins bends."""
    veil = releases()["questions"][0]
    files = veil.files()
    manifest, arrays = read_files(files, SERVER)
    for name in ("schema", "digest", "weights_sha256"):
        del manifest[name]
    content, weights = manifest_of(manifest, {**arrays, "task.histograms.0.edges": np.array([0.0, 3.0, 6.0, last])})
    again = tv.Veil.from_files({**files, f"{SERVER}/{MANIFEST}": canonical(content), f"{SERVER}/{WEIGHTS}": weights})
    # So many that the share of people who have a value is known: it is not in 2% of draws with 80 people.
    reports = veil.privatize(TABLE.sample(4000, replace=True, random_state=0))
    e = tv.estimate(again, reports)
    smooth = e.consistent().histograms["visits"].shares
    assert sum(row.mean for row in smooth) == pytest.approx(1.0)
    assert [row.mean for row in e.histograms["visits"].shares] == [
        row.mean for row in tv.estimate(veil, reports).histograms["visits"].shares
    ]


def test_what_was_not_forged_works() -> None:
    assert sorted(releases()) == sorted(NAMES)
    for veil, task, records, y in releases().values():
        use(tv.Veil.from_files(veil.files(), task=task), np.tile(veil.privatize(records), (5, 1)), records, y)


def test_a_decoder_of_another_lattice_is_refused() -> None:
    veil = lattice_veil(3.0)
    other = replace(veil.decoder.lattice, budget=2)
    forged = replace(veil, decoder=replace(veil.decoder, lattice=other))
    with pytest.raises(ReleaseError, match="other codewords"):
        tv.Veil.from_files(forged.files())


def test_a_task_with_answers_that_overflow_is_refused() -> None:
    """Limits of such answers failed in a search for a root."""
    veil = releases()["a survey"][0]
    wild = replace(veil, task=tv.MeanTask(np.full_like(veil.task.K, 1e150)))
    with pytest.raises(ReleaseError, match="answers would lie beyond"):
        tv.Veil.from_files(wild.files())


@pytest.mark.parametrize("name", ["x", "", "category[x]"])
def test_types_that_no_table_has_are_refused(name: str) -> None:
    """`decode` raised a TypeError, long after the release had been read."""
    veil = releases()["a table"][0]
    types = tuple(replace(of, name=name) if of.holds == "number" else of for of in veil.schema.published.types)
    forged = replace(veil, schema=replace(veil.schema, types=types))
    with pytest.raises(ReleaseError, match="types of the table"):
        tv.Veil.from_files(forged.files())


@pytest.mark.parametrize("name", ["V100000000", "S30000000", "<U9", "10000000f8", "Sparse[V100000000]"])
def test_types_of_a_fixed_length_are_refused(name: str) -> None:
    """Of the first, one value took 100 MB while the release was read."""
    veil = releases()["a table"][0]
    types = tuple(replace(of, name=name) if of.holds == "number" else of for of in veil.schema.published.types)
    forged = replace(veil, schema=replace(veil.schema, types=types))
    with pytest.raises(ReleaseError, match="types of the table"):
        tv.Veil.from_files(forged.files())


def test_a_category_of_many_values_takes_no_more_memory_than_it_needs() -> None:
    """Its types were tried with a table of values × values numbers: 3.3 GB and 20 seconds for 12,000 of them."""
    count, small = 4000, laplace_veil(1.0).device
    schema = tv.Schema({"a": tv.Category([f"{place:x}" for place in range(count)])}, library="pandas")
    latents, ones = small.mechanism.latent_dim, np.ones(count)
    encoder = LinearEncoder.of(low=0 * ones, high=ones, weights=np.tile(ones, (latents, 1)), offset=np.zeros(latents))
    device = replace(small, encoder=encoder, columns=("a",), units=("",), fields=schema.fields)
    manifest, _ = manifest_of({"types": pack(schema.types, "types", {}, SERVER_KINDS)}, {})
    tracemalloc.start()
    try:
        _schema(device, {"library": "pandas", **manifest}, {})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5000 * count


def test_every_value_of_a_category_is_tried_in_its_type() -> None:
    of = tv.Schema({"a": tv.Category(["1"])}, library="pandas").types[0]
    for names, sound in ((("1", "2"), True), (("1", "x"), False)):
        wrong = replace(of, holds="category", name="category[int64]", categories=names)
        schema = tv.Schema({"a": tv.Category(["1"])}, library="pandas", types=(wrong,))
        with contextlib.nullcontext() if sound else pytest.raises(ValueError, match="'x'"):
            schema.try_types()


def test_a_survey_of_many_values_is_read_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks tell all rows apart or none, and were asked about every statistic: 4 seconds for 2,000 values."""
    veil, asked = releases()["questions"][0], list[int]()
    scores = BlockQuestion.scores
    monkeypatch.setattr(BlockQuestion, "scores", lambda self, all: asked.append(all.shape[1]) or scores(self, all))
    tv.Veil.from_files(veil.files())
    assert asked
    assert set(asked) == {1}


def test_a_server_half_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    veil = laplace_veil(1.0)
    veil.save(tmp_path / "release")
    size = len(veil.files()[f"{SERVER}/{WEIGHTS}"])
    monkeypatch.setattr("taskveil.veil.release.MOST_SERVER_WEIGHTS", size)
    assert tv.Veil.load(tmp_path / "release").release_id == veil.release_id
    monkeypatch.setattr("taskveil.veil.release.MOST_SERVER_WEIGHTS", size - 1)
    with pytest.raises(ReleaseError, match="too large"):
        tv.Veil.load(tmp_path / "release")
    with pytest.raises(ReleaseError, match="too large"):
        tv.Veil.from_files(veil.files())
