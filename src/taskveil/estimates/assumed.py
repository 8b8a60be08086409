"""Rows under an assumption that the caller names: what reports do not measure, from the volunteers and the reports.

- `assume="cells"` (covariate shift): people whose best code is the same are like the volunteers whose best code it is.
  The shares of the cells may differ.
- `assume="labels"` (label shift): people of one class are like the volunteers of that class. The shares of the classes
  may differ.

Both are mixtures of groups of volunteers with unknown shares (`mixture`). The reports decide about the shares; means by
group come from the volunteers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from taskveil.arrays import Floats, as_floats
from taskveil.errors import DataError
from taskveil.estimates.drift import is_two_valued
from taskveil.estimates.labels import Label
from taskveil.estimates.mixture import Mixture
from taskveil.estimates.rows import CONTRADICTED, SCARCE, Row, grouped, labels_of, rows_of
from taskveil.estimates.scores import Tally
from taskveil.veil import Veil
from taskveil.veil.channels import Channel, channel_of
from taskveil.veil.loss_intervals import LEVEL
from taskveil.veil.volunteers import Groups, Missing, Volunteers, missing_in

Assumption = Literal["cells", "labels"]

WORDS = {
    "cells": ("{} cells of codes", "cell", "cells", "covariate"),
    "labels": ("the {} classes", "class", "classes", "label"),
}


def assumed(
    veil: Veil, tally: Tally, assumption: Assumption, confidence: float
) -> tuple[dict[str, tuple[Row, ...]], tuple[str, ...], CellWeights | None]:
    """Rows by kind, sentences about them and, of cells, the weights of volunteers."""
    channel, known = _checked(veil, assumption)
    by_class = assumption == "labels"
    cells = known.cells.with_answers(veil.task)
    groups = known.classes if by_class else cells
    if groups is None:
        raise DataError(
            'assume="labels" needs the classes of one label, with at least ten volunteers in each class: this release '
            'has none, or keeps too few. Use assume="cells".'
        )
    counts, codes = tally.codes, channel.codes
    labels, width = labels_of(veil), veil.encoder.width
    assert counts is not None and codes is not None  # noqa: PT018, S101 - a list of codes counts them
    # Of each class, how many of its volunteers are in each cell: their codes vary together, as cells do.
    classes = cells.means[:, -len(groups.counts) :] * cells.counts[:, None]
    kinds = (cells.measured, (classes / classes.sum(axis=0)).T) if by_class else None

    def fit(means: Floats, variances: Floats) -> Mixture:
        # NaN: too few people have a value for a mean over them.
        independent = np.maximum(np.rint(groups.counts / known.design_effect), 2).astype(np.int64)
        those = replace(groups, counts=independent, means=np.nan_to_num(means), variances=variances)
        return Mixture.fit(counts, float(codes.outside[0]), codes.kept, those, kinds=kinds, confidence=confidence)

    missing = [] if by_class else list(missing_in(veil.schema))
    own, variance = cells.overall(missing)
    targets, variances = groups.means, groups.variances
    if by_class:  # of classes, shares alone: records are summed by cell and by nothing else
        labels, own, variance = labels[width:], own[width:], variance[width:]
    else:
        variances = _with_half_a_volunteer(groups, labels)
    found = fit(targets, variances)
    if missing:  # means over the people who have a value, given how many have one
        targets, variances = among_present(targets, variances, missing, found.estimates)
        found = fit(targets, variances)
    which, one, many, shift = WORDS[assumption]
    words = (
        f"Within each of {which.format(len(groups.counts))}, people are like the volunteers of that {one} "
        f"({known.count:,} in all); only the shares of the {many} differ ({shift} shift)."
    )
    tested = f"This assumption could not be tested: there are as many groups as codes ({len(counts)})."
    if found.p_value is not None:
        contradicted = found.p_value < LEVEL
        words += f" {CONTRADICTED}" if contradicted else ""
        tested = (
            f"The reports {'contradict' if contradicted else 'do not contradict'} it (goodness of fit, "
            f"p = {found.p_value:.2g}, {found.degrees} degrees of freedom)."
        )
    enough = np.isfinite(targets.sum(axis=0)) & np.isfinite(own)
    mean, low, high = np.where(enough, [found.estimates, *found.limits.T], [[np.nan], [-np.inf], [np.inf]])
    answer = np.arange(len(labels)) >= (0 if by_class else width)
    share = np.array([label.kind == "share" for label in labels])
    if veil.outputs is not None:
        kind = veil.outputs.kind
        labels = tuple(
            label._replace(name=f"share of {kind}: {label.name}") if of_class else label
            for label, of_class in zip(labels, answer & share, strict=True)
        )
    rows = rows_of(labels, mean, low, high, own, np.sqrt(variance), found.influence, assumes=words)
    marks = {"attributes": ~answer, "answers": answer & ~share, "shares": answer & share}
    weigh = None if by_class else CellWeights(veil=veil, shares=found.shares)
    return grouped([row.inside() for row in rows], **marks), (f"Assumed rows: {words}", tested), weigh


def assumptions(veil: Veil) -> tuple[Assumption, ...]:
    """What `assume` may be for reports of this release."""
    try:
        _, known = _checked(veil, "cells")
    except DataError:
        return ()
    return ("cells",) if known.classes is None else ("cells", "labels")


def _checked(veil: Veil, assumption: str) -> tuple[Channel, Volunteers]:
    if not isinstance(assumption, str) or assumption not in ("cells", "labels"):
        raise DataError(f'assume is "cells", "labels" or None, got {assumption!r}.')
    channel = channel_of(veil.mechanism, veil.decoder)
    if not channel.listed or veil.method == "constant":
        raise DataError(
            f"assume={assumption!r} works for releases with a list of codes. Reports of this one are of another kind: "
            "without assume= you get what they measure."
        )
    if veil.volunteers is None:
        raise DataError(
            f"assume={assumption!r} needs the sums over the volunteers, and this release keeps none: design it with "
            "this version of taskveil, and save it with volunteers=True."
        )
    return channel, veil.volunteers


@dataclass(frozen=True, kw_only=True, eq=False)
class CellWeights:
    """The weights of volunteers that make them like the people of an estimate: by the `shares` (G,) of people in each
    cell of the release's codes."""

    veil: Veil
    shares: Floats

    @classmethod
    def of(cls, veil: Veil, shares: Any) -> CellWeights:
        """The weights for shares from a file; a DataError if they are no shares of the cells of this release."""
        _, known = _checked(veil, "cells")
        found = as_floats(shares)
        if found.shape != known.cells.counts.shape or not (found >= 0).all() or not 0.99 < found.sum() < 1.01:
            raise DataError(f"these are no shares of the {len(known.cells.counts)} cells of the release.")
        return cls(veil=veil, shares=found)

    def weights(self, records: Floats) -> Floats:
        """How much volunteers with these records (N, n) count, 1 on average."""
        channel, known = _checked(self.veil, "cells")
        favoured = channel.favoured(self.veil.encoder(records))
        assert favoured is not None  # noqa: S101 - a list of codes is favoured
        cell = known.cell_of[favoured[:, 0]]
        there = np.bincount(cell, minlength=len(self.shares)) / len(cell)
        weights = (self.shares / np.where(there > 0, there, 1.0))[cell]
        return np.asarray(weights / weights.mean())


