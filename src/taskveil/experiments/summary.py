"""docs/results/results.md: every measured point in one page, with machine and date, written by the command alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from taskveil.experiments.headlines import headline_lines
from taskveil.experiments.parts import measured_at
from taskveil.experiments.report import SHARES, ResultRow, captured_shares, published_order
from taskveil.experiments.runs import Run
from taskveil.experiments.splits import OverSplits

INTRODUCTION = """# Results

Written by `taskveil reproduce {names} --seeds {seeds}{splits}`; do not edit.

The tables show losses on records that no design has seen. Lower is better. Each value is a mean over the seeds named.

- *As published* rows use the published noise scale and measure the sensitivity on the evaluated records. They show that
  this implementation matches the paper. They promise nothing ([corrections.md](../theory/corrections.md)).
- All other rows hold at the true ε for every input.
- Brackets of all other rows: a 95% interval for other records like these.
- Brackets of *as published* rows for learned tasks: the range of 95% of single draws of the noise. The published points
  are single draws.
- †: devices run a network with a hidden layer, for at least one of the averaged seeds or splits. Without the mark they
  run linear maps or trees.

The paper's splits are easy ones. Where an experiment has a second table, it shows the rows at the true ε on random
splits.

A codebook can lie *below* `no privacy`. The predictor on the device is an ensemble, trained on the volunteers' labels
for the loss that is measured. The frozen model is a single network and is often overconfident. So a report of the
predictor can give a better answer than the model gives from the record itself.

