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


def test_parts_cannot_be_changed_after_their_checks() -> None:
    """A bound written to after the noise was calibrated would leave the guarantee as it was stated, and void."""
    import numpy as np
    import pytest

    import releases

    for device in releases.devices().values():
        for part in (device.encoder, device.mechanism.region, *getattr(device.mechanism, "stages", ())):
            arrays = [value for value in vars(part).values() if isinstance(value, np.ndarray)]
            assert arrays
            for array in arrays:
                with pytest.raises(ValueError, match="read-only"):
                    array[..., 0] = 7
    low, high = np.array([0, 0]), np.array([1, 1])
    region = releases.BoxRegion(step=1.0, low=low, high=high)
    high[0] = 10**6
    assert region.l1_diameter == 2
