"""Forged `server/` folders, all digests repaired: only what parts say of themselves and each other can object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from releases import write_files
from taskveil.client.reading import folder_files, read_files
from taskveil.errors import ReleaseError

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], Any]
X = np.random.default_rng(5).normal(size=(60, 3))
MEANS = tv.design(X, tv.MeanTask(np.eye(3)), epsilon=2.0, domain=tv.Box([-4.0] * 3, [4.0] * 3))
ANSWERS = tv.design(X, tv.LinearTask(np.eye(3)), epsilon=2.0, method="codebook")


def volunteers(**fields: Any) -> Change:
    """Other sums over volunteers: arrays by name, `cells__counts` for the counts of cells."""

    def change(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for name, value in fields.items():
            key = f"volunteers.{name.replace('__', '.')}"
            assert key in arrays, sorted(arrays)
            arrays[key] = value(arrays[key])

    return change


def outputs(**fields: Any) -> Change:
    def change(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                arrays[f"outputs.{name}"] = value
            else:
                manifest["outputs"][name] = value

    return change


def without_task(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    manifest["task"] = None
    del arrays["task.K"]


def fewer_codewords(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    arrays.update({"decoder.codewords": arrays["decoder.codewords"][:-1], "decoder.sizes": arrays["decoder.sizes"] - 1})


FORGERIES: dict[str, Change] = {
    "counts in a square": volunteers(cells__counts=lambda a: np.stack([a, a])),
    "more counts than groups": volunteers(cells__counts=lambda a: np.append(a, 20)),
    "a group of none": volunteers(cells__counts=lambda a: np.where(np.arange(len(a)) == 0, 0, a)),
    "fewer than none": volunteers(cells__counts=lambda a: -a),
    "counts beyond whole doubles": volunteers(cells__counts=lambda a: a + 2**53),
    "counts that are fractions": volunteers(cells__counts=lambda a: a + 0.5),
    "no groups": volunteers(
        **{f"cells__{name}": lambda a: a[:0] for name in ("counts", "measured", "means", "variances")}
    ),
    "means of others": volunteers(cells__means=lambda a: a[:, :-1], cells__variances=lambda a: a[:, :-1]),
    "means and variances of different numbers": volunteers(cells__variances=lambda a: a[:, :-1]),
    "means that are no numbers": volunteers(cells__means=lambda a: a * np.nan),
    "means beyond squares": volunteers(cells__means=lambda a: a + 1e200),
    "variances below zero": volunteers(cells__variances=lambda a: a - 1e9),
    "variances without end": volunteers(cells__variances=lambda a: a + np.inf),
    "measured of another mechanism": volunteers(cells__measured=lambda a: np.hstack([a, a])),
    "measured in a row": volunteers(cells__measured=lambda a: a[:, 0]),
    "measured that is no number": volunteers(cells__measured=lambda a: a * np.nan),
    "a code of no cell": volunteers(cell_of=lambda a: a + 10**6),
    "a code of a cell below zero": volunteers(cell_of=lambda a: a - 1),
    "cells of fewer codes": volunteers(cell_of=lambda a: a[:-1]),
    "a mean of others": volunteers(mean=lambda a: np.ones(99)),
    "a mean that is no number": volunteers(mean=lambda a: a * np.nan),
    "a variance of others": volunteers(variance=lambda a: np.ones(7)),
    "a variance that is no number": volunteers(variance=lambda a: a * np.nan),
    "a variance below zero": volunteers(variance=lambda a: a - 1e9),
    "sums that are none": lambda manifest, arrays: manifest["volunteers"].pop("cells"),
    "sums of another kind": lambda manifest, arrays: manifest.update(volunteers=manifest["outputs"]),
    "classes that are cells of nothing": lambda manifest, arrays: manifest["volunteers"].update(by_class=[{}]),
    "shares of shares": outputs(shares=np.full(3, 5, dtype=np.int8)),
    "more names than outputs": outputs(names=list("abcdef"), shares=np.zeros(6, dtype=np.int8)),
    "names that are none": outputs(names=[1, 2, 3]),
    "another task": lambda manifest, arrays: arrays.update({"task.K": np.ones((5, 3))}),
    "fewer codewords": fewer_codewords,
}


def forged(veil: tv.Veil, folder: Path, change: Change) -> Path:
    veil.save(folder)
    manifest, arrays = read_files(folder_files(folder / "server", "server"), "server")
    for name in ("schema", "digest", "weights_sha256"):
        del manifest[name]
    change(manifest, arrays)
    write_files(folder / "server", manifest, arrays)
    return folder


@pytest.mark.parametrize("veil", [MEANS, ANSWERS])
@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_what_estimates_rest_on_is_checked_when_a_release_is_read(
    veil: tv.Veil, change: Change, tmp_path: Path
) -> None:
    with pytest.raises(ReleaseError):
        tv.Veil.load(forged(veil, tmp_path / "r", change))


def test_means_of_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="of what"):
        tv.Veil.load(forged(MEANS, tmp_path / "r", without_task))


def test_what_was_not_forged_is_read(tmp_path: Path) -> None:
    again = tv.Veil.load(forged(MEANS, tmp_path / "r", lambda manifest, arrays: None))
    assert again.volunteers is not None
    assert again.volunteers.count == len(X)


def test_releases_of_earlier_schemas_are_refused(tmp_path: Path) -> None:
    """A choice without its encoder was written by schema 5."""

    def earlier(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        manifest["considered"] = [{"kind": "considered", "method": "codebook", "held_out_loss": 1.5}]

    with pytest.raises(ReleaseError, match="a considered has the fields"):
        tv.Veil.load(forged(ANSWERS, tmp_path / "r", earlier))


@pytest.mark.parametrize("veil", [MEANS, ANSWERS])
def test_the_volunteers_mean_is_computed_where_a_release_does_not_hold_it(veil: tv.Veil, tmp_path: Path) -> None:
    def without_mean(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        del manifest["volunteers"]["mean"], arrays["volunteers.mean"]

    again = tv.Veil.load(forged(veil, tmp_path / "r", without_mean))
    assert again.volunteers is not None
    cells = again.volunteers.cells
    assert np.allclose(again.volunteers.mean, cells.counts @ cells.measured / cells.counts.sum())
