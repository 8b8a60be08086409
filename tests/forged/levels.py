"""What can be wrong with a response between levels: (why, the device it is made from, what is changed)."""

from __future__ import annotations

from typing import Any

import numpy as np

from forged.tools import Arrays, Change, first, part, put, tensor, whole
from taskveil.client.promise import log_ratio

GROUP = "mechanism.groups.1"  # two latents, of 2 and 3 levels, and 7 outputs
PLACES, COUNTS, LEVELS, TABLE = (f"{GROUP}.{name}" for name in ("places", "counts", "levels", "table"))


def other_groups(count: int, outputs: int = 2, **parts: Any) -> Change:
    """So many groups of ratio 2 alike, of the first latent or as `parts` say, sound in all but what limits say."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        for name in [name for name in arrays if ".groups." in name]:
            del arrays[name]
        low, high = arrays["mechanism.region.low"][0], arrays["mechanism.region.high"][0]
        table = np.ones((2, outputs), dtype=np.int64)
        table[0, 0] = table[1, 1] = 2
        group = {
            "places": np.array([0]),
            "counts": np.array([2]),
            "levels": np.array([low, high]),
            "table": table,
            "chance": 1,
        } | parts
        content["mechanism"]["groups"] = packed = []
        for place in range(count):
            name = f"mechanism.groups.{place}"
            arrays |= {f"{name}.{key}": value for key, value in group.items() if isinstance(value, np.ndarray)}
            packed.append({
                "kind": "level_group",
                **{key: {"tensor": f"{name}.{key}"} if isinstance(value, np.ndarray) else value
                   for key, value in group.items()},
            })  # fmt: skip
        content["guarantee"]["epsilon"] = log_ratio(2, 1)

    return change


def together(latents: int) -> Change:
    """So many latents in one group, all but the first of one level: two rows, sound but for their number."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        still = np.zeros(latents - 1, dtype=np.int64)
        arrays["encoder.weights"] = np.ones((latents, 6), dtype=np.int64)
        arrays["encoder.offset"], arrays["encoder.step"] = np.append(0, still), np.ones(latents)
        arrays["mechanism.region.low"], arrays["mechanism.region.high"] = np.append(0, still), np.append(1, still)
        levels, counts = np.append([0, 1], still), np.append(2, still + 1)
        other_groups(1, places=np.arange(latents), counts=counts, levels=levels)(content, arrays)

    return change


def bare(content: dict[str, Any], arrays: Arrays) -> None:
    """A group where a list of groups should be."""
    other_groups(1)(content, arrays)
    content["mechanism"]["groups"] = content["mechanism"]["groups"][0]


def listed(content: dict[str, Any], arrays: Arrays) -> None:
    """A list of groups where a group should be."""
    other_groups(1)(content, arrays)
    content["mechanism"]["groups"] = [content["mechanism"]["groups"]]


LEVEL_GROUPS: list[tuple[str, str, Change]] = [
    ("two outputs that tell more", "levels", tensor(TABLE, lambda a: np.hstack([a, [[900, 1], *[[1, 900]] * 5]]))),
    ("a row of another sum", "levels", tensor(TABLE, first(5))),
    ("an entry of 0", "levels", tensor(TABLE, lambda a: np.hstack([a, 0 * a[:, :1]]))),
    ("an entry below 0", "levels", tensor(TABLE, lambda a: np.hstack([a, 0 * a[:, :1] - 1]))),
    ("rows that add up to 2^53", "levels", tensor(TABLE, lambda a: a + (2**53 - a[0].sum()) * (np.arange(7) < 1))),
    ("rows that add up to more than 2^64", "levels", tensor(TABLE, lambda a: np.full((6, 4096), 2**52))),
    ("a table in doubles", "levels", tensor(TABLE, lambda a: a.astype(np.float64))),
    ("a table in 2 bytes each", "levels", tensor(TABLE, lambda a: a.astype(np.int16))),
    ("a table in one row", "levels", tensor(TABLE, np.ravel)),
    ("a row too few", "levels", tensor(TABLE, lambda a: a[1:])),
    ("a row too many", "levels", tensor(TABLE, lambda a: np.vstack([a, a[:1]]))),
    ("more levels of one latent, fewer of the other", "levels", tensor(COUNTS, lambda a: a[::-1].copy())),
    ("as many rows of other levels", "levels", tensor(COUNTS, lambda a: np.array([1, 6]))),
    ("counts below 0", "levels", tensor(COUNTS, lambda a: -a)),
    ("counts of 2^52", "levels", tensor(COUNTS, lambda a: a + 2**52)),
    ("a count too many", "levels", tensor(COUNTS, lambda a: np.append(a, 1))),
    ("counts of levels in a column", "levels", tensor(COUNTS, lambda a: a[:, None])),
    ("a level too few", "levels", tensor(LEVELS, lambda a: a[:-1])),
    ("a level too many", "levels", tensor(LEVELS, lambda a: np.append(a, a[-1] + 1))),
    ("levels that fall", "levels", tensor(LEVELS, lambda a: a[[1, 0, 2, 3, 4]])),
    ("a level twice", "levels", tensor(LEVELS, lambda a: a[[0, 1, 2, 2, 4]])),
    ("a lowest level above the region's low", "levels", tensor(LEVELS, lambda a: a + np.eye(5, dtype=int)[0])),
    ("a lowest level below the region's low", "levels", tensor(LEVELS, lambda a: a - np.eye(5, dtype=int)[0])),
    ("a highest level below the region's high", "levels", tensor(LEVELS, lambda a: a - np.eye(5, dtype=int)[4])),
    ("a region wider than the levels", "levels", tensor("mechanism.region.high", lambda a: a + 1)),
    ("levels between levels in doubles", "levels", tensor(LEVELS, lambda a: a.astype(np.float64))),
    ("a latent twice in a group", "levels", tensor(PLACES, lambda a: a[[0, 0]])),
    ("a latent beyond the last", "levels", tensor(PLACES, first(4))),
    ("a latent before the first", "levels", tensor(PLACES, first(-1))),
    ("places of latents in doubles", "levels", tensor(PLACES, lambda a: a.astype(np.float64))),
    ("a chance of 0", "levels", put(GROUP, chance=0)),
    ("a chance below 0", "levels", put(GROUP, chance=-1)),
    ("half a chance", "levels", put(GROUP, chance=0.5)),
    ("a chance in text", "levels", put(GROUP, chance=whole(2))),
    ("a chance of 2^53", "levels", put(GROUP, chance=whole(2**53))),
    ("a chance that is true", "levels", put(GROUP, chance=True)),
    ("chances that add up to 2^53", "levels", put(GROUP, chance=2**53 - 4)),
    ("no word about a chance", "levels", lambda content, _: part(content, GROUP).pop("chance")),
    ("a group that is not in a list", "levels", bare),
    ("a group in two lists", "levels", listed),
    ("a group that is none", "levels", put(GROUP, kind="stage")),
    ("no groups", "levels", other_groups(0)),
    ("65 latents in a group", "levels", together(65)),
]  # fmt: skip
