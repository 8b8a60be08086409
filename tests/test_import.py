"""What ships to devices loads numpy and nothing else; the public names exist and nothing more."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from taskveil.errors import MissingExtraError, RenamedError, TaskveilError, installed, needs

CLIENT = Path(tv.__file__).parent / "client"
SHARED = {"taskveil", "taskveil.arrays", "taskveil.errors"}
"""Modules outside `client/` that it may import."""


def modules_of_the_client() -> list[str]:
    """Every file of `taskveil/client`, as the name it is imported by."""
    paths = [path.relative_to(CLIENT.parents[1]).with_suffix("") for path in sorted(CLIENT.rglob("*.py"))]
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", modules_of_the_client())
def test_what_ships_to_devices_needs_numpy_alone(module: str) -> None:
    """A process that imports it has loaded nothing but the client, what it shares, numpy and the standard library."""
    loaded = f"import sys, json; old = set(sys.modules); import {module}; print(json.dumps([*set(sys.modules) - old]))"
    free = {"numpy", *sys.stdlib_module_names}
    others = {name for name in json.loads(run(loaded)) if name.partition(".")[0] not in free}
    assert module in others
    assert {name for name in others if not name.startswith("taskveil.client")} <= SHARED


def test_the_client_has_modules() -> None:
    found = modules_of_the_client()
    assert {"taskveil.client", "taskveil.client.client", "taskveil.client.mechanisms.laplace"} <= set(found)


def test_a_name_without_its_packages_says_what_to_type() -> None:
    said = run(
        "import sys; sys.modules['scipy'] = None\n"
        "import taskveil as tv\n"
        "try: tv.design\n"
        "except ImportError as error: print(isinstance(error, tv.TaskveilError), error)"
    )
    assert said == "True tv.design needs scipy: pip install 'taskveil[design]'\n"


def test_only_packages_of_others_can_be_missing() -> None:
    """A module of ours that is not there is a mistake of ours, and no command to type mends it."""
    with pytest.raises(ModuleNotFoundError) as caught, needs("this"):
        import taskveil.nonsense  # noqa: F401
    assert not isinstance(caught.value, TaskveilError)
    with pytest.raises(MissingExtraError) as said, needs("this", extra="ray"):
        import nonsense.inside  # noqa: F401
    assert str(said.value) == "this needs nonsense: pip install 'taskveil[ray]'"


def test_torch_has_an_extra_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError) as said, needs("this"):
        import torch  # noqa: F401
    assert str(said.value) == "this needs torch: pip install 'taskveil[torch]'"
    assert not installed("torch")


def test_a_package_is_looked_for_and_not_imported() -> None:
    assert run(
        "import sys; from taskveil.errors import installed; print(installed('torch'), 'torch' in sys.modules)"
    ) == ("True False\n")
    assert not installed("nonsense")


def test_public_names() -> None:
    for name in tv.__all__:
        assert getattr(tv, name) is not None
    assert set(dir(tv)) == set(tv.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        tv.nonsense  # noqa: B018


@pytest.mark.parametrize("name", ["PrivateReports", "Frontier", "SegmentedFrontier"])
def test_a_name_that_moved_says_where_it_is(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"^tv\.{name} is now taskveil\.[\w.]+\.{name}$") as said:
        getattr(tv, name)
    *module, _ = str(said.value).split(" is now ")[1].split(".")
    assert hasattr(importlib.import_module(".".join(module)), name)


def test_an_argument_that_was_renamed_says_how() -> None:
    X, task = np.zeros((9, 2)), tv.LinearTask(np.eye(2))
    old = {"encoder": "linear", "share_model": True, "volunteers_unseen": True, "client_bytes": 9999, "latent_dim": 1}
    for name, value in {**old, "answers": "record", "device": "cuda"}.items():
        for call in (tv.design, tv.sweep):
            with pytest.raises(RenamedError, match=rf"^{name}= is now") as said:
                call(X, task, epsilon=1.0, **{name: value})  # type: ignore[operator]
            assert "\n" not in str(said.value)
    with pytest.raises(TaskveilError, match=r'^method="nothing" is now method="constant"$'):
        tv.design(X, task, epsilon=1.0, method="nothing")
    with pytest.raises(TypeError, match="nonsense"):
        tv.design(X, task, epsilon=1.0, nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nonsense"):
        tv.sweep_segments(X, task, epsilons=[1.0], segment=["a"] * 9, nonsense=1)


def test_arguments_are_few() -> None:
    assert len(inspect.signature(tv.design).parameters) - 2 <= 11
    assert len(inspect.signature(tv.sweep).parameters) - 2 <= 13


def test_parts_cannot_be_changed_after_their_checks() -> None:
    """A bound written to after the noise was calibrated would leave the guarantee as it was stated, and void."""
    from collections.abc import Iterator
    from dataclasses import fields, is_dataclass
    from typing import Any

    import releases

    def arrays_of(part: Any) -> Iterator[np.ndarray]:
        """Those of a part and of the parts in it."""
        if isinstance(part, np.ndarray):
            yield part
        for inner in part if isinstance(part, tuple) else ():
            yield from arrays_of(inner)
        for field in fields(part) if is_dataclass(part) else ():
            yield from arrays_of(getattr(part, field.name))

    for device in releases.devices().values():
        for part in (device.encoder, device.mechanism):
            arrays = list(arrays_of(part))
            assert arrays
            for array in arrays:
                with pytest.raises(ValueError, match="read-only"):
                    array[..., 0] = 7
    low, high = np.array([0, 0]), np.array([1, 1])
    region = releases.BoxRegion(step=1.0, low=low, high=high)
    high[0] = 10**6
    assert region.l1_diameter == 2
