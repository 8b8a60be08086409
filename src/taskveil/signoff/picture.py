"""A picture of ε as an inline SVG: how sure somebody can become of a fact, after one report and after all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taskveil.signoff.odds import BEFORE, percent


def picture(gains: Sequence[Mapping[str, Any]], rounds: int | None) -> str:
    """The SVG element. Its colours are those of the page, and its words are also in the table beside it.

    Args:
        gains: as `odds.gains` makes them.
        rounds: how many reports are planned.
    """
    several = [row for row in gains if row["after_all"] is not None and row["after_all"] > row["after_one"]]
    later = "after all reports" if rounds is None else f"after {rounds:,} reports"
    bars, top = [], 0
    for row in gains:
        lines = [("before", "before", row["before"]), ("one", "after one report", row["after_one"])]
        lines += [("all", later, row["after_all"])] if several else []
        bars.append(f'<text class="head" x="0" y="{top + 14}">{BEFORE[row["before"]]} sure before a report</text>')
        for place, (kind, label, share) in enumerate(lines):
            y = top + 22 + 20 * place
            bars.append(
                f'<text x="0" y="{y + 12}">{label}</text>'
                f'<rect class="track" x="124" y="{y}" width="140" height="15" rx="2"/>'
                f'<rect class="{kind}" x="124" y="{y}" width="{max(1.0, 140 * share):.1f}" height="15" rx="2"/>'
                f'<text x="270" y="{y + 12}">{_share(kind, row["before"], share)}</text>'
            )
        top += 30 + 20 * len(lines)
    return (
        f'<svg class="odds" viewBox="0 0 350 {top}" role="img" aria-label="How sure somebody can become of a fact '
        f'about a person; the table holds the same numbers">{"".join(bars)}</svg>'
    )


def _share(kind: str, before: float, share: float) -> str:
    """The label of a bar."""
    return BEFORE[before] if kind == "before" else percent(share)
