"""The paper's percentages at the true ε, from the losses that docs/results/results.md shows.

    python benchmarks/headlines.py docs/results/results.md            # print them
    python benchmarks/headlines.py docs/results/results.md --write    # and put them into the page

`taskveil reproduce … --summary` writes the same section from rows that are not rounded. This is for a page that was
measured before, since it takes hours to measure it again. The section says by how much rounding can change it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from results_against import read
from taskveil.experiments.headlines import TITLE, headline_lines, headlines
from taskveil.experiments.report import ResultRow

DESIGNS = ("task aware", "task agnostic", "privacy agnostic")
PUBLISHED = ", as published"
HALF_A_DIGIT = 0.5e-4
"""Losses below 10 have four decimals."""

SOURCE = """Computed by `benchmarks/headlines.py` from these rows as the tables below show them, with four decimals.
Rounding can change a percentage of the last two columns by at most {points:.1f} points."""


def rows_of(page: Path) -> dict[str, list[ResultRow]]:
    """The rows of the three designs in every experiment of a page, on the paper's split."""
    return {
        experiment: [
            ResultRow(
                experiment=experiment,
                design=name.removesuffix(PUBLISHED).replace(" ", "_"),
                as_published=name.endswith(PUBLISHED),
                epsilon=epsilon,
                loss=loss,
                low=loss,
                high=loss,
            )
            for name, points in losses.items()
            if name.removesuffix(PUBLISHED) in DESIGNS
            for epsilon, loss in points.items()
        ]
        for experiment, losses in read(page, DESIGNS).items()
    }


def rounding(rows: dict[str, list[ResultRow]]) -> float:
    """By how much a shown improvement can differ from that of rows that are not rounded.

    It is largest if the losses of the task-aware design move one way and all others the other way. The largest
    improvement of a figure lies between the largest ones of these two cases.
    """
    most = 0.0
    for name, mine in rows.items():
        for sign in (-1, 1):
            moved = [
                replace(row, loss=row.loss + (sign if row.design == "task_aware" else -sign) * HALF_A_DIGIT)
                for row in mine
            ]
            for shown, other in zip(headlines(name, mine), headlines(name, moved), strict=True):
                at = shown.epsilon
                for before, after in ((shown.as_published, other.as_published), (shown.honest, other.honest)):
                    most = max(most, abs(after[at] - before[at]), abs(max(after.values()) - max(before.values())))
    return most


def section(page: Path) -> list[str]:
    """The lines that belong into the page."""
    rows = rows_of(page)
    return headline_lines(rows, SOURCE.format(points=100 * rounding(rows)))


def written(text: str, lines: list[str]) -> str:
    """The page with the section before its first experiment, in place of the section that it has."""
    start = text.index(TITLE) if TITLE in text else text.index("\n## ") + 1
    end = text.index("\n## ", start + 1) + 1 if TITLE in text else start
    return text[:start] + "\n".join(lines) + "\n" + text[end:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true", help="put the section into the page")
    options = parser.parse_args()
    lines = section(options.page)
    print("\n".join(lines))
    if options.write:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(written(text, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
