"""Which predictors compete for a model's codebook: all that is allowed on the device and fits there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from taskveil.client.named import NamedEncoder
from taskveil.designs.on_device import MANIFEST, OnDevice
from taskveil.designs.predictors.boosted import fit_boosted
from taskveil.designs.predictors.light import fit_light
from taskveil.designs.predictors.linear import fit_linear
from taskveil.designs.predictors.networks import fit_architecture
from taskveil.designs.predictors.own import fit_own
from taskveil.designs.predictors.predictor import Evidence, Predictor
from taskveil.designs.predictors.together import together
from taskveil.errors import TaskError, UnusedModelWarning, callers_line
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
            try:
                found.append(fit_own(task, y, evidence, unseen=allowed.volunteers_unseen))
            except TaskError as error:
                if allowed.encoder == "own":
                    raise
                said = f"the shared model takes no part in the design: {error}"
                warnings.warn(said, UnusedModelWarning, stacklevel=callers_line())
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
        found += together(found, evidence)
    small = [predictor for predictor in found if predictor.bytes + MANIFEST <= allowed.client_bytes]
    if not small:
        least = min(predictor.bytes for predictor in found) + MANIFEST
        raise TaskError(
            f"no encoder fits into client_bytes={allowed.client_bytes}: the smallest takes about {least:,} bytes."
        )
    return small


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
    if np.ptp(said, axis=0).max() == 0:
        raise TaskError("the encoder says the same of all volunteers: there is nothing to report.")
    return Predictor(name="callable", encoder=encoder, held_out=said)
