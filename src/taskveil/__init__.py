"""Task-aware local differential privacy: private reports that keep what the task needs.

The names below are the public interface. They are imported on first use, so that `taskveil.client`, which runs on
people's devices, loads numpy and nothing else. What an install without the extras lacks is said in one line, with the
command to type.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taskveil.errors import needs

if TYPE_CHECKING:
    from taskveil.auditing import audit as audit
    from taskveil.client.fields import Category as Category
    from taskveil.client.fields import Count as Count
    from taskveil.client.fields import Date as Date
    from taskveil.client.fields import Flag as Flag
    from taskveil.client.fields import Number as Number
    from taskveil.designs.designing import design as design
    from taskveil.designs.domain import Ball as Ball
    from taskveil.designs.domain import Box as Box
    from taskveil.designs.domain import Points as Points
    from taskveil.errors import TaskveilError as TaskveilError
    from taskveil.estimates import estimate as estimate
    from taskveil.records.schema import Schema as Schema
    from taskveil.sklearn import PrivateReports as PrivateReports
    from taskveil.sweeps.frontier import Frontier as Frontier
    from taskveil.sweeps.gains import SegmentedFrontier as SegmentedFrontier
    from taskveil.sweeps.sweep import sweep as sweep
    from taskveil.tasks import LinearTask as LinearTask
    from taskveil.tasks import MeanTask as MeanTask
    from taskveil.tasks import ModelTask as ModelTask
    from taskveil.tasks import MultiTask as MultiTask
    from taskveil.veil import Veil as Veil

__version__ = "0.2.0.dev0"
"""The one place for the version: pyproject.toml reads it, js/package.json and CITATION.cff are compared with it."""

_HOME = {
    "Ball": "taskveil.designs.domain",
    "Box": "taskveil.designs.domain",
    "Category": "taskveil.client.fields",
    "Count": "taskveil.client.fields",
    "Date": "taskveil.client.fields",
    "Flag": "taskveil.client.fields",
    "Frontier": "taskveil.sweeps.frontier",
    "LinearTask": "taskveil.tasks",
    "MeanTask": "taskveil.tasks",
    "ModelTask": "taskveil.tasks",
    "MultiTask": "taskveil.tasks",
    "Number": "taskveil.client.fields",
    "Points": "taskveil.designs.domain",
    "PrivateReports": "taskveil.sklearn",
    "Schema": "taskveil.records.schema",
    "SegmentedFrontier": "taskveil.sweeps.gains",
    "TaskveilError": "taskveil.errors",
    "Veil": "taskveil.veil",
    "audit": "taskveil.auditing",
    "design": "taskveil.designs.designing",
    "estimate": "taskveil.estimates",
    "sweep": "taskveil.sweeps.sweep",
}

__all__ = [
    "Ball",
    "Box",
    "Category",
    "Count",
    "Date",
    "Flag",
    "Frontier",
    "LinearTask",
    "MeanTask",
    "ModelTask",
    "MultiTask",
    "Number",
    "Points",
    "PrivateReports",
    "Schema",
    "SegmentedFrontier",
    "TaskveilError",
    "Veil",
    "__version__",
    "audit",
    "design",
    "estimate",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'taskveil' has no attribute {name!r}")
    with needs(f"tv.{name}"):
        return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
