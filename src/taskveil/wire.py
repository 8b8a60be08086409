"""What travels from a device to the collector, in bytes and in JSON: one module for both ends.

A report carries the release it was made with, a random id so that a retry is recognised, and the randomised numbers.
It holds no clock, no counter and no identity, and all reports of a release have one length.

    one report    "TV" | version 1 | kind 1 | release (32) | id (16) | payload
    a batch       "TV" | version 1 | kind 2 | release (32) | payload size (u16) | count (u32) | count × (id | payload)
    JSON          {"version": 1, "release": hex, "reports": [{"id": hex, "payload": hex}, …]}

Integers are little-endian. The payload is every number of the report minus the least it can be, in as few bytes as
the largest takes. Both are fixed by the release: its mechanism knows its `Layout`.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taskveil.arrays import Array, Bools, Integers, owned
from taskveil.errors import WireError

VERSION = 1
PATH = "/v1/reports"
BINARY = "application/vnd.taskveil.reports"
JSON = "application/json"
PROBLEM = "application/problem+json"

MOST = 1 << 20
"""Reports in a batch, at most."""

_MAGIC, _ONE, _MANY = b"TV", 1, 2
_HEAD = struct.Struct("<2sBB32s")
_COUNT = struct.Struct("<HI")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What leaves a device: `payload` is randomised, `id` is random, `release` is public."""

    release: bytes
    id: bytes
    payload: bytes

    def __post_init__(self) -> None:
        if (len(self.release), len(self.id)) != (32, 16) or not 1 <= len(self.payload) < 2**16:
            raise WireError("a report has a release of 32 bytes, an id of 16 and a payload.")

    def to_bytes(self) -> bytes:
        """As it travels by itself."""
        return _HEAD.pack(_MAGIC, VERSION, _ONE, self.release) + self.id + self.payload

    __bytes__ = to_bytes

    @classmethod
    def from_bytes(cls, raw: bytes) -> Report:
        """The report that `to_bytes` wrote, or a WireError."""
        release, rest = _head(raw, _ONE)
        return cls(release=release, id=rest[:16], payload=rest[16:])


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the numbers of a release's reports lie: number i is low[i] … high[i], in sizes[i] bytes."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.length >= 2**16:
            raise WireError(f"a report of {self.length} bytes is too long: the wire carries 65,535 at most.")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each number."""
        return tuple(max(1, -(-(high - low).bit_length() // 8)) for low, high in zip(self.low, self.high, strict=True))

    @cached_property
    def length(self) -> int:
        """Bytes of a payload."""
        return sum(self.sizes)

    def holds(self, reports: Integers) -> Bools:
        """(N,): whether every number of a report (N, width) lies where it can."""
        return np.asarray(((reports >= self.low) & (reports <= self.high)).all(axis=1))

    def pack(self, numbers: Sequence[int]) -> bytes:
        """The payload of a report."""
        columns = zip(numbers, self.low, self.high, self.sizes, strict=True)
        return b"".join((min(max(k, low), high) - low).to_bytes(size, "little") for k, low, high, size in columns)

    def unpack(self, payload: bytes) -> tuple[int, ...]:
        """The numbers of a report; a WireError if no device could have made it."""
        if len(payload) != self.length:
            raise WireError(f"a payload of this release has {self.length} bytes, got {len(payload)}.")
        numbers, held = self.unpack_all([payload])
        if not held[0]:
            raise WireError("the report holds a number beyond what this release's reports reach.")
        return tuple(numbers[0].tolist())

    def unpack_all(self, payloads: Sequence[bytes]) -> tuple[Integers, Bools]:
        """The numbers (N, width) of payloads of the right length, and (N,): whether all lie where they can."""
        raw = np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(payloads), self.length)
        sizes = np.array(self.sizes)
        starts = np.cumsum(sizes) - sizes
        above = np.zeros((len(payloads), len(sizes)), dtype=np.uint64)  # the least number
        for place in range(sizes.max()):
            columns = np.flatnonzero(sizes > place)
            above[:, columns] |= raw[:, starts[columns] + place].astype(np.uint64) << np.uint64(8 * place)
        span = np.array([high - low for low, high in zip(self.low, self.high, strict=True)], dtype=np.uint64)
        numbers = np.minimum(above, span).astype(np.int64) + np.array(self.low, dtype=np.int64)
        return numbers, np.asarray((above <= span).all(axis=1))


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A report of a body that was not taken: its place, its id, and why."""

    place: int
    id: bytes
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Received:
    """The reports of one body: `reports` (N, width) and `ids` of those that a device can have made, `refused` the rest.

    A report that came twice is there once. Where an array is expected (`veil.decode(received)`), it is its reports,
    which cannot be written to.
    """

    release: bytes
    """The 32 bytes of the release they were made with."""
    reports: Integers
    ids: tuple[bytes, ...]
    refused: tuple[Refusal, ...]

    def __len__(self) -> int:
        return len(self.reports)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.reports, dtype=dtype, copy=copy)


