"""Two versions of docs/results/results.md, beside each other: by how much codebooks became better or worse.

    python benchmarks/results_against.py OLD.md NEW.md
    git show HEAD~5:docs/results/results.md > old.md
    python benchmarks/results_against.py old.md docs/results/results.md
    taskveil reproduce mnist --only mnist-codebook --jobs 2 --summary new.md    # some of the parts alone

For every experiment, the new losses of honest `auto` and codebook rows as multiples of the old ones, on the paper's
split and on random ones. Bars: 1.01 for the mean over all points of an experiment, 1.03 for a single point. Pages show
four digits, so the ratio of losses below 0.01 is good to about 1% only.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from field_against import MEAN, Losses, verdict

POINT = 1.03
DESIGNS = ("auto", "codebook")


@dataclass(frozen=True, kw_only=True)
class Point:
    """The losses of one design at one budget, before and after."""

    design: str
    epsilon: float
    old: float
    new: float

    @property
    def ratio(self) -> float:
        """Above 1: worse than before."""
        return self.new / self.old


def read(path: Path, wanted: tuple[str, ...] = DESIGNS) -> dict[str, Losses]:
    """The losses of designs with these beginnings of their names in every experiment of a page; those on random splits
    are designs of their own."""
    found: dict[str, Losses] = {}
    experiment, epsilons = "", {}
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("## "):
            experiment = line.removeprefix("## ")
        elif line.startswith("| design"):
            epsilons = {
                place: float(cell.removeprefix("ε = ")) for place, cell in enumerate(cells) if cell.startswith("ε = ")
            }
        elif line.startswith("|") and cells[0].startswith(wanted) and "%" not in line:
            name = cells[0].removesuffix("†").strip() + (", random splits" if "±" in line else "")
            numbers = {epsilon: re.match(r"\d[-+.\de]*", cells[place]) for place, epsilon in epsilons.items()}
            losses = {epsilon: float(number[0]) for epsilon, number in numbers.items() if number}
            found.setdefault(experiment, {})[name] = losses
    return found


def points_of(old: Losses, new: Losses) -> list[Point]:
    """Every design and budget that is on both pages."""
    return [
        Point(design=design, epsilon=epsilon, old=before, new=new[design][epsilon])
        for design in old
        if design in new
        for epsilon, before in old[design].items()
        if epsilon in new[design] and before > 0
    ]


def print_experiment(name: str, points: list[Point]) -> bool:
    """All designs of one experiment, then the mean and the worst point; whether both bars are kept."""
    print(f"{name}: new loss / old loss")
    for design in dict.fromkeys(point.design for point in points):
        mine = [point for point in points if point.design == design]
        print(f"  {design}: " + " ".join(f"{p.epsilon:g}: {p.new:g} ({p.ratio:.3f})" for p in mine))
    mean = sum(point.ratio for point in points) / len(points)
    worst = max(points, key=lambda point: point.ratio)
    print(f"  mean over {len(points)} points: {mean:.4f} (bar {MEAN}: {verdict(mean, MEAN)})")
    print(
        f"  worst point: {worst.design} at ε = {worst.epsilon:g}, {worst.ratio:.4f} ({worst.old:g} → {worst.new:g}; "
        f"bar {POINT}: {verdict(worst.ratio, POINT)})\n"
    )
    return mean <= MEAN and worst.ratio <= POINT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    old, new = read(options.old), read(options.new)
    compared = {name: points_of(old[name], new[name]) for name in old if name in new}
    kept = [print_experiment(name, points) for name, points in compared.items() if points]
    if not kept:
        raise SystemExit("the two pages have no codebook row in common.")
    raise SystemExit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
