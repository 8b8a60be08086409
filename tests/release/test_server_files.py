"""Forged `server/` folders, all digests repaired: only what parts say of themselves and each other can object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from taskveil.client.reading import read_files
from taskveil.errors import ReleaseError
from taskveil.release.manifest import write_files

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], Any]
X = np.random.default_rng(5).normal(size=(60, 3))
MEANS = tv.design(X, tv.MeanTask(np.eye(3)), epsilon=2.0, domain=tv.Box([-4.0] * 3, [4.0] * 3))
ANSWERS = tv.design(X, tv.LinearTask(np.eye(3)), epsilon=2.0, method="codebook")


def reference(**fields: Any) -> Change:
    """Other fields of the volunteers: arrays, or what the manifest says."""

    def change(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                arrays[f"reference.{name}"] = value
            else:
                manifest["reference"][name] = value

    return change


def without_task(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    manifest["task"] = None
    del arrays["task.K"]


def fewer_codewords(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    arrays.update({"decoder.codewords": arrays["decoder.codewords"][:-1], "decoder.sizes": arrays["decoder.sizes"] - 1})


FORGERIES: dict[str, Change] = {
    "latents in a row": reference(latents=X[:, 0]),
    "latents in a cube": reference(latents=np.repeat(X[:, :, None], 2, axis=2)),
    "latents of others": reference(latents=np.hstack([X, X])),
    "records of others": reference(records=X[:, :2]),
    "records that are no numbers": reference(records=np.where(X > 0, np.nan, X)),
    "records beyond squares": reference(records=X * 1e200),
    "shares of shares": reference(shares=np.full(3, 5, dtype=np.int8)),
    "more answers than outputs": reference(
        answers=np.hstack([X, X]), names=list("abcdef"), shares=np.zeros(6, dtype=np.int8)
    ),
    "names that are none": reference(names=[1, 2, 3]),
    "nobody": reference(everybody=-1),
    "fewer than there are": reference(everybody=len(X) - 1),
    "more than can be": reference(everybody={"integer": "9" * 600}),
    "no count": lambda manifest, arrays: manifest["reference"].pop("everybody"),
    "another task": lambda manifest, arrays: arrays.update({"task.K": np.ones((5, 3))}),
    "fewer codewords": fewer_codewords,
}


def forged(veil: tv.Veil, folder: Path, change: Change) -> Path:
    veil.save(folder)
    manifest, arrays = read_files(folder / "server")
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
    assert again.reference is not None
    assert again.reference.everybody == len(X)
