"""The bytes and JSON of reports and of the collector's answers, in bytes and in JSON: one module for both sides.

A report carries the id of its release, a random id by which a retry is recognised, and the randomised numbers. It holds
no time, no counter and no identity, and all reports of a release have the same length.

    one report    "TV" | version 1 | kind 1 | release (32) | id (16) | payload
    a batch       "TV" | version 1 | kind 2 | release (32) | payload size (u16) | count (u32) | count × (id | payload)
    JSON          {"version": 1, "release": hex, "reports": [{"id": hex, "payload": hex}, …]}

Integers are little-endian. The payload holds every number of the report minus its least possible value, in as few
bytes as the largest possible value needs. Both are fixed by the release: its mechanism knows its `Layout`.

A collector that refuses a request answers with a problem document (RFC 9457).

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

from taskveil.arrays import Array, Bools, Bytes, Integers, owned
from taskveil.errors import WireError

VERSION = 1
PATH = "/v1/reports"
BINARY = "application/vnd.taskveil.reports"
JSON = "application/json"
PROBLEM = "application/problem+json"

MOST_POSTED = 20_000
"""Reports in one request: more would make all others wait for one commit."""

MAGIC = b"TV"
"""The first bytes of binary bodies. JSON never begins with them."""

_ONE, _MANY = b"\1", b"\2"
_HEAD = struct.Struct("<2sBc32s")
_COUNT = struct.Struct("<HI")


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report: `payload` is randomised, `id` is random, `release` is public.

    Example:
        >>> from taskveil.client import Report
        >>> report = Report(release=bytes(32), id=bytes(16), payload=bytes([5]))
        >>> Report.from_bytes(report.to_bytes()) == report
        True
    """

    release: bytes
    id: bytes
    payload: bytes

    def __post_init__(self) -> None:
        if (len(self.release), len(self.id)) != (32, 16) or not 1 <= len(self.payload) < 2**16:
            raise WireError("a report has a release of 32 bytes, an id of 16 and a payload.")

    def to_bytes(self) -> bytes:
        """The bytes of this report alone."""
        return _HEAD.pack(MAGIC, VERSION, _ONE, self.release) + self.id + self.payload

    __bytes__ = to_bytes

    @classmethod
    def from_bytes(cls, raw: bytes) -> Report:
        """The report that `to_bytes` wrote, or a WireError."""
        release, rest = _head(raw, _ONE)
        return cls(release=release, id=rest[:16], payload=rest[16:])


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The form of a release's reports: number i is low[i] … high[i], in sizes[i] bytes."""

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
        """(N,): whether every number of a report (N, width) is in its range."""
        return np.asarray(((reports >= self.low) & (reports <= self.high)).all(axis=1))

    def pack(self, numbers: Sequence[int]) -> bytes:
        """The payload of a report."""
        columns = zip(numbers, self.low, self.high, self.sizes, strict=True)
        return b"".join((min(max(k, low), high) - low).to_bytes(size, "little") for k, low, high, size in columns)

    def unpack(self, payload: bytes) -> tuple[int, ...]:
        """The numbers of a report; a WireError if no device could have made it."""
        if len(payload) != self.length:
            raise WireError(f"a payload of this release has {self.length} bytes, got {len(payload)}.")
        numbers, held = self.unpack_all(np.frombuffer(payload, dtype=np.uint8)[None])
        if not held[0]:
            raise WireError("the report holds a number beyond what this release's reports reach.")
        return tuple(numbers[0].tolist())

    def unpack_all(self, payloads: Bytes) -> tuple[Integers, Bools]:
        """The numbers (N, width) of payloads (N, length), and (N,): whether all are in their ranges."""
        low, span, places = self._arrays
        padded = np.zeros((len(payloads), 8 * len(low)), dtype=np.uint8)
        padded[:, places] = payloads
        above = padded.view("<u8")  # the least numbers
        return np.minimum(above, span).astype(np.int64) + low, np.asarray((above <= span).all(axis=1))

    @cached_property
    def _arrays(self) -> tuple[Integers, Array, Integers]:
        """The least numbers (width,), the widths of their ranges (width,), and the places of a payload's bytes
        (length,) if every number has eight bytes."""
        low = np.array(self.low, dtype=np.int64)
        span = np.array([high - low for low, high in zip(self.low, self.high, strict=True)], dtype=np.uint64)
        return low, span, np.flatnonzero(np.arange(8) < np.array(self.sizes)[:, None])


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A report that was refused: its place in the body, its id, and why."""

    place: int
    id: bytes
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Received:
    """The reports of one body: `reports` (N, width) and `ids` of those that a device can have made, `refused` the rest.

    A report that came twice is in it once. Where an array is expected (`veil.decode(received)`), it stands for its
    reports, which are read-only.

    Example:
        >>> import taskveil as tv
        >>> from taskveil.client import Report
        >>> X = tv.datasets.load_power()[["h07", "h19"]]
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> report = Report(release=bytes.fromhex(veil.release_id), id=bytes(16), payload=bytes(4))
        >>> received = veil.receive(report.to_bytes())
        >>> len(received), received.refused
        (1, ())
    """

    release: bytes
    """The 32 bytes of their release."""
    reports: Integers
    ids: tuple[bytes, ...]
    refused: tuple[Refusal, ...]

    def __len__(self) -> int:
        return len(self.reports)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.reports, dtype=dtype, copy=copy)


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrived:
    """The reports of one body as they came, unchecked: `ids` (N, 16) and `payloads` (N, size), read-only."""

    release: bytes
    ids: Bytes
    payloads: Bytes

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Checked:
    """The result of checking the reports (N,) of a body: each is fresh, or refused, or repeats a fresh one."""

    fresh: Bools
    """(N,): the first of its id in this body, and a device can have made it."""
    numbers: Integers
    """(F, width): of the fresh ones."""
    first: Integers
    """(N,): the place of the first report of this body with the same id and bytes; its own if it is the first."""
    refused: tuple[Refusal, ...]
    """By place, with the copies of refused reports."""


def receive(body: bytes, release: bytes, layout: Layout, possible: Callable[[Integers], Bools]) -> Received:
    """The reports for one release in a body of POST /v1/reports, binary or JSON, one report or many.

    Bytes that are no reports, and reports of another release, raise WireError. A report that no device can have made is
    refused alone; the others are kept. The same report again is a retry and counts once. Another report with the same
    id is refused.
    """
    found = arrived(body)
    if found.release != release:  # a body carries reports of one release only
        made, expected = (id.hex()[:12] for id in (found.release, release))
        raise WireError(
            f"these are {len(found)} reports of release {made}…, not of {expected}…. None was taken; receive them "
            "with the release they were made with."
        )
    worth = checked(found, layout, possible)
    return Received(
        release=release,
        reports=owned(worth.numbers),
        ids=tuple(_each(found.ids[worth.fresh])),
        refused=tuple(one for one in worth.refused if worth.first[one.place] == one.place),
    )


def arrived(body: bytes) -> Arrived:
    """The reports of a body, binary or JSON, one or many; a WireError if it holds none."""
    if body[:2] == MAGIC and body[3:4] != _ONE:
        release, rows = _batch(body)
        return Arrived(release=release, ids=owned(rows[:, :16]), payloads=owned(rows[:, 16:]))
    reports = [Report.from_bytes(body)] if body[:2] == MAGIC else from_json(body)
    ids, payloads = (
        np.frombuffer(b"".join(parts), dtype=np.uint8).reshape(len(reports), -1)
        for parts in ([report.id for report in reports], [report.payload for report in reports])
    )
    return Arrived(release=reports[0].release, ids=ids, payloads=payloads)


def checked(found: Arrived, layout: Layout, possible: Callable[[Integers], Bools]) -> Checked:
    """Check the reports of a body for the release whose mechanism has this layout and these possible numbers.

    If several reports have the same id, the first counts. The same bytes again are a repetition; others are refused.
    """
    places, size = np.arange(len(found)), found.payloads.shape[1]  # a body has reports of one length only
    if size != layout.length:
        why = f"a payload of this release has {layout.length} bytes, got {size}."
        return Checked(
            fresh=np.zeros(len(found), dtype=np.bool_),
            numbers=np.empty((0, len(layout.low)), dtype=np.int64),
            first=places,
            refused=tuple(Refusal(place=place, id=id, reason=why) for place, id in enumerate(_each(found.ids))),
        )
    seen: dict[bytes, int] = {}
    same_id = np.array([seen.setdefault(id, place) for place, id in enumerate(_each(found.ids))])
    same = (found.payloads == found.payloads[same_id]).all(axis=1)
    numbers, held = layout.unpack_all(found.payloads)
    held[held] = possible(numbers[held])
    fresh = held & (same_id == places)
    return Checked(
        fresh=fresh,
        numbers=numbers[fresh],
        first=np.where(same, same_id, places),
        refused=tuple(
            Refusal(
                place=place,
                id=found.ids[place].tobytes(),
                reason="no device can have made this number."
                if same[place]
                else "another report in this body has the same id.",
            )
            for place in np.flatnonzero(~(held & same)).tolist()
        ),
    )


def pack_batch(reports: Sequence[Report]) -> bytes:
    """Reports of one release, in bytes."""
    release, size = _common(reports)
    head = _HEAD.pack(MAGIC, VERSION, _MANY, release) + _COUNT.pack(size, len(reports))
    return head + b"".join(report.id + report.payload for report in reports)


def unpack_batch(raw: bytes) -> list[Report]:
    """The reports of a batch; nothing may be missing or left over."""
    release, rows = _batch(raw)
    return [Report(release=release, id=row[:16], payload=row[16:]) for row in _each(rows)]


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
        # Only the kind of the error: its message and the error itself contain the body.
        raise WireError(f"this is no batch of reports ({type(error).__name__}).") from None
    _common(reports)
    return reports


@dataclass(frozen=True, kw_only=True)
class ProblemDocument:
    """An RFC 9457 problem document: why the collector refused a request."""

    status: int
    title: str
    detail: str = ""
    type: str = "about:blank"

    def to_json(self) -> bytes:
        """The document in JSON."""
        return json.dumps(
            {"type": self.type, "title": self.title, "status": self.status, "detail": self.detail}
        ).encode()

    @classmethod
    def from_json(cls, raw: bytes, *, status: int) -> ProblemDocument:
        """The document in a body, as far as the body has one. `status` is that of the response."""
        text: dict[str, str] = {}
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            text = {key: value for key, value in json.loads(raw).items() if isinstance(value, str)}
        return cls(
            status=status,
            title=text.get("title", f"status {status}"),
            detail=text.get("detail", ""),
            type=text.get("type", "about:blank"),
        )

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}" if self.detail else self.title


def _head(raw: bytes, kind: bytes) -> tuple[bytes, bytes]:
    if len(raw) < _HEAD.size:
        raise WireError("this is no report: it is cut short.")
    magic, version, found, release = _HEAD.unpack_from(raw)
    if magic != MAGIC:
        raise WireError("this is no taskveil report.")
    if version != VERSION:
        raise WireError(f"this report has version {version}; this taskveil reads {VERSION}. Install a newer taskveil.")
    if found != kind:
        raise WireError("expected one report and found a batch." if kind == _ONE else "expected a batch of reports.")
    return release, raw[_HEAD.size :]


def _batch(raw: bytes) -> tuple[bytes, Bytes]:
    """The release of a batch, and its reports (N, 16 + size)."""
    release, rest = _head(raw, _MANY)
    if len(rest) < _COUNT.size:
        raise WireError("the batch is cut short.")
    size, count = _COUNT.unpack_from(rest)
    if not (size and count) or len(rest) != _COUNT.size + count * (16 + size):
        raise WireError(
            f"the batch announces {count} reports with payloads of {size} bytes and holds {len(rest)} bytes."
        )
    return release, np.frombuffer(rest, dtype=np.uint8, offset=_COUNT.size).reshape(count, 16 + size)


def _each(rows: Bytes) -> list[bytes]:
    """The bytes of every row (N, size)."""
    size = rows.shape[1]
    raw = rows.tobytes()
    return [raw[start : start + size] for start in range(0, len(raw), size)]


def _common(reports: Sequence[Report]) -> tuple[bytes, int]:
    """Release and payload size that all reports share."""
    kinds = {(report.release, len(report.payload)) for report in reports}
    if len(kinds) != 1:
        raise WireError("a batch holds at least one report, and reports of one release only.")
    return kinds.pop()
