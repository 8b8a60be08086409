"""Volunteers' numbers are where they are needed, and nowhere else."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv

TELLING = 77.71717171
X = np.random.default_rng(0).normal(size=(80, 2))
X[:, 0] = np.where(np.arange(80) == 3, TELLING, X[:, 0])


@pytest.fixture(scope="module", params=["answers", "means"])
def veil(request: pytest.FixtureRequest) -> tv.Veil:
    if request.param == "means":
        return tv.design(X, tv.MeanTask(np.eye(2)), epsilon=4.0, domain=tv.Box([-100.0, -9.0], [100.0, 9.0]))
    return tv.design(X, tv.LinearTask(np.eye(2)), epsilon=4.0, domain=tv.Box(-100.0, 100.0), method="codebook")


def test_nothing_that_is_printed_has_a_volunteers_number(veil: tv.Veil) -> None:
    found = tv.estimate(veil, veil.privatize(np.repeat(X, 20, axis=0)))
    assert TELLING in veil.reference.records  # type: ignore[union-attr]
    for thing in (
        veil,
        veil.reference,
        found,
        found.reweighted.calibrated,
        *found.groups.values(),
        found.groups["attributes"].means,
    ):
        assert "77.7" not in repr(thing)
        assert "array" not in repr(thing)
    assert "77.7" not in found.table() + str(found.content())


def test_devices_get_none_of_them_and_the_release_id_is_the_same(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "with")
    veil.save(tmp_path / "without", volunteers=False)
    holding = {
        path.parent.relative_to(tmp_path).as_posix()
        for path in tmp_path.glob("*/*/*")
        if np.float64(TELLING).tobytes() in path.read_bytes()
    }
    assert holding == {"with/server"}
    assert tv.Veil.load(tmp_path / "without").reference is None
    assert veil.release_id == tv.Veil.load(tmp_path / "without").release_id == replace(veil, reference=None).release_id


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
def test_nobody_else_on_the_machine_reads_them(veil: tv.Veil, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        veil.save(tmp_path / "with")
        veil.save(tmp_path / "without", volunteers=False)
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in tmp_path.glob("*/*")}
    assert modes == {"with/client": 0o755, "with/server": 0o700, "without/client": 0o755, "without/server": 0o755}
