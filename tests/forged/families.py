"""Descriptions of families that both clients must refuse: their digests are right, their content is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taskveil.client.reading import canonical, digest

MEMBERS: dict[str, dict[str, Any]] = {
    "weight zero": {"weight": 0},
    "weight below zero": {"weight": -1},
    "huge weight": {"weight": 2**53},
    "endless weight": {"weight": 10**500},
    "fractional weight": {"weight": 0.9},
    "true as weight": {"weight": True},
    "text as weight": {"weight": "9"},
    "no weight": {"weight": None},
    "parent folder": {"name": ".."},
    "this folder": {"name": "."},
    "path upwards": {"name": "../answers"},
    "path": {"name": "a/b"},
    "absolute path": {"name": "/etc"},
    "path of Windows": {"name": "a\\b"},
    "drive": {"name": "c:"},
    "no name": {"name": ""},
    "null byte": {"name": "a\0b"},
    "long name": {"name": "a" * 65},
    "newline": {"name": "answers\n"},
    "capitals": {"name": "Answers"},
    "reserved": {"name": "client"},
    "own file": {"name": "family.json"},
    "missing member": {"name": "nobody"},
    "a name that objects have": {"name": "constructor"},
    "number as name": {"name": 5},
    "list as name": {"name": ["answers"]},
    "other digest": {"release": "0" * 64},
    "digest that is none": {"release": "zz"},
    "no digest": {"release": None},
    "smaller epsilon": {"epsilon": 0.5},
    "whole epsilon": {"epsilon": 2},
    "text as epsilon": {"epsilon": "2"},
    "more keys": {"more": 1},
}
"""What is wrong with the first member."""


def forged(manifest: dict[str, Any], **changes: Any) -> bytes:
    """A `family.json` with other content and the digest that belongs to it."""
    body = {key: value for key, value in {**manifest, **changes}.items() if key != "digest"}
    return canonical({**body, "digest": digest(body)})


def with_member(manifest: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    """The members, the first one changed."""
    first, *others = manifest["members"]
    return [{**first, **changes}, *others]


def forgeries(manifest: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """What is wrong, and the bytes of `family.json`, from the content of a sound one of drawn members."""
    for why, change in MEMBERS.items():
        yield why, forged(manifest, members=with_member(manifest, **change))
    members, good = manifest["members"], canonical(manifest)
    yield "duplicate name", forged(manifest, members=with_member(manifest, name=members[1]["name"]))
    yield "one release twice", forged(manifest, members=[*members, {**members[0], "name": "again"}])
    for kind in ("chosen", "other", None, []):
        yield f"kind {kind!r}", forged(manifest, kind=kind)
    for listed in (members[:1], [], None, {}, "ab", [1, 2], [None, None], members * 2):
        yield f"members {str(listed)[:40]!r}", forged(manifest, members=listed)
    yield "a sum of 2^53", forged(manifest, members=[{**one, "weight": 2**52} for one in members])
    for version in (0, True, "1", None, 1.0, 2):
        yield f"version {version!r}", forged(manifest, version=version)
    yield "more keys of the family", forged(manifest, more=1)
    yield "a blank at the end", good + b" "
    yield "an altered weight", good.replace(b'"weight": ', b'"weight": 1', 1)
    for why, raw in {"nothing": b"", "no keys": b"{}", "a list": b"[]", "null": b"null", "no text": b"\xff"}.items():
        yield why, raw
    yield "brackets", b"[" * 100_000
    yield "two megabytes", b"1" * 2**21
