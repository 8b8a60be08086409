"""The comparison in the field for people: tables in the terminal, one picture, and docs/field.md."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.table import Table

from taskveil import style
from taskveil.experiments.field import FOR_ACCURACY, OURS, SIMPLE, FieldRow
from taskveil.experiments.field_shares import Point, parted, points_of, shares

WAYS = ("no_privacy", *OURS, *SIMPLE, "constant")
ACCURATE = ("no_privacy", *FOR_ACCURACY, *SIMPLE, "constant")

INTRODUCTION = """# In the field: ours beside what five lines can do

Written by `taskveil reproduce field --summary docs/field.md`; do not edit.

**What is compared.** Tables that other people collected, models as people make them, and for each the ways a user could
write in five lines of numpy, with the same exact mechanisms as ours:

- `label_response`: k-ary randomised response on the label that the user's own model predicts, answered with
  P[class given report], by Bayes' rule from out-of-fold predictions of the volunteers.
- `binned_response`: k-ary randomised response on the quantile bin of the model's prediction (of two classes, of the
  second's probability), answered with the mean truth given the report; k of least loss for the volunteers.
- `prediction_laplace`: the clipped prediction plus Laplace noise, answered with the best affine function of the report;
  the clip of least loss for the volunteers.
- `attribute_laplace`: every attribute plus Laplace noise at ε/n over its range; the model is asked about what arrived,
  brought back into the range.
- `constant`: nothing is sent, and everybody is answered alike.

All but the last two ship the user's model to devices, which gives it away. Ours are `tv.design` with its defaults:
`auto` keeps the model at home, `auto_shared` may ship it (`share_model=True`), `accurate` and `accurate_shared` are the
same for a task with `loss="zero_one"`. The simple ways are methods too: `tv.sweep(..., methods=["auto",
"label_response"])`.

**How.** Of every table, the random splits 0 to {last}. 60% of the records fit the model *and* are the volunteers, with
their real labels; the other 40% judge, with theirs. (An earlier network is fitted to one half of the 60%, and the
other half volunteers: `volunteers_unseen=True`.) Nothing is chosen on the records that judge. All ways are judged on
the same records, and losses and accuracies are expectations over the noise: exact for responses and for noise on
predictions, a mean over thousands of reports for noise on attributes. Squared error for values, cross-entropy for
classes.

**How to read it.** A ratio of two losses on the same records has no noise of reports in it, but the records are still
60 to 2,500 people: another split moves it by a few percent where losses are small, which is why points of single splits
are counted beside means over splits. At small budgets most ways cost about as much as the constant, and being within 1%
of the best is easy; at large ones what counts is how much of the model's knowledge a report can carry. A loss *below*
`no_privacy` is no mistake: answers are calibrated on the volunteers, and many models are too sure of themselves.
Within 1% counts as equal, one point of accuracy too; the shares asked for were set before anything was measured. The
rules by which designs choose were settled after a look at an earlier version of this page, further pairs included.
"""


def print_tables(rows: Sequence[FieldRow]) -> list[Table]:
    """One table per pair: ways down, budgets across, means over the splits."""
    return [_table(points) for points in _pairs(rows)]


def share_lines(rows: Sequence[FieldRow]) -> list[str]:
    """The shares of both groups of pairs, on single splits and averaged."""
    lines = []
    for group, mine in parted(rows).items():
        for averaged in (False, True):
            lines += [f"{group}, {'means over splits' if averaged else 'every split by itself'}:", ""]
            lines += [f"- {share}" for share in shares(points_of(mine, averaged=averaged)) if share.points]
            lines.append("")
    return lines


def write_page(path: Path, rows: Sequence[FieldRow], *, picture: Path | None = None) -> None:
    """docs/field.md.

    Args:
        path: where it goes.
        rows: what was measured.
        picture: where the picture lies, if there is one.
    """
    text = [INTRODUCTION.format(last=max(row.split for row in rows)), "## Shares of points", "", *share_lines(rows)]
    if picture is not None:
        text += [f"![Our loss relative to the best simple way]({os.path.relpath(picture, path.parent)})", ""]
    text += [f"Written on {datetime.now(UTC):%Y-%m-%d}. Losses are expectations; the machine does not matter.", ""]
    for group, mine in parted(rows).items():
        text += [f"## {group}", "", "Means over the splits; in brackets the expected accuracy in percent.", ""]
        for points in _pairs(mine):
            text += [f"### {points[0].data}, {points[0].model}", "", *_markdown(points), ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def plot(rows: Sequence[FieldRow], path: Path) -> Path:
    """The loss of ours as a multiple of the best simple way's against ε, one thin line a pair, the median thick."""
    # One above the other, so that phones show them large enough.
    fig, axes = plt.subplots(len(OURS), 1, figsize=(4.4, 6.4), sharex=True, layout="constrained")
    groups = parted(rows)
    for ax, (design, shared) in zip(axes, OURS.items(), strict=True):
        for (group, mine), color in zip(groups.items(), ("#1f5fbf", "#d35400"), strict=False):
            curves = [{p.epsilon: p.relative(design) for p in points if design in p.losses} for points in _pairs(mine)]
            for curve in curves:
                ax.plot(list(curve), list(curve.values()), color=color, alpha=0.3, linewidth=0.9)
            budgets = sorted({epsilon for curve in curves for epsilon in curve})
            middle = [float(np.median([c[e] for c in curves if e in c])) for e in budgets]
            ax.plot(budgets, middle, color=color, linewidth=2.5, label=group)
        ax.axhline(1.0, color="grey", linewidth=1)
        budgets = sorted({row.epsilon for row in rows})
        ax.set(
            xscale="log",
            ylabel="our loss / best simple way's\n(below 1: ours is better)",
            title=f"model {'shipped' if shared else 'kept'}",
        )
        ax.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
        ax.minorticks_off()
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(fontsize=8, loc="lower left")
    axes[-1].set_xlabel("budget ε")
    return style.save(fig, path)


def _pairs(rows: Iterable[FieldRow]) -> list[list[Point]]:
    """The averaged points of every pair, by budget."""
    found: dict[tuple[str, str], list[Point]] = {}
    for point in points_of(rows, averaged=True):
        found.setdefault((point.data, point.model), []).append(point)
    return [sorted(points, key=lambda point: point.epsilon) for points in found.values()]


def _cells(points: Sequence[Point]) -> list[list[str]]:
    """A line for every way: its name, then loss and accuracy at every budget."""
    lines = []
    for way in dict.fromkeys((*WAYS, *ACCURATE)):
        if any(way in point.losses for point in points):
            lines.append([way.replace("_", " "), *(_cell(point, way) for point in points)])
    return lines


def _cell(point: Point, way: str) -> str:
    loss, accuracy = point.losses.get(way), point.accuracies.get(way)
    if loss is None:
        return ""
    shown = "" if way in FOR_ACCURACY else f"{loss:.4g}"  # their loss is another
    return shown if accuracy is None else f"{shown} ({100 * accuracy:.1f})".strip()


def _table(points: Sequence[Point]) -> Table:
    view = Table(title=f"{points[0].data}, {points[0].model}", title_justify="left")
    view.add_column("way")
    for point in points:
        view.add_column(f"ε = {point.epsilon:g}", justify="right")
    for line in _cells(points):
        view.add_row(*line)
    return view


def _markdown(points: Sequence[Point]) -> list[str]:
    head = ["way", *(f"ε = {point.epsilon:g}" for point in points)]
    lines = [head, ["---", *("---:" for _ in points)], *_cells(points)]
    return [f"| {' | '.join(line)} |" for line in lines]
