"""Estimates that have no volunteers in common, joined by how precise each is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taskveil.server.estimates.calibration import ALARMS, Means
from taskveil.server.estimates.drift import Drift
from taskveil.server.estimates.result import Estimate, Group


def pooled(estimates: Sequence[Estimate]) -> Estimate:
    """Every mean that several estimates have, weighted by 1/variance; a mean that one has is taken from there. They
    must be about the same people and share no reports."""
    if len(estimates) == 1:
        return estimates[0]
    least = min(estimates, key=lambda one: one.drift.p_value)
    p_value = min(1.0, least.drift.p_value * len(estimates))  # Bonferroni: of several tests, the least p counts
    words = least.drift.words if p_value < ALARMS else "No sign that people differ from the volunteers of any release."
    return Estimate(
        groups={kind: _pooled([one.groups[kind] for one in estimates]) for kind in estimates[0].groups},
        frequencies=(),
        drift=Drift(p_value=p_value, moved=least.drift.moved if p_value < ALARMS else (), words=words),
        assumes=" ".join(dict.fromkeys(one.assumes for one in estimates)),
        hardly_seen=tuple(n for n in estimates[0].hardly_seen if all(n in one.hardly_seen for one in estimates)),
        reports=sum(one.reports for one in estimates),
        epsilon=max(one.epsilon for one in estimates),
        releases=tuple(release for one in estimates for release in one.releases),
        reweighted=None,
    )


def _pooled(groups: Sequence[Group]) -> Group:
    labels = {label.name: label for group in groups for label in group.labels}
    names = list(labels)
    known = np.array([[name in group.names for name in names] for group in groups])
    places = [[group.names.index(name) if name in group.names else 0 for name in names] for group in groups]
    if not names:
        return groups[0]

    def taken(values: list[np.ndarray]) -> np.ndarray:
        """(estimates, names): 0 where an estimate does not have the name."""
        rows = [row[place] if len(row) else np.zeros(len(place)) for row, place in zip(values, places, strict=True)]
        return np.where(known, np.array(rows), 0.0)

    variance = taken([group.means.variance for group in groups])
    precision = np.where(known, 1.0 / np.where(known, np.maximum(variance, 1e-300), 1.0), 0.0)
    weight = precision / precision.sum(axis=0)
    parts = [
        group.means.from_volunteers[:, place] * one
        for group, place, one in zip(groups, places, weight, strict=True)
        if group.names
    ]
    return Group(
        labels=tuple(labels.values()),
        means=Means(
            mean=(weight * taken([group.means.mean for group in groups])).sum(axis=0),
            from_reports=(weight**2 * taken([group.means.from_reports for group in groups])).sum(axis=0),
            from_volunteers=np.concatenate(parts),
            unseen=(weight**2 * taken([group.means.unseen for group in groups])).sum(axis=0),
        ),
        volunteers=(weight * taken([group.volunteers for group in groups])).sum(axis=0),
        spread=(weight * taken([group.spread for group in groups])).sum(axis=0),
    )
