"""Signatures are checked with the publisher's public key, in PEM or raw; anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from taskveil.client.verifying import CONTEXT, read_key, verify
from taskveil.errors import SignatureError

KEY = ed25519.Ed25519PrivateKey.generate()
RAW = KEY.public_key().public_bytes_raw()
PEM = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
MESSAGE, WHERE = b"a manifest", Path("release")
SIGNATURE = KEY.sign(CONTEXT + MESSAGE)


@pytest.mark.parametrize("key", [RAW, PEM], ids=["raw", "PEM"])
def test_the_keys_own_signature_passes_and_no_other(key: bytes) -> None:
    verify(MESSAGE, SIGNATURE, key, WHERE)
    for message, signature in (
        (MESSAGE + b" ", SIGNATURE),
        (MESSAGE, SIGNATURE[::-1]),
        (MESSAGE, b""),
        (b"", SIGNATURE),
    ):
        with pytest.raises(SignatureError, match="not signed with this key"):
            verify(message, signature, key, WHERE)


def test_a_signature_made_for_another_purpose_means_nothing() -> None:
    with pytest.raises(SignatureError, match="not signed with this key"):
        verify(MESSAGE, KEY.sign(MESSAGE), RAW, WHERE)


def test_what_is_no_ed25519_key_is_refused() -> None:
    elliptic = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = elliptic.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for key, says in ((b"", "no PEM"), (RAW + b"1", "no PEM"), (PEM[:40], "no PEM"), (pem, "not an Ed25519 key")):
        with pytest.raises(SignatureError, match=says):
            verify(MESSAGE, SIGNATURE, key, WHERE)


def test_keys_come_from_files_or_bytes(tmp_path: Path) -> None:
    (tmp_path / "public.pem").write_bytes(PEM)
    assert read_key(tmp_path / "public.pem") == read_key(str(tmp_path / "public.pem")) == read_key(PEM) == PEM
    assert read_key(None) is None
    with pytest.raises(SignatureError, match="cannot read the key"):
        read_key(tmp_path / "nowhere.pem")
