"""What can be a model: a torch module, a scikit-learn estimator or an ONNX file, taken exactly or refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from taskveil.errors import MissingExtraError, TaskError
from taskveil.tasks.costs import Cost
from taskveil.tasks.models.estimators import from_estimator
from taskveil.tasks.models.frozen import FrozenModel
from taskveil.tasks.models.onnx_session import HOW_TO_RUN, BeyondReaderError, from_session, read_session


def freeze(model: Any, cost: Cost) -> FrozenModel:
    """A frozen copy of a torch module, scikit-learn estimator or ONNX file, with the outputs that `cost` judges;
    TaskError for anything else."""
    if is_torch_module(model):
        from taskveil.tasks.models.modules import check_module, first_width, from_module

        check_module(model)
        return from_module(model, first_width(model), must_be_logits=cost.logits is True)
    if isinstance(model, str | Path):
        return _from_file(Path(model), cost)
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        return from_estimator(model, cost)
    raise TaskError(
        "a model must be a torch module, a fitted scikit-learn estimator or the path of an ONNX file, "
        f"got {type(model).__name__}."
    )


def is_torch_module(model: Any) -> bool:
    """Whether a model is a torch module: there is none where nobody imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _from_file(path: Path, cost: Cost) -> FrozenModel:
    """An ONNX file: with gradients where torch is installed and our reader takes all of it exactly, else a black box
    that onnxruntime runs."""
    try:
        import torch  # noqa: F401 - is it there?
    except ModuleNotFoundError as absent:
        try:
            return from_session(read_session(path, cost), cost)
        except MissingExtraError:
            raise MissingExtraError(f"ONNX files need onnxruntime or torch: {HOW_TO_RUN}", name=absent.name) from None
    from taskveil.tasks.models.modules import from_module
    from taskveil.tasks.models.onnx_reader import read_onnx

    try:
        module, width = read_onnx(path, logits=cost.logits is True)
    except BeyondReaderError as refusal:
        try:
            return from_session(read_session(path, cost), cost)
        except MissingExtraError as missing:
            raise TaskError(f"{refusal} Or have onnxruntime run the file: {missing}.") from refusal
    return from_module(module, width, must_be_logits=cost.logits is True)
