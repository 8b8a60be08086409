"""What cannot serve as an encoder is refused with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from torch import nn

import taskveil as tv
from taskveil.errors import TaskError

X = np.random.default_rng(0).normal(size=(60, 3))
Y = 14.0 + X[:, 0]


@pytest.mark.parametrize(
    ("encoder", "reason"),
    [
        (nn.Linear(4, 1), "records of 3 attributes"),
        (lambda records: np.full(len(records), 14.0), "the same prediction for all volunteers"),
        (lambda records: records, "1 finite numbers for every record"),
    ],
)
def test_refused_with_the_reason(encoder: Any, reason: str) -> None:
    task = tv.ModelTask(LinearRegression().fit(X, Y))
    with pytest.raises(TaskError, match=reason):
        tv.design(X, task, epsilon=2.0, y=Y, method="codebook", on_device=tv.OnDevice(encoder=encoder))
