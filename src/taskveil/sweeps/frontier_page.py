"""The frontier to look at: a picture, and a page that opens offline. Both are made from the rows of its table."""

from __future__ import annotations

import base64
import html
import json
import math
import textwrap
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from taskveil.sweeps.budgets import share_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]
"""As `Frontier.rows` gives them."""


def picture(rows: Sequence[Row], *, clear: float, constant: float, narrow: bool = False) -> bytes:
    """A PNG of what `draw` draws, for the page; twice the resolution where it is `narrow`."""
    from taskveil import style

    fig, (ax,) = style.figure()
    fig.set_size_inches(*draw(ax, rows, clear=clear, constant=constant, narrow=narrow))
    buffer = BytesIO()
    style.save_to(fig, buffer, dpi=260 if narrow else 130)
    return buffer.getvalue()


def draw(
    ax: Axes, rows: Sequence[Row], *, clear: float, constant: float, note: str = "", narrow: bool = False
) -> tuple[float, float]:
    """Draw the share kept against ε, with the loss on the other side; the loss alone where shares have no meaning.

    Light bands are 95% intervals for other records, dark ones the range over seeds. Rows that are off the chart have a
    triangle at its edge. Returns width and height in inches of a figure for this picture alone.

    Args:
        ax: where to draw.
        rows: as `Frontier.rows` gives them.
        clear: the loss without privacy, a share of 1.
        constant: the loss of one answer for everybody, a share of 0.
        note: what to say above it, as of `off_chart`.
        narrow: for the width of a phone.
    """
    from matplotlib.patches import Patch

    from taskveil import style

    shares, means = _has_shares(rows), _of_means(clear, constant)
    low, high = _limits(rows, clear=clear, constant=constant)
    columns = 1 if narrow else 3
    entries = len(_methods(rows)) + 4
    for method in _methods(rows):
        found = [row for row in rows if row["method"] == method]
        x = [row["epsilon"] for row in found]
        (line,) = ax.plot(
            x,
            [row["kept" if shares else "loss"] for row in found],
            color=style.COLORS.get(method),
            marker=style.MARKERS.get(method, "d"),
            # auto usually lies on the curve of what it chose: dots on top keep both visible.
            linestyle=":" if method == "auto" else "-",
            zorder=3 if method == "auto" else 2,
            label=textwrap.fill(style.LABELS.get(method, method), 36),
        )
        for ends, depth in zip(_bands(found, clear=clear, constant=constant), (0.12, 0.35), strict=True):
            ax.fill_between(x, *ends, color=line.get_color(), alpha=depth, linewidth=0)
        off = [row["epsilon"] for row in found if _is_off(row, low, high, shares)]
        if off:  # an empty line that is not clipped lies in the corner of the figure, and widens the margins of layouts
            edge, mark = (low, "v") if shares else (high, "^")
            ax.plot(off, [edge] * len(off), mark, color=line.get_color(), clip_on=False)
    if not means:
        ax.axhline(1 if shares else clear, color="grey", linestyle="-.", linewidth=1, label="no privacy")
        ax.axhline(0 if shares else constant, color="grey", linestyle=":", label="one answer for everybody")
    ax.set(xscale="log", yscale="log" if means else "linear", ylim=(low, high))
    ax.set_xlabel("privacy budget ε (smaller is more private)")
    loss = "squared error of the mean × people" if means else "task loss (lower is better)"
    ax.set_ylabel("share of the usable signal kept" if shares else loss)
    if shares:
        beside = ax.twinx()
        beside.set_ylim(*(constant - share * (constant - clear) for share in (low, high)))
        beside.set_ylabel("task loss (lower is better)")
        beside.spines[["top", "right"]].set_visible(False)
    budgets = _epsilons(rows)
    turned = 90 if len(budgets) > (6 if narrow else 12) else 0
    ax.set_xticks(budgets, [f"{e:g}" for e in budgets], rotation=turned)
    ax.minorticks_off()
    shown = ax.get_legend_handles_labels()[0]
    if any(row["kept_low" if shares else "low"] is not None for row in rows):
        shown.append(Patch(color="grey", alpha=0.2, label="light: 95% for other records"))
    if any(row["least"] < row["greatest"] for row in rows):
        shown.append(Patch(color="grey", alpha=0.55, label="dark: range over seeds"))
    style.legend_below(ax, columns=columns, handles=shown)
    ax.set_title("\n".join(textwrap.wrap(note, 48 if narrow else 100)), fontsize=8, loc="left")
    return 3.6 if narrow else 7.0, 3.8 + 0.18 * math.ceil(entries / columns)


