"""Estimates of several releases, joined: rows that several of them measure, by how precise each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taskveil.estimates.drift import LEVEL, Drift
from taskveil.estimates.result import Estimate, combined
from taskveil.estimates.rows import Row
from taskveil.labels import Label

POOLED = ("attributes",)
"""Kinds whose rows mean the same in every release: those with the same name, unit and range."""


def pooled(estimates: Sequence[Estimate], confidence: float) -> Estimate:
    """One estimate with the rows of all. They must be about the same people and share no reports.

    A row that several releases measure is their weighted mean (`_row`), with limits combined as those of independent
    estimates (MOVER, Zou and Donner 2008). Limits that hold at all times are averaged; they were asked for
    with the error probability divided by the number of releases. Codes of different releases mean different things:
    those of each release keep its id in their names. Means and limits are brought to where a mean can lie after they
    are joined: before, those that came out beyond would look precise.
    """
    if len(estimates) == 1:
        return replace(estimates[0], groups=_inside(estimates[0].groups))
    # Bonferroni: each of several tests has its part of the level.
    raised = [one.drift for one in estimates if one.drift.p_value * len(estimates) < LEVEL]
    drift = Drift(
        p_value=min(1.0, min(one.drift.p_value for one in estimates) * len(estimates)),
        moved=tuple(dict.fromkeys(name for one in raised for name in one.moved)),
        words=" ".join(dict.fromkeys(one.words for one in raised or (one.drift for one in estimates))),
    )
    groups: dict[str, tuple[Row, ...]] = {}
    for kind in dict.fromkeys(kind for one in estimates for kind in one.groups):
        members = [one for one in estimates if kind in one.groups]
        if len(members) == 1:
            groups[kind] = members[0].groups[kind]
        elif kind in POOLED:
            groups[kind] = _pooled(kind, members)
        else:
            groups[kind] = tuple(_named(row, one.releases[0]) for one in members for row in one.groups[kind])
    return Estimate(
        groups=_inside(groups),
        drift=drift,
        budgets=tuple(budget for one in estimates for budget in one.budgets),
        releases=tuple(release for one in estimates for release in one.releases),
        confidence=confidence,
        anytime=estimates[0].anytime,
        notes=tuple(dict.fromkeys(note for one in estimates for note in one.notes)),
    )


def _inside(groups: dict[str, tuple[Row, ...]]) -> dict[str, tuple[Row, ...]]:
    return {kind: tuple(row.inside() for row in rows) if kind in POOLED else rows for kind, rows in groups.items()}


def _named(row: Row, release: str) -> Row:
    """The row with its release's id in its name."""
    return row._replace(label=row.label._replace(name=f"{release[:8]}: {row.label.name}"))


def _pooled(kind: str, members: Sequence[Estimate]) -> tuple[Row, ...]:
    """Every row that one of them has, once. Rows of one name that differ in unit or range are not the same: they keep
    the release's id in their names."""
    alike: dict[Label, list[tuple[Row, Estimate]]] = {}
    for one in members:
        for row in one.groups[kind]:
            alike.setdefault(row.label, []).append((row, one))
    names = [label.name for label in alike]
    found = [(_row(those), those[0][1].releases[0]) for those in alike.values()]
    return tuple(row if names.count(row.label.name) == 1 else _named(row, release) for row, release in found)


def _row(those: Sequence[tuple[Row, Estimate]]) -> Row:
    """One row of several, weighted by 1/width²; a row that is known exactly needs no other release.

    Shares of rare values that came out small have narrow limits, so that the pooled share of a value that 1% of people
    have is too low: by a tenth for two releases of 300 reports each. Limits of up to five releases hold.
    """
    known = [(row, one) for row, one in those if np.isfinite(row[1:4]).all()]
    used = [(row, one) for row, one in known if row.high == row.low] or known
    if not used:
        return those[0][0]
    rows, reports = [row for row, _ in used], np.array([one.reports for _, one in used])
    width = np.array([row.high - row.low for row in rows])
    weight = (width.min() / width) ** 2 if width.min() > 0 else np.ones(len(rows))
    weight = weight / weight.sum()
    mean, low, high = combined(weight, rows, used[0][1].anytime)
    own, spread = (float(weight @ [getattr(row, name) for row in rows]) for name in ("volunteers", "spread"))
    # All forged reports may be of one release.
    forged = float((weight * [row.forged for row in rows] * reports.sum() / reports).max())
    return Row(rows[0].label, mean, low, high, own, spread, forged, rows[0].assumes)
