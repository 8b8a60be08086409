"""What a device runs, as far as tables of results say it."""

from __future__ import annotations

from taskveil.client.latent_encoders import Encoder, HiddenEncoder, MeanEncoder, NamedEncoder, TabledEncoder
from taskveil.client.networks import LayeredEncoder


def has_hidden_layer(encoder: Encoder) -> bool:
    """Whether devices run a network: linear maps and trees are none, and a model that a release only names counts as
    one."""
    match encoder:
        case MeanEncoder():
            return any(map(has_hidden_layer, encoder.encoders))
        case TabledEncoder():
            return has_hidden_layer(encoder.encoder)
        case LayeredEncoder():
            return len(encoder.layers) > 1
        case HiddenEncoder():
            # Linear classifiers take this form for its softmax, with a unit that adds nothing.
            return bool((encoder.hidden_weights.any(axis=1) & encoder.weights.any(axis=0)).any())
        case _:
            return isinstance(encoder, NamedEncoder)
