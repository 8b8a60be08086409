"""What is packed is what is built again, bit for bit."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

import releases
from taskveil.client.reading import DEVICE_KINDS, unpack
from taskveil.veil.release import SERVER_KINDS, pack

DEVICES = releases.devices()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("name", list(DEVICES))
def test_there_and_back(name: str) -> None:
    for part in (DEVICES[name].encoder, DEVICES[name].mechanism):
        arrays: dict[str, np.ndarray] = {}
        packed = json.loads(json.dumps(pack(part, "part", arrays, DEVICE_KINDS)))
        assert all(array.startswith("part.") for array in arrays)
        assert same(unpack(packed, arrays, DEVICE_KINDS, type(part)), part)


def test_numbers_that_doubles_cannot_hold_are_written_as_text() -> None:
    for number in (2**53, -(2**53), 2**1400):
        assert pack(number, "n", {}, DEVICE_KINDS) == {"integer": str(number)}
    assert pack(2**53 - 1, "n", {}, DEVICE_KINDS) == 2**53 - 1


def test_every_kind_has_one_name() -> None:
    for kinds in (DEVICE_KINDS, SERVER_KINDS):
        assert len(set(kinds.values())) == len(kinds)
