from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from typer.testing import CliRunner

import taskveil as tv
from taskveil.cli.app import app
from taskveil.client.reading import SIGNATURE
from taskveil.errors import SignatureError
from taskveil.veil.release import sign


def pem(key: object) -> bytes:
    return key.private_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public(key: object) -> bytes:
    return key.public_key().public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


KEY, OTHER = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()


@pytest.fixture
def folder(veil: tv.Veil, tmp_path: Path) -> Path:
    veil.save(tmp_path / "release")
    return tmp_path / "release"


def test_signed_by_the_command_and_verified_on_load(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(pem(KEY))
    (tmp_path / "public.pem").write_bytes(public(KEY))
    result = CliRunner().invoke(app, ["sign", str(folder), "--key", str(tmp_path / "key.pem")])
    assert result.exit_code == 0, result.output
    tv.Veil.load(folder, verify_key=tmp_path / "public.pem")
    tv.Veil.load(folder, verify_key=KEY.public_key().public_bytes_raw())
    tv.Veil.load(folder)
    with pytest.raises(SignatureError, match="not signed with this key"):
        tv.Veil.load(folder, verify_key=public(OTHER))


def test_any_flipped_bit_of_a_signature_is_refused(folder: Path) -> None:
    sign(folder, pem(KEY))
    for part in ("client", "server"):
        path = folder / part / SIGNATURE
        good = path.read_bytes()
        for place in range(0, len(good) * 8, 7):
            bad = bytearray(good)
            bad[place // 8] ^= 1 << (place % 8)
            path.write_bytes(bytes(bad))
            with pytest.raises(SignatureError):
                tv.Veil.load(folder, verify_key=public(KEY))
        path.write_bytes(good[:-1])
        with pytest.raises(SignatureError):
            tv.Veil.load(folder, verify_key=public(KEY))
        path.write_bytes(good)


def test_a_forger_who_repairs_digests_is_still_refused(folder: Path, volunteers, task) -> None:
    """Another release in the same folder is consistent in itself, but the signature is not its own."""
    sign(folder, pem(KEY))
    old = {part: (folder / part / SIGNATURE).read_bytes() for part in ("client", "server")}
    tv.design(volunteers, task, epsilon=50.0, method="task_aware").save(folder, overwrite=True)
    with pytest.raises(SignatureError, match="not signed\\."):
        tv.Veil.load(folder, verify_key=public(KEY))
    for part, signature in old.items():
        (folder / part / SIGNATURE).write_bytes(signature)
    with pytest.raises(SignatureError, match="not signed with this key"):
        tv.Veil.load(folder, verify_key=public(KEY))


@pytest.mark.parametrize(
    "key", [b"", b"nonsense", pem(ec.generate_private_key(ec.SECP256R1()))], ids=["empty", "nonsense", "other curve"]
)
def test_other_keys_cannot_sign(folder: Path, key: bytes) -> None:
    with pytest.raises(SignatureError):
        sign(folder, key)
    assert not (folder / "client" / SIGNATURE).exists()


@pytest.mark.parametrize(
    "key", [b"", b"nonsense", public(ec.generate_private_key(ec.SECP256R1()))], ids=["empty", "nonsense", "other curve"]
)
def test_other_keys_cannot_verify(folder: Path, key: bytes) -> None:
    sign(folder, pem(KEY))
    with pytest.raises(SignatureError):
        tv.Veil.load(folder, verify_key=key)


def test_without_the_package_a_release_that_should_be_checked_is_refused(folder: Path) -> None:
    sign(folder, pem(KEY))
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from taskveil.client import Client; from taskveil.errors import SignatureError\n"
        f"try: Client.load({str(folder)!r}, ledger={str(folder / 'l')!r}, verify_key=bytes(32))\n"
        "except SignatureError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'taskveil[sign]'" in out.stdout