def among_present(
    means: Floats, variances: Floats, missing: Sequence[Missing], overall: Floats
) -> tuple[Floats, Floats]:
    """Means and variances by group (G, t), with v in place of every number that may be missing:

        v = R + (x − R)/(1 − P) where there is a value x, else R,      R = (E[x] − fill·P)/(1 − P),

    P being the share of people without a value. If `overall` (t,) are the people's means, then the mean of v is R, the
    mean over the people who have a value, and to first order it varies as R does. Where fewer than 1% have a value,
    there is no such mean, and it becomes NaN.
    """
    means, variances = means.copy(), variances.copy()
    for place, flag, fill in missing:
        there = 1.0 - overall[flag]
        if there < SCARCE:
            means[:, place] = np.nan
            continue
        R = (overall[place] - fill * overall[flag]) / there
        absent, squares = means[:, flag], variances[:, place] + means[:, place] ** 2
        first = means[:, place] - fill * absent - R * (1.0 - absent)
        second = squares - fill**2 * absent - 2.0 * R * (means[:, place] - fill * absent) + R**2 * (1.0 - absent)
        means[:, place] = R + first / there
        variances[:, place] = np.maximum(second - first**2, 0.0) / there**2
    return means, variances


def _with_half_a_volunteer(groups: Groups, labels: Sequence[Label]) -> Floats:
    """The variances (G, t), of attributes with two values at least as large as if half a volunteer more had the rarer
    one: that no volunteer has a value does not show that nobody has it."""
    least, most = np.array([label.bounds for label in labels]).T
    bounded = np.isfinite(most - least) & (most > least)
    wide, low = np.where(bounded, most - least, 1.0), np.where(bounded, least, 0.0)
    share = np.where(bounded, (groups.means - low) / wide, np.nan)
    two_valued = is_two_valued(share, groups.variances / wide**2).all(axis=0)
    half = 0.5 / (groups.counts.sum() + 1.0)
    return np.where(two_valued, np.maximum(groups.variances, wide**2 * half * (1.0 - half)), groups.variances)
