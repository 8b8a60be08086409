"""A picture of the two output distributions that an audit separated best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taskveil.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIRST, _SECOND = "#2a6f97", "#d1495b"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sketch:
    """Scores of some reports of the pair that was separated best, for the picture; `inputs` and `event` in words."""

    inputs: tuple[str, str]
    event: str
    first: Floats
    second: Floats
    threshold: float
    below: bool


def draw(ax: Axes, sketch: Sketch, *, claimed: float, title: str) -> tuple[float, float]:
    """Draw the scores of reports of the two inputs, and below them the limit of e^claimed. Returns width and height in
    inches of a figure for this picture alone.

    The two parts are axes inside `ax`.
    """
    from taskveil.style import legend_below

    ax.set_axis_off()
    ax.set_title(title, fontsize=11)
    top = ax.inset_axes((0.0, 0.36, 1.0, 0.64))
    bottom = ax.inset_axes((0.0, 0.0, 1.0, 0.3), sharex=top)
    edges = _edges(sketch)
    shares = [np.histogram(np.clip(s, edges[0], edges[-1]), edges)[0] / len(s) for s in (sketch.first, sketch.second)]
    floor = 0.5 / len(sketch.first)
    for heights, colour, letter, name, scores in zip(
        shares, (_FIRST, _SECOND), "AB", sketch.inputs, (sketch.first, sketch.second), strict=True
    ):
        inside = float(np.mean(scores <= sketch.threshold if sketch.below else scores >= sketch.threshold))
        label = f"input {letter}, “{name}”: {_percent(inside)} of its reports are in the event"
        top.stairs(np.maximum(heights, floor), edges, baseline=floor, fill=True, alpha=0.3, color=colour)
        top.stairs(np.maximum(heights, floor), edges, baseline=floor, color=colour, linewidth=1.3, label=label)
    # At least the outermost bar: the event is often just the scores that stand at the edge.
    near, far = (edges[1], edges[0]) if sketch.below else (edges[-2], edges[-1])
    begin = max(near, sketch.threshold) if sketch.below else min(near, sketch.threshold)
    for axes in (top, bottom):
        axes.axvspan(*sorted((float(np.clip(begin, edges[0], edges[-1])), far)), color="grey", alpha=0.2, linewidth=0)
    top.plot([], [], color="grey", alpha=0.4, linewidth=8, label=f"the event: {sketch.event}")
    top.set_yscale("log")
    top.set_ylim(floor, 3)
    top.yaxis.set_major_formatter(lambda share, _: _percent(share))
    top.set_ylabel("share of reports (logarithmic)")
    top.tick_params(labelbottom=False)
    _draw_ratios(bottom, edges, shares, sketch, claimed)
    legend_below(bottom, columns=1, handles=top.get_legend_handles_labels()[0])
    return 8.0, 7.0


def _draw_ratios(axes: Axes, edges: Floats, shares: list[Floats], sketch: Sketch, claim: float) -> None:
    """Below: by what factor a report is likelier for one input than for the other, and the factor that ε allows."""
    enough = (shares[0] * len(sketch.first) >= 5) & (shares[1] * len(sketch.second) >= 5)
    ratio = np.log(np.where(enough, shares[0], 1) / np.where(enough, shares[1], 1))
    middles = (edges[:-1] + edges[1:]) / 2
    axes.plot(middles[enough], ratio[enough], ".", color="black", markersize=5)
    axes.axhline(0, color="grey", linewidth=0.6)
    for sign in (-1, 1):
        axes.axhline(sign * claim, color="black", linestyle="--", linewidth=0.9)
    reach = max(claim, float(np.abs(ratio[enough]).max()) if enough.any() else 0.0)
    axes.set_ylim(-1.25 * reach, 1.25 * reach)
    largest = math.exp(min(claim, 12.0))
    factor = f"e^{claim:.3g}" if claim > 12 else f"{largest:.3g}" if largest < 100 else f"{largest:,.0f}"
    axes.set_yticks([-claim, 0, claim], [f"B, {factor} times", "neither", f"A, {factor} times"])
    axes.set_ylabel("likelier for\n(dashed: the claim's limit)")
    # The score's own units mean nothing to a reader; which way it points does.
    axes.set_xticks([edges[0], edges[-1]], ["← reports that look like B's", "reports that look like A's →"])
    left, right = axes.get_xticklabels()
    left.set_horizontalalignment("left")
    right.set_horizontalalignment("right")


def _edges(sketch: Sketch) -> Floats:
    """Of 61 bars over nearly all scores; bars at either end take what lies beyond."""
    low, high = np.quantile(np.concatenate([sketch.first, sketch.second]), [0.002, 0.998])
    return np.linspace(low, high if high > low else low + 1, 62)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
