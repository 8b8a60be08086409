"""Predictors together: the mean that predicts best, since what errs in different ways errs less together.

Weights are found on what each said of volunteers it had not seen, so a weak predictor gets little and is left out. A
few weights for all volunteers are hard to overfit; a choice of one among several is not.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from taskveil.arrays import Floats
from taskveil.client.encoders import MeanEncoder, Plain
from taskveil.designs.predictors.predictor import Evidence, Predictor
from taskveil.designs.threads import one_thread

LEAST_WEIGHT = 0.05
"""Predictors of less are left out: devices would compute them for next to nothing."""

_EVEN = 2.0  # records' worth of evidence that weights are even


@one_thread()
def together(found: list[Predictor], evidence: Evidence) -> list[Predictor]:
    """The weighted mean of least held-out loss of those that can be parts of a release, preferred to each of them; none
    where one alone has all the weight."""
    members = [each for each in found if isinstance(each.encoder, Plain)]
    if len(members) < 2:
        return []
    weights = best_weights(np.stack([each.held_out for each in members]), evidence)
    kept = np.flatnonzero(weights >= LEAST_WEIGHT)
    if len(kept) < 2:
        return []
    shares = weights[kept] / weights[kept].sum()
    group = [members[place] for place in kept]
    return [
        Predictor(
            name=" and ".join(each.name for each in group),
            encoder=MeanEncoder(
                encoders=tuple(each.encoder for each in group if isinstance(each.encoder, Plain)), weights=shares
            ),
            held_out=np.tensordot(shares, np.stack([each.held_out for each in group]), axes=1),
            preferred=True,
        )
    ]


def best_weights(said: Floats, evidence: Evidence) -> Floats:
    """(M,): the weights of predictions `said` (M, N, S) whose mean costs least, drawn a little towards even ones."""
    cost, truth, count = evidence.cost, evidence.truth, len(said)
    unit = float(cost.losses(cost.outputs(said.mean(axis=0)), truth).mean()) or 1.0

    def objective(powers: Floats) -> float:
        weights = softmax(powers)
        loss = float(cost.losses(cost.outputs(np.tensordot(weights, said, axes=1)), truth).mean()) / unit
        return loss - _EVEN / len(truth) * float(np.log(weights * count + 1e-9).mean())

    return np.asarray(softmax(minimize(objective, np.zeros(count), method="Powell", options={"maxiter": 20}).x))
