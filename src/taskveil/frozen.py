"""Parts that cannot change after their checks: a frozen dataclass still shares its arrays with whoever built it.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


def own_arrays(part: Any) -> None:
    """Replace every array of a frozen dataclass by a copy of its own that cannot be written to."""
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray):
            copy = np.array(value)
            copy.setflags(write=False)
            object.__setattr__(part, field.name, copy)
