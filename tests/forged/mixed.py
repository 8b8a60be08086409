"""What can be wrong with the fields of a record: (why, the device it is made from, what is changed)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from forged.tools import Arrays, Change, part, put, whole
from mixed_records import ORDINARY

PLACES = {name: f"fields.fields.{place}" for place, name in enumerate(ORDINARY.names)}
POWER, DOORS, ORIGIN, LEASED, SINCE = (PLACES[name] for name in ("power", "doors", "origin", "leased", "since"))


def named(change: Callable[[list[Any]], list[Any]]) -> Change:
    """Other names, in the columns too: only the fields can object."""

    def apply(content: dict[str, Any], _: Arrays) -> None:
        content["columns"] = content["fields"]["names"] = change(content["columns"])

    return apply


def listed(change: Callable[[list[Any]], Any]) -> Change:
    """The same fields in another list."""

    def apply(content: dict[str, Any], _: Arrays) -> None:
        content["fields"]["fields"] = change(content["fields"]["fields"])

    return apply


def without(path: str, name: str) -> Change:
    return lambda content, _: part(content, path).pop(name)


def none(content: dict[str, Any], arrays: Arrays) -> None:
    """No fields and no names for an encoder of as few numbers as there can be."""
    content["fields"].update(names=[], fields=[])
    content["columns"] = content["units"] = []


def one_flag(content: dict[str, Any], _: Arrays) -> None:
    flag = {"kind": "flag", "missing": False, "fill": False}
    content.update(fields=fields_of(flag), columns=["a"], units=[""])


def fields_of(field: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "fields", "names": ["a"], "fields": [field]}


def no_unit(content: dict[str, Any], _: Arrays) -> None:
    content["units"][0] = content["fields"]["fields"][0]["unit"] = None


def tensor_of_names(content: dict[str, Any], arrays: Arrays) -> None:
    content["fields"]["names"], arrays["names"] = {"tensor": "names"}, np.zeros(10)


MIXED: list[tuple[str, str, Change]] = [
    ("fields of nothing", "mixed", none),
    ("fields that are null", "mixed", lambda m, _: m.update(fields=None)),
    ("fields that are a list", "mixed", lambda m, _: m.update(fields=m["fields"]["fields"])),
    ("fields that are a number", "mixed", lambda m, _: m.update(fields=m["fields"]["fields"][0])),
    ("fields of another kind", "mixed", put("fields", kind="record")),
    ("fields with a remark", "mixed", put("fields", remark="")),
    ("fields without names", "mixed", without("fields", "names")),
    ("fields of an encoder for others", "codebook", one_flag),
    ("names of fields in a tensor", "mixed", tensor_of_names),
    ("one field too few", "mixed", listed(lambda them: them[:-1])),
    ("fields in another order", "mixed", listed(lambda them: them[::-1])),
    ("fields in lists", "mixed", listed(lambda them: [[field] for field in them])),
    ("fields by name", "mixed", listed(lambda them: dict(zip(ORDINARY.names, them, strict=True)))),
    ("fields by place", "mixed", listed(lambda them: {str(i): one for i, one in enumerate(them)} | {"length": 10.0})),
    ("a field that is null", "mixed", listed(lambda them: [None, *them[1:]])),
    ("a field that is text", "mixed", listed(lambda them: ["number", *them[1:]])),
    ("a field that is an encoder", "mixed", lambda m, _: m["fields"]["fields"].__setitem__(0, m["encoder"])),
    ("fields within fields", "mixed", listed(lambda them: [fields_of(them[0]), *them[1:]])),
    ("a field of an unknown kind", "mixed", put(POWER, kind="text")),
    ("a field of every object's kind", "mixed", put(POWER, kind="constructor")),
    ("a field of no kind", "mixed", without(POWER, "kind")),
    ("two fields of one name", "mixed", named(lambda names: [names[0], *names[:-1]])),
    ("a field whose name is a number", "mixed", named(lambda names: [1, *names[1:]])),
    ("a field without a name", "mixed", named(lambda names: [None, *names[1:]])),
    ("columns that are not the fields'", "mixed", lambda m, _: m["columns"].reverse()),
    ("columns without names for fields", "mixed", lambda m, _: m.update(columns=None)),
    ("units that are not the fields'", "mixed", lambda m, _: m["units"].reverse()),
    ("no units for fields", "mixed", lambda m, _: m.pop("units")),
    ("units for fields that are null", "mixed", lambda m, _: m.update(units=None)),
    ("a unit that is null", "mixed", no_unit),
    ("a number without a unit", "mixed", without(POWER, "unit")),
    ("a number without a fill", "mixed", without(POWER, "fill")),
    ("a number with values", "mixed", put(POWER, values=["0"])),
    ("a lower bound of a number in text", "mixed", put(POWER, low="0")),
    ("a lower bound of a number that is true", "mixed", put(POWER, low=True)),
    ("a lower bound of a number in digits", "mixed", put(POWER, low=whole(2**53))),
    ("a bound of 2^53 as a whole number", "mixed", put(POWER, high=2**53)),
    ("no lower bound of a number", "mixed", put(POWER, low=None)),
    ("bounds of a number the wrong way round", "mixed", put(POWER, low=250.5)),
    ("bounds that no double tells apart", "mixed", put(POWER, low=-1e308, high=1e308)),
    ("a fill below a number's bounds", "mixed", put(POWER, fill=-0.5)),
    ("a fill above a number's bounds", "mixed", put(POWER, fill=251)),
    ("a fill that is null", "mixed", put(POWER, fill=None)),
    ("a missing that is a number", "mixed", put(POWER, missing=0)),
    ("a missing that is null", "mixed", put(ORIGIN, missing=None)),
    ("one more that may be missing", "mixed", put(POWER, missing=True)),
    ("a count of halves", "mixed", put(DOORS, low=1.5)),
    ("a count beyond 2^53", "mixed", put(DOORS, high=2.0**54)),
    ("a category of no values", "mixed", put(ORIGIN, values=[])),
    ("a category in text", "mixed", put(ORIGIN, values="USA")),
    ("a category by name", "mixed", put(ORIGIN, values={"0": "a", "1": "b", "2": "c"})),
    ("a value of a category that is a number", "mixed", put(ORIGIN, values=["1", "2", 3])),
    ("a value of a category that is true", "mixed", put(ORIGIN, values=["1", "2", True])),
    ("a value of a category twice", "mixed", put(ORIGIN, values=["1", "2", "2"])),
    ("a value of a category that none has", "mixed", put(ORIGIN, values=["1", "2", "\0"])),
    ("one value of a category more", "mixed", put(ORIGIN, values=["1", "2", "3", "4"])),
    ("a category of 65,537 values", "mixed", put(ORIGIN, values=[str(n) for n in range(2**16 + 1)])),
    ("a value of a category of 1,001 letters", "mixed", put(ORIGIN, values=["1", "2", "a" * 1001])),
    ("a value of a category of 501 emoji", "mixed", put(ORIGIN, values=["1", "2", "\U0001f600" * 501])),
    ("a category with a fill", "mixed", put(ORIGIN, fill="1")),
    ("a category with a unit", "mixed", put(ORIGIN, unit="")),
    ("a flag filled with a number", "mixed", put(LEASED, fill=1)),
    ("a flag without a fill", "mixed", without(LEASED, "fill")),
    ("bounds of a date the wrong way round", "mixed", put(SINCE, low="2030-01-01")),
    ("a lower bound of a date that is none", "mixed", put(SINCE, low="2015-02-29")),
    ("an upper bound of a date that is none", "mixed", put(SINCE, high="2024-12-31\n")),
    ("a bound of a date that is a number", "mixed", put(SINCE, low=0)),
    ("a bound of a date in a list", "mixed", put(SINCE, low=["2015-01-01"])),
    ("a cycle of a date that is unknown", "mixed", put(SINCE, cycles=["year", "moon"])),
    ("a cycle of a date that every object has", "mixed", put(SINCE, cycles=["year", "constructor"])),
    ("a cycle of a date twice", "mixed", put(SINCE, cycles=["year", "year"])),
    ("a cycle of a date that is a number", "mixed", put(SINCE, cycles=["year", 7])),
    ("cycles of a date in text", "mixed", put(SINCE, cycles="year")),
    ("one cycle of a date less", "mixed", put(SINCE, cycles=["year"])),
]  # fmt: skip
