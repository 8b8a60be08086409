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
from taskveil.experiments.commit import measured_at
from taskveil.experiments.field import FOR_ACCURACY, OURS, SIMPLE, FieldRow
from taskveil.experiments.field_peers import ON_OURS
from taskveil.experiments.field_shares import HELD_BACK_PAIRS, Point, parted, points_of, shares

WAYS = ("no_privacy", *OURS, *SIMPLE, *ON_OURS, "constant")
ACCURATE = ("no_privacy", *FOR_ACCURACY, *SIMPLE, *ON_OURS, "constant")
COLORS = ("#1f5fbf", "#d35400", "#2e8b57")
"""Of the named, the further and the held-back pairs."""

INTRODUCTION = """# In the field: ours beside what five lines can do

Written by `taskveil reproduce field --held-back --summary docs/field.md`; do not edit.

**What is compared.** Tables that other people collected, models as people make them, and for each the simple methods
that a user could write in five lines of numpy, with the same exact mechanisms as ours:

- `label_response`: k-ary randomised response on the label that the user's own model predicts, answered with
  P[class given report], by Bayes' rule from out-of-fold predictions of the volunteers.
- `binned_response`: k-ary randomised response on the quantile bin of the model's prediction (of two classes, of the
  second's probability), answered with the mean truth given the report; k of least loss for the volunteers.
- `prediction_laplace`: the clipped prediction plus Laplace noise, answered with the best affine function of the report;
  the clip of least loss for the volunteers.
- `attribute_laplace`: every attribute plus Laplace noise at ε/n over its range; the model is asked about what arrived,
  brought back into the range.
- `constant`: nothing is sent, and the answer is a constant prediction.

All but the last two ship the user's model to devices, which gives it away. Ours are `tv.design` with its defaults:
`auto` keeps the model at home, `auto_shared` may ship it (`share_model=True`), `accurate` and `accurate_shared` are the
same for a task with `loss="zero_one"`. The simple methods are methods too: `tv.sweep(..., methods=["auto",
"label_response"])`.

Part of the difference is the predictor, since simple methods use only the user's model. Two further lines show how
large that part is: `label_response_ours` and `binned_response_ours` are the same responses on a predictor of ours, the
one of least out-of-fold loss among those that `auto` may put on a device. Five lines do not give such a predictor, so
they are not counted among the simple methods; shares with them among the simple methods are given separately.

**How.** Of every table, the random splits 0 to {last}. 60% of the records fit the model *and* are the volunteers, with
their real labels; the other 40% judge, with theirs. (An earlier network is fitted to one half of the 60%, and the
other half volunteers: `volunteers_unseen=True`.) No design is chosen on the records that judge it. All methods are
judged on the same records, and losses and accuracies are expectations over the noise: exact for responses and for noise
on predictions, a mean over thousands of reports for noise on attributes. Squared error for values, cross-entropy for
classes.

**Three sets of pairs.** *Named pairs* of a table and a model had goals, and designs were changed after a look at them.
*Further pairs* had no goals, but the rules by which designs choose were settled after a look at earlier versions of
this page, further pairs included. *Held-back pairs* are other targets of tables at hand (two of them the paper's) and
other generators. Before they were measured, only loading them and fitting their models was tried. They are measured
once, after the last change to the designs: their section is the one that no choice could have been fitted to.

**How points are counted.** A point is a table, a model and a budget. `auto` does not ship the model, and often does not
depend on it. Where two models of one table give the same design (`auto` has the same loss at a split to 1e-9), the
table counts once in the shares with the model kept, and it meets what is asked for only if it does beside the simple
methods of every such model. The shares asked for, 90% of single splits and 95% of means over splits, were set before
this version was measured, with earlier versions known.

**How to read it.** A ratio of two losses on the same records has no noise of reports in it, but the records are still
60 to 2,500 people: another split moves it by a few percent where losses are small, which is why points of single splits
are counted beside means over splits. At small budgets most methods cost about as much as the constant, and being within
1% of the best is easy; at large ones what counts is how much of the model's knowledge a report can carry. A loss
*below* `no_privacy` is no mistake: answers are calibrated on the volunteers, and many models are too sure of
themselves. Within 1% counts as equal, one point of accuracy too.
"""


def print_tables(rows: Sequence[FieldRow]) -> list[Table]:
    """One table per pair: methods down, budgets across, means over the splits."""
    return [_table(points) for points in _pairs(rows)]


def share_lines(rows: Sequence[FieldRow]) -> list[str]:
    """The shares of all groups of pairs, on single splits and averaged."""
    lines = []
    for group, mine in parted(rows).items():
        for averaged in (False, True):
            lines += [f"{group}, {'means over splits' if averaged else 'every split by itself'}:", ""]
            found = shares(points_of(mine, averaged=averaged), averaged=averaged)
            lines += [f"- {share}" for share in found if share.points]
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
        text += [f"![Our loss relative to the best simple method]({os.path.relpath(picture, path.parent)})", ""]
    written = f"Written on {datetime.now(UTC):%Y-%m-%d}.{_measured_at(rows)}"
    text += [f"{written} Losses are expectations; the machine does not matter.", ""]
    groups = parted(rows)
    if HELD_BACK_PAIRS not in groups:
        text += ["The held-back pairs are not on this page: they have not been measured yet.", ""]
    for group, mine in groups.items():
        text += [f"## {group}", "", "Means over the splits; in brackets the expected accuracy in percent.", ""]
        for points in _pairs(mine):
            text += [f"### {points[0].data}, {points[0].model}", "", *_markdown(points), ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def _measured_at(rows: Sequence[FieldRow]) -> str:
    at, names = measured_at(row.commit for row in rows)
    return f" Measured {at}.{names}" if at else ""


def plot(rows: Sequence[FieldRow], path: Path) -> Path:
    """The loss of ours as a multiple of the best simple method's against ε, one thin line a pair, the median thick."""
    # One above the other, so that phones show them large enough.
    fig, axes = plt.subplots(len(OURS), 1, figsize=(4.4, 6.4), sharex=True, layout="constrained")
    groups = parted(rows)
    for ax, (design, shared) in zip(axes, OURS.items(), strict=True):
        for (group, mine), color in zip(groups.items(), COLORS, strict=False):
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
            ylabel="our loss / best simple method's\n(below 1: ours is better)",
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
    """A line for every method: its name, then loss and accuracy at every budget."""
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
    view.add_column("method")
    for point in points:
        view.add_column(f"ε = {point.epsilon:g}", justify="right")
    for line in _cells(points):
        view.add_row(*line)
    return view


def _markdown(points: Sequence[Point]) -> list[str]:
    head = ["method", *(f"ε = {point.epsilon:g}" for point in points)]
    lines = [head, ["---", *("---:" for _ in points)], *_cells(points)]
    return [f"| {' | '.join(line)} |" for line in lines]
