"""Population estimates from many reports, with intervals. Call `estimate`.

`scores` counts reports; `measured` gives the rows that they measure, with limits from `intervals`; `assumed` gives rows
under an assumption that the caller names, by a `mixture` of groups of volunteers; `drift` tests whether people differ
from the volunteers; `surveyed` gives the statistics of a survey. `result` and `survey` are what comes back, also of
several releases; `rows` says what a row is and `picture` how they look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taskveil.client.families import CHOSEN
from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates.assumed import Assumption, assumed
from taskveil.estimates.drift import Drift
from taskveil.estimates.measured import Rule, measured
from taskveil.estimates.result import Estimate, Forged, of_family, pooled
from taskveil.estimates.rows import Interval
from taskveil.estimates.scores import Tally, tally
from taskveil.estimates.survey import SurveyEstimate
from taskveil.estimates.surveyed import Candidates, surveyed
from taskveil.tasks import SurveyTask
from taskveil.veil import Family, Veil
from taskveil.veil.loss_intervals import CONFIDENCE
from taskveil.veil.volunteers import FEWEST

__all__ = ["Drift", "Estimate", "Forged", "Interval", "SurveyEstimate", "Tally", "estimate", "tally"]


def estimate(
    veil: Veil | Sequence[Veil] | Family,
    reports: Any,
    *,
    assume: Assumption | None = None,
    anytime: bool = False,
    confidence: float = CONFIDENCE,
    candidates: Candidates | None = None,
) -> Estimate:
    """Rows that the reports measure, with intervals; with `assume`, also rows that follow from that assumption.

    Args:
        veil: what the reports were made with; or several, with as many sets of reports. Rows that several releases
            measure are pooled by how precise they are. Of a family, drawn members are pooled so, and groups that
            chose their ε are weighted by their numbers of people.
        reports: as for `veil.decode`, or a `Tally` of them. Of a family, a mapping of member names to reports, or the
            bytes of reports in any order (`Family.receive`).
        assume: "cells": people with the same code are like the volunteers with that code (covariate shift).
            "labels": people of the same class are like the volunteers of that class (label shift). None: nothing. Works
            for one release with a list of codes.
        anytime: intervals hold at all times at once, for reports that are looked at again and again while they come
            in. They are wider. Assumed rows have no such intervals.
        confidence: how often the intervals hold.
        candidates: of a survey, by field with a large vocabulary: the words whose shares are wanted.

    Returns:
        Measured rows, true for every population. Rows that rest on an assumption carry it (`Interval.assumes`). Of a
        `SurveyTask` it is a `SurveyEstimate`, with statistics by name. Of a family, `members` has the estimate of each
        member too.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> found = tv.estimate(veil, veil.privatize(X))
        >>> row = found.attributes[0]
        >>> row.low < row.mean < row.high
        True
    """
    if not isinstance(anytime, bool):
        raise DataError(f"anytime is True or False, got {anytime!r}.")
    if not isinstance(confidence, int | float | np.floating) or not 0.5 <= confidence <= 1.0 - 1e-9:
        raise DataError(f"confidence is a number from 0.5 to below 1, got {confidence!r}.")
    if isinstance(veil, Family):
        return _of_family(veil, reports, assume, anytime, confidence, candidates)
    several = isinstance(veil, Sequence) and all(isinstance(one, Veil) for one in veil)
    if not isinstance(veil, Veil) and not several:
        raise DataError(f"veil is a Veil, a list of them or a Family, got {type(veil).__name__}.")
    if several and not isinstance(reports, Sequence):
        raise DataError("several releases need a list with the reports of each.")
    veils, sets = ([veil], [reports]) if isinstance(veil, Veil) else (list(veil), list(reports))
    if not veils or len(veils) != len(sets):
        raise DataError(f"{len(sets)} sets of reports for {len(veils)} releases: each needs its own.")
    if assume is not None and len(veils) > 1:
        raise DataError("assume= takes the reports of one release: estimate from one release at a time.")
    if assume is not None and anytime:
        raise DataError("assumed rows have no limits that hold at all times: leave out anytime, or assume=.")
    rule = Rule(anytime, 1.0 - (1.0 - confidence) / len(veils) if anytime else confidence)
    counted: dict[str, Tally] = {}
    for one, own in zip(veils, sets, strict=True):  # reports of one release are counted together
        found, release = tally(one, own), one.release_id
        counted[release] = counted[release] + found if release in counted else found
    once = {one.release_id: one for one in veils}
    return pooled(
        [_estimate(one, counted[release], rule, assume, candidates) for release, one in once.items()], confidence
    )


def _of_family(
    family: Family,
    reports: Any,
    assume: Assumption | None,
    anytime: bool,
    confidence: float,
    candidates: Candidates | None,
) -> Estimate:
    """The estimate of a family: that of each member with enough reports, and all of them together."""
    if assume is not None:
        raise DataError("assume= takes the reports of one release: estimate from one member, family.members[name].")
    found = reports if isinstance(reports, Mapping) else family.receive(reports)
    if extra := sorted(str(name) for name in found.keys() - family.members.keys()):
        raise DataError(f"the family has no member {', '.join(extra)}: its members are {', '.join(family.members)}.")
    counted = {name: tally(family.members[name], own) for name, own in found.items()}
    enough = {name: one for name, one in counted.items() if one.count >= FEWEST}
    rule = Rule(anytime, 1.0 - (1.0 - confidence) / max(len(enough), 1) if anytime else confidence)
    notes = [
        f"{name}: {one.count} reports are left out, because at least {FEWEST} are needed."
        for name, one in counted.items()
        if 0 < one.count < FEWEST
    ]
    estimates: dict[str, Estimate] = {}
    for name, one in enough.items():
        try:
            estimates[name] = _estimate(family.members[name], one, rule, None, candidates)
        except TooFewReportsError as error:
            notes.append(f"{name}: {error}")
    if not estimates:
        raise TooFewReportsError(
            f"{sum(one.count for one in counted.values())} reports are too few for a population estimate: at least "
            f"{FEWEST} of one member are needed."
        )
    return of_family(estimates, confidence, chosen=family.kind == CHOSEN, notes=notes)


def _estimate(
    veil: Veil, counted: Tally, rule: Rule, assume: Assumption | None, candidates: Candidates | None
) -> Estimate:
    if counted.count < FEWEST:  # as sums over volunteers: it is about a population and not about a few people
        raise TooFewReportsError(
            f"{counted.count} reports are too few for a population estimate: at least {FEWEST} are needed."
        )
    # First what is refused for its kind, whatever the number of reports.
    survey = isinstance(veil.task, SurveyTask)
    if survey and assume is not None:
        raise DataError("a survey measures its statistics: leave out assume=.")
    if candidates and not survey:
        raise DataError("candidates are for a survey with a large vocabulary, which this release is not.")
    more, words, weigh = ({}, (), None) if assume is None else assumed(veil, counted, assume, rule.confidence)
    groups, drift, notes = surveyed(veil, counted, rule, candidates) if survey else measured(veil, counted, rule)
    return (SurveyEstimate if survey else Estimate)(
        groups={**groups, **more},
        drift=drift,
        budgets=((counted.count, veil.guarantee.epsilon),),
        releases=(veil.release_id,),
        confidence=rule.confidence,
        anytime=rule.anytime,
        notes=(*notes, *words),
        weigh=weigh,
    )
