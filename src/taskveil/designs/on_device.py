"""What may run on people's devices: how strong an encoder, how large, and whether the task's own model is among it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from taskveil.errors import TaskError

EncoderName = Literal["auto", "linear", "light", "trees", "own"]

CLIENT_BYTES = 512 * 1024
"""What a client folder may weigh by default: about a picture on a page."""

MANIFEST = 4 * 1024
"""Bytes of a client folder that are neither the encoder's nor the codewords': the manifest, in the ordinary."""

Answers = Literal["direct", "record"]


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """What designs for models may put on a device; linear tasks have their own, small, linear encoder.

    Nothing about the guarantee depends on any of it: a mechanism bounds whatever an encoder computes.

    Args:
        encoder: "linear", "light" (one hidden layer), "trees" (boosted trees), "own" (the task's own model), or "auto":
            the best of all that is allowed, by cross-validated loss. Or an architecture, a torch module of dense and
            convolution layers that is trained anew; or any callable from records (N, n) to predictions (N, S), which
            never saw the volunteers: only Python clients can run it.
        share_model: the task's own model may go to the devices. Whoever has a device then has the model.
        volunteers_unseen: the model was fitted to other people, so that what it says of volunteers is honest.
        client_bytes: the most that the client folder of the release may take.
    """

    encoder: Any = "auto"
    share_model: bool = False
    volunteers_unseen: bool = False
    client_bytes: int = CLIENT_BYTES

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
                'encoder="own" puts the task\'s own model on every device, and whoever has a device has it then. If '
                "that is meant, say share_model=True."
            )
        if isinstance(self.client_bytes, bool) or not isinstance(self.client_bytes, int) or self.client_bytes < 1024:
            raise TaskError(f"client_bytes must be a whole number of at least 1024, got {self.client_bytes!r}.")

    def allows(self, name: EncoderName) -> bool:
        """Whether an encoder of that name may compete."""
        if name == "own" and not self.share_model:
            return False
        return bool(self.encoder in ("auto", name)) if isinstance(self.encoder, str) else False
