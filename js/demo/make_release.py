"""Writes the release the demo page ships: `python js/demo/make_release.py`. Everybody in it is made up.

A codebook of 16 typical people (k-means), of which a device favours its four nearest, at ε = 2.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

import taskveil as tv
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.decoders import CodewordDecoder

HOME = Path(__file__).parent
NAMES = ("age", "resting pulse", "systolic pressure", "sleep", "steps")
UNITS = ("years", "per minute", "mmHg", "hours", "thousand a day")
LOW, HIGH = np.array([18.0, 45, 90, 4, 0]), np.array([90.0, 110, 190, 11, 20])
STEP = 2.0**-8


def people(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 85, count)
    fitness = rng.normal(size=count)
    pulse = 70 - 7 * fitness + rng.normal(size=count) * 5
    pressure = 100 + 0.5 * age - 4 * fitness + rng.normal(size=count) * 9
    sleep = 7.6 - 0.012 * age + rng.normal(size=count) * 0.9
    steps = np.exp(2.0 + 0.4 * fitness - 0.008 * (age - 50) + rng.normal(size=count) * 0.3)
    return np.clip(np.column_stack([age, pulse, pressure, sleep, steps]), LOW, HIGH)


def main() -> None:
    X = people(4000)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    centres = KMeans(16, n_init=4, random_state=0).fit((X - mean) / spread).cluster_centers_
    centres = centres[np.argsort(centres[:, 0])]  # the page shows them from young to old
    grid = np.rint(centres / STEP).astype(np.int64)
    encoder = LinearEncoder.of(low=LOW, high=HIGH, weights=np.diag(1 / spread), offset=-mean / spread)
    latents = encoder(np.array([LOW, HIGH])) / STEP
    response = Response.calibrated(size=16, favoured=4, epsilon=2.0)
    stage = Stage(vectors=2 * grid, offsets=-(grid**2).sum(axis=1), shifts=np.zeros_like(grid), response=response)
    region = BoxRegion(
        step=STEP, low=np.floor(latents[0]).astype(np.int64) - 1, high=np.ceil(latents[1]).astype(np.int64) + 1
    )
    mechanism = Codebook(region=region, stages=(stage,))
    # The best estimate given a report: the mean of everybody who could have sent it, weighted by how likely they would.
    weight = np.full((len(X), 16), response.base)
    favoured = stage.favoured(region.enforce(encoder(X)))
    np.put_along_axis(weight, favoured, response.base + response.extra, axis=1)
    estimates = weight.T @ X / weight.sum(axis=0)[:, None]
    veil = tv.Veil(
        encoder=encoder,
        mechanism=mechanism,
        decoder=CodewordDecoder(codewords=estimates, sizes=np.array([16])),
        task=tv.LinearTask(np.diag(1 / spread)),
        method="codebook",
        columns=NAMES,
        units=UNITS,
    )
    veil.save(HOME / "release", overwrite=True)
    shutil.rmtree(HOME / "release" / "server")  # the page needs no decoder; it shows the estimates below
    ranges = {"low": LOW.tolist(), "high": HIGH.tolist(), "mean": mean.round(1).tolist()}
    (HOME / "release" / "shown.json").write_text(
        json.dumps({**ranges, "estimates": estimates.round(1).tolist()}) + "\n"
    )


if __name__ == "__main__":
    main()
