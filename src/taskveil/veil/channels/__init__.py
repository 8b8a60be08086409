"""One channel per mechanism: it answers everything that the server asks about reports of that mechanism.

Losses, estimates, sums over volunteers and release files ask the channel and never the mechanism's type. A new
mechanism is a new file here and a line in `CHANNELS`; `channel.py` lists the questions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskveil.client.mechanisms import Codebook, Laplace, LatticeCodebook, LevelResponse, Mechanism, SumCodebook
from taskveil.veil.channels.channel import Channel, Codes, Encoded, SumsShape, UnbiasedScores, VolunteerValues
from taskveil.veil.channels.laplace import LaplaceChannel
from taskveil.veil.channels.lattice import lattice_channel
from taskveil.veil.channels.levels import LevelChannel
from taskveil.veil.channels.listed import ListedChannel
from taskveil.veil.channels.sums import sum_channel
from taskveil.veil.decoders import Decoder

__all__ = ["CHANNELS", "Channel", "Codes", "Encoded", "SumsShape", "UnbiasedScores", "VolunteerValues", "channel_of"]

CHANNELS: dict[type[Any], Callable[[Any, Decoder], Channel]] = {
    Codebook: ListedChannel,
    Laplace: LaplaceChannel,
    LatticeCodebook: lattice_channel,
    LevelResponse: LevelChannel,
    SumCodebook: sum_channel,
}
"""The channel of every mechanism. For others, losses are means over real reports, and there are no estimates."""


def channel_of(mechanism: Mechanism, decoder: Decoder) -> Channel:
    """The channel of reports that this mechanism makes and this decoder reads."""
    return CHANNELS.get(mechanism.__class__, Channel)(mechanism, decoder)
