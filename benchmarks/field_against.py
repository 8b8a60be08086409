"""Two versions of docs/results/field.md, beside each other: by how much our designs became better or worse.

    python benchmarks/field_against.py OLD.md NEW.md
    git show HEAD~5:docs/results/field.md > old.md && python benchmarks/field_against.py old.md docs/results/field.md

For every pair of a table and a model, the new loss of `auto` and of `auto shared` as a multiple of the old one, at
every budget. A loss that equals the constant's is marked with *: nothing was sent there, or nothing that the digits
show. Bars: 1.01 for the mean over all points, 1.03 for the mean over the budgets of one pair. Pages show four digits,
so ratios are good to about .001.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

DESIGNS = ("auto", "auto shared")
MEAN, PAIR = 1.01, 1.03

Losses = dict[str, dict[float, float]]
"""By method and budget."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """The losses of one design at one budget of one pair, before and after."""

    pair: str
    design: str
    epsilon: float
    old: float
    new: float
    old_sent: bool
    new_sent: bool

    @property
    def ratio(self) -> float:
        """Above 1: worse than before."""
        return self.new / self.old


def read(path: Path) -> dict[str, Losses]:
    """The losses of every pair on a page; methods without a loss, such as those designed for accuracy, are left out."""
    pairs: dict[str, Losses] = {}
    pair, epsilons = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("#"):
            pair, epsilons = line.lstrip("# ") if line.startswith("### ") else "", []
        elif pair and line.startswith("|") and cells[1].startswith("ε = "):
            epsilons = [float(cell.removeprefix("ε = ")) for cell in cells[1:]]
        elif pair and epsilons and line.startswith("|"):
            numbers = [re.match(r"\d[-+.\de]*", cell) for cell in cells[1:]]
            found = {e: float(number[0]) for e, number in zip(epsilons, numbers, strict=True) if number}
            if found:
                pairs.setdefault(pair, {})[cells[0]] = found
    return pairs


def points_of(old: dict[str, Losses], new: dict[str, Losses]) -> list[Point]:
    """Every design and budget that is on both pages."""
    return [
        Point(
            pair=pair,
            design=design,
            epsilon=epsilon,
            old=before,
            new=new[pair][design][epsilon],
            old_sent=before != old[pair]["constant"][epsilon],
            new_sent=new[pair][design][epsilon] != new[pair]["constant"][epsilon],
        )
        for pair in old
        if pair in new
        for design in DESIGNS
        for epsilon, before in old[pair].get(design, {}).items()
        if epsilon in new[pair].get(design, {})
    ]


def mean(points: list[Point]) -> float:
    """The mean ratio."""
    return sum(point.ratio for point in points) / len(points)


def verdict(value: float, bar: float) -> str:
    return "ok" if value <= bar else "MISSED"


def print_design(points: list[Point]) -> None:
    """All pairs of one design, then the mean, the worst pair and the worst point."""
    by_pair: dict[str, list[Point]] = {}
    for point in points:
        by_pair.setdefault(point.pair, []).append(point)
    epsilons = sorted({point.epsilon for point in points})
    heads = "".join(f"{f'ε = {epsilon:g}':>9s}" for epsilon in epsilons)
    print(f"{points[0].design}: new loss / old loss\n{'':28s}{heads}{'mean':>9s}")
    for pair, mine in by_pair.items():
        ratios = {point.epsilon: f"{point.ratio:.3f}{' ' if point.new_sent else '*'}" for point in mine}
        shown = "".join(f"{ratios.get(epsilon, ''):>9s}" for epsilon in epsilons)
        missed = "" if mean(mine) <= PAIR else f"  MISSED: > {PAIR}"
        print(f"{pair:28s}{shown}{mean(mine):9.3f}{missed}")
    worst_pair = max(by_pair.values(), key=mean)
    worst = max(points, key=lambda point: point.ratio)
    print(f"\nmean over {len(points)} points: {mean(points):.4f} (bar {MEAN}: {verdict(mean(points), MEAN)})")
    value = mean(worst_pair)
    print(f"worst pair: {worst_pair[0].pair}, {value:.4f} (bar {PAIR}: {verdict(value, PAIR)})")
    print(f"worst point: {worst.pair} at ε = {worst.epsilon:g}, {worst.ratio:.4f} ({worst.old:g} → {worst.new:g})")
    silent = [point for point in points if not point.new_sent]
    print(f"nothing sent (the loss is the constant's): {len(silent)} points, "
          f"{sum(not point.old_sent for point in points)} before")  # fmt: skip
    for point in silent:
        before = "" if not point.old_sent else f", before {point.old:g}"
        print(f"  {point.pair} at ε = {point.epsilon:g}: {point.new:g}{before}")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    old, new = read(options.old), read(options.new)
    points = points_of(old, new)
    if not points:
        raise SystemExit("the two pages have no pair in common.")
    for design in DESIGNS:
        mine = [point for point in points if point.design == design]
        if mine:
            print_design(mine)
    for words, only in (("only before", old.keys() - new.keys()), ("only after", new.keys() - old.keys())):
        if only:
            print(f"{words}: {'; '.join(sorted(only))}")


if __name__ == "__main__":
    main()
