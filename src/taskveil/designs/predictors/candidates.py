"""Which predictors compete for a model's codebook: all that is allowed on the device and fits there."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import torch

from taskveil.arrays import Floats
from taskveil.client.encoders import MeanEncoder, Plain
from taskveil.client.named import NamedEncoder
from taskveil.designs.on_device import OnDevice
from taskveil.designs.predictors.boosted import fit_boosted
from taskveil.designs.predictors.light import fit_light
from taskveil.designs.predictors.linear import fit_linear
from taskveil.designs.predictors.networks import fit_architecture
from taskveil.designs.predictors.own import OWN, fit_own
from taskveil.designs.predictors.predictor import CLEARLY, REST, Evidence, Predictor, standard_error
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask, Task
from taskveil.tasks.costs import OwnLoss


def predictors(task: Task, y: Any, evidence: Evidence, allowed: OnDevice) -> list[Predictor]:
    """Everything that may compete, each fitted; TaskError where nothing fits into what devices may store.

    Args:
        task: what is to be predicted, and perhaps shared.
        y: the volunteers' labels as they were given.
        evidence: what predictors learn from.
        allowed: what may run on devices.
    """
    found: list[Predictor] = []
    if allowed.allows("linear"):
        found.append(fit_linear(evidence))
    if allowed.allows("light"):
        found.append(fit_light(evidence))
    if allowed.allows("trees"):
        found.append(fit_boosted(evidence))
    if allowed.allows("own"):
        if isinstance(task, ModelTask) and not isinstance(task.cost, OwnLoss):
            with nullcontext() if allowed.encoder == "own" else suppress(TaskError):  # among others, one may be missing
                found.append(fit_own(task, y, evidence, unseen=allowed.volunteers_unseen))
        elif allowed.encoder == "own":
            raise TaskError(
                'encoder="own" takes one model and a loss with a name: several models, and a loss of your own, are '
                'served by "auto".'
            )
    if isinstance(allowed.encoder, torch.nn.Module):
        found.append(fit_architecture(allowed.encoder, evidence))
    elif callable(allowed.encoder):
        found.append(_callers(allowed.encoder, evidence))
    if allowed.encoder == "auto":
        found += _together(found, evidence)
    small = [predictor for predictor in found if predictor.bytes + REST <= allowed.client_bytes]
    if not small:
        least = min(predictor.bytes for predictor in found) + REST
        raise TaskError(
            f"no encoder fits into client_bytes={allowed.client_bytes}: the smallest takes about {least:,} bytes."
        )
    return small


def _together(found: list[Predictor], evidence: Evidence) -> list[Predictor]:
    """Means of several: of all that are not clearly behind the best, which is preferred, since no choice among them
    could go wrong that way; of the best two; and of the task's own model with the best other one. The own model, judged
    by copies that had fewer records to learn from, is always among those of the first."""
    cost = evidence.cost

    def losses(predictor: Predictor) -> Floats:
        return cost.losses(cost.outputs(cost.softened(predictor.held_out)), evidence.truth)

    plain = sorted((each for each in found if isinstance(each.encoder, Plain)), key=lambda each: losses(each).mean())
    if not plain:
        return []
    best = losses(plain[0])
    behind = {each.name: losses(each) - best for each in plain}
    pool = [
        each
        for each in plain
        if each.name == OWN or behind[each.name].mean() <= CLEARLY * standard_error(behind[each.name])
    ]
    own, others = ([each for each in plain if (each.name == OWN) is shared] for shared in (True, False))
    groups = [pool, plain[:2], [*own, *others[:1]]]
    distinct = {frozenset(each.name for each in group): group for group in reversed(groups) if len(group) > 1}
    return [_mean(group, preferred=group is pool) for group in distinct.values()]


def _mean(group: list[Predictor], *, preferred: bool) -> Predictor:
    """Predictors that are parts of a release, as one: what errs in different ways errs less together."""
    return Predictor(
        name=" and ".join(each.name for each in group),
        encoder=MeanEncoder(encoders=tuple(each.encoder for each in group if isinstance(each.encoder, Plain))),
        held_out=np.mean([each.held_out for each in group], axis=0),
        preferred=preferred,
    )


def _callers(function: Any, evidence: Evidence) -> Predictor:
    """A callable of the caller's own, which never saw the volunteers."""
    name = getattr(function, "__qualname__", type(function).__name__)
    outputs = evidence.truth.shape[1]
    encoder = NamedEncoder.of(function, name=name, low=evidence.low, high=evidence.high, latents=outputs)
    said = encoder(evidence.X)
    if not np.isfinite(said).all():
        raise TaskError(
            f"the encoder must give {outputs} finite numbers for every record (N, {len(evidence.low)}): predictions of "
            "what answers are judged by, class probabilities for a classifier."
        )
    return Predictor(name="callable", encoder=encoder, held_out=said)
