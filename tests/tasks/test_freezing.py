"""What can be a model, and what is said of anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from torch import nn

from taskveil.errors import TaskError
from taskveil.tasks.costs import CrossEntropy, SquaredError
from taskveil.tasks.model import freeze


def test_modules_and_estimators_are_recognised() -> None:
    assert freeze(nn.Linear(3, 2), SquaredError()).outputs == 2
    regression = LinearRegression().fit(np.eye(3), np.arange(3.0))
    assert freeze(regression, SquaredError()).width == 3
    with pytest.raises(TaskError, match="cross_entropy needs a classifier"):
        freeze(regression, CrossEntropy())


def test_paths_are_files_of_onnx(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no file"):
        freeze("model.onnx", SquaredError())
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    for path in (tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        with pytest.raises(TaskError, match="no valid ONNX"):
            freeze(path, SquaredError())


@pytest.mark.parametrize("model", [3, None, np.sum, object()])
def test_anything_else_is_refused_by_its_kind(model: object) -> None:
    with pytest.raises(TaskError, match=f"torch module.*got {type(model).__name__}"):
        freeze(model, SquaredError())
