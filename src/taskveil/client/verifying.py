"""Whether a release is its publisher's own: Ed25519 signatures, checked with the public key.

A signature covers the manifest's bytes, and those hold the digest of the weights. The arithmetic is the `cryptography`
package's, loaded only when a signature is checked: without it, a device that was told to check refuses the release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskveil.errors import SignatureError

CONTEXT = b"taskveil release signature v1\n"
"""Signed in front of the manifest, so that the signature means nothing in any other place."""


def verify(message: bytes, signature: bytes, key: bytes, where: Path) -> None:
    """Returns if the signature is the key's (PEM or 32 raw bytes), raises SignatureError if not."""
    serialization, ed25519 = cryptography()
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        raw = len(key) == 32
        public = ed25519.Ed25519PublicKey.from_public_bytes(key) if raw else serialization.load_pem_public_key(key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureError(f"the verify key is no PEM public key and not 32 bytes: {error}.") from error
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise SignatureError("the verify key is not an Ed25519 key.")
    try:
        public.verify(signature, CONTEXT + message)
    except InvalidSignature as error:
        raise SignatureError(f"{where} was not signed with this key. Fetch the release from its publisher.") from error


def read_key(key: str | Path | bytes | None) -> bytes | None:
    """The bytes of a key given as bytes or as a file."""
    if key is None or isinstance(key, bytes):
        return key
    try:
        return Path(key).read_bytes()
    except (OSError, ValueError, TypeError) as error:  # no such file, or a path that is none
        reason = getattr(error, "strerror", None) or "this is no path"
        raise SignatureError(f"cannot read the key {key!r}: {reason}.") from error


def cryptography() -> tuple[Any, Any]:
    """The package's modules `serialization` and `ed25519`."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise SignatureError(
            "signatures need the 'cryptography' package: pip install 'taskveil[sign]'. The release was not used."
        ) from error
    return serialization, ed25519
