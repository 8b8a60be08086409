"""The frontier to look at: a picture, and a page that opens offline. Both are made from the rows of its table."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from taskveil.designs.budgets import share_text

Row = dict[str, Any]
"""As `Frontier.rows` gives them."""


def picture(rows: Sequence[Row], *, clear: float, constant: float) -> bytes:
    """A PNG of mean loss against ε: light bands are 95% intervals for other records, dark ones the range over seeds;
    lines for no privacy (`clear`) and the `constant` answer."""
    from matplotlib.patches import Patch

    from taskveil import style

    fig, (ax,) = style.figure(width=7.0)
    for method in _methods(rows):
        found = [row for row in rows if row["method"] == method]
        x = [row["epsilon"] for row in found]
        (line,) = ax.plot(
            x,
            [row["loss"] for row in found],
            color=style.COLORS.get(method),
            marker=style.MARKERS.get(method, "d"),
            label=style.LABELS.get(method, method),
        )
        for low, high, depth in (("low", "high", 0.12), ("least", "greatest", 0.35)):
            below, above = ([math.nan if row[end] is None else row[end] for row in found] for end in (low, high))
            ax.fill_between(x, below, above, color=line.get_color(), alpha=depth, linewidth=0)
    ax.axhline(clear, color="grey", linestyle="-.", linewidth=1, label="no privacy")
    ax.axhline(constant, color="grey", linestyle=":", label="constant answer")
    # Whatever is worse than the constant at small budgets may leave the picture, but no curve leaves it altogether.
    lowest = [min(row["loss"] for row in rows if row["method"] == method) for method in _methods(rows)]
    top = max(filter(math.isfinite, [constant, *lowest]), default=1.0)
    ax.set(
        xscale="log",
        ylim=(min(0.0, clear), 1.4 * top),
        xlabel="privacy budget ε (smaller is more private)",
        ylabel="task loss (lower is better)",
    )
    ax.set_xticks(_epsilons(rows), [f"{e:g}" for e in _epsilons(rows)])
    ax.minorticks_off()
    shown = ax.get_legend_handles_labels()[0]
    if any(row["low"] is not None for row in rows):
        shown.append(Patch(color="grey", alpha=0.2, label="light: 95% for other records"))
    if any(row["least"] < row["greatest"] for row in rows):
        shown.append(Patch(color="grey", alpha=0.55, label="dark: range over seeds"))
    ax.legend(handles=shown, fontsize=8)
    buffer = BytesIO()
    style.save_to(fig, buffer)
    return buffer.getvalue()


def page(
    rows: Sequence[Row], *, clear: float, constant: float, title: str, advice: Sequence[str], data: dict[str, Any]
) -> str:
    """HTML with everything inside: `title`, sentences of `advice`, picture, table and `data` as JSON. The lines are at
    `clear` and `constant`."""
    cells = {(row["method"], row["epsilon"]): row for row in rows}
    head = "".join(f"<th>ε = {e:g}</th>" for e in _epsilons(rows))
    body = "".join(
        f"<tr><th>{html.escape(m)}</th>" + "".join(_cell(e, cells.get((m, e))) for e in _epsilons(rows)) + "</tr>"
        for m in _methods(rows)
    )
    return _PAGE.format(
        title=html.escape(title),
        advice="".join(f"<p>{html.escape(sentence)}</p>" for sentence in advice),
        picture=base64.b64encode(picture(rows, clear=clear, constant=constant)).decode("ascii"),
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
    """Loss, share kept, and the ranges of both over other records; over seeds where there are several."""
    if row is None:
        return "<td></td>"
    lines = [f"{share_text(row['kept'])} kept"]
    if row["kept_low"] is not None and row["kept_high"] is not None:
        lines[0] += f" ({share_text(row['kept_low'])} to {share_text(row['kept_high'])})"
    if row["low"] is not None and row["high"] is not None:
        lines.append(f"records: {row['low']:.3g} to {row['high']:.3g}")
    if row["least"] < row["greatest"]:
        lines.append(f"seeds: {row['least']:.3g} to {row['greatest']:.3g}")
    return f'<td data-budget="ε = {epsilon:g}">{row["loss"]:.4g}<small>{"<br>".join(lines)}</small></td>'


_ABOVE = " More than 100%: the device's predictor learnt from labels, and does better than the model."

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
img {{ max-width: 100%; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .4rem .45rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap;
  vertical-align: top; }}
th:first-child {{ text-align: left; }}
small {{ display: block; color: #666; font-size: .75rem; }}
@media (max-width: 40rem) {{
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
<img alt="Task loss against privacy budget for every method" src="data:image/png;base64,{picture}">
<table><thead><tr><th>method</th>{head}</tr></thead><tbody>{body}</tbody></table>
<p>Without any privacy the loss is {clear}; one answer for everybody costs {constant}. The share kept says where a
design lies between the two.{above} Everything is measured on records that no design has seen. <em>Records</em>, the
light bands: 95% intervals for other records like these. <em>Seeds</em>, the dark bands: least and greatest loss over
seeds.</p>
<script type="application/json" id="data">{data}</script>
</body></html>
"""
