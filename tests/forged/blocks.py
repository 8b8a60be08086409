"""What can be wrong with blocks, planes and words: (why, the device it is made from, what is changed)."""

from __future__ import annotations

from typing import Any

import numpy as np

from forged.tools import Arrays, Change, first, part, put, restated, tensor, whole
from taskveil.client.mechanisms import Response

GROUP = "mechanism.groups.0"  # one latent of 10 levels, 16 blocks of 3 residues
PLACES, COUNTS, LEVELS, BINNED, BLOCKS = (
    f"{GROUP}.{name}" for name in ("places", "counts", "levels", "binned", "blocks")
)
ODDS = Response.calibrated(size=31, favoured=8, epsilon=1.0)


def blocks_of(count: int) -> Change:
    """So many blocks of the first three residues, sound but for their number."""
    return tensor(BLOCKS, lambda _: np.tile([0, 1, 2], (count, 1)))


def plane_of(prime: int, *, reach: int | None = None, favoured: int = 1) -> Change:
    """One plane with so many residues, sound but for their number."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        for name in [name for name in arrays if ".groups.1." in name]:
            del arrays[name]
        groups = content["mechanism"]["groups"]
        size = prime if prime < 2**53 else whole(prime)
        groups[0].update(prime=prime, response={**groups[0]["response"], "size": size, "favoured": favoured})
        del groups[1:]
        arrays["mechanism.region.high"] = np.full(3, prime - 1 if reach is None else reach)

    return change


def two_planes(content: dict[str, Any], arrays: Arrays) -> None:
    """Two of the largest planes, which have more than 2^53 outputs together."""
    plane_of(208_057)(content, arrays)
    groups = content["mechanism"]["groups"]
    groups.append({**groups[0], "places": {"tensor": "mechanism.groups.1.places"}})
    arrays["mechanism.groups.1.places"] = arrays[f"{GROUP}.places"]


def truths(content: dict[str, Any], arrays: Arrays) -> None:
    """A truth value of another byte than 0 and 1."""
    arrays[BINNED] = np.array([7], dtype=np.int8).view(np.bool_)


def response(**values: Any) -> Change:
    return put(f"{GROUP}.response", **values)


BLOCK_GROUPS: list[tuple[str, str, Change]] = [
    ("a residue twice in a block", "blocks", tensor(BLOCKS, lambda a: np.vstack([a[:-1], a[-1:, [0, 0, 2]]]))),
    ("a residue of 10 in a block", "blocks", tensor(BLOCKS, first(10))),
    ("a residue below 0 in a block", "blocks", tensor(BLOCKS, first(-1))),
    ("blocks of fewer residues than favoured", "blocks", tensor(BLOCKS, lambda a: a[:, :2].copy())),
    ("blocks in a row", "blocks", tensor(BLOCKS, np.ravel)),
    ("blocks in doubles", "blocks", tensor(BLOCKS, lambda a: a.astype(np.float64))),
    ("blocks in 2 bytes each", "blocks", tensor(BLOCKS, lambda a: a.astype(np.int16))),
    ("blocks of more than 2^20 residues", "blocks", blocks_of(2**20 // 3 + 1)),
    ("blocks and levels of more than 2^20 numbers", "blocks", blocks_of(2**20 // 3)),
    ("bins in whole numbers", "blocks", tensor(BINNED, lambda a: a.astype(np.int8))),
    ("one word about bins too many", "blocks", tensor(BINNED, lambda a: np.append(a, a))),
    ("a truth value of 7", "blocks", truths),
    ("a response of more outputs than rows", "blocks", response(size=11)),
    ("a response of fewer outputs than rows", "blocks", response(size=9)),
    ("a response that favours more than a block", "blocks", response(favoured=4)),
    ("a response of blocks with other odds", "blocks", response(a=2**42)),
    ("a level of blocks too few", "blocks", tensor(LEVELS, lambda a: a[:-1])),
    ("levels of blocks that fall", "blocks", tensor(LEVELS, lambda a: a[::-1].copy())),
    ("levels of blocks beyond the region", "blocks", tensor(LEVELS, lambda a: np.append(a[:-1], a[-1] + 1))),
    ("levels that do not reach the region's high", "blocks", tensor(LEVELS, lambda a: np.append(a[:-1], a[-1] - 1))),
    ("bins beyond the region", "blocks_binned", tensor(LEVELS, lambda a: np.append(a[:-1], 5002))),
    ("bins above the region's low", "blocks_binned", tensor(LEVELS, lambda a: a + np.eye(len(a), dtype=int)[0])),
    ("counts of blocks in doubles", "blocks", tensor(COUNTS, lambda a: a.astype(np.float64))),
    ("a latent of blocks beyond the last", "blocks", tensor(PLACES, first(4))),
    ("blocks with a table", "blocks", put(GROUP, table=[[1]])),
    ("blocks without bins", "blocks", lambda content, arrays: (part(content, GROUP).pop("binned"), arrays.pop(BINNED))),
    ("blocks without a response", "blocks", put(GROUP, response=None)),
    ("a chance of blocks of 0", "blocks", put(GROUP, chance=0)),
    ("blocks that call themselves a table", "blocks", put(GROUP, kind="level_group")),
    ("a plane of 4 residues", "plane", plane_of(4)),
    ("a plane of 9 residues", "plane", plane_of(9)),
    ("a plane of 1 residue", "plane", plane_of(1)),
    ("a plane of a large square", "plane", plane_of(449**2)),
    ("a plane of 2^53 outputs", "plane", plane_of(208_067)),
    ("a plane of 2^61 − 1 residues", "plane", plane_of(2**61 - 1, reach=2**40)),
    ("planes of 2^53 outputs together", "plane", two_planes),
    ("a plane that the region does not fill", "plane", plane_of(29, reach=30)),
    ("a plane that the region leaves", "plane", plane_of(37, reach=30)),
    ("a plane below 0", "plane", tensor("mechanism.region.low", lambda a: a - 1)),
    ("a plane of one latent", "plane", tensor(PLACES, lambda a: a[:1])),
    ("a plane of a latent twice", "plane", tensor(PLACES, lambda a: a[[0, 0]])),
    ("a plane of three latents", "plane", tensor(PLACES, lambda a: np.array([0, 1, 2]))),
    ("a plane whose response has other outputs", "plane", response(size=37)),
    ("a plane whose response has other odds", "plane", restated(1.0, response(a=ODDS.a, b=ODDS.b + 1))),
    ("a plane of 31.0 residues", "plane", put(GROUP, prime=31.0)),
    ("a plane of true residues", "plane", put(GROUP, prime=True)),
    ("a plane without a prime", "plane", lambda content, _: part(content, GROUP).pop("prime")),
    ("words without a salt", "mixed_words", lambda content, _: part(content, "fields.fields.0").pop("salt")),
    ("words with a salt that is a number", "mixed_words", put("fields.fields.0", salt=5)),
    ("words with a salt of 1,001 letters", "mixed_words", put("fields.fields.0", salt="a" * 1001)),
    ("words with a salt of 501 emoji", "mixed_words", put("fields.fields.0", salt="\U0001f600" * 501)),
    ("words of 1 point", "mixed_words", put("fields.fields.0", prime=1)),
    ("words of 2^20 + 1 points a side", "mixed_words", put("fields.fields.0", prime=2**20 + 1)),
    ("words of 3000 points a side, which is no prime", "mixed_words", put("fields.fields.0", prime=3000)),
    ("words of 3001.0 points a side", "mixed_words", put("fields.fields.0", prime=3001.0)),
    ("words that may be missing", "mixed_words", put("fields.fields.0", missing=False)),
    ("words in a tensor", "mixed_words", put("fields.fields.0", prime={"tensor": "encoder.low"})),
]  # fmt: skip
