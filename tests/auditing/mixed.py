"""Clients of mixed records, sound ones and such as only mixed records can expose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import taskveil as tv
from auditing.exhibits import STEP, noise, stage
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response
from taskveil.client.regions import BoxRegion
from taskveil.veil.decoders import CodewordDecoder

Records = list[dict[str, Any]]

ORIGINS = ("Europe", "Japan", "USA")
_ANSWER = Response.calibrated(size=8, favoured=1, epsilon=1.0)


def records() -> Records:
    rng = np.random.default_rng(3)
    return [
        {
            "origin": ORIGINS[rng.integers(3)],
            "power": None if rng.random() < 0.1 else round(float(rng.uniform(0, 200)), 1),
            "since": f"20{rng.integers(10, 25)}-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}",
            "automatic": bool(rng.random() < 0.5),
        }
        for _ in range(50)
    ]


def _known(record: dict[str, Any]) -> int:
    """Which of four kinds of origin, and whether automatic: one of eight."""
    origin = record["origin"] if isinstance(record["origin"], str) else None
    return (ORIGINS.index(origin) if origin in ORIGINS else 3) + 4 * (record["automatic"] is True)


def answers(given: Records) -> np.ndarray:
    """Sound: randomised response on one of eight kinds."""
    return _ANSWER(np.array([[_known(record)] for record in given], dtype=np.int64).reshape(-1, 1))[:, None]


def as_bytes(given: Records) -> list[bytes]:
    """The same in bytes."""
    return [bytes([2, int(answer)]) for answer in answers(given)[:, 0]]


def raises_on_text(given: Records) -> np.ndarray:
    """Reads a number before it answers, and stops where there is none: the error is an answer too."""
    for record in given:
        float(record["power"] or 0.0)
    return answers(given)


def drops_holes(given: Records) -> np.ndarray:
    return answers([record for record in given if record["power"] is not None])


def unknown_in_the_clear(given: Records) -> np.ndarray:
    """A category that nobody listed is a case of its own, which needs no noise because it is nobody's."""
    return np.where([[record["origin"] not in ORIGINS] for record in given], 8, answers(given))


def hole_in_the_clear(given: Records) -> np.ndarray:
    return np.hstack([answers(given), [[int(record["power"] is None)] for record in given]])


def bounds_of_the_record(given: Records) -> np.ndarray:
    """Noise for numbers from 0 to 200, which are clipped to what they are."""
    numbers = [r["power"] if type(r["power"]) in (int, float) and abs(r["power"]) < 1e9 else 0.0 for r in given]
    steps = np.floor(np.array(numbers) / 200 / STEP)[:, None]
    return (steps + noise(1 / STEP, steps.shape)) * STEP


def longer_for_long_names(given: Records) -> list[bytes]:
    """A report that has room for a longer text, where there is one."""
    return [answer + b"\0" * (len(str(r["origin"])) > 255) for answer, r in zip(as_bytes(given), given, strict=True)]


def in_another_unit(given: Records) -> np.ndarray:
    """Text is a number in another unit, and goes out as it came."""
    return np.where([[type(record["power"]) is str] for record in given], 9, answers(given))


# Veils.


class Strict(tv.Category):
    """Refuses what it does not know."""

    def expand(self, values: Any) -> np.ndarray:
        if not all(value is None or value in self.values for value in values if not isinstance(value, np.ndarray)):
            raise KeyError("unknown")
        return super().expand(values)


class WithoutHoles(tv.Schema):
    """Takes the records that are complete."""

    def expand(self, X: Any) -> np.ndarray:
        made = super().expand(X)
        return made if X.dtype == float else made[made[:, self.columns.index("power is missing")] == 0]


def mixed_veil(origin: type[tv.Category] = tv.Category, kind: type[tv.Schema] = tv.Schema) -> tv.Veil:
    """One latent of everything that a record says, in a codebook of 16 words; ε = 1."""
    fields = {
        "origin": tv.Category(ORIGINS, missing=True),
        "power": tv.Number(0, 200, "hp", missing=True),
        "since": tv.Date("2010-01-01", "2024-12-31"),
        "automatic": tv.Flag(missing=True),
    }
    types = tv.Schema(fields).types
    schema = kind({**fields, "origin": origin(ORIGINS, missing=True)}, types=types)
    low, high = schema.fields.box
    weights = 2.0 / (len(low) * (high - low))
    region = BoxRegion(step=STEP, low=np.array([-(2**20)]), high=np.array([2**20]))
    return tv.Veil(
        encoder=LinearEncoder.of(low=low, high=high, weights=weights[None], offset=-weights[None] @ (low + high) / 2),
        mechanism=Codebook(region=region, stages=(stage(16, 4, 1.0, 1.0),)),
        decoder=CodewordDecoder(codewords=np.zeros((16, len(low))), sizes=np.array([16])),
        task=None,
        method="museum",
        columns=schema.names,
        units=schema.fields.units,
        schema=schema,
    )


def largest_ratio() -> float:
    """ln of what the sound answers differ by at most."""
    return math.log(_ANSWER.a / _ANSWER.b)
