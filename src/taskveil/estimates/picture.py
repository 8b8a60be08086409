"""An estimate as a picture: means with intervals, the volunteers' beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import DataError
from taskveil.estimates.labels import Label
from taskveil.estimates.rows import Interval, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40
"""At most in one picture; of more rows, those are drawn that differ most surely from the volunteers', or the first ones
if the picture has sections."""
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


def draw_sections(
    ax: Axes, sections: Sequence[tuple[str, Sequence[Row]]], *, title: str, held: str
) -> tuple[float, float]:
    """Draw sections of rows one below the other, each in axes of its own inside of `ax`, in its own unit: shares from
    0% on, numbers and dates as they are. Returns the size in inches of a figure for it alone.

    Args:
        ax: where to draw.
        sections: titles, and rows; those of several units become several axes.
        title: of the picture.
        held: what the intervals are.
    """
    from matplotlib.lines import Line2D

    from taskveil.style import legend_below

    panels = [panel for name, rows in sections for panel in _panels(name, rows)]
    count = sum(len(rows) for _, rows in panels)
    if not count:
        raise DataError("there is nothing to draw: no row has an interval. Print the table instead.")
    if count > MOST_ROWS:
        title += f"; the first {MOST_ROWS} of {count} rows"
        ends = np.cumsum([len(rows) for _, rows in panels]).tolist()
        panels = [
            (name, rows[: MOST_ROWS - end + len(rows)])
            for (name, rows), end in zip(panels, ends, strict=True)
            if end - len(rows) < MOST_ROWS
        ]
    named = [[_wrapped(row.cells[0]) for row in rows] for _, rows in panels]
    heights = [[1.0 + 0.55 * name.count("\n") for name in names] for names in named]
    total, top = sum(map(sum, heights)) + 2.4 * len(panels), 0.0
    ax.set_axis_off()
    ax.set_title("\n".join(textwrap.wrap(title, 64)), fontsize=10, pad=8)
    for (name, rows), names, high in zip(panels, named, heights, strict=True):
        part = ax.inset_axes((0.3, 1.0 - (top + 1.2 + sum(high)) / total, 0.52, sum(high) / total))
        top += 2.4 + sum(high)
        _draw_section(part, rows, names, high)
        part.set_title(textwrap.shorten(name, 60, placeholder="…"), fontsize=9, loc="left", pad=3)
    dot = Line2D([], [], color=_MEASURED, marker="o", markersize=4, label=f"people, {held}")
    mark = Line2D([], [], color=_VOLUNTEERS, marker="|", linestyle="", markersize=9, label="volunteers")
    legend_below(ax, columns=2, handles=[dot, mark])
    return 6.0, 0.9 + 0.25 * total


def _panels(title: str, rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The rows that have limits, by what they have in common: the unit, the bounds and, of shares, nothing else."""
    shown = [row for row in rows if row.label.shown and np.isfinite(row.interval[2:4]).all()]
    for _, those in groupby(shown, lambda row: (row.label.kind, row.label.unit, row.label.bounds)):
        yield title, list(those)
        title = ""


def _draw_section(part: Axes, rows: Sequence[Row], names: Sequence[str], heights: Sequence[float]) -> None:
    """Rows of one unit, from the top: intervals, a dot for the mean, a mark for the volunteers'."""
    label = rows[0].label
    places = -(np.cumsum(heights) - np.array(heights) / 2)
    part.grid(axis="x", alpha=0.25)
    part.spines[["top", "right"]].set_visible(False)
    for row, place in zip(rows, places.tolist(), strict=True):
        _, mean, low, high, _ = row.inside().interval
        unknown = not np.isfinite(mean)
        color = _MEASURED if row.assumes is None else _ASSUMED
        part.plot([low, high], [place, place], color=color, linewidth=1.2, linestyle=":" if unknown else "-")
        part.plot([] if unknown else [mean], [] if unknown else [place], "o", color=color, markersize=4)
        if np.isfinite(row.volunteers):
            part.plot([row.volunteers], [place], "|", color=_VOLUNTEERS, markersize=9)
    part.set_ylim(-sum(heights) - 0.1, 0.1)
    part.set_yticks(places, names, fontsize=9)
    beside = part.secondary_yaxis("right")
    beside.set_yticks(places, [row.cells[1] for row in rows], fontsize=9)
    beside.spines["right"].set_visible(False)
    for side in (part.yaxis, beside.yaxis):
        side.set_tick_params(length=0)
    part.locator_params(axis="x", nbins=3 if label.kind == "date" else 5)
    ticks = [tick for tick in part.get_xticks() if part.get_xlim()[0] <= tick <= part.get_xlim()[1]]
    step = (ticks[1] - ticks[0]) if len(ticks) > 1 else 0.0
    part.set_xticks(ticks, [label.said(tick, step) for tick in ticks], fontsize=8)


