"""An estimate as a picture: means with intervals, the volunteers' beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from taskveil.errors import DataError
from taskveil.estimates.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40
"""At most in one picture; of more rows, those are drawn that differ most surely from the volunteers'."""
_NAME = 24  # characters of a name in a line
_MEASURED, _ASSUMED, _VOLUNTEERS = "#1f5fbf", "#d35400", "#5d6d7e"


def draw(ax: Axes, rows: Sequence[Row], *, title: str, held: str, note: str | None = None) -> tuple[float, float]:
    """Draw a line for every row: its name, its mean with the interval, and its own unit. Returns width and height in
    inches of a figure for it alone: wide enough to be read on a phone, as high as there are rows.

    Rows that are assumed have another colour. `held` says what the intervals are; the `note` stands below.
    """
    from taskveil.style import legend_below

    limits = np.array([row.interval[1:4] for row in rows]).reshape(-1, 3)
    own, spread = np.array([(row.volunteers, row.spread) for row in rows]).reshape(-1, 2).T
    away = (limits - own[:, None]) / np.where(spread > 0, spread, 1.0)[:, None]
    assumed = np.array([row.assumes is not None for row in rows], dtype=bool)
    known = np.flatnonzero(np.isfinite(away).all(axis=1))
    if not len(known):
        raise DataError(
            "there is nothing to draw: the picture compares rows with the volunteers' means, and no row has one. "
            "Print the table instead."
        )
    if len(known) > MOST_ROWS:
        title += f"; {MOST_ROWS} of {len(known)} rows, those that differ most surely"
        reach = np.maximum(away[known, 2] - away[known, 1], 1e-300)
        known = np.sort(known[np.argsort(-np.abs(away[known, 0]) / reach, kind="stable")[:MOST_ROWS]])
    shown = [rows[place].cells for place in known.tolist()]
    names = [_wrapped(row[0]) for row in shown]
    heights = np.array([1.0 + 0.55 * name.count("\n") for name in names])
    places = -(np.cumsum(heights) - heights / 2)
    means, low, high = away[known].T
    reaches = np.maximum([means - low, high - means], 0.0)  # an unbiased share may lie beyond limits cut at 0 and 1
    ax.axvline(0.0, color=_VOLUNTEERS, linewidth=1.2, label="volunteers")
    second = (_VOLUNTEERS, "assumed, contradicted") if any(row.contradicted for row in rows) else (_ASSUMED, "assumed")
    for color, word, members in ((_MEASURED, "measured", ~assumed[known]), (*second, assumed[known])):
        if members.any():
            ax.errorbar(
                means[members], places[members], xerr=reaches[:, members], fmt="o", markersize=4, color=color,
                label=f"people, {word}, {held}",
            )  # fmt: skip
    ax.set_yticks(places, names, fontsize=9)
    beside = ax.secondary_yaxis("right")
    beside.set_yticks(places, [f"{row[1]}  ({row[3]})" for row in shown], fontsize=9)
    for side in (ax.yaxis, beside.yaxis):
        side.set_tick_params(length=0)
    beside.spines["right"].set_visible(False)
    ax.set_ylim(-float(heights.sum()) - 0.2, 0.2)
    ax.grid(axis="y", visible=False)
    below = "" if note is None else "\n\n" + "\n".join(textwrap.wrap(note, 80))
    ax.set_xlabel(f"standard deviations from the volunteers' mean{below}", fontsize=9 if note else None)
    ax.set_title("\n".join(textwrap.wrap(title, 64)), fontsize=10, pad=18)
    legend_below(ax, columns=3)
    ax.annotate("people (volunteers)", (1, 1), (4, 3), "axes fraction", "offset points", fontsize=9, color="grey")
    return 6.0, 1.3 + 0.27 * float(heights.sum())


def _wrapped(name: str) -> str:
    """A name on two lines at most, its middle left out where it is longer: long names differ at their ends."""
    lines = textwrap.wrap(name, _NAME) or [""]
    return "\n".join(lines if len(lines) <= 2 else [f"{name[: _NAME - 1].strip()}…", name[-_NAME:].strip()])
