"""Attacks that try to disprove the guarantee: statistical ones with a confidence, structural ones with a yes or no.

The package can be called: `tv.audit(veil)` is `taskveil.audit.audit(veil)`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from taskveil.audit.attack import Audit, Finding, audit
from taskveil.audit.structure import Check

__all__ = ["Audit", "Check", "Finding", "audit"]


class _Callable(ModuleType):
    """Python puts this package at `taskveil.audit`, where callers expect the function; so the package is one, too."""

    __call__ = staticmethod(audit)


sys.modules[__name__].__class__ = _Callable
