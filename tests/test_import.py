"""What ships to devices loads numpy and nothing else; the public names exist and nothing more."""

from __future__ import annotations

import subprocess
import sys

import pytest

import taskveil as tv


@pytest.mark.parametrize(
    "module",
    ["mechanisms", "regions", "encoders", "entropy", "files", "errors", "parts", "device", "wire", "signing", "client"],
)
def test_device_modules_need_numpy_alone(module: str) -> None:
    heavy = (
        "scipy",
        "torch",
        "sklearn",
        "pandas",
        "matplotlib",
        "typer",
        "rich",
        "pydantic",
        "safetensors",
        "cryptography",
    )
    code = f"import sys, taskveil.{module}; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_public_names() -> None:
    for name in tv.__all__:
        assert getattr(tv, name) is not None
    assert set(dir(tv)) == set(tv.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        tv.nonsense  # noqa: B018
