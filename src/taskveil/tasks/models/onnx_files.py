"""ONNX files as they lie on disk: read with the `onnx` package and valid by its own checker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskveil.errors import MissingExtraError, TaskError

OWN_DOMAIN = ("", "ai.onnx")
LEARNING_DOMAIN = "ai.onnx.ml"  # trees, scalers and the like, as converters of scikit-learn write them

HOW_TO_RUN = "pip install 'taskveil[onnx]' runs ONNX files, pip install 'taskveil[torch]' gives their gradients too"


class BeyondReaderError(TaskError):
    """A sound file with an operator of ONNX's own, an input or an output that our reader does not know."""


def load_onnx(path: Path) -> Any:
    """The file's content, valid by onnx's own checker, with weights that lie beside it in its folder."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"ONNX files need onnx: {HOW_TO_RUN}", name=error.name) from None
    if not path.is_file():
        raise TaskError(
            f"there is no file {path}; a model is an ONNX file, a torch module or a scikit-learn estimator."
        )
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except Exception as error:
        raise TaskError(f"{path} is no valid ONNX file: {error}") from error
    return model
