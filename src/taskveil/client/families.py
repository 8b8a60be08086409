"""Families on a device: several releases with one id and one entry in the ledger, of which a round uses one.

A family is `family.json`, in canonical form, and a folder of every member that holds its release:

    {"digest": …, "kind": "drawn" or "chosen", "members": [{"epsilon", "name", "release", "weight"}, …], "version": 1}

`release` is the digest of the member's client manifest, so the family's digest fixes everything that a device runs, and
one signature (`family.sig`, over `family.json`) covers all of it.

**Drawn.** In every round the device draws member m with probability weight_m / Σ weight, from entropy alone. Let R_m be
the report of member m, which is (ε_m, δ_m)-LDP. For any two records x, x' and any set S of pairs (member, report)

    P[(M, R) ∈ S | x] = Σ_m P[M = m] P[R_m(x) ∈ S_m] ≤ Σ_m P[M = m] (e^ε_m P[R_m(x') ∈ S_m] + δ_m)
                      ≤ e^(max ε) P[(M, R) ∈ S | x'] + max δ,

because P[M = m] is the same for x and x'. So the pair, which is all that the server sees, is LDP with the largest ε of
the members, and the ledger charges this ε. `draw` takes the weights alone, so that it cannot depend on a record. The
draw and the report are made inside the ledger's transaction: what was drawn is recorded with the report or discarded
unseen, and a retry returns the same bytes.

**Chosen.** The person chooses the member by its ε. The report is LDP with that ε. The choice is visible, and the proof
says nothing about it: it must not depend on the record.

A client for one release is a family of one member, whose id is the release's.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.client import entropy
from taskveil.client.device import Device
from taskveil.client.latent_encoders import Function, NamedEncoder, bring
from taskveil.client.panels import Panel
from taskveil.client.promise import rounded_up, statement
from taskveil.client.reading import (
    BROKEN,
    CLIENT,
    MANIFEST,
    MOST_MANIFEST,
    MOST_WEIGHTS,
    Files,
    canonical,
    client_files,
    digest,
    read_device,
    read_regular,
)
from taskveil.client.signatures import verify
from taskveil.errors import BudgetError, DataError, ReleaseError, VersionError

FAMILY = "family.json"
FAMILY_SIGNATURE = "family.sig"
DRAWN, CHOSEN = "drawn", "chosen"

_NAME = re.compile("[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)  # a folder's name on every file system
_RESERVED = {FAMILY, FAMILY_SIGNATURE, "client", "server"}
_CHOICE = re.compile("[0-9]+(?:[.][0-9]+)?(?:e-[0-9]+)?", re.ASCII)  # JavaScript reads the same number in it
_DIGEST = re.compile("[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, kw_only=True, eq=False)
class Member:
    """One release of a family: its name, how often it is drawn, what runs, and the 32 bytes of its id."""

    name: str
    weight: int
    device: Device
    release: bytes

    @property
    def epsilon(self) -> float:
        """What one of its reports costs alone."""
        return self.device.mechanism.epsilon

    @property
    def delta(self) -> float:
        """The probability with which that may not hold."""
        return self.device.mechanism.delta


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceFamily:
    """The members that a device has, in the order of `family.json`; one release alone is a family of one member."""

    release: bytes
    """The 32 bytes of the family's id: the key of its reports in the ledger."""
    kind: str
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        if len(self.members) > 1:
            check_members(self.kind, [(one.name, one.weight, one.release.hex()) for one in self.members])
        first, *others = self.members
        for other in others:
            if first.device.panel != other.device.panel:
                plans = [f"{one.name!r} ({one.device.panel or 'not planned'})" for one in (first, other)]
                raise DataError(
                    f"the members of a family have the same planned rounds: {' and '.join(plans)} differ. Design them "
                    "with the same rounds and the same number of reports."
                )
            if record_of(first.device) != record_of(other.device):
                raise DataError(
                    f"the members of a family take the same record: {first.name!r} and {other.name!r} differ in the "
                    "names, the order or the types of their fields."
                )

    @property
    def panel(self) -> Panel | None:
        """The planned rounds, the same for all members; None if rounds are not planned."""
        return self.members[0].device.panel

    @property
    def epsilon(self) -> float:
        """The largest ε of a member: what the pair (member, report) costs if the member is drawn."""
        return max(member.epsilon for member in self.members)

    @property
    def delta(self) -> float:
        """The largest δ of a member."""
        return max(member.delta for member in self.members)

    def chosen(self, epsilon: Any) -> Member:
        """The member that was offered under this ε; a BudgetError that lists the choices if there is none."""
        choices = {choice_of(member.name): member for member in self.members}
        listed = ", ".join(f"{choice:g}" for choice in sorted(choices))
        if epsilon is None:
            raise BudgetError(f"people choose the ε of this family: pass epsilon=, one of {listed}.")
        try:
            return choices[float(epsilon)]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise BudgetError(f"this family offers ε = {listed}; got {epsilon!r}.") from None

    def of(self, release: bytes) -> Member | None:
        """The member with this id; None if there is none."""
        return next((member for member in self.members if member.release == release), None)

    def offered(self, epsilon: Any) -> tuple[Member, ...]:
        """The members that a client may use: the chosen one, or all if the device draws."""
        if self.kind == CHOSEN:
            return (self.chosen(epsilon),)
        if epsilon is not None:
            raise BudgetError(
                f"the ε of this release cannot be chosen, it is {rounded_up(self.epsilon)}: leave out epsilon=."
            )
        return self.members


