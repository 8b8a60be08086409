"""One row per measured point, the same for every experiment: as a table, as curves, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from rich.table import Table

from taskveil import style
from taskveil.client.latent_encoders import Encoder, HiddenEncoder, MeanEncoder, NamedEncoder, TabledEncoder
from taskveil.client.networks import LayeredEncoder
from taskveil.peers.limits import captured
from taskveil.veil.losses import Loss

NOT_DESIGNED = ("limit", "limit_any_data", "constant")
"""Rows to compare with: what no report can beat, were the data Gaussian; the same for any data; no report at all."""

SHARES = "Gain as a share of what no report can beat, were the data Gaussian"


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """`as_published`: computed the way the published numbers were, to prove that the implementation matches; otherwise
    the honest figure at the true ε. `low` and `high` bound it with 95% confidence; `seeds`: the designs averaged, 0
    where nothing is designed. `network`: at least one of them has a hidden layer on the device. `losses`: of every test
    record, for a mean with designs of other seeds."""

    experiment: str
    design: str
    as_published: bool
    epsilon: float
    loss: float
    low: float
    high: float
    published: float | None = None
    seeds: int = 1
    network: bool = False
    losses: list[float] = field(default_factory=list, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The fields that programs read; they stay as they are."""
        return {name: value for name, value in asdict(self).items() if name not in ("seeds", "network", "losses")}


def averaged(rows: Iterable[ResultRow], *, block: int = 1) -> list[ResultRow]:
    """One row for every design and budget: the mean over the seeds that have a row of their own.

    Args:
        rows: of one experiment and one split, in any order.
        block: how many neighbouring test records count together in an interval.
    """
    same: dict[tuple[str, str, bool, float], list[ResultRow]] = {}
    for row in rows:
        same.setdefault((row.experiment, row.design, row.as_published, row.epsilon), []).append(row)
    return [found[0] if len(found) == 1 else _mean(found, block) for found in same.values()]


def _mean(rows: list[ResultRow], block: int) -> ResultRow:
    losses = np.mean([row.losses for row in rows], axis=0)
    loss = Loss.of(losses, exact=False, block=block)
    return replace(
        rows[0],
        loss=loss.mean,
        low=loss.low,
        high=loss.high,
        seeds=sum(row.seeds for row in rows),
        network=any(row.network for row in rows),
        losses=losses.tolist(),
    )


