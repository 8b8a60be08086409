"""Population estimates from many reports, with intervals. Call `estimate`.

`scores` counts reports; `measured` gives the rows that they measure, with limits from `limits`; `assumed` gives rows
under an assumption that the caller names, by a `mixture` of groups of volunteers; `drift` tests whether people differ
from the volunteers; `surveyed` gives the statistics of a survey. `result` and `survey` are what comes back, also of
several releases; `rows` says what a row is and `picture` how they look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates.assumed import Assumption, assumed
from taskveil.estimates.drift import Drift
from taskveil.estimates.measured import Rule, measured
from taskveil.estimates.result import Estimate, Forged, pooled
from taskveil.estimates.rows import Interval
from taskveil.estimates.scores import Tally, tally
from taskveil.estimates.survey import SurveyEstimate
from taskveil.estimates.surveyed import Candidates, surveyed
from taskveil.tasks import SurveyTask
from taskveil.veil import Veil
from taskveil.veil.loss_intervals import CONFIDENCE
from taskveil.veil.volunteers import FEWEST

__all__ = ["Drift", "Estimate", "Forged", "Interval", "SurveyEstimate", "Tally", "estimate", "tally"]


def estimate(
    veil: Veil | Sequence[Veil],
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
            measure are pooled by how precise they are.
        reports: as for `veil.decode`, or a `Tally` of them.
        assume: "cells": people with the same code are like the volunteers with that code (covariate shift).
            "labels": people of the same class are like the volunteers of that class (label shift). None: nothing. Works
            for one release with a list of codes.
        anytime: intervals hold at all times at once, for reports that are looked at again and again while they come
            in. They are wider. Assumed rows have no such intervals.
        confidence: how often the intervals hold.
        candidates: of a survey, by field with a large vocabulary: the words whose shares are wanted.

    Returns:
        Measured rows, true for every population. Rows that rest on an assumption carry it (`Interval.assumes`). Of a
        `SurveyTask` it is a `SurveyEstimate`, with statistics by name.
    """
    if not isinstance(anytime, bool):
        raise DataError(f"anytime is True or False, got {anytime!r}.")
    if not isinstance(confidence, int | float | np.floating) or not 0.5 <= confidence <= 1.0 - 1e-9:
        raise DataError(f"confidence is a number from 0.5 to below 1, got {confidence!r}.")
    several = isinstance(veil, Sequence) and all(isinstance(one, Veil) for one in veil)
    if not isinstance(veil, Veil) and not several:
        raise DataError(f"veil is a Veil or a list of them, got {type(veil).__name__}.")
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
