"""One channel per mechanism: it answers everything that the server asks about reports of that mechanism.

Losses, estimates, sums over volunteers and release files ask the channel and never the mechanism's type. A new
mechanism is a new class here and a line in `CHANNELS`; `channel.py` lists the questions.
"""

from __future__ import annotations

from taskveil.client.mechanisms import (
    BallResponse,
    CentredBallResponse,
    Codebook,
    Gaussian,
    Laplace,
    LatticeCodebook,
    LevelResponse,
    SumCodebook,
)
from taskveil.veil.channels.ball import ball_channel
from taskveil.veil.channels.channel import (
    CHANNELS,
    Channel,
    Codes,
    Encoded,
    SumsShape,
    UnbiasedScores,
    VolunteerValues,
    channel_of,
)
from taskveil.veil.channels.listed import ListedChannel
from taskveil.veil.channels.unbiased import (
    GaussianChannel,
    LaplaceChannel,
    lattice_channel,
    level_channel,
    sum_channel,
)

__all__ = ["CHANNELS", "Channel", "Codes", "Encoded", "SumsShape", "UnbiasedScores", "VolunteerValues", "channel_of"]

CHANNELS |= {
    BallResponse: ball_channel,
    CentredBallResponse: ball_channel,
    Codebook: ListedChannel,
    Gaussian: GaussianChannel,
    Laplace: LaplaceChannel,
    LatticeCodebook: lattice_channel,
    LevelResponse: level_channel,
    SumCodebook: sum_channel,
}