@cache
def published(experiment: str) -> dict[str, Any]:
    """The published figure data of one experiment (ICML 2022, read off the paper's sources)."""
    text = (files("taskveil.experiments") / "published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)[experiment]
    return content


def published_points(experiment: str, series: str) -> dict[float, tuple[float, float]]:
    """{ε: (loss, half width of the 95% interval)} of one published curve."""
    return {point["epsilon"]: (point["loss"], point["ci95"]) for point in published(experiment)[series]}


def published_curve(experiment: str, design: str) -> dict[float, tuple[float, float]]:
    """{ε: (loss, half width)} of one of the three designs that the paper compares, in the figure where it does."""
    series = design if design in published(experiment) else f"{design}_Z3"
    return published_points(experiment, series)


def table(title: str, rows: Iterable[ResultRow]) -> Table:
    """Designs down, budgets across; the published value under ours where there is one."""
    rows = list(rows)
    budgets = sorted({row.epsilon for row in rows})
    view = Table(title=title, title_justify="left", caption_justify="left")
    view.add_column("design")
    several = any(row.seeds > 1 for row in rows)
    if several:
        view.add_column("seeds", justify="right")
    for epsilon in budgets:
        view.add_column(f"ε = {epsilon:g}", justify="right")
    for as_published in (True, False):
        for design in dict.fromkeys(row.design for row in rows if row.as_published == as_published):
            points = {r.epsilon: r for r in rows if r.design == design and r.as_published == as_published}
            name = design.replace("_", " ") + (" (as published)" if as_published else "")
            seeds = max(point.seeds for point in points.values())
            cells = (f"{points[e].loss:.4f}" if e in points else "" for e in budgets)
            view.add_row(name, *([str(seeds or "")] if several else []), *cells)
            if as_published and any(p.published is not None for p in points.values()):
                known = ((points[e].published if e in points else None) for e in budgets)
                shown = ("" if k is None else f"{k:.4f}" for k in known)
                view.add_row("  published", *([""] if several else []), *shown, style="dim")
        view.add_section()
    return view


def published_order(experiment: str, rows: Iterable[ResultRow]) -> tuple[int, int]:
    """(pairs of designs whose published intervals do not overlap, those of them that our rows as published order the
    same way)."""
    key = experiment.replace("-", "_")
    ours = {(row.design, row.epsilon): row.loss for row in rows if row.as_published}
    theirs: dict[tuple[str, float], tuple[float, float]] = {}
    for design in ("task_aware", "task_agnostic", "privacy_agnostic"):
        theirs |= {(design, epsilon): point for epsilon, point in published_curve(key, design).items()}
    pairs = [
        (one, other)
        for one, other in combinations(theirs, 2)
        if one[1] == other[1] and one in ours and other in ours
        and abs(theirs[one][0] - theirs[other][0]) > theirs[one][1] + theirs[other][1]
    ]  # fmt: skip
    kept = sum((theirs[a][0] < theirs[b][0]) == (ours[a] < ours[b]) for a, b in pairs)
    return len(pairs), kept


def captured_shares(rows: Iterable[ResultRow]) -> dict[str, dict[float, float]]:
    """{design: {ε: its gain over a constant guess as a share of the limit's}}, where there are a limit and a guess."""
    honest = [row for row in rows if not row.as_published]
    loss = {(row.design, row.epsilon): row.loss for row in honest}
    shares: dict[str, dict[float, float]] = {}
    for row in honest:
        limit, constant = loss.get(("limit", row.epsilon)), loss.get(("constant", row.epsilon))
        if limit is not None and constant is not None and row.design not in NOT_DESIGNED:
            shares.setdefault(row.design, {})[row.epsilon] = captured(constant, row.loss, limit)
    return shares


def shares_table(rows: Iterable[ResultRow]) -> Table | None:
    """(constant − loss)/(constant − limit) of every design, or None where there is no limit to compare with."""
    shares = captured_shares(rows)
    if not shares:
        return None
    budgets = sorted({epsilon for points in shares.values() for epsilon in points})
    view = Table(title=f"{SHARES}\n(constant − loss)/(constant − limit)", title_justify="left")
    view.add_column("design")
    for epsilon in budgets:
        view.add_column(f"ε = {epsilon:g}", justify="right")
    for design, points in shares.items():
        view.add_row(design.replace("_", " "), *(_percent(points.get(epsilon)) for epsilon in budgets))
    return view


def _percent(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.0%}" if share > -1 else "below −100%"


def write_json(path: Path, rows: Iterable[ResultRow]) -> None:
    """All rows, for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n", encoding="utf-8")


def curve(
    ax: Axes,
    rows: Iterable[ResultRow],
    design: str,
    *,
    as_published: bool,
    inverse: bool = False,
    band: bool = False,
    color: str | None = None,
    label: str | None = None,
) -> None:
    """Loss against ε (or 1/ε) of one design; dashed when computed as published; `band` shades the honest interval."""
    points = sorted((r for r in rows if r.design == design and r.as_published == as_published), key=lambda r: r.epsilon)
    if not points:
        return
    x = [1 / r.epsilon if inverse else r.epsilon for r in points]
    color = color or style.COLORS.get(design)
    (line,) = ax.plot(
        x,
        [r.loss for r in points],
        color=color,
        marker=None if as_published else style.MARKERS.get(design, "d"),
        # auto usually lies on the curve of what it chose: dots on top keep both visible.
        linestyle="--" if as_published else ":" if design == "auto" else "-",
        zorder=3 if design == "auto" else 2,
        label=label or (as_published_label(design) if as_published else style.LABELS.get(design, design)),
    )
    if band and not as_published:
        ax.fill_between(
            x, [r.low for r in points], [r.high for r in points], color=line.get_color(), alpha=0.12, linewidth=0
        )


def as_published_label(design: str) -> str:
    """The name of a design computed the paper's way, which is not ours to claim."""
    return style.LABELS.get(design, design).removesuffix(" (ours)") + ", as published"


def has_hidden_layer(encoder: Encoder) -> bool:
    """Whether devices run a network: linear maps and trees are none, and a model that a release only names counts as
    one."""
    match encoder:
        case MeanEncoder():
            return any(map(has_hidden_layer, encoder.encoders))
        case TabledEncoder():
            return has_hidden_layer(encoder.encoder)
        case LayeredEncoder():
            return len(encoder.layers) > 1
        case HiddenEncoder():
            # Linear classifiers take this form for its softmax, with a unit that adds nothing.
            return bool((encoder.hidden_weights.any(axis=1) & encoder.weights.any(axis=0)).any())
        case _:
            return isinstance(encoder, NamedEncoder)
