"""What many reports say together, with intervals. `estimate` is the front door.

`scores` reads reports without bias and tallies them; `rounds` are the reports of one release, counted and found enough;
`features` are along what people may differ from the volunteers, and `calibration` reweights these until they are as the
reports say, each read as a stranger would be (`leave_one_out`): they are then `reweighted`, for distributions;
`frequencies` counts who favours which codeword; `drift` says how far people are from the volunteers; `pooling` joins
estimates that have no volunteers in common; `result` is what comes out, `natural` how people read it, `wording` what it
rests on and `picture` how it looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskveil.arrays import Bools, Floats
from taskveil.errors import DataError
from taskveil.server.estimates.calibration import Means, calibrate
from taskveil.server.estimates.drift import Drift, drift_of
from taskveil.server.estimates.features import Features
from taskveil.server.estimates.natural import holes_in, labels_of, over_those_who_have_one, with_holes
from taskveil.server.estimates.pooling import pooled
from taskveil.server.estimates.result import Estimate, Group, Interval
from taskveil.server.estimates.reweighted import Reweighted
from taskveil.server.estimates.rounds import Round, tally
from taskveil.server.estimates.scores import Tally
from taskveil.server.estimates.wording import assumption, hardly_seen
from taskveil.veil import Veil

__all__ = ["Drift", "Estimate", "Interval", "Tally", "estimate", "tally"]


def estimate(veil: Veil | Sequence[Veil], reports: Any, *, simplex: bool = False) -> Estimate:
    """Means of attributes and answers, shares of classes and frequencies of codewords over all who sent a report.

    Args:
        veil: what the reports were made with; or several, with as many sets of reports. Releases and budgets are pooled
            by how precise they are.
        reports: as for `veil.decode`, or a `Tally` of them.
        simplex: bring frequencies to the nearest ones between 0 and 1 that add up. That is no longer unbiased.

    Returns:
        Intervals of 95% confidence that allow for the randomisation, for which people answered and for which volunteers
        came; `assumes` says what they rest on.
    """
    veils, sets = ([veil], [reports]) if isinstance(veil, Veil) else (list(veil), list(reports))
    if not veils or len(veils) != len(sets):
        raise DataError(f"{len(sets)} sets of reports for {len(veils)} releases: each needs its own.")
    alike: dict[tuple[bytes, bool], list[Round]] = {}
    for one in map(Round.of, veils, sets):
        alike.setdefault((one.volunteers, one.scores.direct), []).append(one)
    return pooled([_estimate(rounds, simplex=simplex) for rounds in alike.values()])


def _estimate(rounds: list[Round], *, simplex: bool) -> Estimate:
    """One estimate from releases that share their volunteers."""
    first, reference = rounds[0], rounds[0].reference
    targets = np.hstack([reference.records, reference.answers])
    labels = labels_of(first.veil, reference)
    names = tuple(label.name for label in labels)
    features = Features.of(reference)
    calibrated = calibrate(
        [one.evidence for one in rounds],
        [one.seen for one in rounds],
        features(reference.records, reference.answers),
        features.emphasis,
        most=sum(one.looked_at for one in rounds),
    )

    def found(B: Floats, c: Floats) -> tuple[Means, Bools]:
        """Means of B t + c, and which of them the reports are about."""
        if first.scores.direct:
            return _direct(rounds, B, c)
        return calibrated.means(targets @ B.T + c), np.ones(len(labels), bool)

    means, asked = found(np.eye(len(labels)), np.zeros(len(labels)))
    holes = [hole for hole in holes_in(first.veil.schema) if asked[hole.flag]]
    known = with_holes(holes, targets)
    if holes:
        B, c = over_those_who_have_one(holes, means.mean)
        means, _ = found(B, c)
        targets = targets @ B.T + c
    answer = np.arange(len(labels)) >= reference.records.shape[1]
    share = np.array([label.kind == "share" for label in labels])
    kinds = {"attributes": ~answer, "answers": answer & ~share, "shares": answer & share}
    new = np.array([not label.repeats for label in labels])
    new_names = [label.name for label in labels if not label.repeats]
    veils = [one.veil for one in rounds]
    return Estimate(
        groups={
            kind: Group.of(np.flatnonzero(members & asked), labels, means, known) for kind, members in kinds.items()
        },
        frequencies=first.frequencies(simplex=simplex) if len(rounds) == 1 else (),
        drift=drift_of(calibrated, targets[:, new], new_names, harmless=first.scores.direct),
        assumes=assumption(calibrated, veils, targets[:, new], new_names),
        hardly_seen=hardly_seen(calibrated, veils, targets, names),
        reports=sum(one.tally.count for one in rounds),
        epsilon=max(one.veil.guarantee.epsilon for one in rounds),
        releases=tuple(one.veil.release_id for one in rounds),
        reweighted=Reweighted(
            calibrated=calibrated,
            features=features,
            numeric={name: known[:, place] for place, name in enumerate(names) if not share[place]},
        ),
    )


def _direct(rounds: list[Round], B: Floats, c: Floats) -> tuple[Means, Bools]:
    """Means of B t + c, t = Kx being attributes and answers, where reports are unbiased for the record itself, by
    nobody's help, and which of them the reports are about: of a task that weighs a sum, the sum is told and its terms
    are not. Rounds count by the precision of each mean."""
    found, asked = [], np.ones(len(B), dtype=bool)
    for one in rounds:
        K = B @ np.vstack([np.eye(one.seen.shape[1]), one.matrix])
        variance = np.einsum("tp,pq,tq->t", K, one.evidence.covariance, K)
        found.append((K @ one.evidence.mean + c, variance))
        asked &= one.tells(K)
    precision = np.array([1.0 / np.maximum(variance, 1e-300) for _, variance in found])
    mean = (np.array([mean for mean, _ in found]) * precision).sum(axis=0) / precision.sum(axis=0)
    none: Floats = np.zeros((1, len(mean)))
    return Means(mean=mean, from_reports=1.0 / precision.sum(axis=0), from_volunteers=none, unseen=none[0]), asked
