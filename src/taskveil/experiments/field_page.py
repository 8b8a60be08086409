"""The comparison in the field for people: tables in the terminal, one picture, and docs/results/field.md."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from taskveil import style
from taskveil.experiments.field import FOR_ACCURACY, OURS, SIMPLE, FieldRow
from taskveil.experiments.field_peers import ON_OURS
from taskveil.experiments.field_shares import HELD_BACK_PAIRS, FieldPoint, parted, points_of, shares
from taskveil.experiments.parts import measured_at

WAYS = ("no_privacy", *OURS, *SIMPLE, *ON_OURS, "constant")
ACCURATE = ("no_privacy", *FOR_ACCURACY, *SIMPLE, *ON_OURS, "constant")
COLORS = ("#1f5fbf", "#d35400", "#2e8b57")
"""Of the named, the further and the held-back pairs."""

INTRODUCTION = """# In the field: our designs beside simple methods

Written by `taskveil reproduce field --held-back --summary docs/results/field.md`; do not edit.

## What is compared

The tables were collected by other people. The models are common ones. For each pair of a table and a model there are
simple methods that you could write in five lines of numpy. They use the same exact mechanisms as our designs.

- `label_response`: k-ary randomised response on the label that your own model predicts. The answer is
  P[class given report], by Bayes' rule from out-of-fold predictions for the volunteers.
- `binned_response`: k-ary randomised response on the quantile bin of the model's prediction (for two classes: of the
  second class's probability). The answer is the mean truth given the report. k has the lowest loss for the volunteers.
- `prediction_laplace`: the clipped prediction plus Laplace noise. The answer is the best affine function of the report.
  The clip has the lowest loss for the volunteers.
- `attribute_laplace`: every attribute plus Laplace noise at ε/n over its range. The answer is the model's answer to the
  received record, clipped to the range.
- `constant`: nothing is sent. The answer is a constant prediction.

All but the last two put your model on devices, which gives it away. Our designs are `tv.design` with its defaults:

| design | what it may do |
| --- | --- |
| `auto` | keeps the model on the server |
| `auto_shared` | may put the model on devices (`share_model=True`) |
| `accurate`, `accurate_shared` | the same for a task with `loss="zero_one"` |

You can compare the simple methods yourself: `tv.sweep(..., methods=["auto", "label_response"])`.

Part of the difference is the predictor, because simple methods use only your model. Two further lines show how large
that part is. `label_response_ours` and `binned_response_ours` are the same responses on one of our predictors: the one
with the lowest out-of-fold loss among those that `auto` may put on a device. Five lines of code do not give such a
predictor, so these two do not count as simple methods. Shares that count them as simple methods are given separately.

## How it is measured

- Every table has the random splits 0 to {last}. 60% of the records fit the model *and* are the volunteers, with their
  real labels. The other 40% are the test records, with their real labels.
- A network that was fitted earlier is fitted to one half of the 60%. The other half are the volunteers:
  `volunteers_unseen=True`.
- No design is chosen on its test records. All methods have the same test records.
- Losses and accuracies are expectations over the noise. They are exact for responses and for noise on predictions. For
  noise on attributes they are means over thousands of reports.
- The loss is squared error for values and cross-entropy for classes.

## Three sets of pairs

- *Named pairs* of a table and a model had goals. Designs were changed after we saw their results.
- *Further pairs* had no goals. But we fixed the rules for choosing a design after we saw earlier versions of this page,
  further pairs included.
- *Held-back pairs* are other targets of tables at hand (two of them the paper's) and other generators. Before the
  measurement we only loaded them and fitted their models. They are measured once, after the last change to the designs.
  No choice could have been fitted to them.

## How points are counted

A point is a table, a model and a budget. `auto` does not put the model on devices, and often does not depend on it. If
two models of one table give the same design (`auto` has the same loss on a split to 1e-9), the table counts once in the
shares with the model kept. It counts as a success only if it succeeds against the simple methods of every such model.
The goals, 90% of single splits and 95% of means over splits, were set before this version was measured. Earlier
versions were known at that time.

## How to read it

- A ratio of two losses on the same records contains no noise of reports. But the records are still only 60 to 2,500
  people. Another split changes the ratio by a few percent where losses are small. So single splits are counted beside
  means over splits.
- At small budgets most methods have about the loss of the constant, and it is easy to be within 1% of the best. At
  large budgets the important thing is how much of the model's knowledge a report can carry.
- A loss *below* `no_privacy` is no mistake. Answers are calibrated on the volunteers. Many models are overconfident.
- Losses within 1% count as equal. So do accuracies within one percentage point.
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
    """docs/results/field.md.

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
    fig = Figure(figsize=(4.4, 6.4), layout="constrained")
    axes = fig.subplots(len(OURS), 1, sharex=True)
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


def _pairs(rows: Iterable[FieldRow]) -> list[list[FieldPoint]]:
    """The averaged points of every pair, by budget."""
    found: dict[tuple[str, str], list[FieldPoint]] = {}
    for point in points_of(rows, averaged=True):
        found.setdefault((point.data, point.model), []).append(point)
    return [sorted(points, key=lambda point: point.epsilon) for points in found.values()]


def _cells(points: Sequence[FieldPoint]) -> list[list[str]]:
    """A line for every method: its name, then loss and accuracy at every budget."""
    lines = []
    for way in dict.fromkeys((*WAYS, *ACCURATE)):
        if any(way in point.losses for point in points):
            lines.append([way.replace("_", " "), *(_cell(point, way) for point in points)])
    return lines


def _cell(point: FieldPoint, way: str) -> str:
    loss, accuracy = point.losses.get(way), point.accuracies.get(way)
    if loss is None:
        return ""
    shown = "" if way in FOR_ACCURACY else f"{loss:.4g}"  # their loss is another
    return shown if accuracy is None else f"{shown} ({100 * accuracy:.1f})".strip()


def _table(points: Sequence[FieldPoint]) -> Table:
    view = Table(title=f"{points[0].data}, {points[0].model}", title_justify="left")
    view.add_column("method")
    for point in points:
        view.add_column(f"ε = {point.epsilon:g}", justify="right")
    for line in _cells(points):
        view.add_row(*line)
    return view


def _markdown(points: Sequence[FieldPoint]) -> list[str]:
    head = ["method", *(f"ε = {point.epsilon:g}" for point in points)]
    lines = [head, ["---", *("---:" for _ in points)], *_cells(points)]
    return [f"| {' | '.join(line)} |" for line in lines]
