"""Signatures are checked with the publisher's public key, in PEM or raw; anything else is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

import releases
from conftest import needs
from taskveil.client import Client
from taskveil.client.signatures import CONTEXT, read_key, verify
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


EIGHTH = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
OPPOSITE = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
SMALL = [bytes(32), b"\1" + bytes(31), bytes.fromhex(EIGHTH), bytes.fromhex(OPPOSITE)]
SMALL += [last + b"\xff" * 30 + b"\x7f" for last in (b"\xec", b"\xed", b"\xee")]  # −1, and 0 and 1 written as p, p + 1


@pytest.mark.parametrize("sign", [0, 128])
@pytest.mark.parametrize("key", SMALL, ids=lambda key: key.hex()[:4])
def test_keys_of_small_order_sign_nothing(key: bytes, sign: int) -> None:
    """With such a key, signatures of any message can be made without a secret: 01 00 … 00 is one for the second."""
    key = key[:31] + bytes([key[31] | sign])
    forged = b"\1" + bytes(63)
    with pytest.raises(SignatureError, match="small order"):
        verify(MESSAGE, forged, key, WHERE)


def test_ordinary_keys_are_not_of_small_order() -> None:
    for _ in range(200):
        key = ed25519.Ed25519PrivateKey.generate()
        verify(MESSAGE, key.sign(CONTEXT + MESSAGE), key.public_key().public_bytes_raw(), WHERE)


def test_keys_come_from_files_or_bytes(tmp_path: Path) -> None:
    (tmp_path / "public.pem").write_bytes(PEM)
    assert read_key(tmp_path / "public.pem") == read_key(str(tmp_path / "public.pem")) == read_key(PEM) == PEM
    assert read_key(None) is None
    with pytest.raises(SignatureError, match="cannot read the key"):
        read_key(tmp_path / "nowhere.pem")


@needs(shutil.which("openssl") is not None, "openssl")
def test_keys_made_as_the_browser_clients_readme_says_sign_and_verify(tmp_path: Path) -> None:
    """Its commands run as they stand; what they make is accepted in every form, and other keys are not."""
    text = (Path(__file__).parents[2] / "js/README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", text.partition("## Keys")[2], flags=re.DOTALL | re.MULTILINE)
    mechanism = releases.Codebook(region=releases.box(3), stages=(releases.stage(16, 4, 2.0),))
    releases.veil(releases.linear(), mechanism).save(tmp_path / "release")
    command = f'{sys.executable} -c "from taskveil.cli import main; main()"'
    script = re.sub(r"^taskveil ", lambda _: f"{command} ", commands, flags=re.MULTILINE)
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    pem, raw = tmp_path / "verify.pem", (tmp_path / "verify.raw").read_bytes()
    for key in (pem, str(pem), pem.read_bytes(), raw):
        Client.load(tmp_path / "release", ledger=tmp_path / "ledger", verify_key=key).close()
    with pytest.raises(SignatureError, match="not signed with this key"):
        Client.load(tmp_path / "release", ledger=tmp_path / "ledger", verify_key=RAW)
    (shown,) = re.findall(r"`(-----BEGIN PUBLIC KEY-----[^`]*)`", text)
    assert isinstance(serialization.load_pem_public_key(shown.encode()), ed25519.Ed25519PublicKey)
