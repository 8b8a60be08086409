"""An estimate as a picture: means with intervals, the volunteers' beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import needs


def draw(path: Path, names: Sequence[str], means: Floats, low: Floats, high: Floats, *, title: str) -> Path:
    """Means with limits (t,), all measured from the volunteers' means in the volunteers' standard deviations."""
    with needs("a picture"):
        from taskveil.style import figure, save
    places = np.arange(len(names))[::-1]
    fig, (ax,) = figure(height=1.2 + 0.3 * len(names))
    ax.axvline(0.0, color="#c0392b", label="volunteers")
    ax.errorbar(means, places, xerr=[means - low, high - means], fmt="o", color="#1f5fbf", label="estimate, 95%")
    ax.set_yticks(places, names)
    ax.set_xlabel("standard deviations from the volunteers' mean")
    ax.set_title(title)
    ax.legend(loc="best", frameon=False)
    return save(fig, path)
