"""What can be wrong with vectors in a ball: (why, the device it is made from, what is changed)."""

from __future__ import annotations

import numpy as np

from forged.tools import Arrays, Change, first, put, tensor, whole


def no_size(_: object, arrays: Arrays) -> None:
    for end in ("low", "high"):
        arrays[f"mechanism.region.{end}"].fill(0)


TABLE, PLACES = "mechanism.codewords.quantiles", "encoder.places"
CODE, RESPONSE = "mechanism.codewords", "mechanism.response"
BALLS: list[tuple[str, str, Change]] = [
    ("quantiles in 8 bytes each", "ball", tensor(TABLE, lambda a: a.astype(np.int64))),
    ("quantiles in doubles", "ball", tensor(TABLE, lambda a: a.astype(np.float64))),
    ("a quantile of zero", "ball", tensor(TABLE, first(0))),
    ("a quantile below zero", "ball", tensor(TABLE, first(-5))),
    ("a number of quantiles that is no power of two", "ball", tensor(TABLE, lambda a: a[1:].copy())),
    ("2^16 quantiles", "ball", tensor(TABLE, lambda a: np.tile(a, 16))),
    ("quantiles in two dimensions", "ball", tensor(TABLE, lambda a: a.reshape(2, -1))),
    ("codewords of fewer dimensions", "ball", put(CODE, dim=4)),
    ("codewords of more dimensions", "ball", put(CODE, dim=6)),
    ("fewer rows than none", "ball", put(CODE, rows=-1)),
    ("more rows than a device takes", "ball_matrix", put(CODE, rows=2**20)),
    ("half a row", "ball_matrix", put(CODE, rows=0.5)),
    ("rows in text", "ball_matrix", put(CODE, rows=whole(7))),
    ("an odd number of codewords", "ball", put(CODE, size=63)),
    ("other codewords than the response has", "ball", put(CODE, size=66)),
    ("another response than codewords are there", "ball", put(RESPONSE, size=62)),
    ("all codewords favoured", "ball", put(RESPONSE, favoured=64)),
    ("codewords for the centre that are not there", "ball", put("mechanism", kind="centred_ball_response")),
    ("codewords for a centre that there is not", "ball_centre", put("mechanism", kind="ball_response")),
    ("one codeword more for the centre", "ball_centre", put(RESPONSE, size=74)),
    ("one codeword less for the centre", "ball_centre", put(RESPONSE, favoured=10)),
    ("more favoured than there are codewords", "ball_centre", put(RESPONSE, size=129, favoured=65)),
    ("no word about rows", "ball", lambda content, _: content["mechanism"]["codewords"].pop("rows")),
    ("a ball beside zero", "ball", tensor("mechanism.region.low", lambda a: a + 1)),
    ("a ball that is longer in one dimension", "ball", tensor("mechanism.region.high", first(2**19 + 1))),
    ("a ball of no size", "ball_few", no_size),
    ("a place twice", "ball_few", tensor(PLACES, lambda a: a[[0, 0, 2]])),
    ("places that fall", "ball_few", tensor(PLACES, lambda a: a[::-1].copy())),
    ("a place beyond the attributes", "ball_few", tensor(PLACES, lambda a: a + 1)),
    ("a place before the attributes", "ball_few", tensor(PLACES, first(-1))),
    ("a step that is no power of two", "ball_few", tensor("encoder.step", first(0.3))),
    ("a step too few", "ball_few", tensor("encoder.step", lambda a: a[1:].copy())),
]  # fmt: skip
