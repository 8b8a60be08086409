"""A table of an audit, and a picture of the two output distributions that were separated best."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from taskveil.arrays import Floats
from taskveil.auditing.attack import Audit, Sketch
from taskveil.auditing.families import FamilyAudit

_FIRST, _SECOND = "#2a6f97", "#d1495b"


def audit_table(audit: Audit) -> Table:
    """Pairs with their bounds, then the structural checks."""
    table = Table(title=f"Audit of ε = {audit.epsilon_claimed:.4g}", title_justify="left")
    for heading in ("what was tried", "what was seen", "outcome"):
        table.add_column(heading, overflow="fold")
    for finding in audit.findings:
        seen = f"{finding.first:,} and {finding.second:,} of {finding.reports:,} with {finding.event}"
        held = finding.epsilon_lower <= audit.epsilon_claimed
        table.add_row(finding.pair, seen, f"ε ≥ {finding.epsilon_lower:.4g}" + ("" if held else " [red]broken[/red]"))
    table.add_section()
    for check in audit.checks:
        table.add_row(check.name, check.detail, check.outcome if check.passed else "[red]broken[/red]")
    return table


def family_table(audit: FamilyAudit) -> Table:
    """A line for every member, then the checks of the family."""
    table = Table(title=f"Audit of a family of ε = {audit.epsilon_claimed:.4g}", title_justify="left")
    for heading in ("what was tried", "what was seen", "outcome"):
        table.add_column(heading, overflow="fold")
    for name, one in audit.members.items():
        table.add_row(name, one.verdict, f"ε ≥ {one.epsilon_lower:.4g}" if one.passed else "[red]broken[/red]")
    table.add_section()
    for check in audit.checks:
        table.add_row(check.name, check.detail, check.outcome if check.passed else "[red]broken[/red]")
    return table


def draw(audit: Audit, path: str | Path) -> None:
    """Draw the scores of reports of the two inputs, and the limit of e^ε, to a PNG, PDF or SVG file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sketch = audit.sketch
    edges = _edges(sketch)
    shares = [np.histogram(np.clip(s, edges[0], edges[-1]), edges)[0] / len(s) for s in (sketch.first, sketch.second)]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 7), sharex=True, height_ratios=[2, 1], layout="constrained")
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
    top.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.01), fontsize=9)
    _draw_ratios(bottom, edges, shares, audit)
    word = "holds" if audit.passed else "BROKEN"
    doubt = math.floor(math.log10(max(1 - audit.confidence, 1e-15)) + 0.5)
    figure.suptitle(
        f"claimed ε = {audit.epsilon_claimed:.3g}, shown ε ≥ {audit.epsilon_lower:.3g} "
        f"(confidence 1 − $10^{{{doubt}}}$): {word}"
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    plt.close(figure)


def _draw_ratios(axes: Any, edges: Floats, shares: list[Floats], audit: Audit) -> None:
    """Below: by what factor a report is likelier for one input than for the other, and the factor that ε allows."""
    sketch = audit.sketch
    enough = (shares[0] * len(sketch.first) >= 5) & (shares[1] * len(sketch.second) >= 5)
    ratio = np.log(np.where(enough, shares[0], 1) / np.where(enough, shares[1], 1))
    middles = (edges[:-1] + edges[1:]) / 2
    axes.plot(middles[enough], ratio[enough], ".", color="black", markersize=5)
    axes.axhline(0, color="grey", linewidth=0.6)
    claim = audit.epsilon_claimed
    for sign in (-1, 1):
        axes.axhline(sign * claim, color="black", linestyle="--", linewidth=0.9)
    reach = max(claim, float(np.abs(ratio[enough]).max()) if enough.any() else 0.0)
    axes.set_ylim(-1.25 * reach, 1.25 * reach)
    largest = math.exp(min(claim, 12.0))
    factor = f"$e^{{{claim:.3g}}}$" if claim > 12 else f"{largest:.3g}" if largest < 100 else f"{largest:,.0f}"
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
