"""What may stand in a record where a number, a word, a flag or a date belongs: from a broken form, another version of
an app, a careless program, or somebody who wants a device to misbehave."""

from __future__ import annotations

import decimal
import enum
import math
import uuid
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.client.device import Fields
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.veil.decoders import CodewordDecoder

FIELDS = Fields(
    names=("power", "doors", "origin", "automatic", "since", "tax"),
    fields=(
        tv.Number(0, 200, "hp", missing=True),
        tv.Count(0, 9),
        tv.Category(("Europe", "Japan", "4", "true"), missing=True),
        tv.Flag(missing=True),
        tv.Date("2020-01-01", "2024-12-31", missing=True, cycles=("year", "week", "day")),
        tv.Number(-1, 1),
    ),
)
ORDINARY = {
    "power": (0.0, 61.5, 200, 1e9),
    "doors": (0, 3, 9.7),
    "origin": ("Europe", "Japan", 4, True, "elsewhere"),
    "automatic": (True, False, "true", 1),
    "since": ("2021-03-04", "2020-01-01T13:45:10Z", date(2023, 2, 28), "1066-10-14"),
    "tax": (-1.0, 0.25, 1.0),
}


class Boom(Exception):
    """What a hostile object raises; nobody may see it."""


def _boom(*_: object, **__: object) -> Any:
    raise Boom("the value itself")


def _leave(*_: object, **__: object) -> Any:
    raise SystemExit("the value itself")


def _again(*_: object, **__: object) -> Any:
    return _again()


_ASKED = (
    *("__eq__", "__ne__", "__hash__", "__str__", "__repr__", "__format__", "__bytes__", "__bool__", "__call__"),
    *("__float__", "__int__", "__index__", "__complex__", "__abs__", "__mod__", "__round__", "__trunc__", "__floor__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__", "__next__", "__getitem__", "__contains__"),
    *("__array__", "__array_ufunc__", "__getattr__", "isoformat", "strftime", "utcoffset", "replace", "keys", "items"),
)


def _hostile(answer: Any, *bases: type) -> type:
    """A class whose objects answer everything they are asked in this way."""
    return type("Hostile", bases or (object,), dict.fromkeys(_ASKED, answer))


class _Nameless:
    def __getattribute__(self, name: str) -> Any:
        raise Boom(name)


class _Pretender:
    """Says that it is of another class."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    @property
    def __class__(self) -> Any:
        return self.kind if isinstance(self.kind, type) else self.kind()


class _Zone(tzinfo):
    """A time zone that does not know."""

    utcoffset = dst = tzname = _boom


class _Eager(str):
    """A text that says it is every other one."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


class _Dishonest(Fraction):
    def __float__(self) -> Any:
        return "no number"


class _Overflowing(Fraction):
    def __float__(self) -> Any:
        raise OverflowError

    __gt__ = _boom


class _Gone(date):
    isoformat = _leave


_endless: list[Any] = []
_endless.append(_endless)
_deep: Any = []
for _ in range(100_000):
    _deep = [_deep]
_Colour = enum.Enum("_Colour", "RED")
_Level = enum.IntEnum("_Level", "ONE")
_Word = enum.StrEnum("_Word", {"EUROPE": "Europe"})

LONG = {
    "a text of 10 MB": "a" * 10_000_000,
    "digits of 10 MB": "1" * 10_000_000,
    "a date of 10 MB": "2021-03-04T" + "0" * 10_000_000,
    "a million items": list(range(1_000_000)),
    "a million digits": 1 << 3_321_928,
    "a decimal of a million digits": decimal.Decimal("9" * 1_000_000),
    "a decimal of a million places": decimal.Decimal("0." + "123456789" * 111_111),
    "a missing decimal of many digits": decimal.Decimal("NaN" + "1" * 1_000_000),
    "a fraction of a million digits": Fraction(3001, 3000) ** 300_000,
    "a fraction below 0 of a million digits": -(Fraction(3001, 3000) ** 300_000),
    "a fraction of a million digits over 3": Fraction(1 << 3_321_928, 3),
}
"""What is long; a device must not take longer for it."""

