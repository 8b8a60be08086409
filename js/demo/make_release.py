"""Writes the release that the browser tests use: `python js/demo/make_release.py`. Everybody in it is made up.

A codebook of 16 typical people (k-means), of which a device favours its four nearest, at ε = 2. It is made by hand, so
that a better design changes no test; `taskveil demo --serve` designs one for the same people.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.experiments.demo_people import PANEL, SCHEMA, people, shown, table, weights
from taskveil.veil.decoders import CodewordDecoder

HOME = Path(__file__).parent
STEP = 2.0**-8


def main() -> None:
    schema = SCHEMA.like(table(people(4000)))
    X = schema.expand(table(people(4000)))
    mean, scale = X.mean(axis=0), weights(X)
    centres = KMeans(16, n_init=4, random_state=0).fit((X - mean) * scale).cluster_centers_
    centres = centres[np.argsort(centres[:, 0])]  # the page shows them from young to old
    grid = np.rint(centres / STEP).astype(np.int64)
    low, high = schema.fields.box
    encoder = LinearEncoder.of(low=low, high=high, weights=np.diag(scale), offset=-mean * scale)
    latents = encoder(np.array([low, high])) / STEP
    response = Response.calibrated(size=16, favoured=4, epsilon=2.0)
    stage = Stage(vectors=2 * grid, offsets=-(grid**2).sum(axis=1), shifts=np.zeros_like(grid), response=response)
    region = BoxRegion(
        step=STEP, low=np.floor(latents[0]).astype(np.int64) - 1, high=np.ceil(latents[1]).astype(np.int64) + 1
    )
    # The best estimate given a report: the mean of everybody who could have sent it, weighted by how likely they would.
    weight = np.full((len(X), 16), response.base)
    np.put_along_axis(weight, stage.favoured(region.enforce(encoder(X))), response.base + response.extra, axis=1)
    estimates = weight.T @ X / weight.sum(axis=0)[:, None]
    veil = tv.Veil(
        encoder=encoder,
        mechanism=Codebook(region=region, stages=(stage,)),
        decoder=CodewordDecoder(codewords=estimates, sizes=np.array([16])),
        task=tv.LinearTask(np.diag(scale)),
        method="codebook",
        columns=schema.names,
        units=schema.fields.units,
        schema=schema,
    )
    veil = replace(veil, panel=PANEL)
    veil.save(HOME / "release", overwrite=True)
    shutil.rmtree(HOME / "release" / "server")  # the page needs no decoder; it shows the guesses below
    (HOME / "release" / "shown.json").write_text(json.dumps(shown(veil)) + "\n")


if __name__ == "__main__":
    main()
