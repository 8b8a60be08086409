"""What can be wrong with Gaussian noise: (why, the device it is made from, what is changed).

Where a parameter is out of its bounds, the release states the ε and the δ that would follow from it, so that nothing
but the bounds can object.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from forged.tools import DEVICES, Arrays, Change, first, packed, put, tensor, whole
from taskveil.client import concentrated
from taskveil.veil.release import manifest_of


def noise(**values: Any) -> Change:
    """Another scale, δ, order or squared radius, with the ε that the formula gives for it."""

    def change(content: dict[str, Any], _: Arrays) -> None:
        mechanism, promise = content["mechanism"], content["guarantee"]
        for name, value in values.items():
            (mechanism["region"] if name == "squared_radius" else mechanism)[name] = value
        scale, delta, order = (mechanism[name] for name in ("scale", "delta", "order"))
        rho = 2 * mechanism["region"]["squared_radius"] / Fraction(scale) ** 2
        promise.update(epsilon=concentrated._bound(rho, delta, order), delta=delta)

    return change


def both(delta: float) -> Change:
    """A δ of the mechanism for which there is no formula, and the same in the promise."""

    def change(content: dict[str, Any], _: Arrays) -> None:
        content["mechanism"]["delta"], content["guarantee"]["delta"] = delta, float(delta)

    return change


def stated(**step: Any) -> Change:
    """Another stated ε or δ, for a mechanism that stays as it is."""

    def change(content: dict[str, Any], _: Arrays) -> None:
        for name, move in step.items():
            content["guarantee"][name] = move(content["guarantee"][name])

    return change


def other_region(kind: str, *arrays_of: str, **values: Any) -> Change:
    """Noise of the same scale on a region of another kind, as large as the ball."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        center = arrays.pop("mechanism.region.center")
        bounds = {"low": center - 5000, "high": center + 5000, "center": center}
        arrays |= {f"mechanism.region.{name}": bounds[name] for name in arrays_of}
        tensors = {name: {"tensor": f"mechanism.region.{name}"} for name in arrays_of}
        content["mechanism"]["region"] = {"kind": kind, "step": 2.0**-12, **tensors, **values}

    return change


def laplace_on_a_ball(content: dict[str, Any], _: Arrays) -> None:
    """Laplace noise with an ε for the ball's ℓ1 diameter."""
    region = content["mechanism"]["region"]
    content["mechanism"] = {"kind": "laplace", "region": region, "scale": 2.0**15}
    content["guarantee"].update(epsilon=math.isqrt(12 * region["squared_radius"]) / 2.0**15, delta=0.0)


def not_numbers() -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """Parameters that JSON cannot spell: NaN and infinities, which some readers take, with the digest of that text."""
    for name in ("scale", "delta", "order"):
        for value in (math.nan, math.inf, -math.inf):
            content, arrays = packed(DEVICES[GOOD])
            manifest, weights = manifest_of(content, arrays)
            del manifest["digest"]
            manifest["mechanism"][name] = value
            if name == "delta":
                manifest["guarantee"]["delta"] = value
            id = hashlib.sha256(spelled(manifest)).hexdigest()
            yield f"a {name} of noise that is {value}", (spelled({**manifest, "digest": id}), weights)


def spelled(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, sort_keys=True, indent=1) + "\n").encode()


CENTER, GOOD = "mechanism.region.center", "gaussian"
GAUSSIANS: list[tuple[str, str, Change]] = [
    ("an epsilon of noise one ulp short", GOOD, stated(epsilon=lambda v: math.nextafter(v, 0))),
    ("an epsilon of noise one ulp too large", GOOD, stated(epsilon=lambda v: math.nextafter(v, 9))),
    ("a delta one ulp short", GOOD, stated(delta=lambda v: math.nextafter(v, 0))),
    ("a delta one ulp too large", GOOD, stated(delta=lambda v: math.nextafter(v, 1))),
    ("a stated delta of zero", GOOD, stated(delta=lambda _: 0.0)),
    ("a delta of noise that has none", "laplace_box", stated(delta=lambda _: 1e-6)),
    ("half the noise", GOOD, put("mechanism", scale=22654.0)),
    ("a larger ball than was charged", GOOD, put("mechanism.region", squared_radius=5001**2)),
    ("another order than was charged", GOOD, put("mechanism", order=8.0)),
    ("a delta of zero", GOOD, put("mechanism", delta=0.0)),
    ("a delta of zero, stated", GOOD, both(0.0)),
    ("a delta below zero", GOOD, both(-1e-6)),
    ("a delta below 2^-100", GOOD, noise(delta=math.nextafter(2.0**-100, 0))),
    ("a delta above 1/2", GOOD, noise(delta=math.nextafter(0.5, 1))),
    ("a delta that rules nothing out", GOOD, both(1)),
    ("a delta in text", GOOD, put("mechanism", delta="0.000001")),
    ("a delta of null", GOOD, put("mechanism", delta=None)),
    ("a delta that is true", GOOD, put("mechanism", delta=True)),
    ("an order of one", GOOD, put("mechanism", order=1.0)),
    ("an order of one in whole numbers", GOOD, put("mechanism", order=1)),
    ("an order below one", GOOD, put("mechanism", order=0.5)),
    ("an order below zero", GOOD, put("mechanism", order=-8.0)),
    ("an order too near to one", GOOD, noise(order=math.nextafter(1 + 2.0**-20, 1))),
    ("an order above 2^20", GOOD, noise(order=math.nextafter(2.0**20, 2.0**21))),
    ("an order in text", GOOD, put("mechanism", order="8")),
    ("no order", GOOD, lambda m, _: m["mechanism"].pop("order")),
    ("noise of almost no scale", GOOD, noise(scale=math.nextafter(2.0**-10, 0))),
    ("noise of a negative scale", GOOD, noise(scale=-45308.0)),
    ("noise of no scale", GOOD, put("mechanism", scale=0.0)),
    ("noise of too large a scale", "gaussian_wide", noise(scale=math.nextafter(2.0**40, 2.0**41), order=2.0)),
    ("noise at whose delta epsilon is zero", GOOD, noise(scale=2.0**39, delta=0.5, order=100.0)),
    ("a squared radius above 2^52", GOOD, noise(squared_radius=2**52 + 1)),
    ("a squared radius of 2^53 in text", GOOD, put("mechanism.region", squared_radius=whole(2**53))),
    ("a squared radius below zero", GOOD, noise(squared_radius=-1)),
    ("a squared radius with a fraction", GOOD, put("mechanism.region", squared_radius=25000001.0)),
    ("a ball of a step that is no power of two", GOOD, put("mechanism.region", step=0.3)),
    ("a ball of a center beyond 2^40", GOOD, tensor(CENTER, first(2**40 + 1))),
    ("a ball of a center in doubles", GOOD, tensor(CENTER, lambda a: a.astype(np.float64))),
    ("a ball of another dimension than the encoder", GOOD, tensor(CENTER, lambda a: a[1:].copy())),
    ("a ball with a radius too", GOOD, put("mechanism.region", radius=5000)),
    ("Gaussian noise on a box", GOOD, other_region("box_region", "low", "high")),
    ("Gaussian noise on a diamond", GOOD, other_region("diamond_region", "center", radius=5000)),
    ("Gaussian noise on a box with a radius", GOOD, other_region("box_region", "low", "high", squared_radius=25000001)),
    ("Laplace noise on a ball", GOOD, laplace_on_a_ball),
    ("codes on a ball", GOOD, lambda m, _: m["mechanism"].update(kind="codebook")),
]  # fmt: skip
