"""Volunteers read as strangers: what codewords say without them, by making the codewords again without them."""

from __future__ import annotations

import numpy as np

from taskveil.client.mechanisms import Response, Stage
from taskveil.server.estimates.leave_one_out import told_of_strangers


def codewords_of(z: np.ndarray, favoured: np.ndarray, response: Response) -> np.ndarray:
    """The mean of the records given each report."""
    members = np.eye(response.size)[favoured].sum(axis=1)
    weight = response.base + response.extra * members
    return np.asarray(weight.T @ z / weight.sum(axis=0)[:, None])


def stage_of(codewords: np.ndarray, response: Response) -> Stage:
    k = np.rint(codewords).astype(np.int64)
    return Stage(vectors=2 * k, offsets=-(k**2).sum(axis=1), shifts=0 * k, response=response)


def test_it_is_what_the_codewords_would_say_had_the_volunteer_not_come() -> None:
    """Four groups far apart: leaving one person out moves that group's codeword and nobody else's."""
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [1e6, 0.0], [0.0, 1e6], [1e6, 1e6]])
    group = np.arange(40) % 4
    z = np.rint(centers[group] + 1e5 * rng.normal(size=(40, 2)))
    response = Response.calibrated(size=4, favoured=1, epsilon=8.0)
    codewords = codewords_of(z, group[:, None], response)
    told = told_of_strangers(stage_of(codewords, response), z.astype(np.int64), codewords, z, everybody=40)
    for person in range(40):
        rest = np.arange(40) != person
        without = codewords_of(z[rest], group[rest, None], response)
        assert np.allclose(told[person], without[group[person]], rtol=1e-6, atol=1e-6 * 1e6)


def test_whoever_was_alone_with_a_codeword_is_told_by_the_next() -> None:
    z = np.array([[0.0], [1.0], [2.0], [1000.0]]) * 1000
    response = Response.calibrated(size=2, favoured=1, epsilon=12.0)
    favoured = np.array([[0], [0], [0], [1]])
    codewords = codewords_of(z, favoured, response)
    told = told_of_strangers(stage_of(codewords, response), z.astype(np.int64), codewords, z, everybody=4)
    assert told[3, 0] < 10_000 < codewords[1, 0]


def test_among_many_volunteers_nothing_changes() -> None:
    rng = np.random.default_rng(1)
    z = np.rint(1e5 * rng.normal(size=(500, 2)))
    response = Response.calibrated(size=2, favoured=1, epsilon=1.0)
    favoured = (z[:, :1] > 0).astype(int)
    codewords = codewords_of(z, favoured, response)
    stage = stage_of(codewords, response)
    plain = codewords[stage.favoured(z.astype(np.int64))].sum(axis=1)
    told = told_of_strangers(stage, z.astype(np.int64), codewords, z, everybody=500_000)
    assert np.abs(told - plain).max() < 1e-4 * np.abs(plain).max()
