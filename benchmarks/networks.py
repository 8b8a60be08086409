"""What a network costs a device: pictures a second, one report, bytes; and one report in the browser's engine.

    python benchmarks/networks.py          # needs `npm run build` in js/ for the last

The network is that of the digits, with first weights: how long it takes does not depend on them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import taskveil as tv
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.networks import LayeredEncoder
from taskveil.client.regions import BoxRegion
from taskveil.designs.predictors.layer_models import as_layers
from taskveil.designs.predictors.whole_layers import averaged
from taskveil.experiments.mnist import network
from taskveil.veil.decoders import CodewordDecoder

WIDTH, SIZE, CLASSES = 784, 64, 10
SCRIPT = Path(__file__).with_name("networks.mjs")


def encoder(copies: int) -> LayeredEncoder:
    """So many networks of the digits side by side."""
    torch.manual_seed(0)
    found = [as_layers(network(), WIDTH) for _ in range(copies)]
    together = averaged([layers for layers in found if layers is not None])
    assert together is not None
    X = np.random.default_rng(0).random((50, WIDTH))
    return together.encoder(np.zeros(WIDTH), np.ones(WIDTH), X, softmax=True)


def veil(made: LayeredEncoder) -> tv.Veil:
    """The encoder before a codebook of 64."""
    rng = np.random.default_rng(1)
    stage = Stage(
        vectors=rng.integers(-(2**20), 0, size=(SIZE, CLASSES)),
        offsets=np.zeros(SIZE, dtype=np.int64),
        shifts=np.zeros((SIZE, CLASSES), dtype=np.int64),
        response=Response.calibrated(size=SIZE, favoured=1, epsilon=5.0),
    )
    region = BoxRegion(step=2.0**-20, low=np.zeros(CLASSES, dtype=np.int64), high=np.full(CLASSES, 2**20))
    return tv.Veil(
        encoder=made,
        mechanism=Codebook(region=region, stages=(stage,)),
        decoder=CodewordDecoder(codewords=rng.normal(size=(SIZE, WIDTH)), sizes=np.array([SIZE])),
        task=None,
        method="benchmark",
    )


def main() -> None:
    X = np.random.default_rng(2).random((1000, WIDTH))
    for copies in (1, 5):
        made = encoder(copies)
        designed = veil(made)
        designed.privatize(X[:10])
        rates = []
        for _ in range(3):
            start = time.process_time()
            designed.privatize(X)
            rates.append(len(X) / (time.process_time() - start))
        alone = []
        for row in X[:100]:
            start = time.perf_counter()
            designed.privatize(row[None])
            alone.append(time.perf_counter() - start)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "release"
            designed.save(folder)
            size = sum(file.stat().st_size for file in (folder / "client").iterdir())
            print(
                f"{copies} network{'s' if copies > 1 else ' '}, {made.operations / 1e6:5.1f} million products: "
                f"{max(rates):6.0f} pictures a second a core (bar: 1,000), one report {1e3 * np.median(alone):.2f} ms, "
                f"client folder {size / 1024:.0f} KB (bar: 200)"
            )
            if shutil.which("node") and (SCRIPT.parents[1] / "js" / "dist" / "release.js").exists():
                subprocess.run(["node", str(SCRIPT), str(folder / "client")], check=True)
            else:
                print("  no node, or js/ is not built: the browser's part is left out")


if __name__ == "__main__":
    main()
