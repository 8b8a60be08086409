"""Signing releases with Ed25519, so that whoever holds the public key can tell that one is the publisher's own.

Keys are PEM files, as made by `openssl genpkey -algorithm ed25519 -out key.pem` and
`openssl pkey -in key.pem -pubout -out public.pem`. Devices check signatures in `taskveil.client.verifying`.
"""

from __future__ import annotations

from pathlib import Path

from taskveil.client.reading import SIGNATURE, canonical, read_files
from taskveil.client.verifying import CONTEXT, cryptography
from taskveil.errors import SignatureError


def sign_files(folder: Path, key: bytes) -> None:
    """Sign a folder's manifest, and with it the weights, with a PEM private key."""
    manifest, _ = read_files(folder)  # nothing altered or broken gets a signature
    draft = folder / f".{SIGNATURE}"
    draft.write_bytes(sign(canonical(manifest), key))  # the bytes that were checked, whatever the file holds by now
    draft.replace(folder / SIGNATURE)


def sign(message: bytes, key: bytes) -> bytes:
    """64 bytes, made with the PEM private key."""
    serialization, ed25519 = cryptography()
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise SignatureError(f"this is no unencrypted PEM private key: {error}.") from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise SignatureError("the key is not an Ed25519 key. Make one: openssl genpkey -algorithm ed25519.")
    return bytes(private.sign(CONTEXT + message))
