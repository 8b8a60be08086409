"""Vectors in a ball: error beside PrivUnit's, bias, time and bytes of a report.

    python benchmarks/balls.py [--seeds 50000] [--numbers 2e8] [--dims 4 30 100 1000 10000] [--epsilons 1 2 4 8]
                               [--lengths 0.3 0.5 1]

- ratio: the squared error of one report of a unit vector over PrivUnit's with its best cap, both by formula. Bar: 1.05
  up to 1,000 dimensions.
- measured: the same from simulated reports, of vectors on the sphere, with its standard error.
- bias: over sparse, flat and random unit vectors, the largest distance between the mean of reports and the vector, as
  a share of its length. κ is the same for all directions only as far as whole numbers are like Gaussian ones. The
  mean over the response is exact; only seeds are simulated. "along": off the vector's length. "across": in the plane
  of the two largest coordinates. Both have a standard error; bar: 0.5%, beyond three of them.
- ms: processor time of one report in Python, and of decoding one. Bar: 10 ms up to 1,000 dimensions.
- bytes: of one report, and of the files that a device downloads. Bar: 16 bytes for a report.

A second table, up to 1,000 dimensions, is of designs for vectors of one length |x|. It has the squared error of one
report over PrivUnit's, whose device takes x/|x| or its opposite: "signs" of the best design without codewords for the
centre, "ratio" of the design that is taken, both by formula, and "measured" as above.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from numpy.typing import NDArray

import taskveil as tv
from taskveil.client.mechanisms import BallResponse
from taskveil.designs.means.ball import ball_veil, best_response
from taskveil.designs.problem import Problem
from taskveil.peers.literature import PrivUnit
from taskveil.veil import Veil
from taskveil.veil.channels.ball import lean_of
from taskveil.veil.decoders import BallDecoder

Floats = NDArray[np.float64]


def designed(dim: int, epsilon: float, length: float = 1.0) -> Veil:
    """The design for vectors of one length in the unit ball."""
    rng = np.random.default_rng(0)
    volunteers = rng.standard_normal((20, dim))
    volunteers *= length / np.linalg.norm(volunteers, axis=1, keepdims=True)
    task, ball = tv.MeanTask(np.ones((1, dim))), tv.Ball(1.0, dim=dim)
    problem = Problem.of(volunteers, task, domain=ball)
    return ball_veil(problem, ball, np.arange(dim), epsilon, "means")


def vectors(dim: int) -> dict[str, Floats]:
    """Unit vectors of every kind."""
    rng = np.random.default_rng(1)
    two, flat, random = np.zeros(dim), np.ones(dim), rng.standard_normal(dim)
    two[:2] = 2.0, 1.0
    made = {"one": np.eye(dim)[0], "two": two, "flat": flat, "random": random}
    return {name: vector / np.linalg.norm(vector) for name, vector in made.items()}


def bias(veil: Veil, vector: Floats, seeds: int) -> tuple[float, float, float]:
    """Off the vector's length, off it in the plane of its two largest coordinates, and the standard error of both.

    Given a seed, the mean of the decoded report is extra times the sum of the favoured codewords, and codewords of both
    signs cancel otherwise.
    """
    mechanism, decoder = veil.mechanism, veil.decoder
    assert isinstance(mechanism, BallResponse)
    assert isinstance(decoder, BallDecoder)
    response, code = mechanism.response, mechanism.codewords
    k = mechanism.inside(mechanism.region.enforce(vector[None]))
    first, second = np.argsort(-np.abs(vector), kind="stable")[:2]
    across = np.zeros(len(vector))
    across[first], across[second] = -vector[second], vector[first]
    across /= np.linalg.norm(across) or 1.0
    if not across.any():
        across[second] = 1.0
    rng = np.random.default_rng(2)
    drawn = rng.integers(0, 2**32, size=(seeds, 2))
    # With a matrix a direction takes long: one of the favoured, at random, stands for all.
    told = 1 if code.rows else response.favoured
    batch, values = max(1, 2**20 // (told * len(vector))), []
    for start in range(0, seeds, batch):
        some = drawn[start : start + batch]
        favoured = mechanism.favoured(some, np.tile(k, (len(some), 1, 1)))[:, 0]
        favoured = rng.permuted(favoured, axis=1)[:, :told]
        directions = code.directions(np.repeat(some, told, axis=0), favoured.ravel())
        sides = (directions @ np.column_stack([vector, across])).reshape(len(some), told, 2)
        values.append(sides.mean(axis=1) * response.favoured * response.extra * decoder.scale - [1.0, 0.0])
    found = np.concatenate(values)
    error = found.std(axis=0).max() / math.sqrt(seeds)
    return float(found[:, 0].mean()), float(found[:, 1].mean()), float(error)


def measured(veil: Veil, vector: Floats, count: int) -> tuple[float, float]:
    """The mean squared error of so many reports of a vector, and its standard error."""
    X = np.tile(vector, (count, 1))
    errors = ((veil.estimates(veil.privatize(X)) - X) ** 2).sum(axis=1)
    return float(errors.mean()), float(errors.std() / math.sqrt(count))


def shorter(dim: int, epsilon: float, length: float) -> str:
    """The row of a design for vectors of one length."""
    veil = designed(dim, epsilon, length)
    mechanism = veil.mechanism
    assert isinstance(mechanism, BallResponse)
    response, code = mechanism.response, mechanism.codewords
    least = PrivUnit.of(dim, epsilon).error + 1.0 - length**2
    signs = best_response(dim, epsilon)[2].variance(dim, length) / least
    ratio = lean_of(response, dim, code.rows, mechanism.centres).variance(dim, length) / least
    error, spread = measured(veil, length * vectors(dim)["random"], max(2000, 400_000 // dim))
    return (
        f"{dim:6d} {epsilon:3g} {length:4g}  {code.size:5d} {response.favoured:4d} {mechanism.centres:6d}  "
        f"{signs:.3f}  {ratio:.3f}  {error / least:.3f} ({spread / least:.3f})"
    )


def milliseconds(call: object, times: int) -> float:
    """Processor time of one call."""
    assert callable(call)
    call()
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50_000, help="seeds for biases, at most")
    parser.add_argument("--numbers", type=float, default=2e8, help="numbers of codewords drawn for a bias, at most")
    parser.add_argument("--dims", type=int, nargs="+", default=[4, 30, 100, 1000, 10_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--lengths", type=float, nargs="+", default=[0.3, 0.5, 1.0], help="of the second table")
    options = parser.parse_args()
    print("dims   ε  rows codes   m  ratio  measured (±)     ms report, decode  bytes report, files   largest bias (±)")
    for dim in options.dims:
        for epsilon in options.epsilons:
            veil = designed(dim, epsilon)
            mechanism = veil.mechanism
            assert isinstance(mechanism, BallResponse)
            response, code = mechanism.response, mechanism.codewords
            least = PrivUnit.of(dim, epsilon).error
            ratio = lean_of(response, dim, code.rows, mechanism.centres).variance(dim) / least
            X = np.tile(vectors(dim)["random"], (20, 1))
            reports = veil.privatize(X)
            error, spread = measured(veil, X[0], max(20, 40_000 // dim))
            ms = milliseconds(lambda v=veil, x=X: v.privatize(x[:1]), 20)
            back = milliseconds(lambda v=veil, r=reports: v.estimates(r[:20]), 3) / 20
            size = veil.size
            cost = code.size // 2 * code.inner + code.rows * dim
            seeds = max(30, min(options.seeds, int(options.numbers) // cost))
            biases = {name: bias(veil, vector, seeds) for name, vector in vectors(dim).items()}
            along, across, off = max(biases.values(), key=lambda one: max(abs(one[0]), abs(one[1])))
            print(
                f"{dim:6d} {epsilon:3g} {code.rows:4d} {response.size:5d} {response.favoured:4d}  {ratio:.3f}  "
                f"{error / least:.3f} ({spread / least:.3f})  {ms:8.2f} {back:8.3f}  {size.report_bytes:8d} "
                f"{size.client_bytes:9d}   {100 * max(abs(along), abs(across)):.2f}% ({100 * off:.2f}%)",
                flush=True,
            )
    print("dims   ε  |x|  codes    m centre  signs  ratio  measured (±)")
    for dim in (dim for dim in options.dims if dim <= 1000):
        for epsilon in options.epsilons:
            for length in options.lengths:
                print(shorter(dim, epsilon, length), flush=True)


if __name__ == "__main__":
    main()