VALUES: dict[str, Any] = {
    **LONG,
    **{
        repr(v): v
        for v in (None, math.nan, math.inf, -math.inf, True, False, 0, -0.0, 5e-324, 1e308, -(2**63), 1j, ...)
    },
    **{
        repr(v): v
        for v in ("", "\0", "Eu\0rope", "\ud800", " Europe", "europe", "٤", "４", "4.0", "1e3", "NaN", "None")
    },
    **{
        repr(v): v
        for v in ("2021-02-29", "0000-01-01", "10000-01-01", "2021-03-04\n", "٢٠٢١-٠٣-٠٤", "2021-03-04T24:00")
    },
    **{repr(v): v for v in (b"Europe", bytearray(b"1"), {}, {"power": 1}, set(), (), (1, 2), range(3), int)},
    "a function": _boom,
    "10^400": 10**400,
    "an endless list": _endless,
    "a deep list": _deep,
    "a generator": (i for i in range(3)),
    **{
        f"asked anything, it {says}": _hostile(answer)()
        for says, answer in (("raises", _boom), ("exits", _leave), ("never ends", _again))
    },
    "a hostile text": _hostile(_boom, str)("Europe"),
    "a hostile truth": _hostile(_boom, str)("true"),
    "a hostile whole number": _hostile(_boom, int)(4),
    "a hostile number": _hostile(_leave, float)(4.0),
    "a text that equals all": _Eager("nowhere"),
    "no attributes": _Nameless(),
    **{
        f"pretends to be {k.__name__}": _Pretender(k)
        for k in (str, bool, float, date, np.ndarray, np.datetime64, _boom)
    },
    "a dishonest fraction": _Dishonest(1, 2),
    "an overflowing fraction": _Overflowing(1, 2),
    "a large fraction": Fraction(10**1000, 3),
    **{f"Decimal {text}": decimal.Decimal(text) for text in ("sNaN", "NaN", "-Infinity", "1e999999", "1e-999999", "4")},
    **{f"an enum {member!r}": member for member in (_Colour.RED, _Level.ONE, _Word.EUROPE)},
    "a uuid": uuid.UUID(int=4),
    "the first day": date.min,
    "the last moment": datetime.max,
    "a time in UTC": datetime(2021, 3, 4, tzinfo=UTC),
    "a time in no zone": datetime(2021, 3, 4, tzinfo=_Zone()),
    "a date that leaves": _Gone(2021, 3, 4),
    "an hour": time(1, 2),
    "a duration": timedelta(1),
    **{
        f"{ticks} {unit}": np.datetime64(ticks, unit)
        for ticks in (51, 2**62, -(2**62))
        for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
    },
    **{f"no time in {unit}": np.datetime64("NaT", unit) for unit in ("Y", "s", "as", "generic")},
    "numpy's duration": np.timedelta64(3),
    **{
        f"numpy's {kind}": np.dtype(kind).type(1)
        for kind in ("?", "b", "h", "i", "l", "B", "H", "I", "L", "e", "f", "d", "g", "F", "D", "G", "S3", "U3", "V3")
    },
    "numpy's 1e4000": np.longdouble("1e4000"),
    "an array without dimensions": np.array("Europe"),
    "an array": np.arange(3.0),
    "an array of records": np.zeros(1, dtype=[("a", int), ("b", float)]),
    "a record of an array": np.zeros(1, dtype=[("a", int)])[0],
    "masked": np.ma.masked,
    "a masked array": np.ma.array([1], mask=[True]),
    "masked without dimensions": np.ma.array(1, mask=True),
    "pandas' NA": pd.NA,
    "pandas' NaT": pd.NaT,
    "pandas' Timestamp": pd.Timestamp("2021-03-04 01:02:03.123456789", tz="Europe/Berlin"),
    "pandas' Timedelta": pd.Timedelta(1),
    "pandas' Period": pd.Period("2021-03"),
    "pandas' Interval": pd.Interval(0, 1),
    "a Series": pd.Series([1, 2]),
    "a table": pd.DataFrame({"power": [1]}),
}

_SMALL = [value for name, value in VALUES.items() if name not in LONG]


def mixed_records(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """`count` records of `FIELDS` by name: in every place an ordinary value, or with an even chance a hostile one."""
    rng = np.random.default_rng(seed)
    wild = rng.random((count, len(FIELDS.names))) < 0.5
    which = rng.integers(2**31, size=wild.shape)
    pools = [ORDINARY[name] for name in FIELDS.names]
    return [
        {
            name: _SMALL[k % len(_SMALL)] if hostile else pool[k % len(pool)]
            for name, pool, hostile, k in zip(FIELDS.names, pools, row.tolist(), places.tolist(), strict=True)
        }
        for row, places in zip(wild, which, strict=True)
    ]


def mixed_veil() -> tv.Veil:
    """A veil for `FIELDS`: one latent of all that a record says, in a codebook of 16 words; ε = 1."""
    low, high = FIELDS.box
    weights = 2.0 / (len(low) * (high - low))
    words = np.rint(np.linspace(-1, 1, 16) * 2**20).astype(np.int64)
    response = Response.calibrated(size=16, favoured=4, epsilon=1.0)
    stage = Stage(vectors=2 * words[:, None], offsets=-(words**2), shifts=words[:, None], response=response)
    return tv.Veil(
        encoder=LinearEncoder.of(low=low, high=high, weights=weights[None], offset=-weights[None] @ (low + high) / 2),
        mechanism=Codebook(
            region=BoxRegion(step=2.0**-20, low=np.array([-(2**20)]), high=np.array([2**20])), stages=(stage,)
        ),
        decoder=CodewordDecoder(codewords=np.zeros((16, len(low))), sizes=np.array([16])),
        task=tv.LinearTask(np.eye(len(low))),
        method="by hand",
        columns=FIELDS.names,
        units=FIELDS.units,
        schema=tv.Schema(FIELDS),
    )
