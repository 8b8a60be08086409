"""docs/results.md: every measured point in one page, with the machine and the date, written by the command alone."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from taskveil.experiments.report import Row, captured_shares

INTRODUCTION = """# Results

Written by `{command}` on {date}; do not edit. Machine: {machine}.

Losses on records that no design has seen; lower is better. *As published* rows use the published noise scale and
measure the sensitivity on the evaluated records, to show that the implementation matches; they promise nothing
([corrections.md](corrections.md)). All others hold at the true ε for every input. In brackets: for honest rows a 95%
interval for other records like these; for learned tasks as published the range of 95% of single draws of the noise,
which is what the published points are.
"""

NOTES = {
    "real-estate": "As published, task-aware: every seed keeps the best of three starts by its loss on the design "
    "records; `single start` is the plain mean over all starts. Rows Z1 and Z6 use at most two seeds; the baselines "
    "600 epochs.",
    "breast-cancer": "As published: 500 epochs (the baselines 150), not 2,000: 1,500 changed little. Rows Z15, Z30 use "
    "at most two seeds. Our task network alone, without privacy, costs 0.0700: the published 0.071 at ε = 100, one "
    "draw, would leave next to nothing for the noise.",
    "mnist": "As published, task-agnostic: not reproduced, its losses of 180 to 4,000 depend on where training "
    "stopped. Rows as published are one seed and 8 epochs, the honest baselines one seed; auto is run with CUDA only.",
}


def write_summary(path: Path, rows: Iterable[Row], seconds: dict[str, float], *, seeds: int, device: str) -> None:
    """One table per experiment: designs down, budgets across, the published value under ours."""
    rows = list(rows)
    command = f"taskveil reproduce {' '.join(seconds)} --seeds {seeds}"
    text = [INTRODUCTION.format(command=command, date=f"{datetime.now(UTC):%Y-%m-%d}", machine=_machine(device))]
    for title in dict.fromkeys(row.experiment for row in rows):
        text += _section(title, [row for row in rows if row.experiment == title], seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def _section(title: str, rows: list[Row], seconds: dict[str, float]) -> list[str]:
    budgets = sorted({row.epsilon for row in rows})
    took = f" ({seconds[title]:.0f} s)" if title in seconds else ""
    lines = [f"## {title}{took}", ""]
    if title in NOTES:
        lines += [NOTES[title], ""]
    lines += ["| design | " + " | ".join(f"ε = {e:g}" for e in budgets) + " |", "| --- |" + " --- |" * len(budgets)]
    for as_published in (True, False):
        for design in dict.fromkeys(row.design for row in rows if row.as_published == as_published):
            points = {r.epsilon: r for r in rows if r.design == design and r.as_published == as_published}
            name = design.replace("_", " ") + (", as published" if as_published else "")
            lines.append(_line(name, [_cell(points.get(e)) for e in budgets]))
            known = [points[e].published if e in points else None for e in budgets]
            if as_published and any(k is not None for k in known):
                lines.append(_line("*published*", ["" if k is None else f"*{_number(k)}*" for k in known]))
    shares = captured_shares(rows)
    if shares:
        lines += ["", "Share of the reachable improvement captured, (constant − loss)/(constant − limit):", ""]
        lines += [_line("design", [f"ε = {e:g}" for e in budgets]), "| --- |" + " --- |" * len(budgets)]
        for design, share in shares.items():
            cells = [f"{share[e]:.0%}" if e in share and share[e] > -1 else "" for e in budgets]
            lines.append(_line(design.replace("_", " "), cells))
    return [*lines, ""]


def _line(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{_number(row.loss)} [{_number(row.low)}, {_number(row.high)}]"


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"


def _machine(device: str) -> str:
    parts = [f"{os.cpu_count()} cores ({platform.machine()})", f"Python {platform.python_version()}"]
    if find_spec("torch"):
        import torch

        parts.append(f"torch {torch.__version__}")
        if device.startswith("cuda") and torch.cuda.is_available():
            parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)
