"""Records as people have them, and as a broken form, another language or an attacker may have them.

`ORDINARY` and `STRANGE` are what such records consist of. A record is written for browsers as JSON in which what JSON
cannot say has a tag: {"number": "NaN"}, {"bigint": "12"}, {"date": milliseconds} and so on; `tagged` does it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from taskveil.client.device import Fields
from taskveil.client.fields import Category, Count, Date, Field, Flag, Number, Words

ORDINARY = Fields(
    names=(
        *("power", "income", "doors", "children", "origin", "size"),
        *("leased", "insured", "since", "serviced"),
    ),
    fields=(
        Number(0.0, 250.0, "kW"),
        Number(-1000.0, 80_000.0, "EUR", missing=True, fill=21_000.5),
        Count(2.0, 5.0),
        Count(0.0, 12.0, "people", missing=True),
        Category(("Europe", "Japan", "USA")),
        Category(("3", "4", "5", "other", "true"), missing=True),
        Flag(),
        Flag(missing=True, fill=True),
        Date("2015-01-01", "2024-12-31"),
        Date("2020-02-29T06:30", "2024/12/31 18:45:30", missing=True, cycles=("day", "week", "year")),
    ),
)
"""Every kind, with and without missing values."""

STRANGE = Fields(
    names=(
        *("", "__proto__", "constructor", "toString", "length", "0", "naïve 😀"),
        *("half \ud83d", "missing", "a.b", "\0", "NaN", "x" * 300),
    ),
    fields=(
        Number(-8e307, 9e307, "😀", fill=-8e307),
        Number(5.0, 5.0),
        Number(-0.0, 0.0, missing=True),
        Number(5e-324, 3e-300, missing=True, fill=1e-323),
        Count(-(2.0**53), 2.0**53, missing=True),
        Count(0.0, 0.0),
        Category(
            ("", "\ud800", "__proto__", "0", "-1", "9007199254740991", "true", "9007199254740992", "NaN", "é"),
            missing=True,
        ),
        Category(("only",)),
        Flag(missing=True, fill=True),
        Flag(),
        Date("0001-01-01", "9999-12-31T23:59:59", missing=True, cycles=("day", "year", "week")),
        Date("2020-02-29", "2020-02-29", cycles=()),
        Date("1969-12-31T23:59:59", "2024/12/31 18:45:01", cycles=("day",)),
    ),
)
"""The strangest bounds, values and names there may be."""


class Undefined:
    """What a browser calls undefined; to Python, an object like any other would be no missing value, so it is None."""


UNDEFINED = Undefined()

HOSTILE: tuple[Any, ...] = (
    *(None, UNDEFINED, math.nan, math.inf, -math.inf, 0, -0.0, 1, -1, 0.5, True, False, 5e-324, -5e-324),
    *(1.7976931348623157e308, -1.7976931348623157e308, 2**53 - 1, 2.0**53, 1e21, -1e21, 1e-7, 4.0, 1e15 + 0.5),
    *(2**53, 2**53 + 1, -(2**53) + 1, 2**63, 10**400, -(10**400), 2**1024 - 2**970, 2**1024 - 2**970 - 1, 2**54 + 2),
    *("", " ", "0", "1", "-1", "1e3", "0x10", "12.5", "NaN", "nan", "null", "None", "undefined", "Infinity", "\0", "é"),
    *(
        "e\u0301",
        "true",
        "True",
        "TRUE",
        "tRUE",
        "false",
        "False",
        "FALSE",
        "yes",
        "__proto__",
        "\ud800",
        "\udc00\ud800",
    ),
    *(
        "2021-03-04\n",
        "\n2021-03-04",
        " 2021-03-04",
        "２０２１-03-04",
        "٢٠٢١-٠٣-٠٤",
        "2021-3-4",
        "2021-03/04",
        "20210304",
    ),
    *("2021-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31T23:59:59"),
    *("10000-01-01", "+02021-03-04", "2021-03-04T24:00", "2021-03-04T23:60", "2021-03-04T23:59:60", "2021-W09-4"),
    *("2021-03-04T", "2021-03-04t12:00", "2021-03-04T12:00z", "2021-03-04Z", "2021-03-04T12", "2021-03-04T12:00+1"),
    *(
        "a" * 10_000,
        "2021-03-04" * 1000,
        "1" * 10_000,
        "\ud800" * 1000,
        {},
        {"a": 1},
        {"length": 1},
        [],
        [1],
        [[]],
        ["0"],
    ),
    *(
        "2021-03-04T12:00:00.1234567890",
        "2021-03-04T12:00:00.",
        "2021.03.04 12:00:00.123456789-2359",
        "2021-03-04  12:00",
    ),
    *(np.datetime64("NaT"), np.datetime64("1970-01-01T00:00:00.000"), np.datetime64("0000-12-31T23:59:59.999")),
    *(np.datetime64("10000-01-01T00:00:00.000"), np.datetime64("0001-01-01T00:00:00.000"), len, Ellipsis),
)
"""Any of them may stand in any field."""


def natural(rng: np.random.Generator, field: Field) -> Any:
    """A value that a person may give for a field, or that is close to one."""
    choose: Callable[[Any], Any] = lambda options: options[rng.integers(len(options))]  # noqa: E731
    if isinstance(field, Number | Count):
        inside = float(field.low / 2 + field.high / 2 + rng.uniform(-1.2, 1.2) * (field.high / 2 - field.low / 2))
        edge = choose(
            [field.low, field.high, math.nextafter(field.low, -math.inf), math.nextafter(field.high, math.inf)]
        )
        return choose([inside, edge, float(np.rint(inside)), int(inside), float(np.rint(inside)) + 0.5])
    if isinstance(field, Category):
        known = choose(field.values)
        return choose([known, known, f"{known} ", known.upper(), f"0{known}", int(rng.integers(-2, 7)), known[:-1]])
    if isinstance(field, Words):
        length = int(choose([1, 5, 26, 27, 500, 998]))
        word = "".join(chr(int(code)) for code in rng.integers(32, choose([127, 2000]), size=length))
        return choose([word, f"{word}\0", f"{word}😀", int(rng.integers(10**6)), "", None])
    if isinstance(field, Flag):
        return choose([True, False, 0, 1, 2, -1, "true", "false", "True", "FALSE", "1"])
    milliseconds = int(
        rng.integers(-62_200_000_000_000, 253_500_000_000_000) if rng.random() < 0.3 else rng.integers(2**41)
    )
    near = int(np.datetime64(choose([field.low, field.high]).replace("/", "-"), "ms").astype(np.int64))
    stamp = np.datetime64(choose([milliseconds, near + int(rng.integers(-2, 3)) * choose([1, 999, 86_400_000])]), "ms")
    return choose(
        [stamp, written(rng), written(rng), str(stamp), str(stamp)[:10], str(stamp)[:10].replace("-", choose("./"))]
    )


def written(rng: np.random.Generator) -> str:
    """A text that is a date, or nearly."""
    choose: Callable[[Any], Any] = lambda options: options[rng.integers(len(options))]  # noqa: E731
    year = choose(
        [0, 1, 4, 100, 400, 1582, 1600, 1900, 1968, 1969, 1970, 1999, 2000, 2020, 2021, 2024, 2100, 9996, 9999]
    )
    month, day, mark = choose([0, *range(1, 13), 2, 2, 13]), choose([0, *range(1, 33), 28, 29, 30, 31]), choose("--/.")
    text = f"{year:04}{mark}{month:02}{mark}{day:02}"
    if rng.random() < 0.5:
        text += f"{choose('T  T_')}{rng.integers(25):02}:{rng.integers(61):02}"
        text += choose(["", f":{rng.integers(61):02}", f":{rng.integers(60):02}.{rng.integers(10**6)}", ".5", ":7"])
        text += choose(["", "", "Z", "+01:00", "-2359", "+99:99", "+1:00", "\n", " ", "-00:00"])
    return text


def record(rng: np.random.Generator, fields: Fields) -> list[Any]:
    """Natural values, hostile ones, and those of other fields, in the fields' order."""
    hostility = rng.choice([0.0, 0.2, 1.0])
    return [
        HOSTILE[rng.integers(len(HOSTILE))]
        if rng.random() < hostility
        else natural(rng, field if rng.random() < 0.9 else fields.fields[rng.integers(len(fields.fields))])
        for field in fields.fields
    ]


def given(value: Any) -> Any:
    """What Python is handed for a value: None for undefined, and some dates as datetimes."""
    if isinstance(value, Undefined):
        return None
    if isinstance(value, np.datetime64) and not np.isnat(value):
        milliseconds = int(value.astype("datetime64[ms]").astype(np.int64))
        if milliseconds % 2 and -62_135_596_800_000 <= milliseconds < 253_402_300_800_000:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return value


def tagged(value: Any) -> Any:
    """What a browser reads for a value, in JSON."""
    if isinstance(value, Undefined):
        return {"undefined": None}
    if isinstance(value, np.datetime64):
        return {"date": None if np.isnat(value) else int(value.astype("datetime64[ms]").astype(np.int64))}
    if isinstance(value, int) and not isinstance(value, bool) and (abs(value) >= 2**53 or value % 3 == 0):
        return {"bigint": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")}
    for start in (value[:1], value[:10]) if isinstance(value, str) and len(value) >= 1000 else ():
        if value == start * (len(value) // len(start)):
            return {"repeated": [start, len(value) // len(start)]}
    if isinstance(value, dict | list):
        return {"object": json.dumps(value)}
    if value is len or value is Ellipsis:
        return {"other": "function" if value is len else "symbol"}
    return value
