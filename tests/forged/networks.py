"""Forged releases of layered encoders: each wrong in one place, or too large for a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from forged.tools import Arrays, Change, first, put, tensor, whole

DENSE, PICTURES, GROUPED = "layers_dense", "layers_pictures", "layers_side_by_side"
FIRST, POOL, LAST = "encoder.layers.0", "encoder.layers.1", "encoder.layers.2"


def other_layers(layers: list[Any]) -> Change:
    """A network of other layers and none of its arrays."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        content["encoder"]["layers"] = layers
        for name in [name for name in arrays if ".layers." in name]:
            del arrays[name]

    return change


def without(path: str, name: str) -> Change:
    def change(content: dict[str, Any], arrays: Arrays) -> None:
        layer = content["encoder"]["layers"][int(path[-1])]
        del layer[name]
        arrays.pop(f"{path}.{name}", None)

    return change


def repeated(count: int) -> Change:
    """The last of the dense layers after itself: as many inputs as outputs, so that nothing but the number is wrong."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        layer = content["encoder"]["layers"][2]
        for place in range(3, count):
            content["encoder"]["layers"].append({
                **layer,
                "top": 1,
                **{name: {"tensor": f"encoder.layers.{place}.{name}"} for name in ("weights", "offset", "shift")},
            })  # fmt: skip
            arrays[f"encoder.layers.{place}.weights"] = np.eye(3, dtype=np.int8)
            arrays[f"encoder.layers.{place}.offset"] = np.zeros(3, dtype=np.int64)
            arrays[f"encoder.layers.{place}.shift"] = np.zeros(3, dtype=np.int64)

    return change


def large(**sizes: int) -> Change:
    """The pictures' pooling with a window of other sizes."""
    return put(f"{POOL}.window", **sizes)


CHANGED: list[tuple[str, str, Change]] = [
    ("a network without layers", DENSE, other_layers([])),
    ("a network whose layers are numbers", DENSE, other_layers([1, 2])),
    ("a network whose layers are in a list", DENSE, lambda m, _: m["encoder"].update(layers=[m["encoder"]["layers"]])),
    ("65 layers", DENSE, repeated(65)),
    ("a network that is a layer", DENSE, lambda m, _: m.update(encoder=m["encoder"]["layers"][0])),
    ("layers that do not fit together", DENSE, tensor(f"{FIRST}.weights", lambda a: np.hstack([a, a[:, :1]]))),
    ("weights of 64 bits", DENSE, tensor(f"{FIRST}.weights", lambda a: a.astype(np.int64))),
    ("weights in doubles", DENSE, tensor(f"{FIRST}.weights", lambda a: a.astype(np.float64))),
    ("weights in one row", DENSE, tensor(f"{FIRST}.weights", np.ravel)),
    ("an offset too few", DENSE, tensor(f"{FIRST}.offset", lambda a: a[1:])),
    ("an offset of 32 bits", DENSE, tensor(f"{FIRST}.offset", lambda a: a.astype(np.int32))),
    ("an offset beyond exact sums", DENSE, tensor(f"{FIRST}.offset", first(2**53 - 1))),
    ("weights beyond exact sums", DENSE, tensor(f"{FIRST}.weights", lambda a: np.full_like(a, 2**31 - 1))),
    ("a top beyond exact sums", DENSE, lambda m, _: m["encoder"]["layers"][0].update(top=2**49)),
    ("a shift below 0", DENSE, tensor(f"{FIRST}.shift", first(-1))),
    ("a shift of 53", DENSE, tensor(f"{FIRST}.shift", first(53))),
    ("a shift too few", DENSE, tensor(f"{FIRST}.shift", lambda a: a[1:])),
    ("a top of 0", DENSE, put(FIRST, top=0)),
    ("a top of 2^53", DENSE, put(LAST, top=whole(2**53))),
    ("a top in doubles", DENSE, put(FIRST, top=900.0)),
    ("relu in numbers", DENSE, put(FIRST, relu=1)),
    ("no groups", DENSE, put(FIRST, groups=0)),
    ("groups that do not divide outputs", DENSE, put(FIRST, groups=3)),
    ("more groups than inputs", DENSE, put(FIRST, groups=4)),
    ("a layer without relu", DENSE, without(FIRST, "relu")),
    ("a dense layer with a window", DENSE, put(FIRST, window=None)),
    ("a step of 0 in a network", DENSE, tensor("encoder.step", first(0.0))),
    ("a step below 0 in a network", DENSE, tensor("encoder.step", first(-1.0))),
    ("a step of NaN in a network", DENSE, tensor("encoder.step", first(np.nan))),
    ("a step of 2^901 in a network", DENSE, tensor("encoder.step", first(2.0**901))),
    ("a start of infinity in a network", DENSE, tensor("encoder.start", first(np.inf))),
    ("a start of 2^901 in a network", DENSE, tensor("encoder.start", first(-(2.0**901)))),
    ("a start too few in a network", DENSE, tensor("encoder.start", lambda a: a[1:])),
    ("softmax of a network in numbers", DENSE, lambda m, _: m["encoder"].update(softmax=0)),
    ("ranges of a network too few", DENSE, tensor("encoder.low", lambda a: a[1:])),
    ("a range of a network that is NaN", DENSE, tensor("encoder.high", first(np.nan))),
    ("a convolution without window", PICTURES, put(FIRST, window=None)),
    ("a convolution with a layer for a window", PICTURES, lambda m, _: m["encoder"]["layers"][0]["window"].update(
        kind="pooling_layer")),
    ("a convolution in dense clothes", PICTURES, put(FIRST, kind="dense_layer")),
    ("a fill beyond 2^20", PICTURES, tensor(f"{FIRST}.fill", first(2**20 + 1))),
    ("a fill too few", PICTURES, tensor(f"{FIRST}.fill", lambda a: a[1:])),
    ("a kernel larger than its window", PICTURES, put(f"{FIRST}.window", rows=2, row_padding=0)),
    ("channels that the weights do not have", PICTURES, put(FIRST, groups=5)),
    ("groups of half a channel", GROUPED, put(FIRST, groups=2)),
    ("a padding as large as the window", PICTURES, large(row_padding=3)),
    ("a padding below 0", PICTURES, large(row_padding=-1)),
    ("a window larger than the picture", PICTURES, large(rows=7)),
    ("a stride of 0", PICTURES, large(row_stride=0)),
    ("a height in doubles", PICTURES, large(height=4.0)),  # type: ignore[arg-type]
    ("a window of 2^60 columns", PICTURES, large(width=whole(2**60))),  # type: ignore[arg-type]
    ("pictures of 2^44 points", PICTURES, large(height=2**22, width=2**22)),
    ("windows that lay out 2^32 numbers", PICTURES, large(height=400, width=400, rows=200, columns=200)),
    ("a channel more than there are", PICTURES, large(channels=6)),
    ("a largest number that is halved", PICTURES, put(POOL, shift=1)),
    ("a sum halved 53 times", PICTURES, put("encoder.layers.3", shift=53)),
    ("a maximum in words", PICTURES, put(POOL, maximum="yes")),
    ("a pooling with weights", PICTURES, put(POOL, weights=None)),
    ("tables before a network", DENSE, lambda m, _: m.update(encoder={
        "kind": "tabled_encoder", "tables": None, "encoder": m["encoder"]})),
]  # fmt: skip