def draw(weights: Sequence[int], count: int | None = None) -> Any:
    """A place, drawn with probability weight / Σ weights; or an array of `count` places. One weight needs no entropy.

    A uniform whole number u below Σ weights belongs to the first place whose cumulative weight is above u.
    """
    if len(weights) == 1:
        return 0 if count is None else np.zeros(count, dtype=np.int64)
    drawn = entropy.uniform_below(sum(weights), 1 if count is None else count)
    places = np.searchsorted(np.cumsum(np.array(weights, dtype=np.int64)), drawn, side="right")
    return int(places[0]) if count is None else places


def record_of(device: Device) -> tuple[Any, ...]:
    """What a record of a device consists of: the names, and the kinds of the values."""
    kinds = [field.kind for field in device.fields.fields] if device.fields else ["number"] * device.attributes
    return device.columns, tuple(kinds)


def choice_of(name: str) -> float:
    """The ε under which a member of this name is offered, or a DataError."""
    if _CHOICE.fullmatch(name) and 0 < float(name) < math.inf:
        return float(name)
    raise DataError(f"a member that people choose is named after its ε, got {name!r}.")


def check_members(kind: Any, members: Sequence[tuple[Any, Any, Any]]) -> None:
    """A DataError unless these can be members of a family of this kind: each a name, a weight and a release's id."""
    if kind not in (DRAWN, CHOSEN):
        raise DataError(f"a family is {DRAWN!r} or {CHOSEN!r}, got {kind!r}.")
    if len(members) < 2:
        raise DataError("a family has at least two members.")
    names, weights, releases = (list(column) for column in zip(*members, strict=True))
    for name in names:
        if type(name) is not str or not _NAME.fullmatch(name) or name in _RESERVED:
            raise DataError(
                f"a member's name is 1 to 64 small letters, digits, dots, dashes and underscores, and begins and ends "
                f"with a letter or digit (not {', '.join(sorted(_RESERVED))}); got {name!r}."
            )
    if not all(type(weight) is int and weight > 0 for weight in weights) or sum(weights) >= 2**53:
        raise DataError("weights are whole numbers above zero, with a sum below 2^53.")
    if not all(type(release) is str and _DIGEST.fullmatch(release) for release in releases):
        raise DataError("a member's release is 64 hexadecimal digits.")
    if len(set(names)) < len(names) or len(set(releases)) < len(releases):
        raise DataError("every member has a name of its own and is a release of its own.")
    if kind == CHOSEN and (len({choice_of(name) for name in names}) < len(names) or set(weights) != {1}):
        raise DataError("people choose by ε: every member has an ε of its own, and the weight 1.")


def check_choice(name: str, epsilon: float) -> None:
    """A DataError if a member that is offered as ε = `name` costs more. An ε counts as kept to 12 digits."""
    if epsilon > choice_of(name) * (1 + 2.0**-40):
        raise DataError(f"the member that is offered as ε = {name} costs ε = {rounded_up(epsilon)}.")


