"""Records while designs learn from them: on the device where they fit, else on the host, whence mini-batches travel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SHARE = 0.25
"""Of a CUDA device's free memory one set of records may take; networks, their gradients and noise need the rest."""


@dataclass(frozen=True, eq=False)
class Records:
    """(N, n) in single precision; `records[rows]` is a tensor on `device`, wherever the others wait."""

    values: Tensor
    device: torch.device

    @classmethod
    def of(cls, X: NDArray[np.float64], device: str) -> Records:
        """Records (N, n) for a torch device; on it where they fit."""
        values, where = torch.as_tensor(X, dtype=torch.float32), torch.device(device)
        if where.type == "cuda":
            free, _ = torch.cuda.mem_get_info(where)
            values = values.to(where) if values.nbytes <= SHARE * free else values.pin_memory()
        return cls(values, where)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """The number of attributes."""
        return self.values.shape[-1]

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.values[rows.to(self.values.device)].to(self.device)

    def mean(self) -> Tensor:
        """(n,), on the device."""
        return self.values.mean(0).to(self.device)

    def std(self) -> Tensor:
        """(n,), on the device."""
        return self.values.std(0).to(self.device)