def receive(body: bytes, release: bytes, layout: Layout, possible: Callable[[Integers], Bools]) -> Received:
    """What a body of POST /v1/reports, binary or JSON, one report or many, holds for one release.

    Bytes that are no reports, and reports of another release, raise WireError. A report that no device can have made
    is refused by itself and costs its neighbours nothing. The same report again is a retry and counts once; another one
    with the same id is refused.
    """
    reports = read_body(body)
    if reports[0].release != release:  # a body carries reports of one release only
        found, expected = (id.hex()[:12] for id in (reports[0].release, release))
        raise WireError(
            f"these are {len(reports)} reports of release {found}…, not of {expected}…. None was taken; receive them "
            "with the release they were made with."
        )
    size = len(reports[0].payload)  # and of one length only
    if size != layout.length:
        why = f"a payload of this release has {layout.length} bytes, got {size}."
        refused = tuple(Refusal(place=place, id=report.id, reason=why) for place, report in enumerate(reports))
        return Received(
            release=release, reports=owned(np.empty((0, len(layout.low)), dtype=np.int64)), ids=(), refused=refused
        )
    firsts: dict[bytes, bytes] = {}
    places: list[int] = []
    reasons: dict[int, str] = {}
    for place, report in enumerate(reports):
        if report.id not in firsts:
            firsts[report.id] = report.payload
            places.append(place)
        elif firsts[report.id] != report.payload:
            reasons[place] = "another report in this body has the same id."
    numbers, held = layout.unpack_all([reports[place].payload for place in places])
    held[held] = possible(numbers[held])
    reasons |= {place: "no device can have made this number." for place, ok in zip(places, held, strict=True) if not ok}
    return Received(
        release=release,
        reports=owned(numbers[held]),
        ids=tuple(reports[place].id for place, ok in zip(places, held, strict=True) if ok),
        refused=tuple(Refusal(place=p, id=reports[p].id, reason=reasons[p]) for p in sorted(reasons)),
    )


def read_body(body: bytes) -> list[Report]:
    """The reports of a body, binary or JSON, one or many."""
    if body[:2] != _MAGIC:
        return from_json(body)
    return [Report.from_bytes(body)] if body[3:4] == bytes([_ONE]) else unpack_batch(body)


def pack_batch(reports: Sequence[Report]) -> bytes:
    """Reports of one release, in bytes."""
    release, size = _common(reports)
    head = _HEAD.pack(_MAGIC, VERSION, _MANY, release) + _COUNT.pack(size, len(reports))
    return head + b"".join(report.id + report.payload for report in reports)


def unpack_batch(raw: bytes) -> list[Report]:
    """The reports of a batch; nothing may be missing or left over."""
    release, rest = _head(raw, _MANY)
    if len(rest) < _COUNT.size:
        raise WireError("the batch is cut short.")
    size, count = _COUNT.unpack_from(rest)
    if not 1 <= count <= MOST or len(rest) != _COUNT.size + count * (16 + size):
        raise WireError(f"the batch announces {count} reports of {16 + size} bytes and holds {len(rest)} bytes.")
    starts = range(_COUNT.size, len(rest), 16 + size)
    return [Report(release=release, id=rest[s : s + 16], payload=rest[s + 16 : s + 16 + size]) for s in starts]


def to_json(reports: Sequence[Report]) -> bytes:
    """Reports of one release, as JSON."""
    release, _ = _common(reports)
    listed = [{"id": report.id.hex(), "payload": report.payload.hex()} for report in reports]
    return json.dumps({"version": VERSION, "release": release.hex(), "reports": listed}).encode()


def from_json(raw: bytes) -> list[Report]:
    """The reports of a JSON batch; unknown keys are refused."""
    try:
        body = json.loads(raw)
        if type(body["version"]) is not int or body["version"] != VERSION:
            raise WireError(f"these reports have another version; this taskveil reads {VERSION}.")
        if set(body) != {"version", "release", "reports"} or any(set(r) != {"id", "payload"} for r in body["reports"]):
            raise WireError("a batch has version, release and reports; a report has id and payload; nothing else.")
        release = bytes.fromhex(body["release"])
        reports = [
            Report(release=release, id=bytes.fromhex(item["id"]), payload=bytes.fromhex(item["payload"]))
            for item in body["reports"]
        ]
    except WireError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # Only the kind of the error: its words, and the error itself, carry the body.
        raise WireError(f"this is no batch of reports ({type(error).__name__}).") from None
    _common(reports)
    return reports


@dataclass(frozen=True, kw_only=True)
class ProblemDocument:
    """An RFC 9457 problem document: why the collector said no."""

    status: int
    title: str
    detail: str = ""
    type: str = "about:blank"

    def to_json(self) -> bytes:
        """The document, as RFC 9457 writes it."""
        return json.dumps(
            {"type": self.type, "title": self.title, "status": self.status, "detail": self.detail}
        ).encode()

    @classmethod
    def from_json(cls, raw: bytes, *, status: int) -> ProblemDocument:
        """What a body says, however little that is; `status` is the one of the response."""
        body: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(raw)
        named = body if isinstance(body, dict) else {}
        text = {key: value for key, value in named.items() if isinstance(value, str)}
        return cls(
            status=status,
            title=text.get("title", f"status {status}"),
            detail=text.get("detail", ""),
            type=text.get("type", "about:blank"),
        )

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}" if self.detail else self.title


def _head(raw: bytes, kind: int) -> tuple[bytes, bytes]:
    if len(raw) < _HEAD.size:
        raise WireError("this is no report: it is cut short.")
    magic, version, found, release = _HEAD.unpack_from(raw)
    if magic != _MAGIC:
        raise WireError("this is no taskveil report.")
    if version != VERSION:
        raise WireError(f"this report has version {version}; this taskveil reads {VERSION}. Install a newer taskveil.")
    if found != kind:
        raise WireError("expected one report and found a batch." if kind == _ONE else "expected a batch of reports.")
    return release, raw[_HEAD.size :]


def _common(reports: Sequence[Report]) -> tuple[bytes, int]:
    """Release and payload size that all reports share."""
    kinds = {(report.release, len(report.payload)) for report in reports}
    if len(kinds) != 1 or len(reports) > MOST:
        raise WireError(f"a batch holds 1 to {MOST} reports of one release.")
    return kinds.pop()