def off_chart(rows: Sequence[Row], *, clear: float, constant: float) -> str:
    """What the picture of `rows` cannot show, in a sentence: losses far above `clear` and `constant`; empty if none."""
    limits, shares = _limits(rows, clear=clear, constant=constant), _has_shares(rows)
    found = []
    for method in _methods(rows):
        off = [row for row in rows if row["method"] == method and _is_off(row, *limits, shares)]
        budgets = ", ".join(f"{row['epsilon']:g}" for row in off)
        losses = ", ".join(f"{row['loss']:.3g}" if row["loss"] < 1000 else f"{row['loss']:,.0f}" for row in off)
        found += [f"{method} at ε = {budgets} (loss {losses})"] * bool(off)
    return f"Off the chart, worse than one answer for everybody: {'; '.join(found)}." if found else ""


def _has_shares(rows: Sequence[Row]) -> bool:
    return any(row["kept"] is not None and math.isfinite(row["kept"]) for row in rows)


def _of_means(clear: float, constant: float) -> bool:
    """Whether losses are errors of population means, which nothing bounds from above and no privacy brings to 0."""
    return clear == constant == 0.0


def _limits(rows: Sequence[Row], *, clear: float, constant: float) -> tuple[float, float]:
    """Of the picture's height. What is far worse than one answer for everybody is off it: it would flatten the rest."""
    if _has_shares(rows):
        return -0.1, 1.05 * max(1.0, *(row["kept"] for row in rows if math.isfinite(row["kept"])))
    if _of_means(clear, constant):
        losses = [row["loss"] for row in rows if 0 < row["loss"] < math.inf]
        return 0.7 * min(losses, default=1.0), 1.4 * max(losses, default=1.0)
    lowest = [min(row["loss"] for row in rows if row["method"] == method) for method in _methods(rows)]
    return min(0.0, clear), 1.4 * max(filter(math.isfinite, [constant, *lowest]), default=1.0)


def _is_off(row: Row, low: float, high: float, shares: bool) -> bool:
    return not low <= row["kept" if shares else "loss"] <= high  # NaN is nowhere


def _bands(rows: Sequence[Row], *, clear: float, constant: float) -> list[tuple[list[float], list[float]]]:
    """For other records and over seeds: where the bands of one method begin and end, NaN where that is not known."""

    def known(name: str) -> list[float]:
        return [math.nan if row[name] is None else row[name] for row in rows]

    if not _has_shares(rows):
        return [(known("low"), known("high")), (known("least"), known("greatest"))]
    seeds = ([(constant - loss) / (constant - clear) for loss in known(end)] for end in ("greatest", "least"))
    return [(known("kept_low"), known("kept_high")), (next(seeds), next(seeds))]


