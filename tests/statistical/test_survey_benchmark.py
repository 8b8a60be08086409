"""benchmarks/surveys.py in its quick form: every aim that it prints is met."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def surveys() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "surveys.py"
    spec = importlib.util.spec_from_file_location("surveys", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["surveys"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


COVERAGE = pytest.param("coverage", marks=pytest.mark.slow)
"""Not the only test of intervals: `test_surveys.py` counts how often they hold."""


@pytest.mark.parametrize("part", ["shares", "words", "histograms", "questionnaires", "weights", COVERAGE])
def test_the_aims_are_met(surveys: ModuleType, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert surveys.report([part], True), capsys.readouterr().out
    assert "MISSED" not in capsys.readouterr().out


def test_intervals_that_hold_too_rarely_are_missed() -> None:
    """All rows a little, or one of them by far; what holds with 95% is not."""
    from benchmarks.surveys_coverage import Held

    rng = np.random.default_rng(0)
    sound = rng.random((120, 80)) < 0.95
    assert not Held(sound, sound).missed(sound)
    assert Held(sound, sound).missed(rng.random((120, 80)) < 0.91)
    one = sound.copy()
    one[:, 7] = rng.random(120) < 0.7
    assert Held(sound, sound).missed(one)
