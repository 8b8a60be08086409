"""Attacks that try to disprove the guarantee: statistical ones with a confidence, structural ones with a yes or no.

Call them with `tv.audit`.
"""

from __future__ import annotations

from taskveil.auditing.attack import Audit, Finding, audit
from taskveil.auditing.target import Check

__all__ = ["Audit", "Check", "Finding", "audit"]
