"""An estimate as a picture: means with intervals, the volunteers' beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import needs

MOST_ROWS = 40
"""That a person looks at; of more means, those are drawn that are surest to differ from the volunteers'."""

_NAME = 24  # characters of a name in a line


def draw(path: Path, cells: Sequence[tuple[str, str, str, str]], away: Floats, *, title: str) -> Path:
    """A line for every mean: its name, where it lies with its interval, and what it is in its own unit.

    Wide enough to be read on a phone, as high as there are means.

    Args:
        path: where the PNG goes.
        cells: name, estimate, limits and the volunteers' mean as text, for every mean.
        away: mean, low and high (t, 3), from the volunteers' mean in the volunteers' standard deviations.
        title: said above.
    """
    with needs("a picture"):
        from taskveil.style import figure, save
    known = np.flatnonzero(np.isfinite(away).all(axis=1))
    if len(known) > MOST_ROWS:
        title += f"; {MOST_ROWS} of {len(known)} means, those that differ most surely"
        reach = np.maximum(away[known, 2] - away[known, 1], 1e-300)
        known = np.sort(known[np.argsort(-np.abs(away[known, 0]) / reach, kind="stable")[:MOST_ROWS]])
    shown = [cells[place] for place in known.tolist()]
    names = [_wrapped(row[0]) for row in shown]
    heights = np.array([1.0 + 0.55 * name.count("\n") for name in names])
    places = -(np.cumsum(heights) - heights / 2)
    means, low, high = away[known].T
    reaches = np.maximum([means - low, high - means], 0.0)  # an unbiased share may lie beyond limits cut at 0 and 1
    fig, (ax,) = figure(height=1.3 + 0.27 * float(heights.sum()))
    ax.axvline(0.0, color="#c0392b", linewidth=1.2, label="volunteers")
    ax.errorbar(means, places, xerr=reaches, fmt="o", markersize=4, color="#1f5fbf", label="people, 95%")
    ax.set_yticks(places, names, fontsize=9)
    beside = ax.secondary_yaxis("right")
    beside.set_yticks(places, [f"{row[1]}  ({row[3]})" for row in shown], fontsize=9)
    for side in (ax.yaxis, beside.yaxis):
        side.set_tick_params(length=0)
    beside.spines["right"].set_visible(False)
    ax.set_ylim(-float(heights.sum()) - 0.2, 0.2)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("standard deviations from the volunteers' mean")
    fig.suptitle("\n".join(textwrap.wrap(title, 64)), fontsize=10)
    fig.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    ax.annotate("people (volunteers)", (1, 1), (4, 3), "axes fraction", "offset points", fontsize=9, color="grey")
    return save(fig, path)


def _wrapped(name: str) -> str:
    """A name on two lines at most, its middle left out where it is longer: long names differ at their ends."""
    lines = textwrap.wrap(name, _NAME) or [""]
    return "\n".join(lines if len(lines) <= 2 else [f"{name[: _NAME - 1].strip()}…", name[-_NAME:].strip()])
