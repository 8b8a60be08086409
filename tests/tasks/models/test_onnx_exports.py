"""What torch itself exports is read and answered as the module answers: free and fixed batches, both exporters."""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

import taskveil as tv
from onnx_files import answers_of_the_runtime, ints, onnx_file

node = helper.make_node


class Flattened(nn.Module):
    """Shapes as people write them, which the older exporter turns into Shape, Gather, Concat and Reshape."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4 * 4 * 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.conv(x.view(-1, 1, 6, 6))
        return self.last(seen.view(seen.size(0), -1))


class Attention(nn.Module):
    """Records of four tokens that look at each other."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.last = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.view(-1, 4, 8)
        return self.last((tokens + self.look(tokens, tokens, tokens, need_weights=False)[0]).mean(1))


class Chosen(nn.Module):
    """Halves, comparisons and a length."""

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1)
        return torch.where(left > right, left, right.abs()) / (0.1 + torch.linalg.norm(x, dim=1, keepdim=True))


torch.manual_seed(0)
MODULES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "image": (nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(),
                            nn.Dropout(), nn.Linear(64, 8), nn.LayerNorm(8), nn.GELU("tanh"), nn.Linear(8, 3)),
              (1, 8, 8)),
    "dense": (nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.SiLU(), nn.Dropout(), nn.Linear(8, 8), nn.Mish(),
                            nn.Hardswish(), nn.Softplus(), nn.ELU(), nn.PReLU(), nn.SELU(), nn.Hardsigmoid(),
                            nn.Softsign(), nn.CELU(0.7), nn.ReLU6(), nn.LogSigmoid(), nn.Linear(8, 3)), (6,)),
    "pooled": (nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 4, 3, padding="same"), nn.GroupNorm(2, 4),
                             nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)), (64,)),
    "flattened": (Flattened(), (36,)),
    "attention": (Attention(), (32,)),
    "chosen": (Chosen(), (6,)),
}  # fmt: skip
DEFAULT_EXPORTER = pytest.mark.skipif(find_spec("onnxscript") is None, reason="torch's default exporter: onnxscript")


SMALL = {("image", True, True), ("dense", False, True), ("attention", True, False), ("flattened", False, False)}
"""Name, free batch, default exporter: exports that `make test` reads; `make test-all` reads all."""


@pytest.mark.parametrize(
    ("name", "free", "default"),
    [
        pytest.param(
            *one, marks=[*([DEFAULT_EXPORTER] if one[2] else []), *([] if one in SMALL else [pytest.mark.slow])]
        )
        for one in product(MODULES, (True, False), (False, True))
    ],
)
def test_exports_of_torch_answer_as_the_module_does(name: str, free: bool, default: bool, tmp_path: Path) -> None:
    module, shape = MODULES[name]
    module.eval()
    path = tmp_path / "m.onnx"
    path.write_bytes(exported(module, torch.rand(2 if free else 1, *shape), free, default))
    records = np.random.default_rng(1).random((9, int(np.prod(shape))))
    with torch.no_grad():
        expected = module(torch.tensor(records, dtype=torch.float32).reshape(-1, *shape))
    assert tv.ModelTask(path).predict(records) == pytest.approx(expected.numpy(), abs=1e-5)


def exported(module: nn.Module, x: Tensor, free: bool, default: bool) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own
        if default:
            shapes = ({0: torch.export.Dim("n")},) if free else None
            program = torch.onnx.export(module, (x,), dynamic_shapes=shapes, dynamo=True, verbose=False)
            return program.model_proto.SerializeToString()
        content = io.BytesIO()
        axes = {"x": {0: "n"}} if free else None
        torch.onnx.export(module, (x,), content, input_names=["x"], dynamic_axes=axes, dynamo=False, opset_version=17)
        return content.getvalue()


def test_a_flatten_as_the_default_exporter_writes_it(tmp_path: Path) -> None:
    """Reshape(allowzero=1) without a 0, a LayerNormalization with its default options spelt out, an exact Gelu."""
    rng = np.random.default_rng(2)
    given = {name: rng.normal(size=size).astype(np.float32)
             for name, size in {"w": (8, 36), "b": (8,), "s": (8,), "o": (8,), "v": (3, 8)}.items()}  # fmt: skip
    nodes = [
        node("Reshape", ["x", "r"], ["view"], allowzero=1),
        node("Gemm", ["view", "w", "b"], ["linear"], beta=1.0, transB=1, alpha=1.0, transA=0),
        node("LayerNormalization", ["linear", "s", "o"], ["norm"], stash_type=1, epsilon=1e-5, axis=-1),
        node("Gelu", ["norm"], ["gelu"], approximate="none"),
        node("Gemm", ["gelu", "v"], ["y"], beta=1.0, transB=1, alpha=1.0, transA=0),
    ]
    path = onnx_file(tmp_path / "m.onnx", nodes, given | {"r": ints(-1, 36)}, [6, 6], opset=20, kind=TensorProto.FLOAT)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    records = rng.random((9, 36))
    expected = answers_of_the_runtime(path, records.reshape(-1, 6, 6).astype(np.float32))
    assert tv.ModelTask(path).predict(records) == pytest.approx(expected, abs=1e-5)
