"""Limits for the part of a design that runs on devices: the encoder, its size, and the use of the task's model."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, get_args

import numpy as np

from taskveil.errors import TaskError

EncoderName = Literal["auto", "linear", "light", "trees", "own"]

CLIENT_BYTES = 512 * 1024
"""The default limit for a client folder: about the size of a picture on a page."""

MANIFEST = 4 * 1024
"""Bytes of a client folder beside the encoder and the codewords: mostly the manifest."""


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """Limits for the part of a design that runs on devices. Linear tasks have a small linear encoder of their own.

    The guarantee does not depend on any of it: the mechanism bounds every value that an encoder computes.

    Args:
        encoder: for a model, what the device computes: "linear", "light" (one hidden layer), "trees" (boosted trees),
            "own" (the task's own model), or "auto". "auto" compares those that are allowed, and the mean of several, by
            held-out loss; of those within 1% of the lowest it takes the smallest. It leaves out "trees" where fitting
            them would take too long (`MAX_TREE_SECONDS`). Or a torch module of dense and convolution layers, whose
            architecture is trained again from new weights. Or any callable from records (N, n) to predictions (N, S)
            that was not fitted to the volunteers: only Python clients can run it.
        share_model: the task's own model may run on the devices. Everybody who has a device then has the model. With
            labels, a scikit-learn model is fitted again up to 15 times without some of the volunteers.
        volunteers_unseen: the model was not fitted to the volunteers, so its predictions for them are out-of-sample.
        max_bytes: the largest size of the release's client folder, in bytes.
        latent_dim: the largest number of values in a report; chosen by the design if None.
    """

    encoder: Any = "auto"
    share_model: bool = False
    volunteers_unseen: bool = False
    max_bytes: int = CLIENT_BYTES
    latent_dim: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.encoder, str):
            if self.encoder not in get_args(EncoderName):
                raise TaskError(
                    f"encoder must be one of {', '.join(get_args(EncoderName))}, a torch module or a callable; "
                    f"got {self.encoder!r}."
                )
        elif not callable(self.encoder) or isinstance(self.encoder, type):
            raise TaskError(f"encoder must be a name, a torch module or a callable; got {type(self.encoder).__name__}.")
        if self.encoder == "own" and not self.share_model:
            raise TaskError(
                'encoder="own" puts the task\'s own model on every device, and everybody who has one has the model. If '
                "you want that, pass share_model=True."
            )
        if isinstance(self.max_bytes, bool) or not isinstance(self.max_bytes, int) or self.max_bytes < 1024:
            raise TaskError(f"max_bytes must be a whole number of at least 1024, got {self.max_bytes!r}.")

    def allows(self, name: EncoderName) -> bool:
        """Whether an encoder of that name may compete."""
        if name == "own" and not self.share_model:
            return False
        return bool(self.encoder in ("auto", name)) if isinstance(self.encoder, str) else False


def bytes_of(part: Any) -> int:
    """The bytes that the numbers of a part, and of the parts in it, take in a release."""
    if isinstance(part, np.ndarray):
        return int(part.nbytes)
    if isinstance(part, tuple):
        return sum(map(bytes_of, part))
    return sum(bytes_of(getattr(part, field.name)) for field in fields(part)) if is_dataclass(part) else 0
