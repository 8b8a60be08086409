"""What can be wrong with a sum of codebooks: (why, the device it is made from, what is changed)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from forged.tools import Arrays, Change, first, part, put, tensor, whole


def stages(*sizes: int) -> Change:
    """A sum of stages of these sizes, sound in all but what its limits say."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        outputs = math.prod(sizes)
        arrays["mechanism.sizes"] = np.array(sizes)
        arrays["mechanism.codewords"] = np.zeros((sum(sizes), 3), dtype=np.int16)
        part(content, "mechanism.response")["size"] = outputs if outputs < 2**53 else whole(outputs)

    return change


SIZES, CODEWORDS = "mechanism.sizes", "mechanism.codewords"
SUMS: list[tuple[str, str, Change]] = [
    ("codewords of a sum in 8 bytes each", "sums", tensor(CODEWORDS, lambda a: a.astype(np.int64))),
    ("codewords of a sum in doubles", "sums", tensor(CODEWORDS, lambda a: a.astype(np.float64))),
    ("a codeword of a sum too few", "sums", tensor(CODEWORDS, lambda a: a[1:])),
    ("codewords of a sum for fewer latents", "sums", tensor(CODEWORDS, lambda a: a[:, 1:].copy())),
    ("other stages of as many codewords", "sums", tensor(SIZES, lambda a: a + np.array([1, -1, 0]))),
    ("other stages of as many sums", "sums", tensor(SIZES, lambda a: a * [2, 1, 1] // [1, 2, 1])),
    ("a stage of no codewords", "sums", tensor(SIZES, lambda a: a * [1, 0, 1])),
    ("two stages of less than no codewords", "sums", tensor(SIZES, lambda a: a * [-1, -1, 1])),
    ("stages of a sum in two dimensions", "sums", tensor(SIZES, lambda a: a[None, :])),
    ("sizes of stages in 2 bytes each", "sums", tensor(SIZES, lambda a: a.astype(np.int16))),
    ("65 stages of a sum", "sums", stages(*[2] * 65)),
    ("a sum of more than 2^14 codewords", "sums", stages(2**13, 2**13 + 1)),
    ("no branches", "sums", put("mechanism", branches=0)),
    ("17 branches", "sums", put("mechanism", branches=17)),
    ("branches in text", "sums", put("mechanism", branches=whole(4))),
    ("half a branch", "sums", put("mechanism", branches=0.5)),
    ("no word about branches", "sums", lambda content, _: content["mechanism"].pop("branches")),
    ("another number of sums", "sums", put("mechanism.response", size=1261)),
    ("two favoured sums", "sums", put("mechanism.response", favoured=2)),
    ("a region beyond what scores hold", "sums", tensor("mechanism.region.high", first(2**40))),
]  # fmt: skip