def page(
    rows: Sequence[Row], *, clear: float, constant: float, title: str, advice: Sequence[str], data: dict[str, Any]
) -> str:
    """HTML with everything inside: `title`, sentences of `advice`, picture, table and `data` as JSON. The lines are at
    `clear` and `constant`."""
    wide, narrow = (picture(rows, clear=clear, constant=constant, narrow=phone) for phone in (False, True))
    note = off_chart(rows, clear=clear, constant=constant)
    cells = {(row["method"], row["epsilon"]): row for row in rows}
    head = "".join(f"<th>ε = {e:g}</th>" for e in _epsilons(rows))
    body = "".join(
        f"<tr><th>{html.escape(m)}</th>" + "".join(_cell(e, cells.get((m, e))) for e in _epsilons(rows)) + "</tr>"
        for m in _methods(rows)
    )
    return _PAGE.format(
        title=html.escape(title),
        advice="".join(f"<p>{html.escape(sentence)}</p>" for sentence in advice),
        wide=base64.b64encode(wide).decode("ascii"),
        narrow=base64.b64encode(narrow).decode("ascii"),
        note=f"<p>{html.escape(note)}</p>" if note else "",
        head=head,
        body=body,
        above=_ABOVE * any((row["kept"] or 0.0) > 1 for row in rows),
        clear=f"{clear:.4g}",
        constant=f"{constant:.4g}",
        # "<" is written as an escape, so that no text in the data can end the element.
        data=json.dumps(data).replace("<", "\\u003c"),
    )


def _methods(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _epsilons(rows: Sequence[Row]) -> list[float]:
    return sorted({row["epsilon"] for row in rows})


def _cell(epsilon: float, row: Row | None) -> str:
    """Share kept and loss, with the ranges of both over other records; over seeds where there are several."""
    if row is None:
        return "<td></td>"
    loss = f"{row['loss']:.4g}"
    lines = []
    below = (row["kept"] or 0.0) < 0  # how far no longer matters: the loss says it
    if row["kept_low"] is not None and row["kept_high"] is not None and not below:
        lines.append(f"{share_text(row['kept_low'])} to {share_text(row['kept_high'])}")
    if row["kept"] is not None:
        lines.append(f"loss {loss}")
    if row["low"] is not None and row["high"] is not None:
        lines.append(f"records: {row['low']:.3g} to {row['high']:.3g}")
    if row["least"] < row["greatest"]:
        lines.append(f"seeds: {row['least']:.3g} to {row['greatest']:.3g}")
    kept = "nothing kept" if below else f"{share_text(row['kept'])} kept"
    first = f"loss {loss}" if row["kept"] is None else kept
    return f'<td data-budget="ε = {epsilon:g}">{first}<small>{"<br>".join(lines)}</small></td>'


_ABOVE = " More than 100%: the device's predictor learnt from labels, and does better than the model."

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  overflow-wrap: anywhere; }}
img {{ max-width: 100%; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .4rem .45rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap;
  vertical-align: top; }}
th:first-child {{ text-align: left; white-space: normal; min-width: 11rem; }}
small {{ display: block; color: #666; font-size: .75rem; }}
@media (max-width: 40rem) {{
  h1 {{ font-size: 1.5rem; line-height: 1.25; }}
  thead {{ display: none; }}
  tr, tr th {{ display: block; border: 0; padding: .6rem 0 0; }}
  td {{ display: block; padding: .3rem 0; }}
  td:empty {{ display: none; }}
  td::before {{ content: attr(data-budget); float: left; font-weight: 600; }}
  tbody, table {{ display: block; }}
}}
</style></head><body>
<h1>{title}</h1>
{advice}
<picture><source media="(max-width: 40rem)" srcset="data:image/png;base64,{narrow}">
<img alt="Share of the usable signal kept, and task loss, against privacy budget for every method; the table below holds
the numbers" src="data:image/png;base64,{wide}"></picture>
{note}
<table><thead><tr><th>method</th>{head}</tr></thead><tbody>{body}</tbody></table>
<p>Without any privacy the loss is {clear}; one answer for everybody costs {constant}. The share kept says where a
design lies between the two: 1, or 100%, is as good as without privacy, 0 as good as sending nothing.{above} Everything
is measured on records that no design has seen. <em>Records</em>, the light bands: 95% intervals for other records like
these. <em>Seeds</em>, the dark bands: least and greatest loss over seeds.</p>
<script type="application/json" id="data">{data}</script>
</body></html>
"""
