"""A vocabulary of 10⁵ values against optimal local hashing: error, time of an estimate, bytes of a report."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import LevelResponse, PlaneGroup, Response
from taskveil.client.regions import BoxRegion
from taskveil.estimates.words import contained
from taskveil.peers.frequencies import LocalHashing

MOST, SECONDS, BYTES = 1.1, 30.0, 8


def plane(values: int, epsilon: float) -> PlaneGroup:
    """The plane for so many values: p a prime above √values and e^ε + 1, blocks of about p/(e^ε + 1)."""
    cells = math.exp(epsilon) + 1.0
    prime = max(math.isqrt(values - 1) + 1, math.ceil(cells))
    while any(prime % divisor == 0 for divisor in range(2, math.isqrt(prime) + 1)):
        prime += 1
    response = Response.calibrated(size=prime, favoured=max(1, round(prime / cells)), epsilon=epsilon)
    return PlaneGroup(places=np.array([0, 1]), prime=prime, response=response, chance=1)


def hits(group: PlaneGroup) -> tuple[float, float]:
    """How probable it is that a report's block contains one's own value, and any other one."""
    response, p, w = group.response, group.prime, group.response.favoured
    # Two points differ along a form by 0 for p − 1 forms and by every other residue for p forms, of p² − 1.
    common = (p * w * w - w) / (p * p - 1)
    return w * (response.base + response.extra), w * response.base + response.extra * common


def error(group: PlaneGroup, values: int) -> float:
    """The total squared error of all shares, times reports."""
    inside, outside = hits(group)
    return (inside * (1 - inside) + (values - 1) * outside * (1 - outside)) / (inside - outside) ** 2


def drawn(group: PlaneGroup, values: int, reports: int) -> tuple[Floats, Floats, float, int]:
    """Estimated and true shares (values,) of one collection, seconds of the estimate, bytes of a report."""
    rng = np.random.default_rng(3)
    people: Integers = np.minimum(rng.zipf(1.3, reports) - 1, values - 1)
    zero = np.zeros(2, dtype=np.int64)
    region = BoxRegion(step=1.0, low=zero, high=zero + group.prime - 1)
    mechanism = LevelResponse(region=region, groups=(group,))
    points = np.column_stack(np.divmod(np.arange(values), group.prime))
    sent = np.concatenate([mechanism(points[some].astype(float))[:, 0] for some in np.array_split(people, 20)])
    start = time.perf_counter()
    outputs, counts = np.unique(sent, return_counts=True)
    blocks = contained(group.prime, group.response.favoured, outputs, counts, points)
    inside, outside = hits(group)
    found = (blocks / reports - outside) / (inside - outside)
    seconds = time.perf_counter() - start
    size = math.ceil(math.log2(group.outputs) / 8)
    return found, np.bincount(people, minlength=values) / reports, seconds, size


def words(quick: bool) -> Iterator[tuple[str, bool]]:
    """Lines of the table."""
    values, reports = (2_000, 20_000) if quick else (100_000, 1_000_000)
    yield f"{values:,} values, {reports:,} reports; drawn: real reports' squared error over the expected one", True
    yield f"{'ε':>4s} {'p':>6s} {'w':>4s} {'ratio':>7s} {'drawn':>7s} {'seconds':>8s} {'bytes':>6s}", True
    for epsilon in (1.0,) if quick else (0.5, 1.0, 2.0, 4.0, 8.0):
        group = plane(values, epsilon)
        expected = error(group, values)
        ratio = expected / LocalHashing.best(values, epsilon).error(np.full(values, 1.0 / values))
        found, truth, seconds, size = drawn(group, values, reports)
        seen = float(((found - truth) ** 2).sum()) * reports / expected
        good = ratio <= MOST and seconds <= SECONDS and size <= BYTES
        yield (
            (
                f"{epsilon:4g} {group.prime:6,d} {group.response.favoured:4d} {ratio:7.4f} {seen:7.3f} {seconds:8.1f} "
                f"{size:6d}" + "  MISSED" * (not good)
            ),
            good,
        )
