"""Trees on devices: records a second, the time of one report, bytes, and how long boosted trees take to fit.

    python benchmarks/trees.py

Times are of one core's processor: on a shared machine that is what a core can do.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from taskveil.client.device import Device
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import BoxRegion
from taskveil.client.trees import TreeEncoder
from taskveil.designs.crossfit import Evidence, calibrate, cross_fit
from taskveil.designs.predictors.trees import BoostedTrees, as_trees
from taskveil.designs.selection import bytes_of
from taskveil.tasks.costs import CrossEntropy, SquaredError
from taskveil.veil import release

TREES, LEAVES, WIDTH = 100, 64, 20


def least(call: Callable[[], object], times: int) -> float:
    """Processor seconds of the quickest of so many calls."""
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def table(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Records, and a value that depends on six of their attributes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, WIDTH))
    return X, 2 * X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3 * X[:, 3]) + np.abs(X[:, 4]) + 0.5 * rng.normal(size=count)


def ensembles() -> dict[str, TreeEncoder]:
    """100 trees of 64 leaves: as deep as boosting makes them, and a forest's."""
    X, y = table(10_000)
    low, high = X.min(axis=0), X.max(axis=0)
    models = {
        "boosted, as deep as it likes": HistGradientBoostingRegressor(max_iter=TREES, max_leaf_nodes=LEAVES),
        "boosted, six splits deep": HistGradientBoostingRegressor(max_iter=TREES, max_leaf_nodes=LEAVES, max_depth=6),
        "boosted, 64 bins": HistGradientBoostingRegressor(max_iter=TREES, max_leaf_nodes=LEAVES, max_bins=64),
        "a forest": RandomForestRegressor(TREES, max_leaf_nodes=LEAVES, random_state=0),
    }
    found = {}
    for name, model in models.items():
        trees = as_trees(model.fit(X, y))
        assert trees is not None
        found[name] = trees.encoder(low, high)
    return found


def client_bytes(device: Device) -> int:
    """Bytes of the folder that devices get."""
    return release.client_bytes(device)


def main() -> None:
    """Print all of it."""
    X, y = table(20_000)
    region = BoxRegion(step=2.0**-10, low=np.array([-(2**13)]), high=np.array([2**13]))
    print(f"{TREES} trees of {LEAVES} leaves on {WIDTH} attributes, one core:")
    for name, encoder in ensembles().items():
        device = Device(encoder=encoder, mechanism=Laplace.calibrated(region=region, epsilon=1.0))
        rate = len(X) / least(lambda encoder=encoder: encoder(X), 5)
        one = least(lambda device=device: [device.privatize(X[:1]) for _ in range(100)], 5) / 100
        depth = encoder._walk.depth
        print(
            f"  {name:30s} {rate:9,.0f} records/s   one report {1e3 * one:.2f} ms   {client_bytes(device):7,} bytes"
            f"   depth {depth.mean():.1f}, at most {depth.max()}   {encoder.operations:,} operations"
        )
    X, y = X[:2000], y[:2000]
    fold, low, high = np.arange(2000) % 5, X.min(axis=0), X.max(axis=0)
    goals = {
        "one value": (SquaredError(), y[:, None]),
        "two classes": (CrossEntropy(), np.eye(2)[(y > 1).astype(int)]),
        "three classes": (CrossEntropy(), np.eye(3)[np.digitize(y, [0, 2])]),
    }
    print("boosted trees cross-fitted to 2,000 records, fifteen models:")
    for name, (cost, truth) in goals.items():
        start = time.process_time()
        evidence = Evidence(X=X, truth=truth, cost=cost, fold=fold, low=low, high=high, seed=0, most_bytes=2**19)
        fitted = cross_fit(BoostedTrees(), evidence)
        honest = calibrate(fitted.final, evidence)
        encoder = BoostedTrees().encoder(evidence, fitted.fits, honest.setting, honest.slope, honest.shift)
        spent = time.process_time() - start
        assert isinstance(encoder, TreeEncoder)
        print(f"  {name:30s} {spent:.1f} s   {len(encoder.values):,} leaves   {bytes_of(encoder):,} bytes")


if __name__ == "__main__":
    main()
