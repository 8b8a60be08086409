"""What a part of a release takes on a device."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def bytes_of(part: Any) -> int:
    """The bytes that the numbers of a part, and of the parts in it, take in a release."""
    if isinstance(part, np.ndarray):
        return int(part.nbytes)
    if isinstance(part, tuple):
        return sum(map(bytes_of, part))
    return sum(bytes_of(getattr(part, field.name)) for field in fields(part)) if is_dataclass(part) else 0
