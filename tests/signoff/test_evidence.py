"""An audit counts for the release that it attacked and for no other; a signature counts if it was checked."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

import families
import taskveil as tv
from dossiers import family, survey
from taskveil.errors import AuditError, DataError, SignatureError
from taskveil.veil.family import sign as sign_family
from taskveil.veil.release import sign
from veil.test_signing import pem, public

KEY, OTHER = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()


@cache
def result() -> Any:
    """The audit of a small release."""
    return tv.audit(families.answers(), trials=2000)


@cache
def result_of_family() -> Any:
    """The audit of a family."""
    return tv.audit(family(), trials=1000, structural=False)


def test_an_audit_says_of_which_release_and_when() -> None:
    found = result().to_dict()
    assert found["release"] == families.answers().release_id
    assert found["date"] == datetime.now(UTC).date().isoformat()
    whole = result_of_family().to_dict()
    assert (whole["release"], whole["date"], whole["trials"]) == (family().release_id, found["date"], 1000)
    assert {one["release"] for one in whole["members"].values()} == {
        veil.release_id for veil in family().members.values()
    }


def test_the_audit_of_this_release_is_shown(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(result().to_dict()))
    for given in (result(), result().to_dict(), tmp_path / "audit.json", str(tmp_path / "audit.json")):
        content = tv.dossier(families.answers(), audit=given).content
        assert content["audit"]["verdict"] == result().verdict
        assert content["audit"]["trials"] == 2000
        assert content["checklist"][5]["holds"] is True
    shown = tv.dossier(families.answers(), audit=result()).html()
    assert f"Passed, <span class=date>{result().date}</span>" in shown
    assert "2,000 reports of each of two inputs" in shown
    assert tv.dossier(family(), audit=result_of_family()).content["audit"]["trials"] == 1000


def test_the_audit_of_another_release_is_refused() -> None:
    with pytest.raises(AuditError, match="this dossier is of"):
        tv.dossier(survey(), audit=result())
    with pytest.raises(AuditError, match="this dossier is of"):  # of a member: says nothing about the draw
        tv.dossier(family(), audit=result())
    with pytest.raises(AuditError, match="this dossier is of"):
        tv.dossier(families.answers(), audit=result_of_family())


def test_the_audit_of_a_function_is_of_no_release() -> None:
    veil = families.answers()
    found = tv.audit(veil.privatize, epsilon=2.0, records=families.people(), trials=1000, structural=False)
    assert found.release is None
    with pytest.raises(AuditError, match="with its id and its date"):
        tv.dossier(veil, audit=found)


@pytest.mark.parametrize(
    "change",
    [
        {"release": None},
        {"date": ""},
        {"date": "yesterday"},
        {"passed": 1},
        {"trials": True},
        {"epsilon_lower": float("nan")},
        {"epsilon_claimed": 1.0},
        {"passed": False},
        {"epsilon_lower": 9.0},
        {"epsilon_lower": -(10**400)},
        {"trials": 0},
        {"date": "9999-12-31"},
        {"verdict": "Approved by the authority."},
        {"verdict": "BROKEN. All is well."},
        {"checks": [{"name": "x"}]},
        {"checks": [{"name": "x", "outcome": "Broken", "detail": "y"}]},
        {"checks": [{"name": "x", "outcome": "broken", "detail": "y"}]},
        {"members": 3},
    ],
)
def test_a_forged_audit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(AuditError):
        tv.dossier(families.answers(), audit={**result().to_dict(), **change})


def test_a_file_that_is_no_audit_is_refused(tmp_path: Path) -> None:
    for content in ("", "[]", "{", "[" * 100_000, '{"passed": true}'):
        (tmp_path / "audit.json").write_text(content)
        with pytest.raises(AuditError, match="audit"):
            tv.dossier(families.answers(), audit=tmp_path / "audit.json")
    with pytest.raises(AuditError, match="No such file"):
        tv.dossier(families.answers(), audit=tmp_path / "nothing.json")


def test_an_audit_that_failed_says_so_first() -> None:
    broken = {"name": "fresh noise", "outcome": "broken", "detail": "Reports repeat."}
    found = {**result().to_dict(), "passed": False, "verdict": "BROKEN. Reports repeat.", "checks": [broken]}
    made = tv.dossier(families.answers(), audit=found)
    assert "Do not release</strong> Failed, " in made.html()
    assert "fresh noise" in made.html()
    assert made.content["checklist"][5]["holds"] is False


def test_an_audit_of_a_family_fails_with_a_member_that_costs_less_than_the_largest() -> None:
    """The member's bound lies above its own ε and below that of the family."""
    found = result_of_family()
    name, member = next(iter(found.members.items()))
    claimed = found.epsilon_claimed / 4
    failed = replace(member, epsilon_claimed=claimed, epsilon_lower=2 * claimed)
    other = replace(found, members={**found.members, name: failed})
    assert other.epsilon_lower < other.epsilon_claimed
    assert tv.dossier(family(), audit=other).content["audit"]["passed"] is False
    lie = {**other.to_dict(), "passed": True, "verdict": result().verdict}
    with pytest.raises(AuditError, match="contradicts itself"):
        tv.dossier(family(), audit=lie)


@pytest.mark.parametrize("kind", ["release", "family"])
def test_a_signature_counts_if_it_was_checked(kind: str, tmp_path: Path) -> None:
    home = tmp_path / kind
    (families.answers() if kind == "release" else family()).save(home)

    def state(**key: Any) -> str:
        content = tv.dossier(home, **key).content
        verified = {one["text"]: one["holds"] for one in content["checklist"]}
        assert verified["The signature was checked with the publisher's key."] is ("verify_key" in key)
        return str(content["release"]["signature"]["state"])

    assert state() == "unsigned"
    with pytest.raises(SignatureError):
        state(verify_key=public(KEY))
    (sign if kind == "release" else sign_family)(home, pem(KEY))
    assert state() == "signed"
    (tmp_path / "public.pem").write_bytes(public(KEY))
    assert state(verify_key=tmp_path / "public.pem") == "verified"
    of_pem, of_raw = (tv.dossier(home, verify_key=key) for key in (public(KEY), KEY.public_key().public_bytes_raw()))
    assert of_pem.content["release"]["signature"]["key"] == of_raw.content["release"]["signature"]["key"]
    with pytest.raises(SignatureError):
        state(verify_key=public(OTHER))
    next(home.rglob("server/manifest.sig")).unlink()
    assert state() == "unsigned"  # half a signature is none
    assert tv.dossier(home).content["stated"]["title"] == kind


def test_an_object_in_memory_has_no_signature() -> None:
    assert tv.dossier(survey()).content["release"]["signature"]["state"] == "unknown"
    with pytest.raises(DataError, match="pass the folder"):
        tv.dossier(survey(), verify_key=public(KEY))
