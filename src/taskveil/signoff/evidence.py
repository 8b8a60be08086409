"""What speaks for a release besides its own files: the signature, and the verdict of an audit of this very release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, get_args

from taskveil.auditing import Audit, FamilyAudit
from taskveil.auditing.target import Outcome
from taskveil.client.families import FAMILY, FAMILY_SIGNATURE, is_family
from taskveil.client.reading import CLIENT, SERVER, SIGNATURE
from taskveil.client.signatures import cryptography, read_key
from taskveil.errors import AuditError, DataError
from taskveil.veil import Family, Veil
from taskveil.veil.family import all_files
from taskveil.veil.release import release_files

_NEEDED: dict[str, type | tuple[type, ...]] = {
    **{"release": str, "date": str, "passed": bool, "verdict": str, "trials": int, "checks": list},
    **dict.fromkeys(("epsilon_lower", "epsilon_claimed", "confidence"), (int, float)),
}


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The state of a release's signature: "verified", "signed", "unsigned" or "unknown", with the SHA-256 of the key
    (its 32 raw bytes) that verified it."""

    state: str
    key: str | None = None

    @property
    def words(self) -> str:
        """The state in a sentence."""
        return {
            "verified": f"The signature was checked with the public key whose SHA-256 is {self.key}.",
            "signed": "The release has a signature, but it was not checked: no public key was given.",
            "unsigned": "The release is not signed. Devices with a public key refuse it.",
            "unknown": "Not known: this dossier was made from an object in memory, not from the files of a release.",
        }[self.state]


def opened(
    release: Veil | Family | str | Path, verify_key: str | Path | bytes | None
) -> tuple[Veil | Family, str, Signature]:
    """The release or family, its name, and the state of its signature.

    Args:
        release: the object, or the folder that it is read from, with all checks.
        verify_key: PEM file or its bytes, or 32 raw bytes; the folder must be signed by this key.
    """
    if isinstance(release, Veil | Family):
        if verify_key is not None:
            raise DataError("a signature is on files: pass the folder of the release with verify_key=.")
        return release, release.method if isinstance(release, Veil) else "family", Signature(state="unknown")
    if not isinstance(release, str | Path):
        raise DataError(f"a dossier is of a Veil, a Family or the folder of one, got a {type(release).__name__}.")
    home, key = Path(release), read_key(verify_key)
    if is_family(home):
        files = all_files(home)
        found: Veil | Family = Family.from_files(files, verify_key=key, where=str(home))
        halves = [path.rpartition("/")[0] for path in files if path != FAMILY and path != FAMILY_SIGNATURE]
        needed = {FAMILY_SIGNATURE, *(f"{half}/{SIGNATURE}" for half in halves)}
    else:
        files = release_files(home)
        found = Veil.from_files(files, verify_key=key, where=str(home))
        needed = {f"{half}/{SIGNATURE}" for half in (CLIENT, SERVER)}
    name = home.resolve().name
    if key is not None:
        return found, name, Signature(state="verified", key=_fingerprint(key))
    return found, name, Signature(state="signed" if needed <= files.keys() else "unsigned")


def _fingerprint(key: bytes) -> str:
    """The SHA-256 of the 32 raw bytes of a public key, which has verified a signature before."""
    raw = key if len(key) == 32 else cryptography()[0].load_pem_public_key(key).public_bytes_raw()
    return hashlib.sha256(raw).hexdigest()


def audited(
    audit: Audit | FamilyAudit | Mapping[str, Any] | str | Path | None, release: Veil | Family
) -> dict[str, Any] | None:
    """The result of an audit, once it is sure that it is of this release; an AuditError otherwise.

    Args:
        audit: the result of `tv.audit`, its `to_dict()`, or the file that `taskveil audit --json` wrote.
        release: what the dossier is about.
    """
    if audit is None:
        return None
    where = "the audit"
    if isinstance(audit, str | Path):
        where = f"the audit {audit}"
        try:
            audit = json.loads(Path(audit).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or "it is no JSON"
            raise AuditError(f"cannot read {where}: {reason}. Write it with taskveil audit --json.") from None
    found = audit.to_dict() if isinstance(audit, Audit | FamilyAudit) else audit
    if not isinstance(found, Mapping) or any(not _is(found.get(name), kind) for name, kind in _NEEDED.items()):
        raise AuditError(
            f"{where} is not the result of an audit of a release, with its id and its date. Audit the release again: "
            "taskveil audit RELEASE --json > audit.json."
        )
    if found["release"] != release.release_id:
        raise AuditError(
            f"{where} is of release {found['release'][:12]}…, and this dossier is of {release.release_id[:12]}…. Audit "
            "this release."
        )
    if found["epsilon_claimed"] != release.guarantee.epsilon:
        raise AuditError(f"{where} tested another ε than this release promises. Audit this release again.")
    try:
        valid = date.fromisoformat(found["date"]) <= datetime.now(UTC).date() and found["trials"] > 0
        checks = [{name: str(one[name]) for name in ("name", "outcome", "detail")} for one in _checks(found)]
        disproved = any(one["epsilon_lower"] > one["epsilon_claimed"] for one in (found, *_members(found).values()))
        valid = valid and {one["outcome"] for one in checks} <= set(get_args(Outcome))
    except (ValueError, KeyError, TypeError, AttributeError):
        valid = False
    if not valid:
        raise AuditError(f"{where} has no valid date, trials or checks. Audit the release again.")
    broken = disproved or any(one["outcome"] == "broken" for one in checks)
    if broken == found["passed"] or not found["verdict"].startswith("BROKEN." if broken else "HOLDS."):
        raise AuditError(f"{where} contradicts itself: its verdict does not follow from its checks. Audit again.")
    return {**{name: found[name] for name in _NEEDED}, "checks": checks}


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Whether a value of JSON is of a kind. True and false are no numbers, and doubles can hold numbers."""
    exact = not isinstance(value, int | float) or abs(value) < 2**53
    return isinstance(value, kind) and exact and (kind is bool or not isinstance(value, bool))


def _checks(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The structural checks of an audit; of a family, those of the family and of every member."""
    members = [
        {**one, "name": f"{name}: {one['name']}"}
        for name, member in _members(found).items()
        for one in member["checks"]
    ]
    return [*found["checks"], *members]


def _members(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The audits of a family's members by name; empty for a release."""
    members: Mapping[str, Any] = found.get("members", {})
    return members
