"""What results show in a notebook: small tables as HTML, and tables of pandas.

Names come from data and from files. They are escaped here, in one place, and control characters are replaced. No colour
is set, so that tables can be read in light and in dark themes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from taskveil.errors import needs, printable

_CELL = 'style="text-align:left;vertical-align:top;padding:2px 12px 2px 0"'


def summary(
    title: str,
    sentences: Iterable[str] = (),
    *,
    head: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
    most: int = 20,
    across: int = 9,
) -> str:
    """HTML with a title, some sentences and a small table.

    Args:
        title: what this is, in a few words.
        sentences: what to know about it, below the title.
        head: the titles of the columns, if there are any.
        rows: texts by column; a row of one text is the title of the rows after it.
        most: the number of rows that are shown; a line says how many more there are.
        across: the number of columns that are shown, likewise.
    """
    width = max((len(row) for row in (head, *rows)), default=0)
    lines = [
        _row(row, "th" if row is head else "td", width, across) for row in ([head] if head else []) + [*rows[:most]]
    ]
    left = [f"… and {len(rows) - most:,} more"] if len(rows) > most else []
    lines += [_row(left, "td", width, across)] if left else []
    table = f'<div style="overflow-x:auto"><table>{"".join(lines)}</table></div>' if lines else ""
    words = "".join(f"<p>{_text(sentence, 600)}</p>" for sentence in sentences if sentence)
    # The classes keep notebooks from reading names with a $ as formulas.
    return f'<div class="tex2jax_ignore mathjax_ignore"><p><strong>{_text(title, 120)}</strong></p>{words}{table}</div>'


def _row(cells: Sequence[str], tag: str, width: int, across: int) -> str:
    if len(cells) == 1 < width:
        return f'<tr><td colspan="{min(width, across + 1)}" {_CELL}><em>{_text(cells[0])}</em></td></tr>'
    shown = [*cells[:across], *([f"… {len(cells) - across:,} more"] if len(cells) > across else [])]
    return "<tr>" + "".join(f"<{tag} {_CELL}>{_text(cell)}</{tag}>" for cell in shown) + "</tr>"


def _text(text: str, most: int = 240) -> str:
    return html.escape(printable(shortened(text, most)))


def shortened(text: str, most: int = 52) -> str:
    """At most so many characters of a text, without its middle where it is longer: long names differ at their ends."""
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


def frame(rows: Sequence[Any], columns: Sequence[str] | None = None) -> Any:
    """A table of pandas with these rows: mappings, or tuples of what `columns` name."""
    with needs("to_pandas"):
        import pandas as pd
    return pd.DataFrame(list(rows), columns=None if columns is None else list(columns))