Codebooks answer directly. `codebook record` feeds the estimated record into the model, as in the paper.
`codebook small` may run the model's architecture on the device, but has 200 KB for everything; the others have 512 KB.
With small samples it then learns fewer times.
"""

NOTES = {
    "theory": "As published: the closed forms. The others: the mean over reports with real noise.",
    "household": "`limit`: if the days were Gaussian, no report could have a lower loss. This bound has a proof "
    "(`peers/limits/`). Nobody knows whether it can be reached, so a share below 100% is partly due to the bound. "
    "`limit any data`: the same bound without the assumption of Gaussian data, for the test days as they are; it is "
    "loose. In one Gaussian direction linear programming finds the optimum within 1%. There the codebook reaches at "
    "least 99.8% of the program's gain, from ε = 0.5 to 10 (`benchmarks/statistics_limits.py`).",
    "real-estate": "As published, task-aware: every seed keeps the best of three starts by its loss on the design "
    "records; `single start` is the plain mean over all starts. The baselines train for 600 epochs.",
    "breast-cancer": "As published: 2,000 epochs, 500 for the baselines and for Z15 and Z30. The published 0.071 at "
    "ε = 100 is one draw. It is so close to `no privacy` that it leaves almost nothing for the noise.",
    "mnist": "As published: 8 epochs and η = 0.2 (the paper names neither for the digits). The published task-agnostic "
    "losses measure how large the answers of the paper's own network become far outside the pictures. Ours fall with "
    "1/ε in the same way, from a lower level.",
}


NETWORK = "†"

OTHER_SPLITS = (
    """On {count} random splits of all records, {anew}one seed each: mean ± standard deviation over splits."""
)


def write_summary(path: Path, finished: Sequence[Run]) -> None:
    """The paper's percentages; then one table per experiment: designs down, budgets across, the published value under
    ours; then the honest rows on random splits."""
    names, seeds = " ".join(run.name for run in finished), max(run.seeds for run in finished)
    count = max(len(run.splits) for run in finished)
    text = [INTRODUCTION.format(names=names, seeds=seeds, splits=f" --splits {count}" if count else "")]
    text += headline_lines({run.name: run.rows for run in finished})
    for run in finished:
        text += [f"## {run.name}", "", _measured(run), ""]
        text += [NOTES[run.name], ""] if run.name in NOTES else []
        titles = list(dict.fromkeys(row.experiment for row in run.rows))
        for title in titles:
            text += [f"### {title}", ""] if len(titles) > 1 else []
            text += _section([row for row in run.rows if row.experiment == title])
        text += _over_splits(run.splits)
        if any(row.published is not None for row in run.rows):
            clear, kept = published_order(run.name, run.rows)
            text += [
                f"Pairs of designs whose published intervals do not overlap: {clear}; in the same order here: {kept}.",
                "",
            ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def _measured(run: Run) -> str:
    """When, at which commit, how long and where; parts that were kept from earlier runs may differ in all of these."""
    days, machines = sorted({part.date for part in run.parts}), dict.fromkeys(part.machine for part in run.parts)
    at, names = measured_at(part.commit for part in run.parts)
    when = f"Measured on {days[0]}" if len(days) == 1 else f"Measured from {days[0]} to {days[-1]}"
    seconds = f"{sum(part.seconds for part in run.parts):.0f} s of computing on {'; '.join(machines)}"
    differ = " The commits differ: parts were kept from earlier runs." if len({p.commit for p in run.parts}) > 1 else ""
    return f"{when} {at}, {seconds}.{differ}{names}" if at else f"{when}, {seconds}."


def _section(rows: list[ResultRow]) -> list[str]:
    budgets = sorted({row.epsilon for row in rows})
    lines = _head(["design", "seeds"], budgets)
    for as_published in (True, False):
        for design in dict.fromkeys(row.design for row in rows if row.as_published == as_published):
            points = {r.epsilon: r for r in rows if r.design == design and r.as_published == as_published}
            every, marks = _marked(points)
            name = design.replace("_", " ") + (", as published" if as_published else "") + every
            seeds = max(row.seeds for row in points.values())
            cells = (_cell(points[e]) + marks[e] if e in points else "" for e in budgets)
            lines.append(_line(name, str(seeds or ""), *cells))
            known = [points[e].published if e in points else None for e in budgets]
            if as_published and any(k is not None for k in known):
                lines.append(_line("*published*", "", *("" if k is None else f"*{_number(k)}*" for k in known)))
    shares = captured_shares(rows)
    if shares:
        lines += ["", f"{SHARES}, (constant − loss)/(constant − limit):", ""]
        lines += _head(["design"], budgets)
        for design, share in shares.items():
            cells = (f"{share[e]:.0%}" if e in share and share[e] > -1 else "" for e in budgets)
            lines.append(_line(design.replace("_", " "), *cells))
    return [*lines, ""]


def _over_splits(splits: Sequence[Sequence[ResultRow]]) -> list[str]:
    points = {(point.design, point.epsilon): point for point in OverSplits.of(splits)}
    if not points:
        return []
    budgets = sorted({epsilon for _, epsilon in points})
    designs = list(dict.fromkeys(design for design, _ in points))
    anew = "networks trained anew, " if "no_privacy" in designs else ""
    lines = [OTHER_SPLITS.format(count=len(splits), anew=anew), "", *_head(["design"], budgets)]
    for design in designs:
        row = {e: points[design, e] for e in budgets if (design, e) in points}
        every, marks = _marked(row)
        cells = (f"{_number(p.mean)} ± {_number(p.deviation)}{marks[e]}" if (p := row.get(e)) else "" for e in budgets)
        lines.append(_line(design.replace("_", " ") + every, *cells))
    return [*lines, ""]


def _head(names: list[str], budgets: list[float]) -> list[str]:
    return [_line(*names, *(f"ε = {e:g}" for e in budgets)), "|" + " --- |" * (len(names) + len(budgets))]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _marked(points: Mapping[float, ResultRow | OverSplits]) -> tuple[str, dict[float, str]]:
    """The mark of devices that run a network: once, for the design, or for the budgets where they do."""
    if all(point.network for point in points.values()):
        return f" {NETWORK}", dict.fromkeys(points, "")
    return "", {epsilon: f" {NETWORK}" if point.network else "" for epsilon, point in points.items()}


def _cell(row: ResultRow) -> str:
    if row.low == row.high:
        return _number(row.loss)
    return f"{_number(row.loss)} [{_number(row.low)}, {_number(row.high)}]"


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"
