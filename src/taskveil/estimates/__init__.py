"""Population estimates from many reports, with intervals. Call `estimate`.

`scores` counts reports; `measured` gives the rows that they measure, with limits from `intervals`; `assumed` gives rows
under an assumption that the caller names, by a `mixture` of groups of volunteers; `drift` tests whether people differ
from the volunteers; `surveyed` gives the statistics of a survey. `result` and `survey` are what comes back, also of
several releases, and `series` of several rounds; `rows` says what a row is and `picture` how they look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from taskveil.client.families import CHOSEN
from taskveil.client.panels import Panel
from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates.assumed import Assumption, assumed
from taskveil.estimates.drift import Drift
from taskveil.estimates.measured import Rule, measured
from taskveil.estimates.result import Estimate, Forged, of_family, pooled
from taskveil.estimates.rows import Interval
from taskveil.estimates.scores import Tally, tally
from taskveil.estimates.series import ResponseRate, Series, Smoothed, over_time
from taskveil.estimates.survey import SurveyEstimate
from taskveil.estimates.surveyed import Candidates, surveyed
from taskveil.tasks import SurveyTask
from taskveil.veil import Family, Veil
from taskveil.veil.loss_intervals import CONFIDENCE
from taskveil.veil.volunteers import FEWEST

__all__ = [
    "Drift",
    "Estimate",
    "Forged",
    "Interval",
    "ResponseRate",
    "Series",
    "Smoothed",
    "SurveyEstimate",
    "Tally",
    "estimate",
    "tally",
]


@overload
def estimate(
    veil: Veil | Sequence[Veil],
    reports: Mapping[str, Any],
    *,
    assume: Assumption | None = None,
    anytime: bool = False,
    confidence: float = CONFIDENCE,
    candidates: Candidates | None = None,
    planned_rounds: int | None = None,
) -> Series: ...


@overload
def estimate(
    veil: Family,
    reports: Mapping[str, Mapping[str, Any]],
    *,
    anytime: bool = False,
    confidence: float = CONFIDENCE,
    candidates: Candidates | None = None,
    planned_rounds: int | None = None,
) -> Series: ...


@overload
def estimate(
    veil: Veil | Sequence[Veil] | Family,
    reports: Any,
    *,
    assume: Assumption | None = None,
    anytime: bool = False,
    confidence: float = CONFIDENCE,
    candidates: Candidates | None = None,
) -> Estimate: ...


def estimate(
    veil: Veil | Sequence[Veil] | Family,
    reports: Any,
    *,
    assume: Assumption | None = None,
    anytime: bool = False,
    confidence: float = CONFIDENCE,
    candidates: Candidates | None = None,
    planned_rounds: int | None = None,
) -> Estimate | Series:
    """Rows that the reports measure, with intervals; with `assume`, also rows that follow from that assumption. Of the
    reports of several rounds, a `Series` of them.

    Args:
        veil: what the reports were made with; or several, with as many sets of reports. Rows that several releases
            measure are pooled by how precise they are. Of a family, drawn members are pooled so, and groups that
            chose their ε are weighted by their numbers of people.
        reports: as for `veil.decode`, or a `Tally` of them. Of a family, a mapping of member names to reports, or the
            bytes of reports in any order (`Family.receive`). For a `Series`: a mapping of the names of rounds to the
            reports of each; of a family, to a mapping of member names.
        assume: "cells": people with the same code are like the volunteers with that code (covariate shift).
            "labels": people of the same class are like the volunteers of that class (label shift). None: nothing. Works
            for one release with a list of codes.
        anytime: intervals hold at all times at once, for reports that are looked at again and again while they come
            in. They are wider. Assumed rows have no such intervals.
        confidence: how often the intervals hold.
        candidates: of a survey, by field with a large vocabulary: the words whose shares are wanted.
        planned_rounds: of a series, how many rounds there will be in all, at which intervals hold at once. By default
            those given. A release with a panel says it itself.

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
    several = isinstance(veil, Sequence) and all(isinstance(one, Veil) for one in veil)
    if not isinstance(veil, Veil | Family) and not several:
        raise DataError(f"veil is a Veil, a list of them or a Family, got {type(veil).__name__}.")
    if isinstance(reports, Mapping) and (not isinstance(veil, Family) or _of_rounds(reports)):
        counted = {name: _counted(veil, own) for name, own in reports.items()}

        def again(name: str, level: float, always: bool) -> Estimate:
            return _of_one(veil, counted[name], assume, always, level, candidates)

        counts = {name: _reports_in(own) for name, own in counted.items()}
        return over_time(
            again, counts, panel=_panel(veil), planned=planned_rounds, confidence=confidence, anytime=anytime
        )
    if planned_rounds is not None:
        raise DataError("planned_rounds is for several rounds: pass reports as a mapping of the names of rounds.")
    return _of_one(veil, reports, assume, anytime, confidence, candidates)


def _of_rounds(reports: Mapping[Any, Any]) -> bool:
    """Whether a mapping for a family is of rounds, each with a mapping of member names."""
    return bool(reports) and all(isinstance(own, Mapping) for own in reports.values())


def _counted(veil: Veil | Sequence[Veil] | Family, reports: Any) -> Any:
    """The same reports as tallies, so that a round can be estimated several times."""
    if isinstance(veil, Veil):
        return tally(veil, reports)
    if isinstance(veil, Family):
        return {name: tally(veil.members[name], own) if name in veil.members else own for name, own in reports.items()}
    same = isinstance(reports, Sequence) and len(reports) == len(veil)
    return [tally(one, own) for one, own in zip(veil, reports, strict=True)] if same else reports


def _reports_in(counted: Any) -> int:
    """How many reports these tallies are of."""
    tallies = [counted] if isinstance(counted, Tally) else counted.values() if isinstance(counted, Mapping) else counted
    return sum(one.count for one in tallies if isinstance(one, Tally))


def _panel(veil: Veil | Sequence[Veil] | Family) -> Panel | None:
    """The planned rounds, the same for all releases."""
    veils = [veil] if isinstance(veil, Veil) else veil.members.values() if isinstance(veil, Family) else veil
    first, *others = [one.panel for one in veils] or [None]
    if any(other != first for other in others):
        raise DataError("these releases plan different rounds: estimate a series from one of them at a time.")
    return first


def _of_one(
    veil: Veil | Sequence[Veil] | Family,
    reports: Any,
    assume: Assumption | None,
    anytime: bool,
    confidence: float,
    candidates: Candidates | None,
) -> Estimate:
    """The estimate of one round, or of all reports together."""
    if isinstance(veil, Family):
        return _of_family(veil, reports, assume, anytime, confidence, candidates)
    several = not isinstance(veil, Veil)
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
    if isinstance(reports, np.ndarray) or hasattr(reports, "columns"):
        raise DataError(
            "an array does not say which members of the family its reports are of: pass a mapping of names to reports, "
            f"{{{next(iter(family.members))!r}: reports, …}}, or the bytes of reports."
        )
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
    more, words, cells = ({}, (), None) if assume is None else assumed(veil, counted, assume, rule.confidence)
    groups, drift, notes = surveyed(veil, counted, rule, candidates) if survey else measured(veil, counted, rule)
    return (SurveyEstimate if survey else Estimate)(
        groups={**groups, **more},
        drift=drift,
        budgets=((counted.count, veil.guarantee.epsilon),),
        releases=(veil.release_id,),
        confidence=rule.confidence,
        anytime=rule.anytime,
        notes=(*notes, *words),
        cells=cells,
    )
