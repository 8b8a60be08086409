"""What can be wrong with a mean of encoders: (why, the device it is made from, what is changed)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import releases
from forged.tools import Arrays, Change, first, put, tensor
from hand_made_networks import deep_pooling
from taskveil.client.latent_encoders import NamedEncoder, Plain
from taskveil.client.reading import DEVICE_KINDS
from taskveil.veil.release import pack

MEAN = "codebook_mean"  # of a hidden encoder and of trees, 8 attributes, 3 latents


def of(*encoders: Plain | NamedEncoder) -> Change:
    """A mean of others."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        for name in [name for name in arrays if name.startswith("encoder.")]:
            del arrays[name]
        arrays["encoder.weights"] = np.full(max(1, len(encoders)), 0.1)
        content["encoder"]["encoders"] = pack(tuple(encoders), "encoder.encoders", arrays, DEVICE_KINDS)

    return change


def listed(change: Callable[[list[Any]], Any]) -> Change:
    """The same encoders in another list."""

    def apply(content: dict[str, Any], _: Arrays) -> None:
        content["encoder"]["encoders"] = change(content["encoder"]["encoders"])

    return apply


def mean_of_means(content: dict[str, Any], arrays: Arrays) -> None:
    inner = content["encoder"]
    arrays["weights"] = np.full(2, 0.5)
    content["encoder"] = {
        "kind": "mean_encoder",
        "weights": {"tensor": "weights"},
        "encoders": [inner, *pack((releases.linear(8),), "more", arrays, DEVICE_KINDS)],
    }


NAMED = NamedEncoder(name="package:model", low=np.zeros(8), high=np.ones(8), latents=3)
MEANS: list[tuple[str, str, Change]] = [
    ("a mean of one encoder", MEAN, of(releases.linear(8))),
    ("a mean of 65 encoders", MEAN, of(*[releases.linear(8)] * 65)),
    ("a mean of nothing", MEAN, of()),
    ("a mean of a model that is not there", MEAN, of(releases.linear(8), NAMED)),
    ("a mean of other attributes", MEAN, of(releases.linear(8), releases.linear(7))),
    ("a mean of other latents", MEAN, of(releases.linear(8), releases.linear(8, 2))),
    ("a mean of a mean and another", MEAN, mean_of_means),
    ("a mean of lists", MEAN, listed(lambda them: [[one] for one in them])),
    ("a mean of an encoder and a number", MEAN, listed(lambda them: [*them, 1])),
    ("a mean of an encoder and a mechanism", MEAN, lambda m, _: m["encoder"]["encoders"].append(m["mechanism"])),
    ("the same encoder twice", MEAN, listed(lambda them: [*them, them[0]])),
    ("a mean of an encoder by name", MEAN, listed(lambda them: dict(enumerate(them)))),
    ("a mean with a name", MEAN, put("encoder", name="mean")),
    ("a weight of a mean too few", MEAN, tensor("encoder.weights", lambda a: a[1:])),
    ("a weight of a mean above one", MEAN, tensor("encoder.weights", first(1.5))),
    ("a weight of a mean below zero", MEAN, tensor("encoder.weights", first(-5e-324))),
    ("a weight of a mean that is NaN", MEAN, tensor("encoder.weights", first(np.nan))),
    ("weights of a mean in whole numbers", MEAN, tensor("encoder.weights", lambda a: a.astype(np.int64))),
    ("a mean without encoders", MEAN, lambda m, _: m["encoder"].pop("encoders")),
    ("a wrong number within a mean", MEAN, tensor("encoder.encoders.1.rank", lambda a: a + np.int16(100))),
    ("a mean of networks of too many products", MEAN, of(*[deep_pooling(8, 3)] * 6)),
]  # fmt: skip