def draw_lines(
    ax: Axes,
    places: Mapping[str, int],
    lines: Sequence[tuple[Label, Mapping[str, Row], Mapping[str, Interval]]],
    *,
    held: str,
) -> tuple[float, float]:
    """Draw rows over the rounds, one below the other, each in axes of its own inside of `ax`. Returns the size in
    inches of a figure for it alone.

    Args:
        ax: where to draw.
        places: of the rounds, in order.
        lines: of every row its label, its rows by round, and intervals of its smoothed line.
        held: what the bands are.
    """
    most = 12  # in one picture: a page
    finite = [
        (label, {name: row for name, row in rows.items() if np.isfinite(row.interval[1:4]).all()}, smooth)
        for label, rows, smooth in lines
    ]
    known = [one for one in finite if one[1]]
    if not known:
        raise DataError("there is nothing to draw: no row has an interval. Print the table instead.")
    title = f"{len(places)} round{'s' if len(places) > 1 else ''}, bands: {held}"
    title += "; smoothed lines with intervals, which are assumed, in orange" if any(one[2] for one in known) else ""
    if len(known) > most:
        title += f"; {most} of {len(known)} rows, those that change most surely"
        order = np.argsort([-_changed(rows) for _, rows, _ in known], kind="stable")[:most]
        known = [known[place] for place in sorted(order.tolist())]
    names = list(places)
    ticks = names[:: max(1, -(-len(names) // 8))]
    ax.set_axis_off()
    ax.set_title("\n".join(textwrap.wrap(title, 64)), fontsize=10, pad=8)
    for place, (label, rows, smooth) in enumerate(known):
        height = 1.0 / len(known)
        part = ax.inset_axes((0.11, 1.0 - (place + 0.82) * height, 0.87, 0.6 * height))
        part.grid(alpha=0.25)
        part.spines[["top", "right"]].set_visible(False)
        x = [places[name] for name in rows]
        mean, low, high = np.array([row.inside()[1:4] for row in rows.values()]).T
        assumed = any(row.assumes is not None for row in rows.values())
        color = _ASSUMED if assumed else _MEASURED
        part.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, label="band")
        part.plot(x, mean, color=color, marker="o", markersize=2.5, linewidth=1)
        if smooth:
            level, least, largest = np.array([one[1:4] for one in smooth.values()]).T
            at = [places[name] for name in smooth]
            part.plot(at, level, color=_ASSUMED, linewidth=1.4)
            part.plot(at, least, at, largest, color=_ASSUMED, linewidth=0.8, linestyle=":")
        part.set_xlim(min(places.values()) - 0.3, max(places.values()) + 0.3)
        part.set_xticks([places[name] for name in ticks], ticks if place == len(known) - 1 else [])
        part.tick_params(labelsize=8)
        if label.kind != "number":
            said = [label.said(value, (high - low).mean() / 2) for value in part.get_yticks()]
            part.set_yticks(part.get_yticks(), said)
        part.set_ylim(*_span(low, high))
        name = textwrap.shorten(label.title, 60, placeholder="…")
        part.set_title(f"{name} (assumed)" if assumed else name, fontsize=9, loc="left", pad=3)
        for tick in part.get_xticklabels():
            tick.set_rotation(30)
            tick.set_horizontalalignment("right")
    return 6.4, 0.7 + 1.45 * len(known)


def _changed(rows: Mapping[str, Row]) -> float:
    """How far the means of a row are apart, in widths of its intervals."""
    mean, low, high = np.array([row.interval[1:4] for row in rows.values()]).T
    return float(np.ptp(mean) / max((high - low).mean(), 1e-300))


def _span(low: Floats, high: Floats) -> tuple[float, float]:
    """The ends of an axis for these bands, with a margin."""
    least, largest = float(low.min()), float(high.max())
    margin = 0.05 * (largest - least) or 0.5
    return least - margin, largest + margin


def _wrapped(name: str) -> str:
    """A name on two lines at most, its middle left out where it is longer: long names differ at their ends."""
    lines = textwrap.wrap(name, _NAME) or [""]
    return "\n".join(lines if len(lines) <= 2 else [f"{name[: _NAME - 1].strip()}…", name[-_NAME:].strip()])
