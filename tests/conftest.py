"""Shared fixtures: small data whose shape resembles the real thing."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import taskveil as tv

# Deadlines measure the machine, not the code; derandomised so that a red run can be repeated.
settings.register_profile("taskveil", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("taskveil")


_FIRST_STATES: dict[int, tuple[np.random.Generator, dict[str, Any]]] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note where each generator of a test module stands after the import."""
    for module in {item.getparent(pytest.Module).obj for item in session.items}:
        for value in vars(module).values():
            if isinstance(value, np.random.Generator):
                _FIRST_STATES[id(value)] = value, copy.deepcopy(value.bit_generator.state)


@pytest.fixture(autouse=True)
def _the_same_draws_in_any_order() -> None:
    """Each test draws what it draws alone, because the order of tests differs between parallel runs."""
    for generator, state in _FIRST_STATES.values():
        generator.bit_generator.state = state


def some_volunteers() -> np.ndarray:
    """300 correlated records of 6 attributes with a few outliers."""
    rng = np.random.default_rng(7)
    mixing = rng.normal(size=(6, 6)) * np.array([3.0, 2.0, 1.0, 0.5, 0.3, 0.1])
    return rng.standard_t(4, size=(300, 6)) @ mixing.T + 5.0


def some_task() -> tv.LinearTask:
    """Five of the six attributes count."""
    return tv.LinearTask(np.diag([2.0, 2.0, 1.0, 1.0, 1.0, 0.0]))


@pytest.fixture
def volunteers() -> np.ndarray:
    """A table that each test may write into."""
    return some_volunteers()


@pytest.fixture(scope="session")
def task() -> tv.LinearTask:
    return some_task()


@pytest.fixture(scope="session")
def veil() -> tv.Veil:
    """A veil cannot be changed: one serves all tests."""
    return tv.design(some_volunteers(), some_task(), epsilon=2.0, method="task_aware")


def needs(condition: bool, what: str) -> pytest.MarkDecorator:
    """Skip without `what`, but never in CI."""
    return pytest.mark.skipif(not condition and os.environ.get("CI") != "true", reason=f"needs {what}")
