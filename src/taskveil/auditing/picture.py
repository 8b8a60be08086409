"""An audit for the eye: a table of what was tried, a picture of the two output distributions told apart best."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from rich.table import Table

from taskveil.auditing.attack import Audit

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


def draw(audit: Audit, path: str | Path) -> None:
    """How reports of the two inputs spread over the attacker's score, and what e^ε allows, as PNG, PDF or SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sketch = audit.sketch
    scores = np.concatenate([sketch.first, sketch.second])
    low, high = np.quantile(scores, [0.002, 0.998])
    edges = np.linspace(low, high if high > low else low + 1, 61)
    middles = (edges[:-1] + edges[1:]) / 2
    first, second = (np.histogram(np.clip(s, low, edges[-1]), edges)[0] / len(s) for s in (sketch.first, sketch.second))
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7.5, 6), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    for heights, colour, name in ((first, _FIRST, "one input"), (second, _SECOND, "the other input")):
        top.stairs(heights, edges, fill=True, alpha=0.35, color=colour, label=name)
        top.stairs(heights, edges, color=colour, linewidth=1.2)
    # At least the outermost bar: the event is often just the scores that stand at the edge.
    near, far = (edges[1], edges[0]) if sketch.below else (edges[-2], edges[-1])
    begin = max(near, sketch.threshold) if sketch.below else min(near, sketch.threshold)
    for axes in (top, bottom):
        axes.axvspan(*sorted((min(max(begin, edges[0]), edges[-1]), far)), color="grey", alpha=0.15, linewidth=0)
    top.plot([], [], color="grey", alpha=0.3, linewidth=8, label="the event that was counted")
    top.set_ylabel("share of reports")
    top.legend(frameon=False)
    enough = (first * len(sketch.first) >= 5) & (second * len(sketch.second) >= 5)
    ratio = np.log(np.where(enough, first, 1) / np.where(enough, second, 1))
    bottom.plot(middles[enough], ratio[enough], ".", color="black", markersize=4)
    for sign in (-1, 1):
        bottom.axhline(sign * audit.epsilon_claimed, color="black", linestyle="--", linewidth=0.8)
    reach = max(audit.epsilon_claimed, float(np.abs(ratio[enough]).max()) if enough.any() else 0.0)
    bottom.set_ylim(-1.2 * reach, 1.2 * reach)
    bottom.set_ylabel("log ratio\n(dashed: claimed ±ε)")
    bottom.set_xlabel("the attacker's score of a report")
    word = "holds" if audit.passed else "BROKEN"
    doubt = math.log10(max(1 - audit.confidence, 1e-15))
    figure.suptitle(
        f"claimed ε = {audit.epsilon_claimed:.3g}, shown ε ≥ {audit.epsilon_lower:.3g} "
        f"(confidence 1 − 10^{doubt:.0f}): {word}"
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    plt.close(figure)
