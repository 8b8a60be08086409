"""Task-aware local differential privacy: private reports that keep what the task needs.

The names below are the public interface. They are imported on first use, so that `taskveil.client`, which runs on
people's devices, loads numpy and nothing else. If an install lacks the extras, the error is one line with the command
to type.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taskveil.errors import RENAMED, needs

if TYPE_CHECKING:
    from taskveil import datasets as datasets
    from taskveil.auditing import audit as audit
    from taskveil.client import Client as Client
    from taskveil.client.fields import Category as Category
    from taskveil.client.fields import Count as Count
    from taskveil.client.fields import Date as Date
    from taskveil.client.fields import Flag as Flag
    from taskveil.client.fields import Number as Number
    from taskveil.client.fields import Words as Words
    from taskveil.designs.designing import design as design
    from taskveil.designs.domain import Ball as Ball
    from taskveil.designs.domain import Box as Box
    from taskveil.designs.domain import Points as Points
    from taskveil.designs.over_time import OverTime as OverTime
    from taskveil.designs.problem import OnDevice as OnDevice
    from taskveil.errors import TaskveilError as TaskveilError
    from taskveil.estimates import estimate as estimate
    from taskveil.records.schema import Schema as Schema
    from taskveil.signoff.dossier import dossier as dossier
    from taskveil.sweeps.options import Ray as Ray
    from taskveil.sweeps.planning import plan as plan
    from taskveil.sweeps.sweep import sweep as sweep
    from taskveil.sweeps.sweep import sweep_segments as sweep_segments
    from taskveil.tasks import LinearTask as LinearTask
    from taskveil.tasks import MeanTask as MeanTask
    from taskveil.tasks import ModelTask as ModelTask
    from taskveil.tasks import MultiTask as MultiTask
    from taskveil.tasks import SurveyTask as SurveyTask
    from taskveil.veil import Family as Family
    from taskveil.veil import Veil as Veil
    from taskveil.veil.accounting import Cost as Cost
    from taskveil.veil.accounting import compose as compose
    from taskveil.veil.accounting import reports_within as reports_within

__version__ = "0.2.0"
"""The one place for the version: pyproject.toml reads it, js/package.json and CITATION.cff are compared with it."""

_NAMES = {
    "taskveil.auditing": "audit",
    "taskveil.client": "Client",
    "taskveil.client.fields": "Category Count Date Flag Number Words",
    "taskveil.designs.designing": "design",
    "taskveil.designs.domain": "Ball Box Points",
    "taskveil.designs.over_time": "OverTime",
    "taskveil.designs.problem": "OnDevice",
    "taskveil.errors": "TaskveilError",
    "taskveil.estimates": "estimate",
    "taskveil.records.schema": "Schema",
    "taskveil.signoff.dossier": "dossier",
    "taskveil.sweeps.options": "Ray",
    "taskveil.sweeps.planning": "plan",
    "taskveil.sweeps.sweep": "sweep sweep_segments",
    "taskveil.tasks": "LinearTask MeanTask ModelTask MultiTask SurveyTask",
    "taskveil.veil": "Family Veil",
    "taskveil.veil.accounting": "Cost compose reports_within",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

# Written out, because type checkers read it.
__all__ = [
    "Ball",
    "Box",
    "Category",
    "Client",
    "Cost",
    "Count",
    "Date",
    "Family",
    "Flag",
    "LinearTask",
    "MeanTask",
    "ModelTask",
    "MultiTask",
    "Number",
    "OnDevice",
    "OverTime",
    "Points",
    "Ray",
    "Schema",
    "SurveyTask",
    "TaskveilError",
    "Veil",
    "Words",
    "__version__",
    "audit",
    "compose",
    "datasets",
    "design",
    "dossier",
    "estimate",
    "plan",
    "reports_within",
    "sweep",
    "sweep_segments",
]


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("taskveil.datasets")
    if name not in _HOME:
        renamed = RENAMED.get(f"tv.{name}")
        raise AttributeError(f"tv.{name} {renamed}" if renamed else f"module 'taskveil' has no attribute {name!r}")
    with needs(f"tv.{name}"):
        return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
