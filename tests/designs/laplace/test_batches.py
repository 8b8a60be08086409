"""Records that wait on the host give the same batches as records on the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from taskveil.designs.laplace.replicas import Records

X = np.random.default_rng(0).normal(size=(50, 3)) + 5.0


def test_batches_and_moments_are_the_records_own() -> None:
    records = Records.of(X, "cpu")
    rows = torch.tensor([4, 0, 4])
    assert records[rows].numpy() == pytest.approx(X[[4, 0, 4]], rel=1e-6)
    assert (len(records), records.width) == (50, 3)
    assert records.mean().numpy() == pytest.approx(X.mean(axis=0), rel=1e-6)
    assert records.std().numpy() == pytest.approx(X.std(axis=0, ddof=1), rel=1e-5)


@pytest.mark.parametrize(("free", "waits"), [(10**9, False), (1000, True)])
def test_only_what_fits_goes_to_the_device(monkeypatch: pytest.MonkeyPatch, free: int, waits: bool) -> None:
    moved, pinned = [], []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 10**9))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, where, **_: moved.append(where) or self)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(len(self)) or self)
    Records.of(X, "cuda")
    assert (bool(pinned), bool(moved)) == (waits, not waits)
