"""Writes the release the demo page ships: `python js/demo/make_release.py`. Everybody in it is made up.

A codebook of 16 typical people (k-means), of which a device favours its four nearest, at ε = 2. Records are as people
have them: numbers, a count, a category, a yes or no and a date, some of which may be missing.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import taskveil as tv
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.decoders import CodewordDecoder

HOME = Path(__file__).parent
SPORTS = ("none", "walking", "cycling", "running")
SCHEMA = tv.Schema({
    "age": tv.Number(18, 90, "years"),
    "resting pulse": tv.Number(45, 110, "per minute", missing=True),
    "sleep": tv.Number(4, 11, "hours"),
    "household": tv.Count(1, 8, "people"),
    "sport": tv.Category(SPORTS, missing=True),
    "smokes": tv.Flag(missing=True),
    "last check-up": tv.Date("2016-01-01", "2026-12-31", missing=True, cycles=()),
})  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "young": {
        **{"age": 22, "resting pulse": 56, "sleep": 8.0, "household": 3, "sport": "running"},
        **{"smokes": False, "last check-up": "2019-05-02"},
    },
    "old": {
        **{"age": 80, "resting pulse": 84, "sleep": 6.0, "household": 1, "sport": "none"},
        **{"smokes": True, "last check-up": "2026-09-30"},
    },
    "silent": dict.fromkeys(SCHEMA.names),
}
"""Whom the page compares its visitor with."""
STEP = 2.0**-8


def people(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, fitness = rng.uniform(20, 85, count), rng.normal(size=count)
    lively = fitness - 0.025 * (age - 50) + 0.5 * rng.normal(size=count)
    days = rng.exponential(np.where(age > 60, 250, 900))
    table = pd.DataFrame({
        "age": age.round(),
        "resting pulse": np.clip(70 - 7 * fitness + 5 * rng.normal(size=count), 45, 110).round(),
        "sleep": np.clip(7.6 - 0.012 * age + 0.9 * rng.normal(size=count), 4, 11).round(1),
        "household": np.clip(rng.poisson(np.where(age < 55, 2.2, 0.7)) + 1, 1, 8),
        "sport": np.array(SPORTS, dtype=object)[np.digitize(lively, [-0.9, 0.3, 1.2])],
        "smokes": (rng.random(count) < 1 / (1 + np.exp(1.0 + fitness))).astype(object),
        "last check-up": (pd.Timestamp("2026-11-01") - pd.to_timedelta(days, unit="D")).normalize(),
    })  # fmt: skip
    for name, share in {"resting pulse": 0.25, "sport": 0.05, "smokes": 0.1, "last check-up": 0.1}.items():
        table.loc[rng.random(count) < share, name] = None
    return table


def main() -> None:
    table = people(4000)
    X = SCHEMA.expand(table)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    # Every field counts once, however many numbers it becomes.
    widths = [place.stop - place.start for place in SCHEMA.fields.places]
    scale = 1 / (spread * np.sqrt(np.repeat(widths, widths)))
    centres = KMeans(16, n_init=4, random_state=0).fit((X - mean) * scale).cluster_centers_
    centres = centres[np.argsort(centres[:, 0])]  # the page shows them from young to old
    grid = np.rint(centres / STEP).astype(np.int64)
    low, high = SCHEMA.fields.box
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
        columns=SCHEMA.names,
        units=SCHEMA.fields.units,
        schema=SCHEMA,
    )
    veil.save(HOME / "release", overwrite=True)
    shutil.rmtree(HOME / "release" / "server")  # the page needs no decoder; it shows the guesses below
    shown = {"others": OTHERS, "guesses": guesses(veil)}
    (HOME / "release" / "shown.json").write_text(json.dumps(shown) + "\n")


def guesses(veil: tv.Veil) -> list[dict[str, Any]]:
    """What a server makes of each report: natural values, and how probable those of categories and flags are."""
    decoded = veil.decode(np.arange(16)[:, None], probabilities=True)
    found: list[dict[str, Any]] = []
    for row in decoded.to_dict("records"):
        guess: dict[str, Any] = {}
        for name in SCHEMA:
            value, chance = row[name], round(row[f"{name} probability"], 2)
            if value is None or pd.isna(value):
                guess[name] = {"value": None, "chance": chance}
            elif isinstance(SCHEMA[name], tv.Category | tv.Flag):
                guess[name] = {"value": value if isinstance(value, str) else bool(value), "chance": chance}
            else:
                guess[name] = {"value": f"{value:%Y-%m-%d}" if isinstance(SCHEMA[name], tv.Date) else round(value, 1)}
        found.append(guess)
    return found


if __name__ == "__main__":
    main()
