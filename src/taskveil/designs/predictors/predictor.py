"""What a codebook is fitted to: a device's encoder, and honest predictions of the volunteers' truth."""

from __future__ import annotations

from dataclasses import dataclass

from taskveil.arrays import Floats
from taskveil.client.encoders import Encoder


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
    """What a device can know of the truth: an encoder, and what its like said of volunteers they had not seen.

    `encoder` gives (N, n) → (N, S): values, or class probabilities. `held_out` (N, S) is for every volunteer the
    prediction of a model that did not see it, so that nothing is calibrated on scores that memorised their labels.
    """

    name: str
    encoder: Encoder
    held_out: Floats
