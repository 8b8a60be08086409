"""Signatures (Ed25519) of releases and families: whether a device may trust the bytes that it was given.

The `cryptography` package checks them and is loaded only for that. Without the package, a device that has to check a
signature refuses the release. `taskveil.veil.release` signs.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskveil.errors import SignatureError

CONTEXT = b"taskveil release signature v1\n"
"""Signed in front of the manifest, so that nobody can use the signature for anything else."""


def verify(message: bytes, signature: bytes | None, key: bytes, where: object) -> None:
    """Returns if the signature is the key's (PEM or 32 raw bytes), raises SignatureError if not."""
    if not isinstance(signature, bytes):
        raise SignatureError(f"{where} is not signed. Sign it with `taskveil sign`, or fetch a signed release.")
    serialization, ed25519 = cryptography()
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        raw = len(key) == 32
        public = ed25519.Ed25519PublicKey.from_public_bytes(key) if raw else serialization.load_pem_public_key(key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureError(f"the verify key is no PEM public key and not 32 bytes: {error}.") from error
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise SignatureError("the verify key is not an Ed25519 key.")
    if _of_small_order(public.public_bytes_raw()):
        raise SignatureError("the verify key is no publisher's: it is of small order, and anyone can sign for it.")
    try:
        public.verify(signature, CONTEXT + message)
    except InvalidSignature as error:
        raise SignatureError(f"{where} was not signed with this key. Fetch the release from its publisher.") from error


def _of_small_order(key: bytes) -> bool:
    """Whether 8 times the point that a key encodes is the neutral element: then anyone can sign for it.

    On −x² + y² = 1 + d x² y² with d = −121665/121666 these points have y = ±1 (orders 1 and 2), y = 0 (order 4), or
    y² = −x² (order 8, because their double has y = 0), which is d y⁴ + 2 y² − 1 = 0.
    """
    prime = 2**255 - 19
    square = (int.from_bytes(key, "little") % 2**255) ** 2 % prime  # the last bit is the sign of x
    return square * (square - 1) * (121665 * square**2 - 243332 * square + 121666) % prime == 0


def read_key(key: str | Path | bytes | None) -> bytes | None:
    """The bytes of a key given as bytes or as a file."""
    if key is None or isinstance(key, bytes):
        return key
    try:
        return Path(key).read_bytes()
    except (OSError, ValueError, TypeError) as error:  # no such file, or not a path
        reason = getattr(error, "strerror", None) or "this is no path"
        raise SignatureError(f"cannot read the key {key!r}: {reason}.") from error


def cryptography() -> tuple[Any, Any]:
    """The modules `serialization` and `ed25519` of the `cryptography` package."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise SignatureError(
            "signatures need the 'cryptography' package: pip install 'taskveil[sign]'. The release was not used."
        ) from error
    return serialization, ed25519
