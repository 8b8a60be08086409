"""The only source of randomness in a mechanism: the operating system, asked anew for every report.

Nothing is buffered, so a fork can never replay its parent's noise, and nothing is seeded. Tests reach the bit stream
by replacing `system_bytes` in this module (pytest's monkeypatch); there is no parameter, variable or file that does.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import EntropyError

system_bytes = os.urandom


def random_words(count: int) -> NDArray[np.uint64]:
    """`count` uniform 64-bit words. Raises EntropyError rather than return anything less."""
    try:
        raw = system_bytes(8 * count)
    except OSError as error:
        raise EntropyError(f"the operating system gave no randomness ({error}); no report was made.") from error
    if len(raw) != 8 * count:
        raise EntropyError(f"the operating system gave {len(raw)} of {8 * count} random bytes; no report was made.")
    return np.frombuffer(raw, dtype="<u8")
