"""Writing release files: a canonical JSON manifest and a safetensors file. `taskveil.client.reading` reads them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array
from taskveil.client.reading import MANIFEST, WEIGHTS, canonical, digest, schema_of
from taskveil.errors import needs


def manifest_of(content: dict[str, Any], arrays: dict[str, Array]) -> tuple[dict[str, Any], bytes]:
    """The manifest of some content, with the digest that identifies it, and the bytes of its weights."""
    with needs("writing a release"):
        from safetensors.numpy import save

    weights: bytes = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    body = {**content, "schema": schema_of(content), "weights_sha256": hashlib.sha256(weights).hexdigest()}
    return {**body, "digest": digest(body)}, weights


def write_files(folder: Path, content: dict[str, Any], arrays: dict[str, Array]) -> str:
    """Write manifest and weights into an existing empty folder; returns the digest that identifies the content."""
    manifest, weights = manifest_of(content, arrays)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / MANIFEST).write_bytes(canonical(manifest))
    return str(manifest["digest"])