def family_manifest(kind: str, members: Sequence[tuple[str, int, str, float]]) -> dict[str, Any]:
    """The content of `family.json` with its digest, from names, weights, ids and ε."""
    check_members(kind, [one[:3] for one in members])
    names = ("name", "weight", "release", "epsilon")
    body = {"version": 1, "kind": kind, "members": [dict(zip(names, one, strict=True)) for one in members]}
    return {**body, "digest": digest(body)}


def is_family(folder: Path) -> bool:
    """Whether a folder holds a family rather than one release."""
    return os.path.lexists(folder / FAMILY)


def refuse_family(folder: Path) -> None:
    """A ReleaseError if a family lies where one release is wanted: in this folder, or in the one above it."""
    for family in (folder, folder.parent):
        if is_family(family) and not any(os.path.lexists(folder / name) for name in (MANIFEST, CLIENT)):
            raise ReleaseError(
                f"{family} is a family of releases, and not one release. Read the family, "
                f"tv.Family.load({str(family)!r}) or --release {family}; or name the folder of one member in it."
            )


def read_manifest(
    raw: Any, signature: bytes | None = None, verify_key: bytes | None = None, *, where: object = "the family"
) -> dict[str, Any]:
    """The checked content of `family.json`; a ReleaseError if it is none.

    Args:
        raw: the bytes of the file.
        signature: those of `family.sig`, if there is one.
        verify_key: PEM or 32 raw bytes, Ed25519; with it, the signature must be that key's.
        where: what errors call the family.
    """
    if not isinstance(raw, bytes) or len(raw) > MOST_MANIFEST:
        raise ReleaseError(f"{where} has no {FAMILY} of at most {MOST_MANIFEST:,} bytes.")
    if verify_key is not None:
        verify(raw, signature, verify_key, where)
    try:
        manifest = json.loads(raw)
        version, claimed = manifest["version"], manifest["digest"]
        if type(version) is int and version > 1:
            raise VersionError(f"{where}: {FAMILY} has version {version}; this taskveil reads 1. Install a newer one.")
        if type(version) is not int or version != 1 or set(manifest) != {"digest", "kind", "members", "version"}:
            raise ReleaseError(f"{where}: {FAMILY} is not the description of a family.")
        found = digest({key: value for key, value in manifest.items() if key != "digest"})
        if canonical(manifest) != raw or claimed != found:
            raise ReleaseError(f"{where}: {FAMILY} was altered: its digest does not match. Fetch the family again.")
        members = manifest["members"]
        if any(set(one) != {"epsilon", "name", "release", "weight"} for one in members):
            raise ReleaseError(f"{where}: a member has a name, a weight, a release and an epsilon, and nothing else.")
        check_members(manifest["kind"], [(one["name"], one["weight"], one["release"]) for one in members])
        if not all(type(one["epsilon"]) is float for one in members):
            raise ReleaseError(f"{where}: the epsilon of a member is a number.")
        if manifest["kind"] == CHOSEN:
            for one in members:
                check_choice(one["name"], one["epsilon"])
    except ReleaseError:
        raise
    except BROKEN as error:
        raise ReleaseError(f"{where}: {FAMILY} describes no family: {error}") from error
    return dict(manifest)


def read_family(files: Files, verify_key: bytes | None = None, *, where: object = "the family") -> DeviceFamily:
    """The members in the files of a family, after all checks: "family.json", "NAME/client/manifest.json" and so on.

    Args:
        files: names and bytes; `family_files` reads them from a folder.
        verify_key: PEM or 32 raw bytes, Ed25519; with it, `family.json` must carry that key's signature.
        where: what errors call the family.
    """
    manifest = read_manifest(files.get(FAMILY), files.get(FAMILY_SIGNATURE), verify_key, where=where)
    members = []
    for one in manifest["members"]:
        name = one["name"]
        device, own = read_device(member_files(files, name), where=f"{where}/{name}")
        if own["digest"] != one["release"]:
            raise ReleaseError(f"{where}: {name} is another release than {FAMILY} names. Fetch the family again.")
        if device.mechanism.epsilon != one["epsilon"]:
            raise ReleaseError(f"{where}: {FAMILY} states a wrong epsilon for {name}. Fetch the family again.")
        members.append(Member(name=name, weight=one["weight"], device=device, release=bytes.fromhex(own["digest"])))
    try:
        release = bytes.fromhex(manifest["digest"])
        return DeviceFamily(release=release, kind=manifest["kind"], members=tuple(members))
    except DataError as error:
        raise ReleaseError(f"{where}: {error}") from error


