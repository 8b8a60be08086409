"""Estimates of several releases, joined: rows that several of them measure, by how precise each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.estimates.drift import LEVEL, Drift
from taskveil.estimates.result import ARRAYS, Estimate, Group

POOLED = ("attributes",)
"""Kinds whose rows mean the same in every release: those with the same name, unit and range."""


def pooled(estimates: Sequence[Estimate], confidence: float) -> Estimate:
    """One estimate with the rows of all. They must be about the same people and share no reports.

    A row that several releases measure is their mean, weighted by 1/width², with limits combined as those of
    independent estimates (MOVER, Zou and Donner 2008). Limits that hold at all times are averaged; they were asked for
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
    groups: dict[str, Group] = {}
    for kind in dict.fromkeys(kind for one in estimates for kind in one.groups):
        members = [(one.groups[kind], one.releases[0]) for one in estimates if kind in one.groups]
        if kind in POOLED:
            groups[kind] = _pooled(members, anytime=estimates[0].anytime)
        else:
            groups[kind] = members[0][0] if len(members) == 1 else _beside(members)
    return Estimate(
        groups=_inside(groups),
        drift=drift,
        reports=sum(one.reports for one in estimates),
        epsilon=max(one.epsilon for one in estimates),
        releases=tuple(release for one in estimates for release in one.releases),
        confidence=confidence,
        anytime=estimates[0].anytime,
        notes=tuple(dict.fromkeys(note for one in estimates for note in one.notes)),
    )


def _inside(groups: dict[str, Group]) -> dict[str, Group]:
    return {kind: group.inside() if kind in POOLED else group for kind, group in groups.items()}


def _beside(members: Sequence[tuple[Group, str]]) -> Group:
    """All rows, named by their releases."""
    labels = tuple(
        label._replace(name=f"{release[:8]}: {label.name}") for group, release in members for label in group.labels
    )
    arrays: dict[str, Any] = {name: np.concatenate([getattr(group, name) for group, _ in members]) for name in ARRAYS}
    return replace(members[0][0], labels=labels, **arrays)


def _pooled(members: Sequence[tuple[Group, str]], *, anytime: bool) -> Group:
    """Every row that one of them has, once. Rows of one name that differ in unit or range are not the same: they keep
    the release's id in their names."""
    labels = dict.fromkeys(label for group, _ in members for label in group.labels)
    names = [label.name for label in labels]
    where = [[(group, release) for group, release in members if label in group.labels] for label in labels]
    rows = [
        _row([(group, group.labels.index(one)) for group, _ in has], anytime)
        for one, has in zip(labels, where, strict=True)
    ]
    called = tuple(
        one if names.count(one.name) == 1 else one._replace(name=f"{has[0][1][:8]}: {one.name}")
        for one, has in zip(labels, where, strict=True)
    )
    return replace(members[0][0], labels=called, **dict(zip(ARRAYS, np.array(rows).T, strict=True)))


def _row(members: Sequence[tuple[Group, int]], anytime: bool) -> tuple[float, ...]:
    def taken(name: str) -> Floats:
        return np.array([getattr(group, name)[place] for group, place in members])

    mean, low, high = taken("mean"), taken("low"), taken("high")
    width = np.where(np.isfinite(mean), high - low, np.inf)
    least = float(width.min())
    if not np.isfinite(least):
        return float("nan"), -np.inf, np.inf, float("nan"), float("nan"), np.inf
    used = np.isfinite(width) if least > 0 else width == 0  # what is known exactly needs no other release
    weight = np.divide(least, width, out=np.ones_like(width), where=width > 0) ** 2 * used
    weight = weight / weight.sum()
    middle = float(weight @ np.where(used, mean, 0.0))
    down, up = (weight * np.where(used, reach, 0.0) for reach in (mean - low, high - mean))
    reach = (down.sum(), up.sum()) if anytime else (np.sqrt((down**2).sum()), np.sqrt((up**2).sum()))
    others = (float(weight @ taken(name)) for name in ("volunteers", "spread"))
    return middle, middle - float(reach[0]), middle + float(reach[1]), *others, float(taken("forged").max())
