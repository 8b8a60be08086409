"""The paper's data again for the designs that code changes touch: our codebooks, beside what docs/results.md says.

    python benchmarks/results_codebooks.py household real-estate breast-cancer --seeds 5
    python benchmarks/results_codebooks.py mnist --seeds 1 --designs codebook
    python benchmarks/results_codebooks.py household --write    # and puts the new rows into the page

The rows of learned Laplace designs, of the paper's own algorithm and of the limits take hours and do not depend on how
codebooks are designed; `make reproduce` measures everything. For every experiment the ratio of new to old losses is
printed: the mean over budgets of each design should stay below 1.01, and no budget's above 1.03.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from taskveil.experiments import breast_cancer, household, mnist, models, real_estate
from taskveil.experiments.report import Row
from taskveil.experiments.summary import _cell, _line

PAGE = Path("docs/results.md")
LEARNED = {"real-estate": real_estate, "breast-cancer": breast_cancer, "mnist": mnist}
METHODS = ("auto", "codebook")


def measured(name: str, designs: list[str], seeds: int) -> list[Row]:
    """The honest rows of these designs on the paper's split."""
    methods = [design for design in designs if design in METHODS]
    if name == "household":
        train, test, task = household.problem()
        return [row for row in household.honest_rows(train, test, task, seeds=seeds) if row.design in methods]
    variants = [design for design in designs if design in models.VARIANTS]
    return models.honest_rows(LEARNED[name].problem(), seeds=seeds, methods=methods, variants=variants)


def section(page: list[str], name: str) -> tuple[int, int]:
    """The lines of the page from the experiment's heading to the next."""
    first = page.index(f"## {name}")
    after = [place for place in range(first + 1, len(page)) if page[place].startswith("## ")]
    return first, after[0] if after else len(page)


def old_losses(page: list[str], name: str, design: str) -> tuple[int, dict[float, float]] | None:
    """The place of a design's row in the first table of the experiment, and its losses by budget."""
    first, last = section(page, name)
    head = next(line for line in page[first:last] if line.startswith("| design"))
    budgets = [float(found) for found in re.findall(r"ε = ([\d.]+)", head)]
    for place in range(first, last):
        cells = [cell.strip() for cell in page[place].strip("|").split("|")]
        if cells[0] == design.replace("_", " ") and len(cells) == len(budgets) + 2:
            numbers = [float(cell.split()[0]) if cell else np.nan for cell in cells[2:]]
            return place, dict(zip(budgets, numbers, strict=True))
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=["household", *LEARNED])
    parser.add_argument("--designs", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    for name in options.experiments:
        rows = measured(name, options.designs, options.seeds)
        page = PAGE.read_text(encoding="utf-8").split("\n")
        for design in dict.fromkeys(row.design for row in rows):
            points = {row.epsilon: row for row in rows if row.design == design}
            found = old_losses(page, name, design)
            if found is None:
                continue
            place, old = found
            ratios = {e: points[e].loss / old[e] for e in points if old.get(e, 0) > 0}
            shown = " ".join(f"{e:g}: {points[e].loss:.4f} ({ratio:.3f})" for e, ratio in ratios.items())
            print(f"{name} {design}: {shown}; mean ratio {np.mean(list(ratios.values())):.4f}", flush=True)
            page[place] = _line(
                design.replace("_", " "), str(options.seeds), *(_cell(points.get(epsilon)) for epsilon in old)
            )
        if options.write:
            first, last = section(page, name)
            at = next(place for place in range(first, last) if page[place].startswith("Measured on"))
            note = f" Codebook rows again on {datetime.now(UTC):%Y-%m-%d}, commit {commit.strip()}."
            page[at] = re.sub(r" Codebook rows again on .*", "", page[at]) + note
            PAGE.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