def member_files(files: Files, name: str) -> dict[str, bytes]:
    """The files of one member of a family, named as in its release."""
    start = f"{name}/"
    return {path.removeprefix(start): content for path, content in files.items() if path.startswith(start)}


def family_files(folder: Path) -> dict[str, bytes]:
    """The files of the family in a folder that devices read. Names are checked before any of them becomes a path.

    All members together may have as many bytes of weights as one release.
    """
    files, left = manifest_files(folder), MOST_WEIGHTS
    for one in read_manifest(files[FAMILY], where=folder)["members"]:
        found = client_files(folder / one["name"], most=left)
        left -= sum(map(len, found.values()))
        if left < 0:
            raise ReleaseError(f"{folder}: the members are too large together: {MOST_WEIGHTS:,} bytes are allowed.")
        files |= {f"{one['name']}/{path}": content for path, content in found.items()}
    return files


def manifest_files(folder: Path) -> dict[str, bytes]:
    """`family.json` of the family in a folder and, if there is one, its signature."""
    files, signature = {FAMILY: read_regular(folder / FAMILY, MOST_MANIFEST)}, folder / FAMILY_SIGNATURE
    if os.path.isfile(signature) and os.path.getsize(signature) == 64:
        files[FAMILY_SIGNATURE] = read_regular(signature, 64)
    return files


def load_family(folder: Path, verify_key: bytes | None, encoder: Function | None) -> DeviceFamily:
    """What the folder of a family or of one release makes, ready to run.

    Args:
        folder: a family's, a release's, or the `client` folder of a release.
        verify_key: PEM or 32 raw bytes, Ed25519; only what that key signed is accepted.
        encoder: the model that a release names and does not contain.
    """
    if not is_family(folder):
        refuse_family(folder)
        device, manifest = read_device(client_files(folder), verify_key, where=folder)
        device = replace(device, encoder=bring(device.encoder, encoder, str(folder)))
        return single(device, bytes.fromhex(manifest["digest"]))
    family = read_family(family_files(folder), verify_key, where=folder)
    named = [isinstance(member.device.encoder, NamedEncoder) for member in family.members]
    members = [
        replace(
            member,
            device=replace(
                member.device,
                encoder=bring(
                    member.device.encoder, encoder if runs or not any(named) else None, f"{folder}/{member.name}"
                ),
            ),
        )
        for member, runs in zip(family.members, named, strict=True)
    ]
    return replace(family, members=tuple(members))


def single(device: Device, release: bytes) -> DeviceFamily:
    """One release as a family: nothing is drawn, and reports are recorded under the release's own id."""
    member = Member(name="release", weight=1, device=device, release=release)
    return DeviceFamily(release=release, kind=DRAWN, members=(member,))


def family_statement(family: DeviceFamily, offered: Sequence[Member]) -> str:
    """The promise in words. Of one release it is the release's own.

    Args:
        family: what the device has.
        offered: the members that it may use.
    """
    mechanisms = [member.device.mechanism for member in offered]
    ways = " ".join(dict.fromkeys(mechanism.enforced_by for mechanism in mechanisms))
    epsilon, delta = max(one.epsilon for one in mechanisms), max(one.delta for one in mechanisms)
    promise = statement(epsilon, delta, ways)
    if len(family.members) == 1:
        return promise
    if family.kind == CHOSEN:
        return (
            f"{promise} You chose this ε. The choice itself is visible with the report, and is not protected: do not "
            "let it depend on your record."
        )
    return (
        f"{promise} In every round the device draws one of {len(family.members)} kinds of report at random, before it "
        "looks at the record. The choice itself is visible with the report, and says nothing about the record."
    )
